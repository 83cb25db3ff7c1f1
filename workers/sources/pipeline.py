"""A source, put together: reader, mapping, ordering, `until`, dealing. All of it pulled by `read`, a batch at a time.

>>> import numpy as np
>>> from dgs.tags import Tag
>>> from workers.sources.disorder import ordering
>>> arrivals = iter([Arrivals(0, np.array([5, 6]), (Tag("click"),)), Arrivals(2, np.array([6]), (Tag("click"),))])
>>> order = ordering("error", stream="clicks", rank=0)
>>> source = PipelineSource(arrivals, order, stream="clicks", impl_streams=("clicks",), batch_rows=100)
>>> source.read().frontier, source.read().frontier, source.read().frontier == END
(OrderKey(ts=6, rank=0, seq=2, path=()), OrderKey(ts=6, rank=0, seq=3, path=()), True)
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator

from dgs.errors import InternalError
from dgs.events import EventBatch
from dgs.order import END, OrderKey
from workers.sources.contract import Reading
from workers.sources.dealing import dealt
from workers.sources.disorder import Ordering
from workers.sources.live import Live
from workers.sources.rows import Arrivals


class PipelineSource:
    """A Source over an iterator of arrivals."""

    def __init__(
        self,
        arrivals: Iterator[Arrivals],
        order: Ordering,
        *,
        stream: str,
        impl_streams: tuple[str, ...],
        batch_rows: int,
        until: OrderKey | None = None,
        wanted: Collection[str] | None = None,
    ) -> None:
        self.stream = stream
        self._arrivals = arrivals
        self._order = order
        self._impl_streams = impl_streams
        self._batch_rows = batch_rows
        self._until = until
        self._wanted = wanted
        self._ended = False

    @property
    def drops(self) -> int:
        """How many events were left out because they came too late."""
        return self._order.drops

    @property
    def wait(self) -> float:
        """Seconds until there may be something: files, memory and plain generators are always ready."""
        return self._arrivals.wait() if isinstance(self._arrivals, Live) and not self._ended else 0.0

    def read(self) -> Reading:
        """Read on: one piece of what the reader delivers."""
        if self._ended:
            raise InternalError(problem=f"source {self.stream!r} was read after its end")
        arrivals = next(self._arrivals, None)
        ordered = self._order.finish() if arrivals is None else self._order.accept(arrivals)
        batch, frontier = ordered.batch, ordered.frontier
        if self._until is not None:
            batch = batch.cut(0, batch.position_of(self._until))
            frontier = END if frontier >= self._until else frontier
        if frontier >= END:
            self._ended = True
            self._check_rest()
            self.close()
        return Reading(tuple(self._pieces(batch)), END if self._ended else frontier)

    def close(self) -> None:
        """Release what the reader holds."""
        if isinstance(self._arrivals, (Generator, Live)):
            self._arrivals.close()

    def _check_rest(self) -> None:
        """Rows behind a heartbeat that ends the stream are disorder, not silence. Of live ones nobody knows."""
        if self._until is None and not isinstance(self._arrivals, Live):
            for arrivals in self._arrivals:
                self._order.accept(arrivals)

    def _pieces(self, batch: EventBatch) -> Iterator[EventBatch]:
        for start in range(0, len(batch), self._batch_rows):
            piece = batch.cut(start, min(start + self._batch_rows, len(batch)))
            yield from dealt(piece, self._impl_streams, self._wanted)
