"""Programs that are right but unusual: `dgs check` must find nothing wrong with them.

>>> len(RIGHT) >= 10
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.events import Event
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet
from dgs.model.tags import kind
from dgs.monoids import COUNT, MAX, SUM, MapOf

VALUE, BARRIER = kind("value"), kind("barrier")
INC, READ = kind("inc", key=int), kind("read", key=int)
PUT, GET = kind("put", key=str), kind("get", key=str)
A, B, END = kind("a"), kind("b"), kind("end")
EDGE = kind("edge", key=range(4))


@dataclass(frozen=True)
class Right:
    """A right program, with its arguments for `dgs.check`."""

    make: Callable[[], Program]
    options: dict[str, Any] = field(default_factory=dict)


RIGHT: dict[str, Right] = {}


def right(name: str, **options: Any):
    def register(cls):
        RIGHT[name] = Right(cls, options)
        return cls

    return register


@right("sequential")
class Sequential(Program):
    """Everything is dependent; no fork."""

    def init(self):
        return ()

    def update(self, state, event: Event[str], emit):
        emit(state)
        return (*state, event.payload)


@right("stateless")
class Stateless(Program):
    """The state is None, and everything is independent."""

    kinds = (A, B)
    depends = Dependence()

    def init(self):
        return None

    def update(self, state, event: Event[int], emit):
        for _ in range(event.payload % 3):
            emit((event.tag.kind, event.payload))
        return state

    def fork(self, state, left, right):
        return None, None

    def join(self, left, right):
        return None


@right("state_moves_to_reader")
class StateMovesToReader(Program):
    """The whole state goes to the side that reads; the other side begins empty."""

    depends = Dependence((INC, READ, ALWAYS), (READ, READ, ALWAYS))

    def init(self):
        return 0

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == INC:
            return state + event.payload
        emit(state)
        return state

    def fork(self, state, left, right):
        return (0, state) if READ in right else (state, 0)

    def join(self, left, right):
        return left + right


@right("keys_unseen")
class KeysUnseen(Program):
    """Keys that neither side may see stay on the left; keys that are only read are on both sides."""

    depends = Dependence((PUT, PUT, SAME_KEY), (PUT, GET, SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event: Event[str | None], emit):
        key = event.tag.key
        if event.tag.kind == GET:
            emit((key, key in state, state.get(key)))
        else:
            state[key] = event.payload
        return state

    def fork(self, state, left, right):
        theirs = {k for k in state if PUT(k) in right or GET(k) in right}
        mine = {k for k in state if k not in theirs or GET(k) in left}
        return {k: state[k] for k in sorted(mine)}, {k: state[k] for k in theirs}

    def join(self, left, right):
        right.update(left)
        return right


@right("three_types")
class ThreeTypes(Program):
    """Several state types, one of which forks again."""

    depends = Dependence((B, B, ALWAYS), (END, A, ALWAYS), (END, B, ALWAYS), (END, END, ALWAYS))

    def init(self):
        return {"sum": 0, "last": None}

    def states(self):
        return (
            StateType("both", TagSet.everything(), self.update),
            StateType("sum", TagSet.of(A), lambda s, e, _emit: s + e.payload),
            StateType("last", TagSet.of(B), lambda _s, e, _emit: e.payload),
        )

    def fork_joins(self):
        return (
            ForkJoin(
                "split",
                "both",
                "sum",
                "last",
                lambda s, _l, _r: (s["sum"], s["last"]),
                lambda a, b: {"sum": a, "last": b},
            ),
            ForkJoin(
                "halve", "sum", "sum", "sum", lambda s, _l, _r: (s // 2, s - s // 2), lambda a, b: a + b
            ),
        )

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == A:
            return {**state, "sum": state["sum"] + event.payload}
        if event.tag.kind == B:
            return {**state, "last": event.payload}
        emit(dict(state))
        return state


@right("partial_accumulation")
class PartialAccumulation(Program):
    """One kind accumulates, another does not; the state is a record of both."""

    depends = Dependence((B, B, ALWAYS), (END, A, ALWAYS), (END, B, ALWAYS), (END, END, ALWAYS))
    accumulates = (A,)

    def init(self):
        return (0, ())

    def identity(self):
        return (0, ())

    def update(self, state, event: Event[int], emit):
        total, seen = state
        if event.tag.kind == A:
            return total + event.payload, seen
        if event.tag.kind == B:
            emit(seen)
            return total, (*seen, event.payload)[-2:]
        emit((total, seen))
        return state

    def join(self, left, right):
        return left[0] + right[0], left[1] or right[1]


@right("windows_of_maps")
class WindowsOfMaps(Program):
    """Counts by payload, many windows in one call, Arrow or NumPy inside."""

    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))
    accumulates = (VALUE,)
    monoid = MapOf(COUNT, key="page", value=None)

    def init(self):
        return {}

    def identity(self):
        return {}

    def update(self, state, event: Event[Any], emit):
        if event.tag.kind == BARRIER:
            emit(dict(state))
            return {}
        return self.monoid.join(state, self.monoid.lift(event.payload))

    def update_windows(self, batch, cuts):
        return self.monoid.windows(batch.payload, cuts)

    def join(self, left, right):
        return self.monoid.join(left, right)


RIGHT["windows_of_maps"] = Right(
    WindowsOfMaps, {"strategies": {VALUE: [{"page": "a"}, {"page": "b"}, {"page": "c"}], BARRIER: [None]}}
)


@right("extremes")
class Extremes(Program):
    """None is the maximum of nothing; batches and windows come from a monoid."""

    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))
    accumulates = (VALUE,)

    def init(self):
        return None

    def identity(self):
        return None

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == VALUE:
            return MAX.join(state, event.payload)
        emit(state)
        return None

    def update_windows(self, batch, cuts):
        return MAX.windows(batch.payload, cuts)

    def join(self, left, right):
        return MAX.join(left, right)


@right("tolerant_floats", tolerance=1e-9)
class TolerantFloats(Program):
    """A sum of floats, compared with a tolerance."""

    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))
    accumulates = (VALUE,)

    def init(self):
        return 0.0

    def identity(self):
        return 0.0

    def update(self, state, event: Event[float], emit):
        if event.tag.kind == VALUE:
            return state + event.payload
        emit(state)
        return 0.0

    def update_batch(self, state, batch, emit_batch):
        for row, event in enumerate(batch.events()):
            state = self.update(state, event, lambda value, row=row: emit_batch([value], np.array([row])))
        return state

    def join(self, left, right):
        return left + right


RIGHT["tolerant_floats"] = Right(
    TolerantFloats, {"tolerance": 1e-9, "strategies": {VALUE: [0.1, 0.2, 0.3, 0.7], BARRIER: [0.0]}}
)


@right("neighbours")
class Neighbours(Program):
    """Dependence is a plain function and not transitive; states overlap in keys that both sides only read."""

    kinds = (EDGE,)

    def depends(self, a, b):
        return abs(a.key - b.key) <= 1

    def init(self):
        return [0, 0, 0, 0]

    def update(self, state, event: Event[int], emit):
        here = event.tag.key
        near = state[max(here - 1, 0) : here + 2]
        emit((here, near))
        state[here] = sum(near) + event.payload
        return state

    def fork(self, state, left, right):
        return list(state), self._near(state, right)

    def _near(self, state, tags):
        return [
            v if any(EDGE(j) in tags for j in (i - 1, i, i + 1) if 0 <= j < 4) else None
            for i, v in enumerate(state)
        ]

    def join(self, left, right):
        return [mine if theirs is None else theirs for mine, theirs in zip(left, right, strict=True)]


@right("join_in_place_of_numpy")
class NumpyState(Program):
    """The state is an array that is changed in place."""

    depends = Dependence((INC, READ, ALWAYS), (READ, READ, ALWAYS))

    def init(self):
        return np.zeros(3, np.int64)

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == INC:
            state[event.tag.key] += event.payload
            return state
        emit(state.tolist())
        state[:] = 0
        return state

    def fork(self, state, left, right):
        nothing = np.zeros_like(state)
        return (nothing, state) if READ in right else (state, nothing)

    def join(self, left, right):
        left += right
        return left


@right("user_fork_of_sums")
class UserForkOfSums(Program):
    """Increments accumulate, and the user's fork separates reads of different keys. Batches fold runs."""

    depends = Dependence((INC, READ, SAME_KEY), (READ, READ, SAME_KEY))
    accumulates = (INC,)

    def init(self):
        return {}

    def identity(self):
        return {}

    def update(self, state, event: Event[int], emit):
        key = event.tag.key
        if event.tag.kind == INC:
            state[key] = SUM.join(state.get(key, 0), event.payload)
        else:
            emit((key, state.pop(key, None)))
        return state

    def fork(self, state, left, right):
        mine = {k: v for k, v in state.items() if READ(k) not in right}
        return mine, {k: v for k, v in state.items() if k not in mine}

    def join(self, left, right):
        for key, count in right.items():
            left[key] = left.get(key, 0) + count
        return left
