"""Page-view join on real data: every departure from New York in 2013, joined with the latest weather of its airport.

>>> from dgs import Event
>>> program, outputs = FlightsJoin(), []
>>> state = program.update(program.init(), Event(UPDATE("JFK"), "weather", 0, {"temp": 39.0}), outputs.append)
>>> state = program.update(state, Event(VIEW("JFK"), "flights", 0, {"flight": 1141}), outputs.append)
>>> outputs
[{'airport': 'JFK', 'replaced': None}, {'flight': {'flight': 1141}, 'weather': {'temp': 39.0}}]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dgs
from dgs.keyed import KeyedState

AIRPORTS = ("EWR", "JFK", "LGA")

UPDATE = dgs.kind("update", key=AIRPORTS)
"""A weather report of an airport."""
VIEW = dgs.kind("view", key=AIRPORTS)
"""A departure from an airport."""

Record = dict[str, Any]
State = dict[str, Record]
"""The latest report of each airport, if there is one."""


class FlightsJoin(KeyedState):
    """Emits `{flight, weather}` for every departure, and `{airport, replaced}`, the old report, for every report."""

    changes = (UPDATE,)
    reads = (VIEW,)

    def update(self, state: State, event: dgs.Event, emit: Callable[[Any], None]) -> State:
        """Join a departure with the weather of its airport, or store a report."""
        airport = event.tag.key
        if event.tag.kind == VIEW:
            emit({"flight": event.payload, "weather": state.get(airport)})
        else:
            emit({"airport": airport, "replaced": state.get(airport)})
            state[airport] = event.payload
        return state
