"""Bookmarks: places in a stream from which reading can go on, some of all that a source has named.

A run goes on from a key that is below what has been read, so more than the newest bookmark is kept: all recent ones, and the
older, the fewer. How much is read again is at most in proportion to how far the run was behind.

>>> from dgs.model.order import BEGIN
>>> marks = Bookmarks()
>>> for row in range(1, 1000):
...     marks.add(Bookmark(row, latest=row, floor=row, position=b"p%d" % row))
>>> len(marks.all) <= MOST, marks.before(OrderKey(990, 0, 0)).position, marks.before(BEGIN).position
(True, b'p989', None)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from dgs.model.order import MIN_TS, OrderKey

MOST = 64
"""Bookmarks that are kept."""


class Bookmark(NamedTuple):
    """The rows before `row` have been read, up to the time `latest`. `floor`: the least time that may come behind it.

    `position`: what the source calls the place, as codec bytes; None for its beginning.
    """

    row: int = 0
    latest: int = MIN_TS
    floor: int = MIN_TS
    position: bytes | None = None


class Bookmarks:
    """The bookmarks of a stream, by row. Law: one that was added is kept until `MOST` / 2 newer ones are."""

    def __init__(self, known: Iterable[Any] = ()) -> None:
        self.all = [Bookmark(*mark) for mark in known]

    def add(self, mark: Bookmark) -> None:
        """Keep a bookmark behind all that there are; forget the older one that is missed least if there are too many."""
        self.all.append(mark)
        if len(self.all) > MOST:
            rows = [known.row for known in self.all]
            older = range(len(rows) - MOST // 2)
            del self.all[
                min(older, key=lambda i: (rows[i + 1] - rows[i - 1] if i else rows[1]) / (rows[-1] - rows[i]))
            ]

    def before(self, base: OrderKey, *, in_order: bool = True) -> Bookmark:
        """Return the last bookmark before which no event is at or above `base`; the beginning of the stream if there is none.

        `base`: a key of this stream. `in_order`: its events are in the order of their rows, so the row of `base` tells, too.
        """

        def is_below(mark: Bookmark) -> bool:
            return mark.latest < base.ts or (in_order and mark.row <= base.seq)

        return next((mark for mark in reversed(self.all) if is_below(mark)), Bookmark())

    def forget_behind(self, mark: Bookmark) -> None:
        """Forget the bookmarks behind one: reading goes on there."""
        self.all = [known for known in self.all if known.row <= mark.row]
