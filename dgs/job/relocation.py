"""The relative paths of a plan file, seen from another directory: a run directory has a plan file of its own.

>>> relocated({"program": {"ref": "sums.py:Sum"}}, Path("/job"), Path("/job/runs/one"))
{'program': {'ref': '../../sums.py:Sum'}}
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATHS, REFS = ("path", "log", "dir"), ("ref", "when")
"""Keys of a plan file whose values are paths, and references such as `file.py:Name`."""


def relocated(data: Any, base_dir: Path, new_dir: Path) -> Any:
    """Return a plan file's data with its relative paths rewritten for a file in another directory.

    The data need not be valid: what does not have the shape of a plan file stays as it is.
    """

    def moved(path: str) -> str:
        if os.path.isabs(path) or "://" in path:  # noqa: PTH117 - the path may be a glob
            return path
        return os.path.relpath(base_dir.resolve() / path, new_dir.resolve())

    def moved_ref(ref: str) -> str:
        source, colon, name = ref.rpartition(":")
        return f"{moved(source)}{colon}{name}" if source.endswith(".py") else ref

    data = copy.deepcopy(data)
    for section in _sections_with_paths(data):
        for names, rewritten in ((PATHS, moved), (REFS, moved_ref)):
            found = {name: section[name] for name in names if isinstance(section.get(name), str)}
            section.update((name, rewritten(path)) for name, path in found.items())
    return data


def _sections_with_paths(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the sections of a plan file that may name files: program, checkpoint, and the details of each source and sink."""
    top = _mapping(data)
    yield _mapping(top.get("program"))
    sources = [_mapping(stream).get("source") for stream in _items(top.get("streams"))]
    for choice in (*sources, *_items(top.get("sinks"))):
        yield from map(_mapping, _mapping(choice).values())
    checkpoint = _mapping(top.get("checkpoint"))
    yield from (checkpoint, _mapping(checkpoint.get("spark")))


def _mapping(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _items(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []
