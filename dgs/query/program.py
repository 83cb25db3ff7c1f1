"""Queries as programs: leaves compact their rows, and a closing event emits the answer over all rows so far.

>>> import dgs
>>> from dgs.query.relation import Aggregate, Group, Source, column
>>> from dgs.query.types import INT, TEXT, Schema
>>> flights = Source("flights", Schema.of(carrier=TEXT, delay=INT))
>>> worst = Group(flights, (("carrier", column("carrier")),), (("most", Aggregate("max", (column("delay"),))),))
>>> program = QueryProgram(worst)
>>> FLIGHT, ANSWER = map(dgs.kind, ("flights", "answer"))
>>> rows = [(FLIGHT(), ts, {"carrier": carrier, "delay": ts}) for ts, carrier in enumerate("abab")]
>>> dgs.run(program, streams={"flights": rows, "ask": [(ANSWER(), 9, None)]}, runtime="local").outputs
[{'carrier': 'a', 'most': 2}, {'carrier': 'b', 'most': 3}]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from dgs.errors import CodecError, ProgramError
from dgs.model.columns import Column, length, to_list
from dgs.model.dependence import ALWAYS, Dependence, Rule
from dgs.model.events import Event, EventBatch
from dgs.model.program import Emit
from dgs.model.tags import Tag, kind
from dgs.monoids.contract import Cuts, bounds
from dgs.monoids.windows import Windows
from dgs.query import duck
from dgs.query.compact import Compact
from dgs.query.compact.answering import Answering
from dgs.query.compact.arrow_plans import Plan, planned
from dgs.query.compact.arrow_rows import as_columns, from_arrow, is_flat, to_arrow
from dgs.query.compact.iterate import Values
from dgs.query.compact.payloads import Weight, weighted_row, weighted_table
from dgs.query.compact.query_data import data_of, from_data
from dgs.query.compact.runs import Layout, Parts, add_parts
from dgs.query.errors import QueryError
from dgs.query.evaluate import Evaluation, ZBag, rows_of, zbag
from dgs.query.relation import Relation, Repeat, Script, Source, walk
from dgs.query.scalar import Row
from dgs.query.split import Compaction, Split, split
from dgs.query.split.compaction import Class
from dgs.query.sql_text import text_of
from dgs.query.types import INT, Schema

FEW = 200
"""The most rows of a batch for which the interpreter is faster than a statement of DuckDB."""

State = tuple[Compact, ...]
Rows = Any
"""Rows of a table that does not change: sequences, mappings, an Arrow table, or a function that reads them on demand."""


@dataclass(frozen=True, slots=True)
class Held:
    """One compaction as a monoid of `Compact` states. Many rows are compacted by Arrow or DuckDB, few by the interpreter."""

    compaction: Compaction
    layout: Layout = field(init=False)
    text: str = field(init=False)
    plan: Plan | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        keys = len(self.compaction.keys)
        merges = tuple(merge for _, merge in self.compaction.parts)
        object.__setattr__(self, "layout", Layout(self.compaction.schema, keys, merges))
        object.__setattr__(self, "text", text_of(self.compaction.query))
        object.__setattr__(self, "plan", planned(self.compaction.query))

    def of_rows(self, stream: str, rows: ZBag) -> Compact:
        """Return the compaction of rows of a stream, each with its weight as the last value."""
        tables: dict[str, ZBag] = {name: {} for name in self.compaction.streams} | {stream: rows}
        keys, parts = self.layout.keys, Parts()
        for row in Evaluation(tables).of(self.compaction.query):
            add_parts(parts, row[:keys], row[keys:], self.layout)
        return Compact.of_parts(self.layout, parts)

    def of_table(self, stream: str, table: pa.Table) -> Compact:
        """Return the compaction of a table of a stream with the column `$w`. Raises QueryError Q701, Q704."""
        found = None if self.plan is None else self.plan({stream: table})
        return self.by_statement(stream, table) if found is None else Compact.of_run(self.layout, found)

    def by_statement(self, stream: str, table: pa.Table) -> Compact:
        """Return the same by a statement of DuckDB."""
        tables = {name: _empty(source) for name, source in self.sources.items()} | {stream: table}
        return Compact.of_run(self.layout, duck.run(self.text, tables, self.layout.schema))

    @property
    def sources(self) -> dict[str, Source]:
        """The streams with the column `$w`."""
        return Script.of(self.compaction.query).sources()


def _empty(source: Source) -> pa.Table:
    return to_arrow([], source.columns)


class QueryProgram(Windows):
    """A program that keeps the answer of a query. Its kinds are the names of the streams, and `closes`, whose events ask for the answer.

    `query`: a relation, a `Script`, or relations by name; an output is a record, with its name as `output` if there are several.
    `tables`: the rows of sources that do not change. `weights`: for a stream with deletions, the column that marks them. `deletes`: kinds
    whose events delete rows of a stream, by its name. `output`: "snapshot", all rows, or "changes", rows with `w` of 1 or -1 relative to
    the previous answer. `resets`: an answer is over the rows since the previous one. `on_negative`: what an answer does if a row has more
    deletions than insertions, "error" (Q702) or "drop". `require`: the worst class accepted (Q301). `exact`: sums of floats are kept as
    integers by exponent, so they are exact for the present rows, and rounded once.

    Raises QueryError Q301, Q302; ProgramError for names of unknown streams.
    """

    emits_columns = True

    def __init__(
        self,
        query: Script | Relation | Mapping[str, Relation],
        *,
        tables: Mapping[str, Rows] | None = None,
        closes: str = "answer",
        weights: Mapping[str, Weight] | None = None,
        deletes: Mapping[str, str] | None = None,
        output: Literal["snapshot", "changes"] = "snapshot",
        resets: bool = False,
        on_negative: Literal["error", "drop"] = "error",
        require: Class | None = None,
        exact: bool = False,
    ) -> None:
        self.script = Script.of(query)
        options = {
            "tables": tables, "closes": closes, "weights": weights, "deletes": deletes, "output": output,
            "resets": resets, "on_negative": on_negative, "require": require, "exact": exact,
        }  # fmt: skip
        self.made_by = _again(self.script, options) if type(self) is QueryProgram else None
        self.split: Split = split(self.script, require=require, exact=exact)
        self.weights, self.tables = dict(weights or {}), dict(tables or {})
        self.output, self.resets = output, resets
        self._drops = on_negative == "drop"
        sources = {name: one for name, one in self.script.sources().items() if one.changes}
        if not sources:
            raise QueryError.of(
                "Q110", "not supported: a program of a query that reads no stream", "Ask it once."
            )
        self._into = {name: (name, 1) for name in sources} | {
            name: (stream, -1) for name, stream in (deletes or {}).items()
        }
        self._schemas = {name: one.columns for name, one in sources.items()}
        self.held = tuple(map(Held, self.split.compactions))
        self._check_names(deletes or {})
        self._check_outputs()
        vars(self).update(accumulates=tuple(map(kind, self._into)), closes=(kind(closes),), monoid=self)
        pairs = [(self.closes[0], other) for other in (self.closes[0], *self.accumulates)]
        self.depends = Dependence(*(Rule(one, other, ALWAYS) for one, other in pairs))
        super().__init__()

    def _check_names(self, deletes: Mapping[str, str]) -> None:
        for name in (*self.weights, *deletes.values()):
            if name not in self._schemas:
                known = ", ".join(self._schemas) or "none"
                raise ProgramError(
                    program=self.name, problem=f"{name!r} is no stream of the query; it has {known}"
                )
        self._check_extremes({*self.weights, *deletes.values()})
        missing = sorted(self.split.tables.keys() - self.tables.keys())
        if missing:
            raise QueryError.of(
                "Q201", f"no rows for the table {missing[0]!r}", f"Give `tables` with {missing[0]!r}."
            )

    def _check_extremes(self, deleting: set[str]) -> None:
        """Refuse deletions from streams of which only the least or greatest value is kept."""
        for one in self.held:
            found = sorted(deleting.intersection(one.compaction.streams))
            if found and {"min", "max"}.intersection(one.layout.merges):
                problem = (
                    f"rows of {found[0]!r} are deleted, which its source does not say, and only the least or greatest"
                    " value is kept of them: make the source with `deletes=True`"
                )
                raise ProgramError(program=self.name, problem=problem)

    at: Mapping[str, str] = MappingProxyType({})
    """For a program over windows: the column of each stream with its times."""

    @property
    def reach(self) -> int:
        """The least time from the last row to the last closing event with which all rows are in an answer."""
        return 0

    def identity_parts(self) -> dict[str, str]:
        """Return the compactions: another answer over the same compactions may use the state."""
        parts = {f"compaction {number}": one.text for number, one in enumerate(self.held)}
        parts |= {f"loop {name}": str(layouts[0].schema) for name, layouts in self._loop_layouts.items()}
        return parts | {"output": self.output if self.output == "changes" else "snapshot"}

    def _check_outputs(self) -> None:
        """Refuse a column with the name of a column that is added to answers. Raises QueryError Q202."""
        outputs = self.script.outputs
        beside = {"w": "how often a row comes or goes"} if self.output == "changes" else {}
        beside |= {"output": "which output a row is of"} if len(outputs) > 1 else {}
        for _, one in outputs:
            taken = next((name for name in one.schema.names if name in beside), None)
            if taken is not None:
                problem = f"the answer has a column {taken!r}, and {taken!r} says {beside[taken]}"
                raise QueryError.of("Q202", problem, "Give the column another name.", one.span)

    @cached_property
    def answering(self) -> Answering:
        """The answers over states."""
        rows = {
            name: _rows_of(self.tables[name], source.columns) for name, source in self.split.tables.items()
        }
        return Answering(self.split, rows, drops=self._drops)

    @cached_property
    def _before(self) -> tuple[Layout, ...]:
        """The layouts of the previous answers, one for each output, if changes are wanted."""
        if self.output != "changes":
            return ()
        return tuple(_counted(one.schema) for _, one in self.script.outputs)

    @cached_property
    def _loop_layouts(self) -> dict[str, tuple[Layout, ...]]:
        """The layouts of the last values of warm loops, by the loop's first name."""
        return {
            one.names[0]: tuple(_counted(start.schema) for start in one.start) for one in self._warm_loops()
        }

    def _warm_loops(self) -> Iterator[Repeat]:
        for _, output in self.split.answer.outputs:
            yield from (one for one in walk(output) if isinstance(one, Repeat) and one.mode == "warm")

    @property
    def _kept(self) -> tuple[Layout, ...]:
        """The layouts of the rows that an answer keeps for the next one."""
        return (*self._before, *(layout for layouts in self._loop_layouts.values() for layout in layouts))

    def identity(self) -> State:
        """Return the state of no rows."""
        return tuple(Compact.empty(layout) for layout in (*(one.layout for one in self.held), *self._kept))

    def join(self, left: State, right: State) -> State:
        """Return the state of the rows of both."""
        return tuple(one.joined(other) for one, other in zip(left, right, strict=True))

    def update(self, state: State, event: Event, emit: Emit) -> State:
        """Add a row, by the interpreter, or answer."""
        into = self._into.get(event.tag.kind)
        if into is None:
            self.check_closing(event.tag.kind)
            return self.close(state, event, emit)
        stream, sign = into
        row = weighted_row(event.payload, self._schemas[stream], self.weights.get(stream), sign)
        return self.join(state, self._of_rows(stream, {row: 1}))

    def fold(self, batch: EventBatch) -> State:
        """Return the state of a batch of rows."""
        parts = [self._of_lane(tag.kind, lane) for tag, lane in _lanes(batch)]
        state = self.identity()
        for one in parts:
            state = self.join(state, one)
        return state

    def update_windows(self, batch: EventBatch, cuts: Cuts) -> Column:
        """Return the states of many windows of rows."""
        starts, stops = bounds(len(batch), cuts)
        pairs = zip(starts.tolist(), stops.tolist(), strict=True)
        return [self.fold(batch.cut(start, stop)) for start, stop in pairs]

    def _of_lane(self, kind_name: str, batch: EventBatch) -> State:
        stream, sign = self._into[kind_name]
        schema, weight = self._schemas[stream], self.weights.get(stream)
        payload = [None] * len(batch) if batch.payload is None else batch.payload
        if len(batch) <= FEW:
            rows = zbag(weighted_row(one, schema, weight, sign) for one in to_list(payload))
            return self._of_rows(stream, rows)
        table = weighted_table(payload, length(payload), schema, weight, sign)
        return self._of_each(stream, lambda held: held.of_table(stream, table))

    def _of_rows(self, stream: str, rows: ZBag) -> State:
        return self._of_each(stream, lambda held: held.of_rows(stream, rows))

    def _of_each(self, stream: str, made: Callable[[Held], Compact]) -> State:
        states = [
            made(one) if stream in one.compaction.streams else Compact.empty(one.layout) for one in self.held
        ]
        return (*states, *map(Compact.empty, self._kept))

    def close(self, state: State, event: Event, emit: Emit) -> State:  # noqa: ARG002 - as every program's
        """Emit the answer; return the state unchanged, or that of no rows if the program resets."""
        own, kept = state[: len(self.held)], state[len(self.held) :]
        before, ends = kept[: len(self._before)], kept[len(self._before) :]
        found, ended = self.answering.tables_after(own, self._last(ends))
        if self.output == "changes":
            before = self._emit_changes(found, before, emit)
        else:
            self._emit(found, emit)
        if self.resets:
            own = tuple(Compact.empty(one.layout) for one in self.held)
        return (*own, *before, *self._ended(ended))

    def _last(self, ends: State) -> dict[str, Values]:
        """Return the values with which warm loops begin: their last ones, if there has been an answer."""
        states = iter(ends)
        found = {name: tuple(map(_table_of, layouts, states)) for name, layouts in self._loop_layouts.items()}
        return {name: tables for name, tables in found.items() if any(map(len, tables))}

    def _ended(self, ended: Mapping[str, Values]) -> State:
        return tuple(
            Compact.of_parts(layout, {row: (count,) for row, count in zbag(_rows_in(table, layout)).items()})
            for name, layouts in self._loop_layouts.items()
            for layout, table in zip(layouts, ended[name], strict=True)
        )

    def _emit(self, found: Mapping[str, pa.Table], emit: Emit) -> None:
        take = getattr(emit, "column", None)  # a caller that changes rows on the way has no columns
        for name, table in found.items():
            if take is not None and is_flat(table):
                label = {"output": pa.repeat(name, len(table))} if len(found) > 1 else {}
                take(label | as_columns(table))
                continue
            for row in self.answering.outputs(name, table):
                emit({"output": name, **row} if len(found) > 1 else row)

    def _emit_changes(self, found: Mapping[str, pa.Table], before: State, emit: Emit) -> State:
        after = []
        for (name, table), known, layout in zip(found.items(), before, self._before, strict=True):
            rows: dict[Row, int] = zbag(self.answering.rows(name, table))
            previous = {key: parts[0] for key, parts in known.parts()}
            for row in sorted(rows.keys() | previous.keys(), key=self.answering.order):
                weight = rows.get(row, 0) - previous.get(row, 0)
                for _ in range(abs(weight)):
                    record = {**self.answering.record(name, row), "w": 1 if weight > 0 else -1}
                    emit({"output": name, **record} if len(found) > 1 else record)
            after.append(Compact.of_parts(layout, {row: (weight,) for row, weight in rows.items()}))
        return tuple(after)


def _counted(schema: Schema) -> Layout:
    """Return the layout of rows with their multiplicities."""
    return Layout(Schema((*schema.fields, ("$w", INT))), len(schema), ("sum",))


def _rows_in(table: pa.Table, layout: Layout) -> list[Row]:
    return from_arrow(table, Schema(layout.schema.fields[: layout.keys]))


def _table_of(layout: Layout, state: Compact) -> pa.Table:
    rows = [row for row, (count,) in state.parts() for _ in range(count)]
    return to_arrow(rows, Schema(layout.schema.fields[: layout.keys]))


def _again(script: Script, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return how another process makes the program, None if the query cannot be written as data."""
    try:
        return "dgs.query.program:made_again", {"data": data_of([script, dict(options)])}
    except CodecError:
        return None


def made_again(data: Any) -> QueryProgram:
    """Return the program that `made_by` describes."""
    script, options = from_data(data)
    return QueryProgram(script, **options)


def _lanes(batch: EventBatch) -> list[tuple[Tag, EventBatch]]:
    if batch.codes is None:
        return [(batch.tags[0], batch)] if len(batch) else []
    lanes = [(tag, np.flatnonzero(batch.codes == code)) for code, tag in enumerate(batch.tags)]
    return [(tag, batch.take(rows)) for tag, rows in lanes if len(rows)]


def _rows_of(given: Rows, schema: Schema) -> list[Row]:
    read = given() if callable(given) else given
    return rows_of(read.to_pylist() if isinstance(read, pa.Table) else read, schema)
