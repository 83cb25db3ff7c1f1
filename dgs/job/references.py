"""References: values of a plan file as they are written there, with `${env:NAME}` in them, to be shown and saved.

>>> one = {("sinks", 0, "args", "password"): Reference.of("${env:PASSWORD}", is_text=False)}
>>> with_references({"sinks": [{"args": {"password": "swordfish"}}]}, one)
{'sinks': [{'args': {'password': '${env:PASSWORD}'}}]}
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

Place = tuple[str | int, ...]
"""Where a value stands in the file: keys and positions from the top, such as ("streams", 0, "source")."""


class Reference(str):
    """A value as the file has it, with `${env:NAME}` in it. `is_text`: it is in quotes, so whatever it becomes is text."""

    __slots__ = ("is_text",)
    is_text: bool

    @classmethod
    def of(cls, text: str, *, is_text: bool) -> Reference:
        """Return the reference."""
        made = cls(text)
        made.is_text = is_text
        return made


def with_references(data: Any, references: Mapping[Place, Reference]) -> Any:
    """Return data with references in the place of their values, where it has these places."""
    data = copy.deepcopy(data)
    for place, reference in references.items():
        here = data
        with suppress(KeyError, IndexError, TypeError):  # left out, or given as something else
            for part in place[:-1]:
                here = here[part]
            if place and here[place[-1]] is not None:
                here[place[-1]] = reference
    return data


def relocated_references(
    references: Mapping[Place, Reference], before: Any, after: Any, base_dir: Path, new_dir: Path
) -> dict[Place, Reference]:
    """Return references by place for a file in another directory: of paths that were relative.

    `before`, `after`: the data with what they stand for, as given to `relocated` and as it returned it.
    """
    way = os.path.relpath(base_dir.resolve(), new_dir.resolve())
    return {
        place: Reference.of(os.path.normpath(f"{way}/{one}"), is_text=one.is_text)
        if _at(before, place) != _at(after, place)
        else one
        for place, one in references.items()
    }


def _at(data: Any, place: Place) -> Any:
    """Return what is at a place; None where there is no such place."""
    for part in place:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data
