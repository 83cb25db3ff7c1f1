"""Single events and batches: programs get events, the runtime moves batches.

>>> event = Event(Tag("view", 1), "clicks", ts=5, payload="home")
>>> event.payload, event._replace(ts=6)
('home', Event(tag=view(1), stream='clicks', ts=6, payload='home'))
>>> batch = EventBatch.of("clicks", rank=0, tags=[Tag("view", 1)], ts=[5, 6], payload=["home", "shop"])
>>> batch.events()[0] == event, [(e.ts, e.payload) for e in batch.events()]
(True, [(5, 'home'), (6, 'shop')])
>>> batch.position_of(OrderKey(6, 0, 0))          # how many of its events come before that key
1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dgs.errors import ProgramError
from dgs.errors.shortened import short_repr
from dgs.model import columns
from dgs.model.columns import Column, RowNumbers
from dgs.model.order import OrderKey
from dgs.model.tags import Tag

__all__ = ["Codes", "Event", "EventBatch", "Int64s", "declared_stream"]

Int64s = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

if TYPE_CHECKING:  # `Event[int]` says what payloads are; at run time a tuple takes any parameter
    from typing import Generic

    from typing_extensions import TypeVar

    Payload = TypeVar("Payload", default=Any)

    class _Fields(NamedTuple, Generic[Payload]):
        tag: Tag
        stream: str
        ts: int
        payload: Payload

else:
    Payload = Any

    class _Fields(NamedTuple):
        tag: Tag
        stream: str
        ts: int
        payload: Any


class _Row(tuple[Any, ...]):
    """The first base of Event: it brings the constructor of tuples, not the slower one of named tuples, written in Python."""

    __slots__ = ()


class _OfFields(type):
    """The metaclass that lets users call Event with its four fields, although the constructor takes one tuple."""

    if not TYPE_CHECKING:  # type checkers use the constructor of named tuples

        def __call__(cls, tag: Tag, stream: str, ts: int, payload: Any) -> Event:
            return tuple.__new__(cls, (tag, stream, ts, payload))


class Event(_Row, _Fields[Payload], metaclass=_OfFields):
    """One event: its tag, the stream it came from, its timestamp (int64, the user's unit) and its payload.

    A named tuple that is quick to make: a scalar program needs one for every row.
    """

    __slots__ = ()
    if not TYPE_CHECKING:
        __new__ = tuple.__new__

    def __getnewargs__(self) -> tuple[tuple[Any, ...]]:  # the arguments of `__new__`
        """Copy and pickle as one tuple of the fields."""
        return (tuple(self),)


event_of_row: Callable[[tuple[Any, ...]], Event] = type.__call__.__get__(Event)
"""Makes an Event from the tuple of its fields, entirely in C: 0.07 us instead of 0.2 us in Python."""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of one stream in order, as columns.

    `ts`: int64[n], non-decreasing; `seq`: int64[n], increasing, the raw row numbers (RowNumbers if they have no gaps); `tags`: the
    distinct tags; `codes`: int32[n], the position of each event's tag (None: all have `tags[0]`); `payload`: a column of n rows, or
    None without payloads.
    """

    stream: str
    rank: int
    ts: Int64s
    seq: Int64s | RowNumbers
    tags: tuple[Tag, ...]
    codes: Codes | None = None
    payload: Column = None

    @classmethod
    def of(
        cls,
        stream: str,
        *,
        rank: int,
        tags: Sequence[Tag],
        ts: Any,
        seq: Any = None,
        codes: Any = None,
        payload: Column = None,
    ) -> EventBatch:
        """Make a batch from anything array-like; `seq` counts from 0 when not given. Raises ProgramError for anything that is not a column."""
        times = _integers(ts, "ts")
        numbers = np.arange(len(times), dtype=np.int64) if seq is None else _integers(seq, "seq")
        which = None if codes is None else _codes(_integers(codes, "codes"))
        rows = None if payload is None else columns.from_user(payload, f"{OF}, payload")
        for what, one in (("seq", numbers), ("codes", which), ("payload", rows)):
            if one is not None and columns.length(one) != len(times):
                problem = f"{len(times)} events and {columns.length(one)} {what}"
                raise ProgramError(program=OF, problem=problem)
        return cls(stream, rank, times, numbers, _tags(tags, len(times)), which, rows)

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def nbytes(self) -> int:
        """The approximate size of the batch in bytes."""
        codes = 0 if self.codes is None else self.codes.nbytes
        payload = 0 if self.payload is None else columns.nbytes(self.payload)
        return int(self.ts.nbytes + self.seq.nbytes + codes + payload)

    def key(self, row: int) -> OrderKey:
        """Return the order key of an event of the batch."""
        return OrderKey(int(self.ts[row]), self.rank, int(self.seq[row]))

    def position_of(self, key: OrderKey) -> int:
        """Return the number of events of the batch before `key` in the total order."""
        if self.rank != key.rank:
            return int(self.ts.searchsorted(key.ts, side="right" if self.rank < key.rank else "left"))
        low = int(self.ts.searchsorted(key.ts, side="left"))
        high = int(self.ts.searchsorted(key.ts, side="right"))
        return low if low == high else low + int(np.searchsorted(self.seq[low:high], key.seq, side="left"))

    def count_up_to(self, key: OrderKey) -> int:
        """Return the number of events of the batch before or at `key`."""
        return self.position_of(OrderKey(key.ts, key.rank, key.seq + 1))

    def cut(self, start: int, stop: int) -> EventBatch:
        """Return events `start` to `stop` as a view."""
        codes = None if self.codes is None else self.codes[start:stop]
        payload = None if self.payload is None else columns.cut(self.payload, start, stop)
        return EventBatch(
            self.stream, self.rank, self.ts[start:stop], self.seq[start:stop], self.tags, codes, payload
        )

    def take(self, rows: columns.Indices) -> EventBatch:
        """Return the given events, which must be in increasing order of row."""
        codes = None if self.codes is None else self.codes.take(rows)
        payload = None if self.payload is None else columns.take(self.payload, rows)
        return EventBatch(
            self.stream, self.rank, self.ts.take(rows), self.seq[rows], self.tags, codes, payload
        )

    def keys_only(self) -> EventBatch:
        """Return the batch with only the order keys of its events: without payload, all with the first tag."""
        return EventBatch(self.stream, self.rank, self.ts, self.seq, self.tags[:1])

    def positions_of(self, keys: EventBatch) -> Int64s:
        """Return for each event of `keys` the number of events of this batch before it: int64[len(keys)]."""
        low: Int64s = self.ts.searchsorted(keys.ts, side="left")
        if self.rank > keys.rank:
            return low
        high: Int64s = self.ts.searchsorted(keys.ts, side="right")
        if self.rank < keys.rank:
            return high
        for row in np.flatnonzero(low < high).tolist():  # ties within one stream, by row number
            low[row] = self.position_of(keys.key(row))
        return low

    def seen(self) -> EventBatch:
        """Return the batch as programs see it: with the declared stream, also if that is split."""
        return replace(self, stream=declared_stream(self.stream)) if "/" in self.stream else self

    def read_only(self) -> EventBatch:
        """Return the batch with arrays that cannot be written to, also in batches cut from it; itself if they are so already."""
        of = columns.read_only
        seq = self.seq if isinstance(self.seq, RowNumbers) else of(self.seq)
        ts, codes, payload = of(self.ts), of(self.codes), of(self.payload)
        if seq is self.seq and ts is self.ts and codes is self.codes and payload is self.payload:
            return self
        return EventBatch(self.stream, self.rank, ts, seq, self.tags, codes, payload)

    def tag_list(self) -> list[Tag]:
        """Return the tag of every event."""
        return tags_at(self.tags, self.codes, len(self))

    def events(self) -> list[Event]:
        """Return the events as Python objects."""
        return list(self.stream_of_events()[0])

    def stream_of_events(self) -> tuple[Iterator[Event], Any]:
        """Return the events as Python objects made one at a time, and a counter whose length hint is the number left.

        This is the one place that makes single events. It makes them one at a time because the garbage collector would visit
        every event of a list again and again. Events have the declared stream, also if it is split.
        """
        n = len(self)
        tags = repeat(self.tags[0], n) if self.codes is None else self.tag_list()
        payload = repeat(None, n) if self.payload is None else columns.to_list(self.payload)
        times = iter(self.ts.tolist())
        stream = declared_stream(self.stream)
        return map(event_of_row, zip(tags, repeat(stream, n), times, payload, strict=True)), times


def tags_at(tags: tuple[Tag, ...], codes: Codes | None, count: int) -> list[Tag]:
    """Return the tag of every row, of which there are `count`. Without codes all have the first tag."""
    if codes is None:
        return [tags[0]] * count
    if len(tags) > count:
        return [tags[code] for code in codes.tolist()]
    own = np.fromiter(tags, object, len(tags))  # five times as fast as Python if there are many rows
    return own[codes].tolist()  # type: ignore[no-any-return]


OF = "EventBatch.of"
"""The names of fields in errors."""


def _integers(given: Any, what: str) -> Int64s:
    """Return integers as an array. Raises ProgramError."""
    try:
        found = np.asarray(given)
        if (
            found.ndim == 1
            and (found.dtype.kind in "iub" or not len(found))
            and np.ma.getmask(given) is np.ma.nomask
        ):
            return found.astype(np.int64, copy=False)
    except (TypeError, ValueError, OverflowError):  # ragged lists, or objects that NumPy cannot convert
        pass
    problem = f"{what} is {short_repr(given)}; expected integers of 64 bits, one for each event"
    raise ProgramError(program=OF, problem=problem)


def _tags(given: Any, events: int) -> tuple[Tag, ...]:
    """Return the tags of a batch. Raises ProgramError."""
    tags = tuple(given) if isinstance(given, Iterable) else ()
    if not all(isinstance(tag, Tag) for tag in tags) or (events and not tags):
        raise ProgramError(program=OF, problem=f"tags are {short_repr(given)}; expected a list of Tag")
    return tags


def _codes(codes: Int64s) -> Codes:
    """Return codes in 32 bits. A code beyond 32 bits stays beyond all tags."""
    if codes.dtype.itemsize > np.dtype(np.int32).itemsize:
        codes = codes.clip(-1, np.iinfo(np.int32).max)
    return codes.astype(np.int32, copy=False)


def declared_stream(stream: str) -> str:
    """Return the declared stream of an implementation stream.

    >>> declared_stream("clicks/3"), declared_stream("clicks")
    ('clicks', 'clicks')
    """
    return stream.partition("/")[0]
