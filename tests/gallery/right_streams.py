"""More right and unusual programs: counterparts of those in `wrong_streams`.

>>> "least_recently_used" in RIGHT
True
"""

from __future__ import annotations

import time
from collections import OrderedDict
from fractions import Fraction

import numpy as np

from dgs.keyed import KeyedState
from dgs.model import columns
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.events import Event
from dgs.model.program import Program
from tests.gallery.right import BARRIER, GET, PUT, RIGHT, VALUE, A, B, right

__all__ = ["RIGHT"]


class Window(Program):
    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))
    accumulates = (VALUE,)

    def identity(self):
        return self.init()


@right("least_recently_used")
class LeastRecentlyUsed(Program):
    """The order of entries counts, and the codec keeps it for an OrderedDict."""

    kinds = (PUT, GET)

    def init(self):
        return OrderedDict()

    def update(self, state, event: Event[int], emit):
        key = event.tag.key
        if event.tag.kind == PUT:
            state[key] = event.payload
        else:
            emit((key, state.get(key)))
        if key in state:
            state.move_to_end(key)
        if len(state) > 2:
            state.popitem(last=False)
        return state


@right("sessions")
class Sessions(Window):
    """Merges spans of time that are at most 2 apart, on any worker."""

    def init(self):
        return []

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == VALUE:
            return self.join(state, [(event.payload, event.payload)])
        for span in state:
            emit(span)
        return []

    def join(self, left, right):
        spans = []
        for start, end in sorted(left + right):
            if spans and start - spans[-1][1] <= 2:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start, end))
        return spans


@right("true_mean")
class TrueMean(Window):
    """Count and sum, and prefix sums for many windows; large numbers are exact."""

    def init(self):
        return (0, 0)

    def update(self, state, event: Event[int], emit):
        count, total = state
        if event.tag.kind == VALUE:
            return count + 1, total + event.payload
        emit(Fraction(total, count) if count else None)
        return (0, 0)

    def update_windows(self, batch, cuts):
        sums = np.concatenate([[0], np.cumsum(columns.to_list(batch.payload))])
        edges = np.concatenate([[0], cuts, [len(batch)]])
        return list(zip(np.diff(edges).tolist(), np.diff(sums[edges]).tolist(), strict=True))

    def join(self, left, right):
        return left[0] + right[0], left[1] + right[1]


@right("masked")
class Masked(Program):
    """A fork that splits the state into two parts without a meaning of their own."""

    kinds = (A, B)
    depends = Dependence()

    def init(self):
        return 0

    def update(self, state, event: Event[int], emit):
        return state ^ (event.payload & 255)

    def fork(self, state, left, right):
        return state ^ 170, 170

    def join(self, left, right):
        return left ^ right


@right("measures_itself")
class MeasuresItself(Window):
    """Reads a clock, without effect on states and outputs; payloads are amounts of work."""

    def __init__(self):
        self.seconds = 0.0

    def init(self):
        return 0

    def update(self, state, event: Event[int], emit):
        started = time.perf_counter()
        if event.tag.kind == VALUE:
            state += sum(1 for _ in range(abs(event.payload)))
        else:
            emit(state)
            state = 0
        self.seconds += time.perf_counter() - started
        return state

    def update_batch(self, state, batch, emit_batch):
        for row, event in enumerate(batch.events()):
            state = self.update(state, event, lambda value, row=row: emit_batch([value], np.array([row])))
        return state

    def join(self, left, right):
        return left + right


@right("expires")
class Expires(KeyedState):
    """An entry counts for a minute, and is dropped by the next event of its key."""

    changes = (PUT,)

    def update(self, state, event: Event[int], emit):
        seen = state.get(event.tag.key)
        if seen is None or event.ts - seen > 60_000:
            emit(event.payload)
        return {**state, event.tag.key: event.ts}


@right("broadcasts_a_model")
class BroadcastsAModel(Program):
    """All shards read a model and add up values for the next one. Join takes the model from the left, since both sides have it."""

    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))

    def init(self):
        return {"model": 0, "sum": 0}

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == VALUE:
            return {**state, "sum": state["sum"] + event.payload - state["model"]}
        emit(state)
        return {"model": state["model"] + state["sum"] // 2, "sum": 0}

    def fork(self, state, left, right):
        return state, {**state, "sum": 0}

    def join(self, left, right):
        return {**left, "sum": left["sum"] + right["sum"]}


@right("broadcasts_a_limit")
class BroadcastsALimit(Program):
    """A limit for all keys, and the sum spent by each key."""

    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, PUT, ALWAYS), (PUT, PUT, SAME_KEY))

    def init(self):
        return 5, {}

    def update(self, state, event: Event[int], emit):
        limit, spent = state
        if event.tag.kind == BARRIER:
            return event.payload, spent
        total = spent.get(event.tag.key, 0) + event.payload
        if total > limit:
            emit((event.tag.key, total - limit))
        return limit, {**spent, event.tag.key: total}

    def fork(self, state, left, right):
        limit, spent = state
        mine = {key: total for key, total in spent.items() if PUT(key) in right}
        return (limit, {key: total for key, total in spent.items() if key not in mine}), (limit, mine)

    def join(self, left, right):
        return left[0], left[1] | right[1]


@right("first_in_dict_order")
class FirstInDictOrder(Program):
    """A queue that is a dict: a checkpoint keeps the order of its entries."""

    depends = Dependence((PUT, PUT, ALWAYS), (PUT, GET, ALWAYS), (GET, GET, ALWAYS))

    def init(self):
        return {}

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == PUT:
            state.setdefault(event.tag.key, event.payload)
        elif state:
            oldest = next(iter(state))
            emit((oldest, state.pop(oldest)))
        return state
