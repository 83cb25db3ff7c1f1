"""The origin of the rows of a source: its description for checkpoints, and its way to begin after the first rows.

>>> origin = Origin(lambda: {"kind": "generator", "ref": "itertools:count"})
>>> origin.describe()["kind"], origin.skip_to is None, origin.refused()
('generator', True, 0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dgs.model.order import OrderKey


def _none() -> int:
    return 0


def _as_before(_before: Mapping[str, Any]) -> None:
    return None


def _nothing() -> None:
    """Do nothing: nothing is open."""


@dataclass(frozen=True)
class Origin:
    """The callbacks of an origin. `describe` returns plain data that the codec carries; it changes as reading goes on.

    `skip_to` is called before the first read with the first raw row that is needed; None if all rows must be read. `refused`
    returns the number of bad lines that were left out.

    Sources with bookmarks have two more for before the first read. `resume` takes the description in a checkpoint, and returns
    what has changed since (None: nothing). `seek` takes the key below which no event is needed, and returns the latest time of
    the rows that are left out. `close` closes what is open; it may be called twice.
    """

    describe: Callable[[], dict[str, Any]]
    skip_to: Callable[[int], None] | None = None
    refused: Callable[[], int] = _none
    resume: Callable[[Mapping[str, Any]], str | None] = _as_before
    seek: Callable[[OrderKey], int] | None = None
    close: Callable[[], None] = _nothing
