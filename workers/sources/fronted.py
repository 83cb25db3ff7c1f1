"""The front of a stream: the steps of a flow that turn rows into events where the rows are read, before dealing and sending.

A front makes any number of events of a row, each with its own tag and payload and the row's time. The number of an event is made of its
row's number and its index in the row (`number_of`), so positions, splits and ids of outputs work as for rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from dgs.errors import DgsError, InternalError, ProgramError
from dgs.errors.raised import RAISED, is_ours
from dgs.model import columns
from dgs.model.columns import ROWS_APART, number_of
from dgs.model.events import EventBatch
from dgs.model.order import END, OrderKey
from dgs.model.program import RowFront
from dgs.model.tags import Tag
from dgs.model.user_code import Row, row_error
from dgs.semantics.skipped_events import UnreadableRow
from dgs.workers.recovery.positions import dealt
from dgs.workers.sources.contract import Counted, Reading
from dgs.workers.sources.pipeline import PipelineSource

MOST = 2**20
"""The most events of a row."""


class Front:
    """Makes events of the rows of one stream by `makes`. `unread`: the tag of rows that cannot be read, with `skips`."""

    def __init__(self, stream: str, makes: RowFront, *, program: str, unread: Tag, skips: bool) -> None:
        self._stream, self._makes, self._program = stream, makes, program
        self._unread, self._skips = unread, skips

    def __call__(self, piece: EventBatch) -> EventBatch:
        """Return the events of a piece. Raises UserCodeError, and ProgramError for a row with too many events."""
        rows: list[int] = []
        places: list[int] = []
        codes: list[int] = []
        known: dict[Tag, int] = {}
        payloads: list[Any] = []
        values = [None] * len(piece) if piece.payload is None else columns.to_list(piece.payload)
        given = zip(piece.ts.tolist(), values, np.asarray(piece.seq).tolist(), strict=True)
        for at, (ts, value, row) in enumerate(given):
            made = self._made(ts, value, row)
            if len(made) > MOST:
                problem = (
                    f"R05 row {row} of stream {self._stream!r} becomes {len(made):,} events, and {MOST:,} are possible: "
                    "let a step in front join items, or cut the row into several"
                )
                raise ProgramError(program=self._program, problem=problem)
            for place, (tag, payload) in enumerate(made):
                rows.append(at)
                places.append(place)
                codes.append(known.setdefault(tag, len(known)))
                payloads.append(payload)
        of = np.array(rows, dtype=np.intp)
        seq = number_of(np.asarray(piece.seq, dtype=np.int64)[of], np.array(places, dtype=np.int64))  # type: ignore[arg-type]  # arrays
        return EventBatch.of(
            piece.stream,
            rank=piece.rank,
            tags=tuple(known) or (self._unread,),
            ts=piece.ts[of],
            seq=seq,
            codes=codes,
            payload=payloads,
        )

    def _made(self, ts: int, value: Any, row: int) -> list[tuple[Tag, Any]]:
        if type(value) is UnreadableRow:
            return [(self._unread, value)]
        try:
            return self._makes(self._stream, ts, value)
        except DgsError:
            raise
        except RAISED as error:
            if is_ours(error):
                raise
            raised = row_error("front", error, program=self._program, row=Row(self._stream, row, ts, value))
            if not self._skips:
                raise raised from error
            return [(self._unread, UnreadableRow(value, "", None, raised.error, "front"))]


class FrontedSource:
    """An EventSource that passes the rows of another source, which is not split, through a front, and deals the events to splits."""

    def __init__(
        self,
        source: PipelineSource,
        front: Front,
        *,
        impl_streams: tuple[str, ...],
        wanted: Collection[str] | None,
        until: OrderKey | None,
    ) -> None:
        self.stream = source.stream
        self._source, self._front = source, front
        self._impl_streams, self._wanted, self._until = impl_streams, wanted, until
        self._ended = False

    @property
    def drops(self) -> int:
        """The number of rows that were left out."""
        return self._source.drops

    @property
    def wait(self) -> float:
        """Seconds until there may be rows."""
        return 0.0 if self._ended else self._source.wait

    @property
    def counted(self) -> Counted:
        """The progress over its rows so far."""
        return self._source.counted

    @property
    def description(self) -> Mapping[str, Any]:
        """The description of the rows. Its end is the number of an event."""
        about = self._source.description
        return {**about, "end": None if about["end"] is None else _of_event(about["end"])}

    def resume(self, before: Mapping[str, Any]) -> None:
        """Go on from a checkpoint. Raises SourceChangedError."""
        end = before["end"]
        self._source.resume({**before, "end": None if end is None else of_row(end)})

    def skip_to(self, base: OrderKey) -> None:
        """Note that events below `base` are not needed. A row comes again if some of its events are needed."""
        self._source.skip_to(of_row(base))

    def read(self) -> Reading:
        """Read on, and pass the rows through the front. Raises UserCodeError."""
        if self._ended:
            raise InternalError(problem=f"source {self.stream!r} was read after its end")
        reading = self._source.read()
        frontier = _of_event(reading.frontier)
        if self._until is not None and frontier >= self._until:
            frontier = END
        self._ended = frontier == END
        if self._ended:
            self._source.close()
        return Reading(tuple(self._pieces(reading.batches)), frontier)

    def _pieces(self, batches: tuple[EventBatch, ...]) -> Iterator[EventBatch]:
        for batch in map(self._front, batches):
            cut = batch if self._until is None else batch.cut(0, batch.position_of(self._until))
            if len(cut):
                yield from dealt(cut, self._impl_streams, self._wanted)

    def close(self) -> None:
        """Close the reader."""
        self._source.close()


def _of_event(key: OrderKey) -> OrderKey:
    """Return the key of the first event of a row, for the key of the row."""
    return key if key >= END else key._replace(seq=number_of(key.seq, 0))


def of_row(key: OrderKey) -> OrderKey:
    """Return the key of the row that an event's key belongs to."""
    return key if key >= END else key._replace(seq=key.seq // ROWS_APART)
