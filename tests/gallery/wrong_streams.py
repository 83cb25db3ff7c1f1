"""More programs with one mistake each: stream programs, and mistakes that do not show in one process.

>>> WRONG["lists_a_set"].laws
('resume', 'elsewhere')
"""

from __future__ import annotations

import datetime as dt
import time
from fractions import Fraction

import numpy as np

from dgs.keyed import KeyedState
from dgs.model import columns
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.events import Event
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet
from tests.gallery.wrong import (
    BARRIER,
    CELL,
    GET,
    INC,
    PUT,
    READ,
    VALUE,
    WRONG,
    A,
    B,
    Counters,
    Window,
    breaks,
)

__all__ = ["WRONG"]


@breaks("lists_a_set", "resume", "elsewhere")
class ListsASet(Program):
    """The order of a set of texts differs between processes."""

    def init(self):
        return set()

    def update(self, state, event: Event[str], emit):
        state.add(event.payload)
        emit(list(state))
        return state


@breaks("lists_a_dict", "plans")
class ListsADict(Program):
    """Equal states that list their keys in the order in which independent events came."""

    depends = Dependence((PUT, PUT, SAME_KEY), (BARRIER, PUT, ALWAYS), (BARRIER, BARRIER, ALWAYS))

    def init(self):
        return {}

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == BARRIER:
            emit(list(state.items()))
            return {}
        return {**state, event.tag.key: event.payload}

    def fork(self, state, left, right):
        theirs = {k: v for k, v in state.items() if PUT(k) in right}
        return {k: v for k, v in state.items() if k not in theirs}, theirs

    def join(self, left, right):
        return {**left, **right}


@breaks("one_for_true", "plans")
class OneForTrue(Program):
    """Equal states, one with True and the other with 1."""

    depends = Dependence((BARRIER, VALUE, ALWAYS), (BARRIER, BARRIER, ALWAYS))

    def init(self):
        return 0

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == BARRIER:
            emit(str(state))
            return 0
        return state or bool(event.payload) or 0

    def fork(self, state, left, right):
        return state, 0

    def join(self, left, right):
        return max(int(left), int(right))


@breaks("hash_of_texts", "elsewhere")
class HashOfTexts(Program):
    """Keys are put into buckets by a hash that differs between processes."""

    depends = Dependence((PUT, PUT, SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event: Event[int], emit):
        emit((hash(event.tag.key) % 2, event.payload))
        return state


@breaks("days", "elsewhere")
class Days(Window):
    """A clock so coarse that two runs see the same time."""

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == BARRIER:
            emit(int(time.time()) // 86_400)
        return super().update(state, event, emit)


@breaks("today", "elsewhere")
class Today(Window):
    def update(self, state, event: Event[int], emit):
        if event.tag.kind == BARRIER:
            emit(dt.date.today().isoformat())  # noqa: DTZ011 - that is the mistake
        return super().update(state, event, emit)


@breaks("this_hour", "elsewhere")
class ThisHour(Window):
    def update(self, state, event: Event[int], emit):
        if event.tag.kind == BARRIER:
            emit(dt.datetime.now().strftime("%Y-%m-%d %H"))  # noqa: DTZ005 - that is the mistake
        return super().update(state, event, emit)


@breaks("even_cells_only", "C3")
class EvenCellsOnly(Counters):
    """A predicate that forgets some of the keys."""

    depends = Dependence((INC, READ, lambda a, b: a.key == b.key and a.key % 2 == 0), (READ, READ, SAME_KEY))


@breaks("batch_of_32_bits", "batch")
class BatchOf32Bits(Window):
    """Sums wrap around, but not in `update`."""

    def update_batch(self, state, batch, emit_batch):
        for row, event in enumerate(batch.events()):
            if event.tag.kind == BARRIER:
                emit_batch([state], np.array([row]))
                state = 0
            else:
                state = int(np.int64(state + event.payload).astype(np.int32))
        return state


@breaks("windows_by_reduceat", "windows")
class WindowsByReduceat(Window):
    """`reduceat` gives an empty window the value after it."""

    def update_windows(self, batch, cuts):
        values = np.array([*columns.to_list(batch.payload), 0])
        return np.add.reduceat(values, np.concatenate([[0], cuts]))


@breaks("mean_of_means", "accumulation", "C1")
class MeanOfMeans(Window):
    """Joining averages two means as if both were of as many values."""

    def init(self):
        return (0, 0)

    def identity(self):
        return (0, 0)

    def update(self, state, event: Event[int], emit):
        count, mean = state
        if event.tag.kind == VALUE:
            return count + 1, mean + Fraction(event.payload - mean, count + 1)
        emit(mean)
        return (0, 0)

    def join(self, left, right):
        both = left[0] and right[0]
        return left[0] + right[0], Fraction(left[1] + right[1], 2) if both else left[1] + right[1]


@breaks("top_two_by_arrival", "C3")
class TopTwoByArrival(Window):
    """Of equal scores the first ones stay."""

    def init(self):
        return []

    def identity(self):
        return []

    def update(self, state, event: Event[tuple[int, str]], emit):
        if event.tag.kind == VALUE:
            return self.join(state, [event.payload])
        emit(list(state))
        return []

    def join(self, left, right):
        return sorted(left + right, key=lambda scored: -scored[0])[:2]


@breaks("cursor_on_both_sides", "C2")
class CursorOnBothSides(Counters):
    """The number of events so far goes to both sides and is added up."""

    depends = Dependence((INC, INC, SAME_KEY), (INC, READ, SAME_KEY), (READ, READ, SAME_KEY))

    def init(self):
        return {"events": 0, "counts": {}}

    def update(self, state, event: Event[int], emit):
        return {
            "events": state["events"] + 1,
            "counts": super().update(state["counts"], event, emit),
        }

    def fork(self, state, left, right):
        theirs = {k: v for k, v in state["counts"].items() if INC(k) in right or READ(k) in right}
        mine = {k: v for k, v in state["counts"].items() if k not in theirs}
        return {"events": state["events"], "counts": mine}, {"events": state["events"], "counts": theirs}

    def join(self, left, right):
        return {"events": left["events"] + right["events"], "counts": left["counts"] | right["counts"]}


@breaks("one_wrong_triple", "C1")
class OneWrongTriple(Program):
    """The inner one of two fork-join pairs loses the counts of both sides."""

    kinds = (A, B, CELL)
    depends = Dependence((A, A, ALWAYS), (B, B, ALWAYS))

    def init(self):
        return {"b": 0, "cells": {}}

    def states(self):
        return (
            StateType("all", TagSet.of(B, CELL), self.update),
            StateType("b", TagSet.of(B), lambda state, event, _emit: state + event.payload),
            StateType("cells", TagSet.of(CELL), self.cell),
        )

    def fork_joins(self):
        return (
            ForkJoin(
                "split",
                "all",
                "b",
                "cells",
                lambda s, _l, _r: (s["b"], s["cells"]),
                lambda b, c: {"b": b, "cells": c},
            ),
            ForkJoin("halve", "cells", "cells", "cells", lambda s, _l, _r: (s, {}), lambda a, b: a | b),
        )

    def cell(self, state, event, emit):
        return {**state, event.tag.key: state.get(event.tag.key, 0) + 1}

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == B:
            return {**state, "b": state["b"] + event.payload}
        return {**state, "cells": self.cell(state["cells"], event, emit)}


TTL = 60_000


@breaks("forgets_others", "C3")
class ForgetsOthers(KeyedState):
    """Drops expired entries of all keys at the next event of any key."""

    changes = (PUT,)

    def update(self, state, event: Event[int], emit):
        state = {key: ts for key, ts in state.items() if event.ts - ts <= TTL}
        if event.tag.key not in state:
            emit(event.payload)
        return {**state, event.tag.key: event.ts}


@breaks("latest_of_a_tie", "C3")
class LatestOfATie(Window):
    """The last writer wins, by time; among events of one time the last to arrive."""

    accumulates = ()

    def init(self):
        return (0, 0)

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == BARRIER:
            emit(state)
            return state
        return max(state, (event.ts, event.payload), key=lambda one: one[0])

    def fork(self, state, left, right):
        return state, state

    def join(self, left, right):
        return max(left, right)


@breaks("copies_outlive_removals", "C1")
class CopiesOutliveRemovals(Program):
    """Both sides get everything: an entry that one side removes is still on the other."""

    depends = Dependence((PUT, PUT, SAME_KEY), (PUT, GET, SAME_KEY), (GET, GET, SAME_KEY))

    def init(self):
        return frozenset()

    def update(self, state, event: Event[None], emit):
        key = event.tag.key
        return state | {key} if event.tag.kind == PUT else state - {key}

    def fork(self, state, left, right):
        return state, state

    def join(self, left, right):
        return left | right
