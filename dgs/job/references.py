"""Values of a plan file that depend on something outside it: references such as `${env:NAME}`, and paths relative to the file.

The run directory has its own plan file, in which paths are relative to that directory.

>>> relocated({"program": {"ref": "sums.py:Sum"}}, Path("/job"), Path("/job/runs/one"))
{'program': {'ref': '../../sums.py:Sum'}}

>>> one = {("sinks", 0, "args", "password"): Reference.of("${env:PASSWORD}", is_text=False)}
>>> with_references({"sinks": [{"args": {"password": "swordfish"}}]}, one)
{'sinks': [{'args': {'password': '${env:PASSWORD}'}}]}
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

Place = tuple[str | int, ...]
"""The place of a value in the file: keys and positions from the top, such as ("streams", 0, "source")."""


PATHS, REFS = ("path", "log", "dir", "file"), ("ref", "when")
"""Keys of a plan file whose values are paths, and references such as `file.py:Name`."""


class Reference(str):
    """A value as written in the file, with `${env:NAME}` in it. `is_text`: it is in quotes, so the result is text."""

    __slots__ = ("is_text",)
    is_text: bool

    @classmethod
    def of(cls, text: str, *, is_text: bool) -> Reference:
        """Return the reference."""
        made = cls(text)
        made.is_text = is_text
        return made


def with_references(data: Any, references: Mapping[Place, Reference]) -> Any:
    """Return data with references in place of their values, where the data has these places."""
    data = copy.deepcopy(data)
    for place, reference in references.items():
        here = data
        with suppress(KeyError, IndexError, TypeError):  # left out, or replaced by another value
            for part in place[:-1]:
                here = here[part]
            if place and here[place[-1]] is not None:
                here[place[-1]] = reference
    return data


def relocated_references(
    references: Mapping[Place, Reference], before: Any, after: Any, base_dir: Path, new_dir: Path
) -> dict[Place, Reference]:
    """Return references by place, with relative paths rewritten for a file in another directory.

    `before`, `after`: the data with the values of references, as passed to `relocated` and as it returned them.
    """
    way = os.path.relpath(base_dir.resolve(), new_dir.resolve())
    return {
        place: Reference.of(os.path.normpath(f"{way}/{one}"), is_text=one.is_text)
        if _at(before, place) != _at(after, place)
        else one
        for place, one in references.items()
    }


def _at(data: Any, place: Place) -> Any:
    """Return the value at a place, None if there is no such place."""
    for part in place:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def relocated(data: Any, base_dir: Path, new_dir: Path) -> Any:
    """Return a plan file's data with its relative paths rewritten for a file in another directory.

    The data need not be valid: parts without the shape of a plan file are unchanged.
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
    """Yield the sections of a plan file that may name files: program, query, flow, checkpoint, and the details of each source and sink."""
    top = _mapping(data)
    yield _mapping(top.get("program"))
    yield _mapping(_mapping(top.get("program")).get("query"))
    yield _mapping(top.get("flow"))
    sources = [_mapping(stream).get("source") for stream in _items(top.get("streams"))]
    for choice in (*sources, *_items(top.get("sinks"))):
        yield from map(_mapping, _mapping(choice).values())
    checkpoint = _mapping(top.get("checkpoint"))
    yield from (checkpoint, _mapping(checkpoint.get("spark")))


def _mapping(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _items(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []
