"""The programs that tests run: small, deterministic and lawful. The outputs of each are wrong if any events are out of order.

>>> from dgs.semantics.sequential import run
>>> batch = EventBatch.of("s", rank=0, tags=[INC(0), READ(0)], codes=[0, 0, 1], ts=[1, 2, 2], payload=[5, 2, 0])
>>> [output.value for output in run(Counters(), [[batch]]).outputs]
[(0, 7)]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dgs.model import columns
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.events import Event, EventBatch
from dgs.model.outputs import Stamped
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet
from dgs.model.tags import ANY, Tag, kind

Emit = Callable[[Any], None]
EmitBatch = Callable[..., None]

INC, READ = kind("inc", key=int), kind("read", key=int)
VALUE, BARRIER = kind("value", key=int), kind("barrier")
UPDATE, VIEW = kind("update", key=int), kind("view", key=int)
A, B, MINUTE = kind("a", key=(1, 2)), kind("b"), kind("minute")
CELL = kind("cell", key=range(5))
ITEM = kind("item", key=range(6))
NOTE, TICK = kind("note"), kind("tick")
BLOCK = 10
"""The units of time of a block of `Blocks`."""


class History(Program):
    """State: the events seen. Output: the payloads of all earlier events that the event depends on.

    Payloads must be unique integers. Any error of ordering is a wrong output. Some events emit twice, some not at all.
    """

    kinds = ANY

    def __init__(self, depends: Dependence | None = None) -> None:
        self.depends = Dependence.everything() if depends is None else depends

    def init(self) -> set[tuple[Tag, int]]:
        return set()

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        earlier = sorted(number for tag, number in state if self.dependence(tag, event.tag))
        if event.payload % 7 != 6:
            emit((event.payload, tuple(earlier)))
        if event.payload % 3 == 0:
            emit(("twice", event.payload, len(earlier)))
        state.add((event.tag, event.payload))
        return state

    def fork(self, state: Any, left: TagSet, right: TagSet) -> tuple[Any, Any]:
        return state, set(state)

    def join(self, left: Any, right: Any) -> Any:
        left |= right
        return left


class ChainHistory(History):
    """A history whose dependence is a plain function over a finite kind, and not transitive: neighbours depend."""

    kinds = (ITEM,)

    def __init__(self) -> None:
        """Keep the class's own `depends`."""

    def depends(self, a: Tag, b: Tag) -> bool:
        return abs(a.key - b.key) <= 1


class Counters(Program):
    """The paper's Figure 1: a map of counters. `inc(k)` adds its payload (at least 1), `read(k)` outputs and resets."""

    depends = Dependence((INC, READ, SAME_KEY), (READ, READ, SAME_KEY))

    def init(self) -> dict[int, int]:
        return {}

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        key = event.tag.key
        if event.tag.kind == INC:
            state[key] = state.get(key, 0) + event.payload
        else:
            emit((key, state.pop(key, 0)))
        return state

    def update_batch(self, state: Any, batch: EventBatch, emit_batch: EmitBatch) -> Any:
        codes = np.zeros(len(batch), np.int32) if batch.codes is None else batch.codes
        reads = np.array([tag.kind == READ for tag in batch.tags])[codes]
        amounts = np.asarray(columns.to_list(batch.payload), dtype=np.int64)
        start = 0
        for row in [*np.flatnonzero(reads).tolist(), len(batch)]:
            sums = np.zeros(len(batch.tags), np.int64)
            np.add.at(sums, codes[start:row], amounts[start:row])
            for tag, amount in zip(batch.tags, sums.tolist(), strict=True):
                if amount:
                    state[tag.key] = state.get(tag.key, 0) + amount
            if row < len(batch):
                key = batch.tags[codes[row]].key
                emit_batch([(key, state.pop(key, 0))], np.array([row]))
            start = row + 1
        return state

    def fork(self, state: Any, left: TagSet, right: TagSet) -> tuple[Any, Any]:
        mine = {k: v for k, v in state.items() if READ(k) not in right}
        return mine, {k: v for k, v in state.items() if k not in mine}

    def join(self, left: Any, right: Any) -> Any:
        for key, count in right.items():
            left[key] = left.get(key, 0) + count
        return left


class EventWindow(Program):
    """The sum of the values between two barriers. Values accumulate, so the fork is the derived one."""

    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))
    accumulates = (VALUE,)

    def init(self) -> int:
        return 0

    def identity(self) -> int:
        return 0

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        if event.tag.kind == VALUE:
            return state + event.payload
        emit(state)
        return 0

    def update_batch(self, state: Any, batch: EventBatch, emit_batch: EmitBatch) -> Any:
        codes = np.zeros(len(batch), np.int32) if batch.codes is None else batch.codes
        barriers = np.array([tag.kind == BARRIER for tag in batch.tags])[codes]
        values = np.where(barriers, 0, np.asarray(columns.to_list(batch.payload), dtype=np.int64))
        totals, rows = np.cumsum(values) + state, np.flatnonzero(barriers)
        at_barriers = totals[rows]
        if len(rows):
            emit_batch(np.diff(at_barriers, prepend=0), rows)
        return int(totals[-1] - (at_barriers[-1] if len(rows) else 0)) if len(batch) else state

    def join(self, left: Any, right: Any) -> Any:
        return left + right


class WindowsAtOnce(EventWindow):
    """Event windows that fold many windows in one call."""

    def update_windows(self, batch: EventBatch, cuts: Any) -> Any:
        values = np.asarray(columns.to_list(batch.payload), dtype=np.int64)
        totals = np.concatenate(([0], np.cumsum(values)))
        return np.diff(totals[np.concatenate(([0], cuts, [len(batch)]))])


class EchoWindow(EventWindow):
    """Event windows that also output their values, even values twice: outputs of accumulating events."""

    update_batch = Program.update_batch

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        if event.tag.kind == VALUE:
            emit(("seen", event.payload))
            if event.payload % 2 == 0:
                emit(("even", event.payload))
        return super().update(state, event, emit)


class SumCounters(Counters):
    """The map of counters, whose increments accumulate. The fork is the user's, so many reads may be on different workers."""

    accumulates = (INC,)

    def identity(self) -> dict[int, int]:
        return {}


class LastValueJoin(Program):
    """The page-view join: `view(k)` outputs its payload with the last payload of `update(k)`; updates output the old one."""

    depends = Dependence((UPDATE, UPDATE, SAME_KEY), (UPDATE, VIEW, SAME_KEY))

    def init(self) -> dict[int, int]:
        return {}

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        key = event.tag.key
        if event.tag.kind == UPDATE:
            emit((key, state.get(key)))
            state[key] = event.payload
        else:
            emit((event.payload, state.get(key)))
        return state

    def update_batch(self, state: Any, batch: EventBatch, emit_batch: EmitBatch) -> Any:
        values = []
        for tag, payload in zip(batch.tag_list(), columns.to_list(batch.payload), strict=True):
            if tag.kind == UPDATE:
                values.append((tag.key, state.get(tag.key)))
                state[tag.key] = payload
            else:
                values.append((payload, state.get(tag.key)))
        emit_batch(values)
        return state

    def fork(self, state: Any, left: TagSet, right: TagSet) -> tuple[Any, Any]:
        """Give each side the keys that it can see; keys that neither can see stay on the left."""
        theirs = {k: v for k, v in state.items() if UPDATE(k) in right or VIEW(k) in right}
        seen = {k for k in state if UPDATE(k) in left or VIEW(k) in left}
        return {k: v for k, v in state.items() if k in seen or k not in theirs}, theirs

    def join(self, left: Any, right: Any) -> Any:
        """Union: a key on both sides has only been viewed (updates depend on views), so its values are equal."""
        left.update(right)
        return left


class SmartHome(Program):
    """Several state types: a sum of `a`s and a fold of `b`s, read by `minute`, which resets the sum.

    `home` is (sum, fold) and forks into `sum` and `fold`; a `sum` forks into two sums. As recorded in optimizer/smart_home.
    """

    depends = Dependence((B, B, ALWAYS), (B, MINUTE, ALWAYS), (MINUTE, MINUTE, ALWAYS), (MINUTE, A, ALWAYS))

    def init(self) -> tuple[int, int]:
        return 0, 0

    def states(self) -> tuple[StateType, ...]:
        return (
            StateType("home", TagSet.everything(), self.update),
            StateType("sum", TagSet.of(A), self.add),
            StateType("fold", TagSet.of(B), self.fold),
        )

    def fork_joins(self) -> tuple[ForkJoin, ...]:
        return (
            ForkJoin("split_home", "home", "sum", "fold", lambda s, _l, _r: s, lambda a, b: (a, b)),
            ForkJoin("split_sum", "sum", "sum", "sum", lambda s, _l, _r: (s, 0), lambda a, b: a + b),
        )

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        total, fold = state
        if event.tag.kind == A:
            return self.add(total, event, emit), fold
        if event.tag.kind == B:
            return total, self.fold(fold, event, emit)
        emit(("minute", total, fold))
        return 0, fold

    def add(self, state: Any, event: Event, emit: Emit) -> Any:
        if event.payload % 2:
            emit(("odd", event.tag.key, event.payload))
        return state + event.payload

    def fold(self, state: Any, event: Event, emit: Emit) -> Any:
        emit(("before", state))
        return (state * 31 + event.payload) % 10007


class Neighbours(Program):
    """Five cells in a row, dependent by a plain function: an event adds up its neighbours and writes its own cell."""

    kinds = (CELL,)

    def depends(self, a: Tag, b: Tag) -> bool:
        return abs(a.key - b.key) <= 1

    def init(self) -> dict[int, int]:
        return dict.fromkeys(range(5), 0)

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        here = event.tag.key
        near = sum(state[cell] for cell in _around(here))
        emit((here, near))
        state[here] = (near * 7 + event.payload) % 1009
        return state

    def fork(self, state: Any, left: TagSet, right: TagSet) -> tuple[Any, Any]:
        """Give each side the cells that it reads; cells that neither reads stay on the left."""
        mine, theirs = _visible(state, left), _visible(state, right)
        return {**{k: v for k, v in state.items() if k not in theirs}, **mine}, theirs

    def join(self, left: Any, right: Any) -> Any:
        """Union: a cell on both sides lies between them and was written by neither."""
        left.update(right)
        return dict(sorted(left.items()))


def _around(cell: int) -> range:
    return range(max(cell - 1, 0), min(cell + 2, 5))


def _visible(state: dict[int, int], tags: TagSet) -> dict[int, int]:
    readers = [cell for cell in range(5) if CELL(cell) in tags]
    cells = {near for cell in readers for near in _around(cell)}
    return {k: v for k, v in state.items() if k in cells}


class Blocks(Program):
    """Sums by blocks of ten units of time, and their squares. A tick closes all blocks that end at or before it, also empty ones."""

    depends = Dependence((TICK, TICK, ALWAYS), (TICK, NOTE, ALWAYS))
    accumulates = (NOTE,)
    stamps = (TICK,)

    def init(self) -> dict[str, Any]:
        return {"sums": {}, "next": 0}

    def identity(self) -> dict[str, Any]:
        return {"sums": {}, "next": -1}

    def join(self, left: Any, right: Any) -> Any:
        sums = {b: left["sums"].get(b, 0) + right["sums"].get(b, 0) for b in left["sums"] | right["sums"]}
        return {"sums": sums, "next": max(left["next"], right["next"])}

    def update(self, state: Any, event: Any, emit: Any) -> Any:
        if event.tag.kind == NOTE:
            block = event.ts // BLOCK
            state["sums"][block] = state["sums"].get(block, 0) + event.payload
            return state
        last = max(state["sums"], default=-1)
        while (state["next"] + 1) * BLOCK <= event.ts and state["next"] <= last:
            block = state["next"]
            total = state["sums"].get(block, 0)
            emit(Stamped((block + 1) * BLOCK, block, [[block, total]]))
            emit(Stamped((block + 1) * BLOCK, block, [[block, total * total], [block, total**3]]))
            state["next"] += 1
            state["sums"] = {b: s for b, s in state["sums"].items() if b >= last or b > block}
        return state
