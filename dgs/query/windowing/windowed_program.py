"""Queries over windows as programs: leaves keep panes, and a closing event answers each window that has ended, once.

>>> import dgs
>>> from dgs.query.relation import Aggregate, Group, Source, Window, column
>>> from dgs.query.types import INT, Schema
>>> window = Window(Source("s", Schema.of(v=INT, ts=INT)), size=4, slide=2)
>>> sums = Group(window, (("end", column("window_end")),), (("sum", Aggregate("sum", (column("v"),))),))
>>> program = program_of_query(sums)
>>> rows = [(dgs.kind("s")(), ts, {"v": 1, "ts": ts}) for ts in (0, 1, 3, 5)]
>>> ticks = [(dgs.kind("answer")(), ts, None) for ts in (2, 4, 6)]
>>> dgs.run(program, streams={"ticks": ticks, "s": rows}, runtime="local").outputs
[{'end': 2, 'sum': 2}, {'end': 4, 'sum': 3}, {'end': 6, 'sum': 2}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from dgs.model.columns import length, to_list
from dgs.model.events import Event, EventBatch
from dgs.model.program import Emit
from dgs.query.compact import Compact
from dgs.query.compact.payloads import weighted_row
from dgs.query.program import QueryProgram
from dgs.query.relation import Relation, Script
from dgs.query.types import INT, conform
from dgs.query.windowing.window_panes import Windowed, windowed


def program_of_query(query: Script | Relation | Mapping[str, Relation], **options: Any) -> QueryProgram:
    """Return the program of a query: of its windows, if each is answered alone. `options`: see `QueryProgram`."""
    script = Script.of(query)
    whole = windowed(script)
    is_plain = options.get("output", "snapshot") == "snapshot" and not options.get("resets", False)
    return (
        WindowedQuery(whole, **options) if whole is not None and is_plain else QueryProgram(script, **options)
    )


class WindowedQuery(QueryProgram):
    """A program that answers a query over each window. Closing events at the ends of windows come before the rows of that time."""

    def __init__(self, whole: Windowed, **options: Any) -> None:
        self.panes, self.at, self._ends = whole.panes, whole.at, whole.ends
        super().__init__(whole.script, **options)

    @property
    def reach(self) -> int:
        """The size of a window: this far after the last row, all windows have ended."""
        return self.panes.size

    def identity_parts(self) -> dict[str, str]:
        """Return the compactions and the windows."""
        return super().identity_parts() | {"windows": f"{self.panes.size} by {self.panes.slide}"}

    def identity(self) -> Any:
        """Return the state of no rows."""
        return (None, {})

    def join(self, left: Any, right: Any) -> Any:
        """Return the state of the rows of both, pane by pane."""
        closed = [one for one, _ in (left, right) if one is not None]
        return (max(closed, default=None), self.panes.joined(left[1], right[1], self._of_states))

    def _of_states(self, states: Sequence[Any]) -> Any:
        found = states[0]
        for one in states[1:]:
            found = super().join(found, one)
        return found

    def _of_kept(self, states: Sequence[Any]) -> Any:
        """Return the state of several panes. The panes are copied, since a join owns its arguments."""
        return self._of_states([tuple(map(_copied, one)) for one in states])

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        """Add a row to its pane, or answer the windows that have ended."""
        if event.tag.kind not in self._into:
            self.check_closing(event.tag.kind)
            return self.close(state, event, emit)
        stream, sign = self._into[event.tag.kind]
        row = weighted_row(event.payload, self._schemas[stream], self.weights.get(stream), sign)
        at = row[self._schemas[stream].index(self.at[stream])]
        if at is None:
            return state  # a row without a time is in no window
        return self.join(state, (None, {self.panes.pane(at): self._of_rows(stream, {row: 1})}))

    def _of_lane(self, kind_name: str, batch: EventBatch) -> Any:
        times = self._times(kind_name, batch)
        if None in times:  # such rows are in no window
            batch = batch.take(
                np.array([row for row, at in enumerate(times) if at is not None], dtype=np.int64)
            )
            times = [at for at in times if at is not None]
        starts = np.array([self.panes.pane(at) for at in times], dtype=np.int64)
        found = {}
        for start in np.unique(starts).tolist():
            part = batch.take(np.flatnonzero(starts == start))
            found[start] = super()._of_lane(kind_name, part)
        return (None, found)

    def _times(self, kind_name: str, batch: EventBatch) -> list[Any]:
        name = self.at[self._into[kind_name][0]]
        payload = batch.payload
        listed = payload[name] if isinstance(payload, dict) else [row.get(name) for row in to_list(payload)]
        return [None if one is None else conform(one, INT) for one in to_list(listed)]

    def close(self, state: Any, event: Event, emit: Emit) -> Any:
        """Emit the answer of each window that has ended since the last closing event; keep the panes that later windows need."""
        since, panes = state
        closed, kept = self.panes.closed(panes, event.ts, self._of_kept, since)
        for end, inside in closed:
            self._emit(self.answering.tables(inside[: len(self.held)]), self._with_end(emit, end))
        return (event.ts, kept)

    def _with_end(self, emit: Emit, end: int) -> _WithEnd:
        single = next(iter(self._ends)) if len(self._ends) == 1 else None
        return _WithEnd(emit, self._ends, single, end)


class _WithEnd:
    """An `emit` that puts the end of the window into the columns that have it, which are 0, or null. `single`: the name of the only output."""

    def __init__(self, emit: Emit, ends: Mapping[str, Sequence[str]], single: str | None, end: int) -> None:
        self._emit, self._ends, self._single, self._end = emit, ends, single, end
        take = getattr(emit, "column", None)
        self.column = None if take is None else lambda columns: take(self._ended(columns))

    def __call__(self, row: Any) -> None:
        """Emit a row."""
        ends = self._ends[self._single or row["output"]]
        self._emit(row | {name: self._end for name in ends if row[name] is not None})

    def _ended(self, columns: dict[str, Any]) -> dict[str, Any]:
        count = length(columns)
        if not count:
            return columns
        output = self._single or columns["output"][0].as_py()
        return columns | {name: _ends_in(columns[name], self._end) for name in self._ends[output]}


def _ends_in(column: Any, end: int) -> Any:
    """Return a column that has the end where it is not null."""
    return column + end if isinstance(column, np.ndarray) else pc.add(column, end)


def _copied(one: Compact) -> Compact:
    made = Compact(one.layout, dict(one.few), list(one.runs))
    made.is_sorted = one.is_sorted
    return made


__all__ = ["WindowedQuery", "program_of_query"]
