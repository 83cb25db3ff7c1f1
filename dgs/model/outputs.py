"""Outputs: the values that updates emit, with the ids that exactly-once delivery needs.

The id of an output is (key of its event, tag, group, index). In a consistent program it does not depend on the schedule.
A program whose events depend on a choice, such as how often windows are looked at, gives its outputs other ids: `Stamped`.

>>> batch = OutputBatch.of("clicks", rank=0, tags=[Tag("view", 1)], ts=[5], seq=[0], index=[0], values=["hello"])
>>> batch.to_list()
['hello']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dgs import codec
from dgs.errors import CodecError, ProgramError
from dgs.model import columns
from dgs.model.columns import Column, RowNumbers
from dgs.model.events import Codes, EventBatch, Int64s, tags_at
from dgs.model.tags import Kind, Tag

_FIRST = np.zeros(1, dtype=np.int64)
"""The index of an event's first output, usually its only one."""


@dataclass(frozen=True, slots=True)
class OutputBatch:
    """Outputs of events of one stream, in the order of their events.

    `ts`, `seq`: int64[n], those of each output's event; `index`: int64[n], counts the outputs of an event from 0;
    `tags`, `codes`: as in EventBatch; `values`: a column of n rows. `group` is reserved for later stages and empty.
    """

    stream: str
    rank: int
    ts: Int64s
    seq: Int64s | RowNumbers
    index: Int64s
    tags: tuple[Tag, ...]
    codes: Codes | None
    values: Column

    @classmethod
    def of(
        cls,
        stream: str,
        *,
        rank: int,
        tags: Sequence[Tag],
        ts: Any,
        seq: Any,
        index: Any,
        values: Column,
        codes: Any = None,
    ) -> OutputBatch:
        """Make a batch from anything array-like."""
        which = None if codes is None else np.asarray(codes, dtype=np.int32)
        numbers = [np.asarray(part, dtype=np.int64) for part in (ts, seq, index)]
        return cls(stream, rank, numbers[0], numbers[1], numbers[2], tuple(tags), which, values)

    @classmethod
    def of_rows(cls, batch: EventBatch, values: Column, rows: columns.Indices | None = None) -> OutputBatch:
        """Make the outputs of a batch. `rows`: the event row of each value, non-decreasing; None: one value per event."""
        if rows is None:
            return cls._one_each(batch, values)
        rows = np.asarray(rows, dtype=np.intp)
        count = len(rows)
        if columns.length(values) != count:
            problem = f"emit_batch was given {columns.length(values)} values for {count} rows"
            raise ProgramError(program="update_batch", problem=problem)
        index = columns.constant(_FIRST, count)
        repeated = rows[1:] == rows[:-1]
        if np.count_nonzero(repeated):
            first = np.flatnonzero(np.concatenate(([True], ~repeated)))
            index = np.arange(count) - np.repeat(first, np.diff(np.append(first, count)))
        codes = None if batch.codes is None else batch.codes[rows]
        return cls(
            batch.stream, batch.rank, batch.ts[rows], batch.seq[rows], index, batch.tags, codes, values
        )

    @classmethod
    def _one_each(cls, batch: EventBatch, values: Column) -> OutputBatch:
        """Make outputs of one value per event, without copying."""
        count = columns.length(values)
        if count != len(batch):
            problem = f"emit_batch was given {count} values for {len(batch)} rows"
            raise ProgramError(program="update_batch", problem=problem)
        index = columns.constant(_FIRST, count)
        return cls(batch.stream, batch.rank, batch.ts, batch.seq, index, batch.tags, batch.codes, values)

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, rows: columns.Indices) -> OutputBatch:
        """Return some of the outputs, in the order of `rows`."""
        codes = None if self.codes is None else self.codes[rows]
        values = columns.take(self.values, rows)
        ts, seq, index = self.ts[rows], self.seq[rows], self.index[rows]
        return OutputBatch(self.stream, self.rank, ts, seq, index, self.tags, codes, values)

    def to_list(self) -> list[Any]:
        """Return the values as Python objects."""
        return columns.to_list(self.values)

    def tag_list(self) -> list[Tag]:
        """Return the tag of each output's event."""
        return tags_at(self.tags, self.codes, len(self))


def with_event(error: CodecError, batch: OutputBatch, encode: Callable[[Any], object]) -> CodecError:
    """Return the error of outputs that `encode` refuses, with the event that emitted the first such output.

    >>> batch = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[5, 6], seq=[0, 1], index=[0, 0], values=["hello", object()])
    >>> print(with_event(CodecError(problem="the codec does not carry it"), batch, codec.encode))
    the codec does not carry it; `update` emitted it at event a of stream 's', ts 6
    """
    for tag, ts, value in zip(batch.tag_list(), batch.ts.tolist(), batch.to_list(), strict=True):
        try:
            encode(value)
        except (CodecError, RecursionError):
            return CodecError(
                problem=f"{error}; `update` emitted it at event {tag!r} of stream {batch.stream!r}, ts {ts}"
            )
    return error


class Stamped(NamedTuple):
    """Outputs with their own `ts` and `seq` instead of those of their event, and with the rank of their event.

    For events of kinds in `Program.stamps` only. Their indices count the outputs of their tag under one stamp, so ids do not depend on
    the event that emitted them. Law: the stamps of a tag never go back.

    >>> batch = OutputBatch.of("ticks", rank=0, tags=[Tag("tick")], ts=[30, 30], seq=[2, 2], index=[0, 1],
    ...                        values=[Stamped(20, 1, ["w", "x"]), Stamped(30, 2, ["y"])])
    >>> put, rows = Stamps(["tick"]).put(batch)
    >>> put.ts.tolist(), put.seq.tolist(), put.index.tolist(), put.values, rows.tolist()
    ([20, 20, 30], [1, 1, 2], [0, 1, 0], ['w', 'x', 'y'], [0, 0, 1])
    """

    ts: int
    seq: int
    values: list[Any]


class Stamps:
    """Puts outputs under their stamps. It remembers the last stamp of every tag, so one object takes all outputs of a tag.

    `kinds`: those of `Program.stamps`. Outputs of other kinds, and values without a stamp, keep the place of their event.
    """

    def __init__(self, kinds: Iterable[Kind | str]) -> None:
        self._kinds = frozenset(map(str, kinds))
        self._last: dict[tuple[str, Tag], tuple[int, int, int]] = {}

    @classmethod
    def of(cls, kinds: Sequence[Kind | str]) -> Stamps | None:
        """Return a new object for the kinds that a program stamps, None if there are none."""
        return cls(kinds) if kinds else None

    def put(self, batch: OutputBatch) -> tuple[OutputBatch, columns.Indices | None]:
        """Return the outputs under their stamps, in the same order, and the row of each in the batch; None: they have the same rows.

        Raises ProgramError if the stamps of a tag go back.
        """
        if not len(batch) or not any(tag.kind in self._kinds for tag in batch.tags):
            return batch, None
        is_stamped = isinstance(batch.values, list) and Stamped in set(map(type, batch.values))
        if batch.codes is None and not is_stamped:
            return self._numbered(batch), None
        events = zip(batch.tag_list(), batch.ts.tolist(), np.asarray(batch.seq).tolist(), strict=True)
        values, counts, places = list[Any](), list[int](), list[tuple[int, int, int]]()
        for (tag, ts, seq), value in zip(events, batch.to_list(), strict=True):
            made = value if type(value) is Stamped else Stamped(ts, seq, [value])
            values += made.values
            counts.append(len(made.values))
            places.append(self.place(batch.stream, tag, made.ts, made.seq, counts[-1]))
        rows = np.repeat(np.arange(len(counts)), counts)
        ts, seq, first = np.array(places, dtype=np.int64).reshape(-1, 3)[rows].T
        index = first + np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        codes = None if batch.codes is None else batch.codes[rows]
        return replace(batch, ts=ts, seq=seq, index=index, codes=codes, values=values), rows

    def _numbered(self, batch: OutputBatch) -> OutputBatch:
        """Return outputs of one tag without stamps, whose indices continue those of earlier outputs of the same event."""
        ts, seq, index = batch.ts, np.asarray(batch.seq), batch.index
        same = (ts == ts[0]) & (seq == seq[0])
        first = self.place(batch.stream, batch.tags[0], int(ts[0]), int(seq[0]))[2]
        if first:
            index = index + first * same
        self._last[batch.stream, batch.tags[0]] = (int(ts[-1]), int(seq[-1]), int(index[-1]))
        return replace(batch, index=index)

    def place(self, stream: str, tag: Tag, ts: int, seq: int, count: int = 1) -> tuple[int, int, int]:
        """Return the ts, the seq and the first index of the next `count` outputs of a tag under a stamp."""
        before = self._last.get((stream, tag), (ts, seq, -1))
        if (ts, seq) < before[:2]:
            problem = f"it stamps an output of {tag!r} with ts {ts}, seq {seq}, after ts {before[0]}, seq {before[1]}: stamps only grow"
            raise ProgramError(program="update", problem=problem)
        index = before[2] + 1 if (ts, seq) == before[:2] else 0
        self._last[stream, tag] = (ts, seq, index + count - 1)
        return ts, seq, index


class ColumnEmit:
    """The `emit` of a program with `emits_columns`: it takes values one at a time, and columns of them.

    >>> emit = ColumnEmit()
    >>> emit("a"); emit.column(np.array([1, 2])); len(emit), emit.joined()
    (3, ['a', 1, 2])
    """

    __slots__ = ("_count", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[Column] = []
        self._count = 0

    def __call__(self, value: Any) -> None:
        """Take one output."""
        if not self._pieces or type(self._pieces[-1]) is not list:
            self._pieces.append([])
        self._pieces[-1].append(value)
        self._count += 1

    def column(self, values: Column) -> None:
        """Take a column of outputs. Raises ProgramError for anything that is not a column."""
        values = columns.from_user(values, "emit.column")
        count = columns.length(values)
        if count:
            self._pieces.append(list(values) if type(values) is list else values)
            self._count += count

    def __len__(self) -> int:
        return self._count

    def joined(self) -> Column:
        """Return all outputs as one column."""
        return columns.concat(self._pieces) if self._pieces else []


class IgnoredOutputs:
    """An `emit` for any program that ignores all outputs, for a fold whose state alone matters."""

    __slots__ = ()

    def __call__(self, value: Any) -> None:
        """Ignore an output."""

    def column(self, values: Column) -> None:
        """Ignore a column of outputs."""


def emitted_one_by_one(update: Any, state: Any, event: Any, has_columns: bool) -> tuple[Any, list[Any]]:
    """Return the state after an event and its outputs as Python objects. `has_columns`: `Program.emits_columns`."""
    if not has_columns:
        values: list[Any] = []
        return update(state, event, values.append), values
    emit = ColumnEmit()
    state = update(state, event, emit)
    return state, columns.to_list(emit.joined())


class BatchEmitter:
    """The `emit_batch` that `update_batch` gets with a batch: it appends to `outputs`.

    It may be called several times. Call `finish` at the end: sinks that know outputs by their ids need them in order.
    """

    def __init__(self, batch: EventBatch, outputs: list[OutputBatch]) -> None:
        self._batch, self._outputs, self._first = batch, outputs, len(outputs)
        self._rows: list[columns.Indices | None] = []
        self._last = -1
        self._is_in_order = True

    def __call__(self, values: Column, rows: columns.Indices | None = None) -> None:
        """Take a column of outputs: see `OutputBatch.of_rows`. Raises ProgramError."""
        values = columns.from_user(values, "update_batch")
        if not columns.length(values):
            return
        self._outputs.append(OutputBatch.of_rows(self._batch, values, rows))
        self._rows.append(rows)
        first, last = (0, len(self._batch) - 1) if rows is None else (int(rows[0]), int(rows[-1]))
        self._is_in_order &= first > self._last
        self._last = max(self._last, last)

    def finish(self) -> None:
        """Put the outputs in the order of their events. Those of an event stay in the order of the calls."""
        if self._is_in_order:
            return
        every = np.arange(len(self._batch))
        rows = np.concatenate([every if rows is None else rows for rows in self._rows])
        order = np.argsort(rows, kind="stable")
        values = columns.take(columns.concat([made.values for made in self._outputs[self._first :]]), order)
        self._outputs[self._first :] = [OutputBatch.of_rows(self._batch, values, rows[order])]


codec.register(Stamped, name="dgs.Stamped")
