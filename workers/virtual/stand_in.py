"""A stand-in for a program: it has the same tags, dependences and forks, and spends seconds of virtual time in place of computing.

>>> from dgs.model.events import Event
>>> from dgs.model.tags import Tag
>>> meter = Meter(Costs(kinds={"view": 2e-6}, merge=0.0))
>>> stand_in = StandIn(Program(), meter)
>>> stand_in.update(b"", Event(Tag("view"), "views", 0, 0), print), meter.now
(b'', 2e-06)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np

from dgs.model.events import Event, EventBatch, Int64s
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet
from dgs.planner.prediction.costs import Costs


class Meter:
    """The virtual time of one host: `now`, in seconds. `done`: for each counted event its ts, and when it was done."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.now = 0.0
        self.latest = 0.0
        self.done: list[tuple[int, float]] = []

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def spend(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class StandIn(Program):
    """Spends the costs of `program` at one worker, on the meter of its host.

    `counted`: the kinds for which the meter notes when each event is done. `is_accumulating`: the worker folds windows, whose costs are
    part of the synchronisation. `is_leaf`: False if each stretch of accumulating events costs as much as a synchronisation.
    """

    def __init__(
        self,
        program: Program,
        meter: Meter,
        *,
        counted: Collection[str] = (),
        is_accumulating: bool = False,
        is_leaf: bool = True,
    ) -> None:
        self._original, self._meter, self._counted = program, meter, frozenset(counted)
        self._folds_windows = is_accumulating
        self._turns = frozenset() if is_leaf else program.accumulating
        self._state = bytes(int(meter.costs.state_bytes))
        self._lane: tuple[str, str] | None = None
        self._stretch_left = 0.0
        self._pieces: set[tuple[str, str]] | None = None
        self.depends = program.dependence
        self.__dict__["accumulating"] = program.accumulating  # of the original; `states` does not say it

    def hand_over(self) -> None:
        """Note that the state is asked for: the next event of each lane begins a piece and a stretch."""
        self._lane, self._pieces = None, set()

    def init(self) -> bytes:
        """Return a state of the size of the original's."""
        return self._state

    def identity(self) -> bytes:
        """Return a state of the size of the original's."""
        return self._state

    def update(self, state: Any, event: Event, emit: Any) -> Any:  # noqa: ARG002
        """Spend the seconds of one event.

        Where lanes alternate, their events are merged, as long as that costs less than stretches.
        """
        meter, costs, kind = self._meter, self._meter.costs, event.tag.kind
        lane = (event.stream, kind)
        if lane != self._lane:
            self._begin(lane)
            self._lane, self._stretch_left = lane, 0.0 if self._folds_windows else costs.stretch
            meter.now += costs.synchronisation if kind in self._turns else 0.0
        extra = min(costs.merge, self._stretch_left)
        self._stretch_left -= extra
        meter.now = meter.latest = meter.now + costs.event(kind) + extra
        if kind in self._counted:
            meter.done.append((event.ts, meter.now))
        return state

    def _begin(self, lane: tuple[str, str]) -> None:
        """Spend the seconds of a piece, if these are the first events of a lane since the state was asked for."""
        if self._pieces is not None and lane not in self._pieces:
            self._pieces.add(lane)
            self._meter.now += self._meter.costs.piece

    def _update_batch(self, state: Any, batch: EventBatch, emit: Any) -> Any:  # noqa: ARG002
        """Spend the seconds of a batch, whose events are all done at its end."""
        extra = 0.0 if self._folds_windows else self._meter.costs.stretch + self._meter.costs.call
        self._fold(batch, extra)
        return state

    def _update_windows(self, batch: EventBatch, cuts: Int64s) -> list[bytes]:
        self._fold(batch, self._meter.costs.call)
        return [self._state] * (len(cuts) + 1)

    def _fold(self, batch: EventBatch, extra: float) -> None:
        self._lane, meter, costs = None, self._meter, self._meter.costs
        self._begin((batch.stream, batch.tags[0].kind))
        for tag, count in _counts(batch):
            column = costs.column(tag.kind)
            each = costs.event(tag.kind)
            extra += count * (each if column is None else min(column, each))
        meter.now = meter.latest = meter.now + extra
        if self._counted and any(tag.kind in self._counted for tag in batch.tags):
            meter.done += [(ts, meter.now) for ts in batch.ts.tolist()]

    def _fork(self, state: Any, left: TagSet, right: TagSet) -> tuple[Any, Any]:  # noqa: ARG002
        self._meter.now += self._meter.costs.fork
        return state, state

    def join(self, left: Any, right: Any) -> Any:  # noqa: ARG002
        """Spend the seconds of a join."""
        self._meter.now += self._meter.costs.join
        return left

    def states(self) -> tuple[StateType, ...]:
        """Return the state types of the original."""
        return tuple(
            replace(
                one,
                update=self.update,
                update_batch=_if(one.update_batch, self._update_batch),
                update_windows=_if(one.update_windows, self._update_windows),
            )
            for one in self._original.states()
        )

    def fork_joins(self) -> tuple[ForkJoin, ...]:
        """Return the forks and joins of the original."""
        return tuple(replace(one, fork=self._fork, join=self.join) for one in self._original.fork_joins())


def _if(original: Any, ours: Callable[..., Any]) -> Any:
    return None if original is None else ours


def _counts(batch: EventBatch) -> list[tuple[Any, int]]:
    """Return how many events of each tag a batch has."""
    if batch.codes is None:
        return [(batch.tags[0], len(batch))]
    return list(zip(batch.tags, np.bincount(batch.codes, minlength=len(batch.tags)).tolist(), strict=True))
