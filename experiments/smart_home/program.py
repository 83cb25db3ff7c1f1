"""Load prediction for smart homes: the case study of Appendix A.2, query 1 of the DEBS Grand Challenge of 2014.

Plugs report their load; a plug belongs to a household, and a household to a house. At the end of every time slice the program predicts the
load of each plug, household and house in the slice after the next, which is the mean of two things: its load in the slice that
ends, and its mean load at that time of day so far. The load of a household or a house is the sum of the mean loads of its plugs.

Loads are integers, and workers only add them up per plug. So each worker has only a sum and a number per plug for a slice, and sends only
these for a join.

>>> from dgs import Event
>>> program, outputs = LoadPrediction(every=60), []
>>> state = program.init()
>>> for tag, ts, load in [(LOAD(3), 0, 40), (LOAD(3), 10, 60), (LOAD(3), 20, 7), (SLICE(), 60, 0)]:
...     payload = {"household": 1, "plug": int(load == 7), "load": load}
...     state = program.update(state, Event(tag, "homes", ts, payload), outputs.append)
>>> outputs[0]
{'ts': 120, 'house': 3, 'household': None, 'plug': None, 'load': 57.0}
>>> [(output["household"], output["plug"], output["load"]) for output in outputs[1:]]
[(1, None, 57.0), (1, 0, 50.0), (1, 1, 7.0)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import dgs
from dgs.model import columns
from dgs.monoids import MEAN, MapOf, Windows
from dgs.monoids.contract import Cuts, field_of
from dgs.vectorised import by_tag

LOAD = dgs.kind("load", key=int)
"""The load of a plug, in the house that is the key."""
SLICE = dgs.kind("slice")
"""The end of a time slice, at its own time."""
DAY = 86_400
"""Seconds."""
BITS = 20
"""Houses, households and plugs have numbers below 2 ** BITS."""

Recent = dict[int, tuple[int, int]]
"""The sum and the number of the loads of each plug in the current slice."""
Place = tuple[int, int | None, int | None]
"""House, household, plug. A household has no plug, and a house neither."""
Past = dict[tuple[Place, int], tuple[float, int]]
"""The sum and the number of the loads of earlier slices, by place and time of day. Only joined states have it."""
State = tuple[Recent, Past]


class Loads:
    """The monoid of the loads of the current slice, with the past of earlier slices."""

    def __init__(self) -> None:
        self._recent = MapOf(MEAN, key="plug", value="load")

    def identity(self) -> State:
        """Return the state of no loads."""
        return {}, {}

    def lift(self, value: dict[str, int]) -> State:
        """Return the state of one load."""
        return self._recent.lift(value), {}

    def join(self, left: State, right: State) -> State:
        """Add up the loads by plug. Only one of the two has a past."""
        return self._recent.join(left[0], right[0]), left[1] or right[1]

    def fold(self, column: columns.Column) -> State:
        """Return the state of a column of loads."""
        return self._recent.fold(column), {}

    def windows(self, column: columns.Column, cuts: Cuts) -> list[State]:
        """Return the state of each slice."""
        return [(recent, {}) for recent in self._recent.windows(column, cuts)]

    def result(self, state: State) -> dict[Place, float]:
        """Return the mean load of each place that has one, in order: every house before its parts."""
        found: dict[Place, float] = {}
        for code, (total, count) in state[0].items():
            for place in _places(code):
                found[place] = found.get(place, 0.0) + total / count
        return {place: found[place] for place in sorted(found, key=_order)}


class LoadPrediction(Windows):
    """Emits at every end of a slice `{ts, house, household, plug, load}` for each place: the load predicted from `ts` on.

    `every`: the length of a slice in seconds. `slots`: the length of one time of day in seconds, at least `every`.
    """

    monoid = Loads()
    accumulates = (LOAD,)
    closes = (SLICE,)
    of_events = True

    def __init__(self, *, every: int = 3600, slots: int = 3600) -> None:
        self.every, self.slots = every, slots
        super().__init__()

    def value(self, event: dgs.Event) -> dict[str, int]:
        """Return the number of the plug, and its load."""
        payload = event.payload
        return {"plug": _code(event.tag.key, payload["household"], payload["plug"]), "load": payload["load"]}

    def column(self, batch: dgs.EventBatch) -> columns.Column:
        """Return the numbers of the plugs of a batch, and their loads."""
        house = by_tag(batch, [tag.key or 0 for tag in batch.tags])
        household, plug = (
            np.asarray(columns.to_list(field_of(batch.payload, name))) for name in ("household", "plug")
        )
        return {"plug": _code(house, household, plug), "load": field_of(batch.payload, "load")}

    def close(self, state: State, event: dgs.Event, emit: Callable[[Any], None]) -> State:
        """Predict the slice after the next, and store the one that ends."""
        _, past = state
        now = self.time_of_day(event.ts - self.every)
        then = self.time_of_day(event.ts + self.every)
        for place, load in self.monoid.result(state).items():
            total, count = past.get((place, then), (0.0, 0))
            predicted = (load + total / count) / 2 if count else load
            house, household, plug = place
            ts = event.ts + self.every
            emit({"ts": ts, "house": house, "household": household, "plug": plug, "load": predicted})
            total, count = past.get((place, now), (0.0, 0))
            past[place, now] = total + load, count + 1
        return {}, past

    def time_of_day(self, start: int) -> int:
        """Return the time of day of a slice, as a number."""
        return start % DAY // self.slots


def _code(house: Any, household: Any, plug: Any) -> Any:
    """Return a number for a plug, from numbers or columns of them."""
    return (house << 2 * BITS) + (household << BITS) + plug


def _places(code: int) -> Iterator[Place]:
    """Yield the house of a plug, its household, and the plug.

    >>> list(_places(_code(1, 2, 3)))
    [(1, None, None), (1, 2, None), (1, 2, 3)]
    """
    mask = (1 << BITS) - 1
    house, household, plug = code >> 2 * BITS, code >> BITS & mask, code & mask
    yield house, None, None
    yield house, household, None
    yield house, household, plug


def _order(place: Place) -> tuple[int, int, int]:
    house, household, plug = place
    return house, -1 if household is None else household, -1 if plug is None else plug
