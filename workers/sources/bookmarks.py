"""Bookmarks: positions in a stream from which reading can go on.

A run resumes from a key below the rows that have been read, so the newest bookmark is not enough. All recent ones are kept, and
fewer of the older ones. The number of rows read again is at most proportional to how far the run was behind.

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
"""The number of bookmarks to keep."""


class Bookmark(NamedTuple):
    """A place in a stream: the rows before `row`, up to the time `latest`. `floor`: the least time that may come after it.

    `position`: the source's own name of the place, as codec bytes; None for its beginning.
    """

    row: int = 0
    latest: int = MIN_TS
    floor: int = MIN_TS
    position: bytes | None = None


class Bookmarks:
    """The bookmarks of a stream, by row. Law: a bookmark is kept at least until there are `MOST` / 2 newer ones."""

    def __init__(self, known: Iterable[Any] = ()) -> None:
        self.all = [Bookmark(*mark) for mark in known]

    def add(self, mark: Bookmark) -> None:
        """Append a bookmark; one at the same row is of no more use. If there are too many, drop the older one whose loss costs least."""
        if self.all and self.all[-1].row == mark.row:
            self.all.pop()
        self.all.append(mark)
        if len(self.all) > MOST:
            rows = [known.row for known in self.all]
            older = range(len(rows) - MOST // 2)
            del self.all[
                min(older, key=lambda i: (rows[i + 1] - rows[i - 1] if i else rows[1]) / (rows[-1] - rows[i]))
            ]

    def before(self, base: OrderKey, *, in_order: bool = True) -> Bookmark:
        """Return the last bookmark with only events below `base` before it, or the beginning of the stream.

        `base`: a key of this stream. `in_order`: events are in the order of their rows, so the row of `base` counts, too.
        """

        def is_below(mark: Bookmark) -> bool:
            return mark.latest < base.ts or (in_order and mark.row <= base.seq)

        return next((mark for mark in reversed(self.all) if is_below(mark)), Bookmark())

    def forget_behind(self, mark: Bookmark) -> None:
        """Forget the bookmarks after `mark`, since reading goes on from there."""
        self.all = [known for known in self.all if known.row <= mark.row]
