"""Smart homes with gaps filled: loads are interpolated, averaged by group at every instant, and predicted.

A reading of a place at time t, after one at u, stands for readings at u + 1, ..., t on a straight line between the two. So the readings of
a place depend on each other. At the end of a block of time the program averages the points of each group at every instant, and
predicts the next average from the last `period` of them. With `hold` a place without a reading keeps its load until the block ends.

>>> from dgs import Event
>>> program, outputs = InterpolatedLoads(period=10), []
>>> state = program.init()
>>> for tag, ts, load in [(READING("p"), 7, 10), (READING("p"), 9, 20), (BLOCK(), 10, None)]:
...     state = program.update(state, Event(tag, "homes", ts, load), outputs.append)
>>> outputs
[{'end': 10, 'rows': [(7, 'p', 10.0, 10.0), (8, 'p', 15.0, 13.75), (9, 'p', 20.0, 17.5)]}]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import dgs

READING = dgs.kind("reading", key=str)
BLOCK = dgs.kind("block")
"""The end of a block of time."""

Places = dict[str, tuple[int, int]]
"""Time and load of the last reading of each place."""
Points = dict[tuple[str, int], list[float]]
"""By group and instant: the loads of the current block, in increasing order."""
Past = dict[str, list[float]]
"""The last averages of each group."""
State = tuple[Places, Points, Past]


class InterpolatedLoads(dgs.Program):
    """Emits at the end of every block `{end, rows}` with rows (instant, group, average, prediction).

    `groups`: the group of a place, by default its own. `period`: the averages that a prediction uses, and the instants of a day.
    """

    depends = dgs.Dependence(
        (READING, READING, dgs.SAME_KEY), (BLOCK, READING, dgs.ALWAYS), (BLOCK, BLOCK, dgs.ALWAYS)
    )

    def __init__(self, *, period: int, hold: bool = False, groups: Mapping[str, str] | None = None) -> None:
        self.period, self.hold, self.groups = period, hold, dict(groups or {})

    def init(self) -> State:
        """Return a state without readings."""
        return {}, {}, {}

    def update(self, state: State, event: dgs.Event, emit: Callable[[Any], None]) -> State:
        """Interpolate up to a reading, or end a block."""
        places, points, past = state
        if event.tag.kind == READING:
            self._read(places, points, event.tag.key, event.ts, event.payload)
            return state
        if self.hold:
            for place, (ts, load) in sorted(places.items()):
                for instant in range(ts + 1, event.ts):
                    self._add(points, place, instant, load)
                places[place] = max(ts, event.ts - 1), load
        emit({"end": event.ts, "rows": list(self._rows(points, past))})
        return places, {}, past

    def fork(self, state: State, left: dgs.TagSet, right: dgs.TagSet) -> tuple[State, State]:  # noqa: ARG002 - the contract
        """Give each side its places, and the rest to the left side; if blocks end on the right, give it everything."""
        places, points, past = state
        if BLOCK in right:
            return ({}, {}, {}), state
        theirs = {place for place in places if READING(place) in right}
        ours = {place: last for place, last in places.items() if place not in theirs}
        return (ours, points, past), ({place: places[place] for place in theirs}, {}, {})

    def join(self, left: State, right: State) -> State:
        """Put places and points together."""
        points = dict(left[1])
        for at, loads in right[1].items():
            points[at] = sorted([*points.get(at, []), *loads])
        return left[0] | right[0], points, left[2] or right[2]

    def _read(self, places: Places, points: Points, place: str, ts: int, load: int) -> None:
        before, last = places.get(place, (ts - 1, load))
        gap = ts - before
        for step in range(1, gap + 1):
            self._add(points, place, before + step, last + step * (load - last) / gap)
        places[place] = ts, load

    def _add(self, points: Points, place: str, instant: int, load: float) -> None:
        at = self.groups.get(place, place), instant
        points[at] = sorted([*points.get(at, []), float(load)])

    def _rows(self, points: Points, past: Past) -> Iterator[tuple[int, str, float, float]]:
        for group, instant in sorted(points):
            loads = points[group, instant]
            average = math.fsum(loads) / len(loads)
            last = past[group] = [*past.get(group, []), average][-self.period :]
            mean = math.fsum(last) / len(last)
            yield instant, group, average, self._predicted(instant, average, mean)

    def _predicted(self, instant: int, average: float, mean: float) -> float:
        """Return the average itself in the first quarter of a day, later the mean, or the middle of the two if the average is higher."""
        if instant % self.period < self.period / 4:
            return average
        return (mean + average) / 2 if average > mean else mean
