"""The origin of the rows of a source: what it was, for checkpoints, and whether it can begin behind its first rows.

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
    """Nothing is open."""


@dataclass(frozen=True)
class Origin:
    """`describe` gives plain data that the codec carries; it changes as reading goes on.

    `skip_to`: says, before the first read, that rows with smaller raw numbers are not needed; None where all must be read.
    `refused`: how many lines were no rows and have been left out.

    Of sources that begin where they say: `resume` is given the description in a checkpoint, before the first read; it says what is
    different since, None if nothing is. `seek` is given the key below which no event is needed; it returns the latest time of
    the rows that are left out. `close` releases what is open; it may be called twice.
    """

    describe: Callable[[], dict[str, Any]]
    skip_to: Callable[[int], None] | None = None
    refused: Callable[[], int] = _none
    resume: Callable[[Mapping[str, Any]], str | None] = _as_before
    seek: Callable[[OrderKey], int] | None = None
    close: Callable[[], None] = _nothing
