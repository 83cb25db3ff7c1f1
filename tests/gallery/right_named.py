"""More right programs: counterparts of those in `wrong_named`, and some with misleading numbers and texts in their code.

>>> "percentages" in RIGHT
True
"""

from __future__ import annotations

import numpy as np

from dgs.model import columns
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.events import Event
from dgs.model.program import Program
from dgs.model.tags import kind
from dgs.vectorised import by_kind, by_tag
from tests.gallery.right import BARRIER, GET, PUT, RIGHT, right
from tests.gallery.right_streams import Window

__all__ = ["RIGHT"]

ORDER = kind("order", key=int)


class Sum(Window):
    def init(self):
        return 0

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == BARRIER:
            emit(state)
            return 0
        return self.added(state, event.payload)

    def join(self, left, right):
        return left + right


@right("percentages")
class Percentages(Sum):
    """Raises for more than a hundred: the type hint is int, but payloads are percentages."""

    def added(self, state, payload):
        if payload > 100:
            raise ValueError(payload)
        return state + payload


@right("sizes")
class Sizes(Sum):
    """Payloads are sizes of lists to make; the limit is far too large to make."""

    LIMIT = 200_000_000

    def added(self, state, payload):
        return state + len(bytearray(min(abs(payload), self.LIMIT)))


@right("saturating")
class Saturating(Sum):
    """At most a hundred points; points are never removed."""

    def added(self, state, payload):
        return min(100, state + abs(payload))

    def join(self, left, right):
        return min(100, left + right)


@right("overrides_all_of_update")
class OverridesAllOfUpdate(Sum):
    """Kinds that only the overridden method uses are not the program's."""

    accumulates = (PUT,)
    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, PUT, ALWAYS))

    def init(self):
        return {}

    def update(self, state, event: Event[str], emit):
        if event.tag.kind == BARRIER:
            emit(sorted(state.items()))
            return state
        return self.join(state, {event.tag.key: (event.ts, event.payload)})

    def join(self, left, right):
        return {key: max(one[key] for one in (left, right) if key in one) for key in left | right}


@right("ranges_of_keys")
class RangesOfKeys(Program):
    """A hundred keys share a counter, and depend on each other."""

    depends = Dependence((ORDER, ORDER, lambda a, b: a.key // 100 == b.key // 100))

    def init(self):
        return {}

    def update(self, state, event: Event[int], emit):
        place = event.tag.key // 100
        emit((place, state.get(place, 0)))
        return {**state, place: event.payload}

    def fork(self, state, left, right):
        theirs = {
            place for place in state if any(ORDER(100 * place + number) in right for number in range(100))
        }
        return {key: state[key] for key in state if key not in theirs}, {key: state[key] for key in theirs}

    def join(self, left, right):
        return left | right


@right("outputs_in_one_call")
class OutputsInOneCall(Program):
    """Two outputs of an event of one kind, one of the other, and one call for each run."""

    depends = Dependence((PUT, PUT, SAME_KEY), (PUT, GET, SAME_KEY))

    def init(self):
        return 0

    def update(self, state, event: Event[int], emit):
        emit(event.tag.key)
        if event.tag.kind == PUT:
            emit(event.payload)
        return state

    def update_batch(self, state, batch, emit_batch):
        for name, run, emit in by_kind(batch, emit_batch):
            if name == GET:
                emit(by_tag(run, [tag.key for tag in run.tags]))
            else:
                values = [value for event in run.events() for value in (event.tag.key, event.payload)]
                emit(values, np.repeat(np.arange(len(run)), 2))
        return state


@right("outputs_in_two_calls")
class OutputsInTwoCalls(Program):
    """First the outputs of all events, then further outputs of some events."""

    depends = Dependence((PUT, PUT, SAME_KEY))

    def init(self):
        return 0

    def update(self, state, event: Event[int], emit):
        emit(event.payload)
        if event.payload < 0:
            emit("negative")
        return state

    def update_batch(self, state, batch, emit_batch):
        values = columns.to_list(batch.payload)
        emit_batch(values)
        negative = [row for row, value in enumerate(values) if value < 0]
        emit_batch(["negative"] * len(negative), np.array(negative, int))
        return state
