"""Programs with one typical mistake each, and the law that it breaks. `dgs check` must name that law.

>>> sorted(WRONG)[:2], WRONG["fork_duplicates"].laws
(['accumulates_products', 'accumulates_what_reads'], ('C2',))
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dgs.model import columns
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.events import Event
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet
from dgs.model.tags import kind

INC, READ = kind("inc", key=int), kind("read", key=int)
VALUE, BARRIER = kind("value"), kind("barrier")
PUT, GET = kind("put", key=str), kind("get", key=str)
CELL = kind("cell", key=range(4))
A, B = kind("a"), kind("b")


@dataclass(frozen=True)
class Wrong:
    """A wrong program and the laws that may be named for it, the best one first."""

    make: Callable[[], Program]
    laws: tuple[str, ...]


WRONG: dict[str, Wrong] = {}


def breaks(name: str, *laws: str):
    def register(cls):
        WRONG[name] = Wrong(cls, laws)
        return cls

    return register


class Counters(Program):
    """Right so far: counters by key; `read` outputs and resets."""

    depends = Dependence((INC, READ, SAME_KEY), (READ, READ, SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event: Event[int], emit):
        key = event.tag.key
        if event.tag.kind == INC:
            state[key] = state.get(key, 0) + 1
        else:
            emit((key, state.pop(key, 0)))
        return state

    def fork(self, state, left, right):
        theirs = {k: v for k, v in state.items() if READ(k) in right}
        return {k: v for k, v in state.items() if k not in theirs}, theirs

    def join(self, left, right):
        return {k: left.get(k, 0) + right.get(k, 0) for k in left | right}


class Window(Program):
    """Right so far: the sum of values between barriers."""

    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))
    accumulates = (VALUE,)

    def init(self):
        return 0

    def identity(self):
        return 0

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == VALUE:
            return state + event.payload
        emit(state)
        return 0

    def join(self, left, right):
        return left + right


class Latest(Program):
    """Right so far: `get` outputs the last `put` of its key."""

    depends = Dependence((PUT, PUT, SAME_KEY), (PUT, GET, SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event: Event[int], emit):
        key = event.tag.key
        if event.tag.kind == PUT:
            state[key] = event.payload
        else:
            emit((key, state.get(key)))
        return state

    def fork(self, state, left, right):
        theirs = {k: v for k, v in state.items() if PUT(k) in right or GET(k) in right}
        return {k: v for k, v in state.items() if k not in theirs or GET(k) in left}, theirs

    def join(self, left, right):
        return left | right


@breaks("fork_duplicates", "C2")
class ForkDuplicates(Counters):
    def fork(self, state, left, right):
        return dict(state), dict(state)


@breaks("fork_drops_unseen", "C2")
class ForkDropsUnseen(Latest):
    def fork(self, state, left, right):
        return tuple(
            {k: v for k, v in state.items() if PUT(k) in side or GET(k) in side} for side in (left, right)
        )


@breaks("join_drops_key", "C1", "C2")
class JoinDropsKey(Counters):
    def join(self, left, right):
        return {k: v + right.get(k, 0) for k, v in left.items()}


@breaks("join_keeps_left", "C1")
class JoinKeepsLeft(Counters):
    def fork(self, state, left, right):
        return dict(state), dict(state)

    def join(self, left, right):
        return left


@breaks("join_subtracts", "C1")
class JoinSubtracts(Window):
    """Not commutative over independent events: the right side is subtracted."""

    accumulates = ()
    identity = Program.identity

    def fork(self, state, left, right):
        return (0, -state) if BARRIER in right else (state, 0)

    def join(self, left, right):
        return left - right


@breaks("join_takes_larger", "C1")
class JoinTakesLarger(Counters):
    """As if the counters of both sides were copies of one."""

    def join(self, left, right):
        return {k: max(left.get(k, 0), right.get(k, 0)) for k in left | right}


@breaks("join_prefers_stale", "C1")
class JoinPrefersStale(Latest):
    """Everything is copied, and the left copy wins, although only the right side may have written."""

    def fork(self, state, left, right):
        return dict(state), dict(state)

    def join(self, left, right):
        return right | left


@breaks("fork_withholds", "C1")
class ForkWithholds(Latest):
    """Keys read on both sides are given to the right only: the left outputs None."""

    def fork(self, state, left, right):
        theirs = {k: v for k, v in state.items() if PUT(k) in right or GET(k) in right}
        return {k: v for k, v in state.items() if k not in theirs}, theirs


@breaks("fork_ignores_tags", "C1")
class ForkIgnoresTags(Counters):
    """Gives everything to the left, also where the reads are on the right."""

    def fork(self, state, left, right):
        return state, {}


@breaks("missing_pair", "C3")
class MissingPair(Counters):
    depends = Dependence((READ, READ, SAME_KEY))


@breaks("missing_self", "C3")
class MissingSelf(Latest):
    """Two puts of a key do not commute."""

    depends = Dependence((PUT, GET, SAME_KEY))


@breaks("missing_across_keys", "C3")
class MissingAcrossKeys(Counters):
    """A read outputs the total of all keys."""

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == READ:
            emit(sum(state.values()))
            return state
        return super().update(state, event, emit)


@breaks("asymmetric", "dependence")
class Asymmetric(Program):
    kinds = (CELL,)

    def depends(self, a, b):
        return a.key in (b.key, b.key + 1)

    def init(self):
        return 0

    def update(self, state, event, emit):
        return state


@breaks("partial_relation", "dependence")
class PartialRelation(Asymmetric):
    """Fails for some tags."""

    def depends(self, a, b):
        return {0: 1, 1: 2, 2: 3}[a.key] == b.key


SHARED: dict[int, int] = {}


@breaks("shared_default", "ownership")
class SharedDefault(Counters):
    def init(self):
        return SHARED


@breaks("emits_its_state", "ownership")
class EmitsItsState(Program):
    """The output is the same list to which later events are appended."""

    def init(self):
        return []

    def update(self, state, event: Event[int], emit):
        state.append(event.payload)
        emit(state)
        return state


@breaks("changes_payload", "ownership")
class ChangesPayload(Program):
    def init(self):
        return 0

    def update(self, state, event: Event[list[int]], emit):
        event.payload.sort()
        event.payload.append(state)
        return state + 1


@breaks("fork_aliases", "ownership")
class ForkAliases(Latest):
    """Both sides get the same dictionary."""

    def fork(self, state, left, right):
        return state, state


@breaks("remembers_on_self", "determinism")
class RemembersOnSelf(Window):
    def __init__(self):
        self.seen = 0

    def update(self, state, event: Event[int], emit):
        self.seen += 1
        if event.tag.kind == BARRIER:
            emit(self.seen)
        return super().update(state, event, emit)


@breaks("uses_random", "determinism")
class UsesRandom(Window):
    def update(self, state, event: Event[int], emit):
        if event.tag.kind == VALUE and random.random() < 0.5:
            return state
        return super().update(state, event, emit)


@breaks("uses_the_clock", "determinism")
class UsesTheClock(Window):
    def update(self, state, event: Event[int], emit):
        if event.tag.kind == BARRIER:
            emit(time.perf_counter_ns())
        return super().update(state, event, emit)


@breaks("batch_off_by_one", "batch")
class BatchOffByOne(Window):
    """Outputs the sum at a barrier, and counts the barrier's predecessor in the next window, too."""

    def update_batch(self, state, batch, emit_batch):
        amounts = [0 if e.tag.kind == BARRIER else e.payload for e in batch.events()]
        start = 0
        for row, tag in enumerate(batch.tag_list()):
            if tag.kind == BARRIER:
                emit_batch([state + sum(amounts[start:row])], np.array([row]))
                state, start = 0, max(row - 1, 0)
        return state + sum(amounts[start:])


@breaks("batch_forgets_carry", "batch")
class BatchForgetsCarry(Window):
    """Right for whole windows, wrong when a batch ends inside of one."""

    def update_batch(self, state, batch, emit_batch):
        total = 0
        for row, event in enumerate(batch.events()):
            if event.tag.kind == VALUE:
                total += event.payload
            else:
                emit_batch([total], np.array([row]))
                total = 0
        return total


@breaks("batch_shifts_rows", "batch", "errors")
class BatchShiftsRows(Latest):
    """The values are right, but at the rows of other events."""

    def update_batch(self, state, batch, emit_batch):
        values = []
        for event in batch.events():
            state = self.update(state, event, values.append)
        if values:
            emit_batch(values, np.arange(len(values)))
        return state


@breaks("windows_overlap", "windows")
class WindowsOverlap(Window):
    def update_windows(self, batch, cuts):
        values = columns.to_list(batch.payload)
        bounds = [0, *cuts.tolist(), len(values) - 1]
        return [sum(values[i : j + 1]) for i, j in pairwise(bounds)]


@breaks("identity_counts", "identity")
class IdentityCounts(Window):
    """One is neutral for products."""

    def identity(self):
        return 1


@breaks("identity_is_zero", "identity", "accumulation")
class IdentityIsZero(Window):
    """Zero is not neutral for the greatest of numbers that may be negative."""

    def init(self):
        return -1000

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == VALUE:
            return max(state, event.payload)
        emit(state)
        return -1000

    def join(self, left, right):
        return max(left, right)


@breaks("accumulates_what_reads", "accumulation", "C3")
class AccumulatesWhatReads(Window):
    """A value outputs the sum so far: it commutes with nothing, and does not accumulate."""

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == VALUE:
            emit(state)
        return super().update(state, event, emit)


@breaks("accumulates_products", "accumulation")
class AccumulatesProducts(Window):
    """Values multiply the state instead of adding to it."""

    def init(self):
        return 0

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == VALUE:
            return (state + 1) * 2 - 1
        emit(state)
        return 0


@breaks("list_of_everything", "C3")
class ListOfEverything(Window):
    """Appending to a list: the formula of accumulation holds, but the order of independent values shows."""

    def init(self):
        return []

    def identity(self):
        return []

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == VALUE:
            state.append(event.payload)
            return state
        emit(list(state))
        return []

    def join(self, left, right):
        return left + right


@breaks("float_sum", "C3", "C1")
class FloatSum(Window):
    """Declared exact, but it is not."""

    def update(self, state, event: Event[float], emit):
        return super().update(state, event, emit)


class Opaque:
    """A class that the codec does not know."""


@breaks("state_not_encodable", "codec")
class StateNotEncodable(Window):
    def update(self, state, event: Event[int], emit):
        return {"last": Opaque()}


@breaks("output_not_encodable", "codec")
class OutputNotEncodable(Window):
    def update(self, state, event: Event[int], emit):
        if event.tag.kind == BARRIER:
            emit(Opaque())
        return state


@breaks("outputs_show_order", "C3")
class OutputsShowOrder(Program):
    """Two independent tags number their outputs with one counter."""

    depends = Dependence((A, A, ALWAYS), (B, B, ALWAYS))

    def init(self):
        return 0

    def update(self, state, event: Event[int], emit):
        emit(state)
        return state + 1

    def fork(self, state, left, right):
        return state, 0

    def join(self, left, right):
        return left + right


@breaks("last_writer", "C3")
class LastWriter(OutputsShowOrder):
    """The state shows which of two independent events came last."""

    def update(self, state, event: Event[int], emit):
        return event.ts


@breaks("join_raises", "errors")
class JoinRaises(Latest):
    """Ignores that keys that are read are on both sides."""

    def join(self, left, right):
        if left.keys() & right.keys():
            raise KeyError(*(left.keys() & right.keys()))
        return left | right


@breaks("sides_mixed_up", "C1", "C2")
class SidesMixedUp(Program):
    """Two state types, joined with swapped sides."""

    depends = Dependence((A, A, ALWAYS), (B, B, ALWAYS))

    def init(self):
        return (0, 0)

    def states(self):
        return (
            StateType("both", TagSet.everything(), self.update),
            StateType("a", TagSet.of(A), self.one),
            StateType("b", TagSet.of(B), self.one),
        )

    def fork_joins(self):
        return (ForkJoin("fork", "both", "a", "b", lambda s, _l, _r: s, lambda a, b: (b, a)),)

    def update(self, state, event: Event[int], emit):
        a, b = state
        return (self.one(a, event, emit), b) if event.tag.kind == A else (a, self.one(b, event, emit))

    def one(self, state, event, emit):
        emit(state)
        return state + event.payload
