"""Streams given from Python, described as in a plan file.

>>> streams = {"values": [("value", 1, 10)], "barriers": [("barrier", 1, None)]}
>>> [stream["id"] for stream in described(Program(), streams)["streams"]]          # their order breaks ties
['values', 'barriers']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dgs.model.events import EventBatch
from dgs.model.order import Heartbeat
from dgs.model.program import Program
from dgs.model.tags import Tag

ITEM_LENGTH = 3


def gathered(streams: Mapping[str, Iterable[Any]]) -> dict[str, Any]:
    """Return the items of every stream in a form that can be read more than once."""
    return {
        name: items if isinstance(items, (list, tuple, EventBatch)) or not _is_once(items) else list(items)
        for name, items in streams.items()
    }


def described(
    program: Program, streams: Mapping[str, Any], kinds: Mapping[str, list[str]] | None = None
) -> dict[str, Any]:
    """Return the plan file's data for a program over streams from Python. `kinds`: those of each stream (default: of its items)."""
    return {
        "version": 1,
        "name": program.name.strip("_") or "program",
        "program": {"ref": f"{type(program).__module__}:{type(program).__qualname__}"},
        "streams": [
            {
                "id": name,
                "tags": _kinds(program, items) if kinds is None else kinds[name],
                "source": {"memory": name},
            }
            for name, items in streams.items()
        ],
        "runtime": {"kind": "local"},
    }


def _is_once(items: Any) -> bool:
    return not isinstance(items, (dict, Mapping)) and not hasattr(items, "__arrow_c_stream__")


def _kinds(program: Program, items: Any) -> list[str]:
    """Return the kinds of the items. For tables of columns, which have no tags, return all kinds of the program."""
    found: dict[str, None] = {}
    for item in items if isinstance(items, (list, tuple)) else [items]:
        if isinstance(item, EventBatch):
            found.update((tag.kind, None) for tag in item.tags)
        elif isinstance(item, tuple) and not isinstance(item, Heartbeat) and len(item) >= ITEM_LENGTH:
            found[_kind(item[0])] = None
        elif not isinstance(item, tuple):
            found.update(dict.fromkeys(program.all_kinds()))
    return sorted(found)


def _kind(tag: Any) -> str:
    if isinstance(tag, Tag):
        return tag.kind
    return str(tag[0]) if isinstance(tag, tuple) and tag else str(tag)
