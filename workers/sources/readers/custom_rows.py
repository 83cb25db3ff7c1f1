"""The rows of a user's source, as arrivals, with bookmarks from which a run can resume.

>>> from dgs.job.schema import StreamConfig
>>> from dgs.model.program import Program
>>> class Pages:
...     def read(self, after): yield from (({"ts": [page, page]}, page) for page in range((after or 0) + 1, 4))
...     def describe(self): return "pages"
>>> config = StreamConfig(id="s", tags={"kind": "n"}, source={"custom": {"ref": "pages.py:Pages"}}, payload=[])
>>> pages = ConnectedSource(Pages(), ref="pages.py:Pages", stream="s", program="Sum")
>>> reader = CustomReader(pages, Mapping(config, Program(), plan_unit="none"), delay=None, batch_rows=100)
>>> [(part.first, part.ts.tolist()) for part in reader.arrivals(follow=False)]
[(0, [1, 1]), (2, [2, 2]), (4, [3, 3])]
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from collections.abc import Mapping as AnyMapping
from typing import Any

from dgs.model.order import MIN_TS, OrderKey
from dgs.workers.sources.custom_source import Bookmark, Bookmarks, ConnectedSource
from dgs.workers.sources.description import Origin
from dgs.workers.sources.readers.items import ItemsReader
from dgs.workers.sources.rows import Arrivals, Live, nothing
from dgs.workers.sources.shaping.mapping import Mapping, each_arrival

POLL = 0.01
"""Seconds until a live source without rows is asked again."""


class CustomReader:
    """Reads a user's source. `delay`: the duration of `sort_within`, in the plan's unit; None without one."""

    def __init__(
        self, source: ConnectedSource, mapping: Mapping, *, delay: int | None, batch_rows: int
    ) -> None:
        self._source, self._mapping = source, mapping
        self._delay = delay
        self._batch_rows = batch_rows
        self._bookmarks = Bookmarks()
        self._start = Bookmark()
        self._is_closed = False

    @property
    def origin(self) -> Origin:
        """The description of the source with its bookmarks, and the way to resume from one."""
        return Origin(self._describe, resume=self._resume, seek=self._seek, close=self.close)

    def arrivals(self, *, follow: bool) -> Iterator[Arrivals]:
        """Return the rows as they arrive, to be read once. `follow`: wait for rows that a live source does not have yet."""
        if self._source.is_live:
            return CustomArrivals(self._read(), follow=follow)
        return (part for part in self._read() if part is not None)

    def close(self) -> None:
        """Close the source, once."""
        if not self._is_closed:
            self._is_closed = True
            self._source.close()

    def _describe(self) -> dict[str, Any]:
        return {
            "kind": "custom",
            "ref": self._source.ref,
            "about": self._source.describe(),
            "bookmarks": [tuple(mark) for mark in self._bookmarks.all],
        }

    def _resume(self, before: AnyMapping[str, Any]) -> str | None:
        self._bookmarks = Bookmarks(before["bookmarks"])
        return self._source.changed(before["about"])

    def _seek(self, base: OrderKey) -> int:
        self._start = self._bookmarks.before(base, in_order=self._delay is None)
        self._bookmarks.forget_behind(self._start)
        return self._start.latest

    def _read(self) -> Generator[Arrivals | None]:
        """Yield the rows after the start, and None while the source has none."""
        mark = self._start
        if mark.floor > MIN_TS:
            yield nothing(mark.row, mark.floor - 1)
        reader = ItemsReader(
            self._mapping, where=self._source.ref, batch_rows=self._batch_rows, first=mark.row
        )
        for piece in self._source.pieces(mark.position):
            if piece is None:
                yield None
                continue
            rows, position = piece
            for part in each_arrival(self._mapping, reader.read(rows), self._batch_rows):
                yield part
                mark = self._behind(mark, part)
            mark = mark._replace(position=position)
            self._bookmarks.add(mark)

    def _behind(self, mark: Bookmark, part: Arrivals) -> Bookmark:
        latest = max(mark.latest, int(part.ts.max(initial=MIN_TS)))
        reached = max(latest, MIN_TS + (self._delay or 0)) - (self._delay or 0)
        heard = max((int(beat) + 1 for beat in part.beats.ts), default=MIN_TS)
        return Bookmark(part.first + len(part), latest, max(mark.floor, reached, heard))


class CustomArrivals(Live):
    """The rows of a live source. `parts` yields None while there are none; without `follow` that is the end."""

    def __init__(self, parts: Generator[Arrivals | None], *, follow: bool) -> None:
        self._parts, self._follow = parts, follow
        self._row = 0
        self._next_look = float("-inf")

    def wait(self) -> float:
        """Return the seconds until the source is to be asked again."""
        return max(0.0, self._next_look - time.monotonic())

    def __next__(self) -> Arrivals:
        """Return the next rows, if there are any yet."""
        part = next(self._parts)
        if part is None:
            if not self._follow:
                raise StopIteration
            self._next_look = time.monotonic() + POLL
            return nothing(self._row)
        self._row = part.first + len(part)
        return part

    def close(self) -> None:
        """Close the source's generator."""
        self._parts.close()
