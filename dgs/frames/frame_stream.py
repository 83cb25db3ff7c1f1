"""A stream of events from a data frame: which of its columns are the time, the tag and the payload of each row.

>>> readings = stream({"at": [1, 2], "sensor": ["a", "b"], "amount": [7, 9]}, kind="value", key="sensor", ts="at", payload="amount")
>>> readings
<stream of 2 rows: kind value, key sensor, ts at, payload amount>
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from dgs.errors import UsageError
from dgs.errors.nearest import did_you_mean
from dgs.errors.shortened import short_repr
from dgs.frames.tables import FrameColumnError, FrameError, FrameKindError, of_records, of_table
from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.program import Program

if TYPE_CHECKING:
    from dgs.model.tags import Kind

Unit = Literal["s", "ms", "us", "ns"]
UNITS: tuple[Unit, ...] = ("s", "ms", "us", "ns")
"""Units of time, the coarsest first."""
TAG = "tag"


@dataclass(frozen=True, slots=True, repr=False)
class Stream:
    """The columns of a frame, and what they are: `kind`, `key`, `ts`, `payload` as `dgs.stream` takes them."""

    table: Mapping[str, Column]
    ts: str = "ts"
    kind: str | Mapping[str, Any] | None = None
    key: Any = None
    payload: str | list[str] | None = None
    unit: Unit | None = None
    id: str | None = None

    def __len__(self) -> int:
        return columns.length(dict(self.table))

    def __repr__(self) -> str:
        said = [("kind", self.kind), ("key", self.key), ("ts", self.ts), ("payload", self.payload)]
        parts = ", ".join(f"{name} {value}" for name, value in said if value is not None)
        return f"<stream of {len(self):,} rows: {parts}>"

    @property
    def is_calendar(self) -> bool:
        """Whether the times are those of the calendar, and not bare numbers."""
        if self.unit is not None:
            return True
        column = self.table.get(self.ts)
        kind = getattr(column, "type", None) or getattr(column, "dtype", None)
        if kind is None:
            first = next((value for value in column or [] if value is not None), 0)
            return not isinstance(first, (int, float, np.number))
        return not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind)
            if isinstance(kind, pa.DataType)
            else kind.kind in "iuf"
        )

    @property
    def tags(self) -> dict[str, Any]:
        """The section `tags` of the stream, as in plan.yaml."""
        said: dict[str, Any] = {}
        if self.kind is not None:
            said["kind"] = dict(self.kind) if isinstance(self.kind, Mapping) else {"value": self.kind}
        if self.key is not None:
            said["key"] = dict(self.key) if isinstance(self.key, Mapping) else {"column": self.key}
        return said

    @property
    def elements(self) -> dict[str, Column]:
        """The columns `ts` and `payload` of the rows as elements of a flow."""
        payload = self.payload or ("payload" if "payload" in self.table else list(self.table))
        value = self.table[payload] if isinstance(payload, str) else {one: self.table[one] for one in payload}
        return {"ts": self.table[self.ts], "payload": value}

    def read(self, name: str) -> dict[str, Any]:
        """Return its statements about the time and the payload, as in plan.yaml. `name`: of its data."""
        source: Any = name
        if self.ts != "ts" or self.unit is not None:
            source = {"name": name, "ts": {"column": self.ts, "unit": self.unit}}
        return {"source": {"memory": source}, **({} if self.payload is None else {"payload": self.payload})}

    def tags_in(self, name: str, program: Program) -> dict[str, Any] | list[str]:
        """Return the section `tags:` of a stream over this table; its one kind may be left out. Raises FrameKindError."""
        kinds = program.all_kinds()
        if not self.tags and TAG in self.table:
            return sorted(kinds)
        kind = self.kind
        if kind is None and len(kinds) == 1:
            (kind,) = kinds
        if kind is None:
            problem = f"program {program.name} has the kinds {', '.join(kinds)}, and each row needs one"
            advice = f"Say which: dgs.stream(frame, kind={next(iter(kinds), 'value')!r})"
            raise FrameKindError(stream=name, problem=problem, advice=advice)
        if isinstance(kind, str):
            self._check_kind(name, kind, program)
        return {**self.tags, "kind": self.tags.get("kind", {"value": kind})}

    def _check_kind(self, name: str, kind: str, program: Program) -> None:
        """Raise FrameKindError for a kind that the program does not have, or whose keys contradict this stream."""
        problem, advice = program.kind_problem(kind), f"The kinds are {', '.join(program.all_kinds())}"
        domain = program.kind(kind).domain
        if problem is None and self.key is not None and not program.kind(kind).is_keyed:
            problem, advice = f"kind {kind!r} has no keys", "Leave out `key`"
        elif problem is None and self.key is None and domain not in (None, object):
            problem = f"kind {kind!r} has keys, and no column is named for them"
            advice = f"Say dgs.stream(frame, key=...); the columns are {', '.join(self.table)}"
        if problem is not None:
            raise FrameKindError(stream=name, problem=problem.rstrip("?"), advice=advice)


class ArrowFrame(Protocol):
    """A table of a library with Arrow's interface between libraries."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the columns as a capsule."""


Items = Iterable[Any] | Stream | ArrowFrame
"""The items of a stream: events one by one or in batches, or a frame."""


def stream(
    frame: Any,
    *,
    kind: str | Kind | Mapping[str, Any] | None = None,
    key: str | Mapping[str, Any] | None = None,
    ts: str = "ts",
    payload: str | list[str] | None = None,
    id: str | None = None,  # noqa: A002 - as in plan.yaml
    unit: Unit | None = None,
    sort: bool = False,
) -> Stream:
    """Describe how the rows of a data frame become events: `dgs.run(program, streams={"readings": dgs.stream(frame, ...)})`.

    `frame`: of pandas, Polars (also lazy), Arrow, DuckDB, Spark (bounded), Ibis, or anything with the Arrow PyCapsule interface; a
    dictionary of columns, or a list of dictionaries. Columns that Arrow holds are not copied.

    `kind`: the kind of all rows; it may be left out if the program has one. `key`: the column with the key. `{"column": name}`
    takes the kind from a column, `{"value": 7}` gives all rows one key. `ts`: the column with the time: integers, or timestamps (with a
    zone they become UTC, without one they count as UTC). `unit`: what integers in it count since 1970: "s", "ms", "us", "ns". `payload`: a
    column, or a list of columns for a dictionary of them; by default the column `payload`, else all.
    `sort`: put the rows in order of time; rows of equal time stay in their order. `id`: the name of the stream, to give
    `streams` as a list.

    Raises FrameError for anything that is not a table, FrameColumnError for a missing column. Nulls, wrong types and rows out of
    order are errors of the run, with their rows, or skipped as `on_error` says.
    """
    table = of_records(frame) if _are_records(frame) else of_table(frame)
    told = kind if kind is None or isinstance(kind, Mapping) else str(kind)
    said = Stream(table, ts, told, key, payload, unit, id)
    _check(said, frame)
    return replace(said, table=_sorted(table, ts)) if sort else said


def streams_by_name(streams: Mapping[str, Any] | Iterable[Any]) -> dict[str, Any]:
    """Return streams by their names, those of a list by their ids. Raises UsageError for one without id."""
    if isinstance(streams, Mapping):
        for name, one in streams.items():
            if isinstance(one, Stream) and one.id not in (None, name):
                raise UsageError(message=f"stream {name!r} has the id {one.id!r}: leave out one of the names")
        return dict(streams)
    if not isinstance(streams, Iterable):
        raise UsageError(message=f"streams={short_repr(streams)} is no streams: give streams={{name: ...}}")
    found: dict[str, Any] = {}
    for one in streams:
        name = getattr(one, "id", None)
        if name is None or not isinstance(one, Stream):
            raise UsageError(
                message="a list of streams has dgs.stream(frame, id=...) of each; else give streams={name: ...}"
            )
        if name in found:
            raise UsageError(message=f"two streams have the id {name!r}")
        found[name] = one
    return found


def _check(said: Stream, frame: Any) -> None:
    """Raise FrameColumnError, FrameError or UsageError if arguments do not fit the columns of a frame."""
    payloads = list(said.payload or []) if isinstance(said.payload, (list, tuple)) else [said.payload]
    payloads = [] if said.payload is None else payloads
    named = [("ts", said.ts), *(("key", one) for one in _columns(said.key))]
    named += [("kind", one) for one in _columns(said.kind, is_text=False)]
    for argument, column in (*named, *(("payload", one) for one in payloads)):
        if not isinstance(column, str) or column not in said.table:
            raise _no_column(argument, column, said.table, frame)
    lengths = {name: columns.length(column) for name, column in said.table.items()}
    if len(set(lengths.values())) > 1:
        problem, advice = f"the columns differ in length: {lengths}", "Give columns of one length"
        raise FrameError(problem=problem, advice=advice)
    if said.unit is not None and said.unit not in UNITS:
        raise UsageError(message=f"unit={said.unit!r}: the units are {', '.join(UNITS)}")
    if said.unit is not None and replace(said, unit=None).is_calendar:
        message = f"`unit` is for integers, and column {said.ts!r} has times of the calendar: leave it out"
        raise UsageError(message=message)


def _are_records(frame: Any) -> bool:
    return isinstance(frame, (list, tuple)) and not (hasattr(frame, "__arrow_c_stream__"))


def _columns(part: Any, *, is_text: bool = True) -> list[str]:
    """Return the column that a kind or key names. `is_text`: whether text is the name of a column."""
    if isinstance(part, Mapping):
        return [str(part["column"])] if "column" in part else []
    return [part] if is_text and part is not None else []


def _no_column(argument: str, column: Any, table: Mapping[str, Column], frame: Any) -> FrameColumnError:
    index = getattr(frame, "index", None)
    is_index = column in (getattr(index, "names", None) or [])
    advice = f"Give `{argument}=` the name of a column"
    if is_index:
        advice = "It is the index of the frame, which is no column: give frame.reset_index()"
    elif argument == "ts":
        advice = "Say which column has the time: dgs.stream(frame, ts=...)"
    hint = did_you_mean(str(column), list(table)).rstrip("?")
    return FrameColumnError(
        argument=argument, column=column, hint=hint, columns=", ".join(table) or "none", advice=advice
    )


def _sorted(table: Mapping[str, Column], ts: str) -> dict[str, Column]:
    """Return the rows in order of time; rows of equal time stay in their order."""
    times = table[ts]
    array = pa.array(times) if not isinstance(times, (pa.Array, pa.ChunkedArray)) else times
    if array.null_count:
        row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
        raise FrameError(
            problem=f"column {ts!r} is null in row {row}, so the rows have no order",
            advice="Leave out such rows",
        )
    if not (
        pa.types.is_integer(array.type)
        or pa.types.is_floating(array.type)
        or pa.types.is_temporal(array.type)
    ):
        raise FrameError(
            problem=f"column {ts!r} of type {array.type} cannot be sorted as times",
            advice="Give integers or timestamps",
        )
    numbers = np.asarray(array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array)
    order = np.argsort(numbers, kind="stable")
    return {name: columns.take(column, order) for name, column in table.items()}
