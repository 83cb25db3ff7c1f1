"""Queries over windows as programs: leaves keep panes, and an event that closes answers each window that has ended, once.

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

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dgs.model.columns import to_list
from dgs.model.events import Event, EventBatch
from dgs.model.program import Emit
from dgs.query.compact import Compact
from dgs.query.compact.payloads import weighted_row
from dgs.query.errors import QueryError
from dgs.query.program import QueryProgram
from dgs.query.relation import Relation, Script
from dgs.query.windowing.window_panes import Windowed, windowed

PanedState = tuple[int | None, dict[int, Any]]
"""The time of the last closing event, and the states of panes by their starts."""


def program_of_query(query: Script | Relation | Mapping[str, Relation], **options: Any) -> QueryProgram:
    """Return the program of a query: of its windows, if all streams are read through windows. `options`: see `QueryProgram`."""
    script = Script.of(query)
    whole = windowed(script)
    is_plain = options.get("output", "snapshot") == "snapshot" and not options.get("resets", False)
    return (
        WindowedQuery(whole, **options) if whole is not None and is_plain else QueryProgram(script, **options)
    )


class WindowedQuery(QueryProgram):
    """A program that answers a query over each window. Closing events at the ends of windows come before the rows of that time."""

    def __init__(self, whole: Windowed, **options: Any) -> None:
        self.panes, self._at, self._ends = whole.panes, whole.at, whole.ends
        super().__init__(whole.script, **options)

    @property
    def reach(self) -> int:
        """The size of a window: so far behind the last row all windows have ended."""
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
        """Return the state of several panes, which stay as they are: a join owns what it gets."""
        return self._of_states([tuple(map(_copied, one)) for one in states])

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        """Add a row to its pane, or answer the windows that have ended."""
        if event.tag.kind not in self._into:
            self.check_closing(event.tag.kind)
            return self.close(state, event, emit)
        stream, sign = self._into[event.tag.kind]
        row = weighted_row(event.payload, self._schemas[stream], self.weights.get(stream), sign)
        at = row[self._schemas[stream].index(self._at[stream])]
        return self.join(state, (None, {self.panes.pane(_time(at, stream)): self._of_rows(stream, {row: 1})}))

    def _of_lane(self, kind_name: str, batch: EventBatch) -> Any:
        starts = np.array([self.panes.pane(at) for at in self._times(kind_name, batch)], dtype=np.int64)
        found = {}
        for start in np.unique(starts).tolist():
            part = batch.take(np.flatnonzero(starts == start))
            found[start] = super()._of_lane(kind_name, part)
        return (None, found)

    def _times(self, kind_name: str, batch: EventBatch) -> list[int]:
        name = self._at[self._into[kind_name][0]]
        payload = batch.payload
        listed = payload[name] if isinstance(payload, dict) else [row[name] for row in to_list(payload)]
        return [_time(one, kind_name) for one in to_list(listed)]

    def close(self, state: Any, event: Event, emit: Emit) -> Any:
        """Emit the answer of each window that has ended since the last closing event; keep the panes that others need."""
        since, panes = state
        closed, kept = self.panes.closed(panes, event.ts, self._of_kept, since)
        for end, inside in closed:
            self._emit(self.answering.tables(inside[: len(self.held)]), self._with_end(emit, end))
        return (event.ts, kept)

    def _with_end(self, emit: Emit, end: int) -> Callable[[Any], None]:
        """Return an `emit` that puts the end of the window into the columns that have it."""
        single = next(iter(self._ends)) if len(self._ends) == 1 else None

        def put(row: Any) -> None:
            names = self._ends[single or row["output"]]
            emit(row | dict.fromkeys(names, end))

        return put


def _copied(one: Compact) -> Compact:
    made = Compact(one.layout, dict(one.few), list(one.runs))
    made.is_sorted = one.is_sorted
    return made


def _time(value: Any, stream: str) -> int:
    if isinstance(value, int):
        return value
    raise QueryError.of("Q703", f"a row of {stream!r} without a time")


__all__ = ["WindowedQuery", "program_of_query"]
