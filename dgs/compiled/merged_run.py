"""Folding several lanes with one compiled loop, which merges them; the interpreter processes the events that deviate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dgs.compiled.lanes_as_columns import Array, columns_of, read_only
from dgs.compiled.lowering.loop_text import LaneClass, LoopText
from dgs.compiled.lowering.merged_lanes import LAST
from dgs.compiled.lowering.value_types import DoesNotFit
from dgs.compiled.states_as_arrays import ScalarState
from dgs.compiled.written_outputs import Written
from dgs.errors import InternalError
from dgs.model.events import EventBatch
from dgs.model.outputs import OutputBatch
from dgs.model.program import State

Interpreter = Callable[[State, EventBatch, list[OutputBatch]], State]
"""Folds a batch with the user's own update, and adds the outputs."""

Loop = Callable[..., Any]
"""A loop: rows to start and stop at, columns, scalars of a state -> the row it has come to, whether that deviates, scalars."""

Rest = Callable[[State, list[EventBatch], list[OutputBatch]], State]
"""Interprets what is left of all lanes, merged, and adds the outputs."""


class _Lane:
    """A lane in a run: its batches, those to come too, and where the loop is in the one that it folds. Raises Refused if one does not fit."""

    def __init__(self, batches: Sequence[EventBatch], of: LaneClass, text: LoopText) -> None:
        self._left, self._sites = list(batches), text.sites
        self._columns = [columns_of(batch, of, text) for batch in batches]  # all of them: one may not fit
        self.written: list[Written] = []
        self.arguments: list[Array] = []

    def next_batch(self, run: MergedRun) -> None:
        """Go on with the next batch."""
        batch = self._left.pop(0)
        own = run.form.of_batch(batch)
        written = Written(batch, self._sites, run.form.objects)
        self.arguments = [*self._columns.pop(0), *own, *written.arguments]
        self.written.append(written)

    @property
    def batch(self) -> EventBatch:
        """The batch that is folded."""
        return self.written[-1].batch

    @property
    def has_more(self) -> bool:
        """Whether more batches follow."""
        return bool(self._left)

    def rest(self, start: int) -> list[EventBatch]:
        """Return what comes from a row of the batch on, for the interpreter."""
        batch, written = self.batch, self.written[-1]
        if start == len(batch):
            return self._left
        written.add(start, len(batch), [])
        return [batch.cut(start, len(batch)), *self._left]


class MergedRun:
    """A run of a loop over several lanes. Law: the state and the outputs are those of `update`, event by event in OrderKey order.

    `with_numbers`: the lanes whose loop reads the numbers of its events. `batches`: all events. `count`: how many there are. `interpreted`: how many the interpreter has processed. `deviations`: at how many the loop has stopped.
    """

    def __init__(
        self,
        form: ScalarState,
        loop: Loop,
        lanes: Sequence[Sequence[EventBatch]],
        classes: Sequence[LaneClass],
        texts: Sequence[LoopText],
        *,
        with_numbers: Sequence[int],
    ) -> None:
        self.batches = batches = [batch for lane in lanes for batch in lane]
        if any(len(batch) and int(batch.ts[-1]) >= LAST for batch in batches):
            raise DoesNotFit("an event is at the last time that 64 bits hold")
        self._loop, self._with_numbers = loop, with_numbers
        self.form = form
        self._lanes = [_Lane(*one) for one in zip(lanes, classes, texts, strict=True)]
        for lane in self._lanes:
            lane.next_batch(self)
        self._heads = np.zeros(len(lanes), np.int64)
        self.count = sum(map(len, batches))
        self.interpreted = self.deviations = 0

    def fold(
        self, state: State, interpret: Interpreter, rest: Rest, outputs: list[OutputBatch], most: int
    ) -> State:
        """Return the state after all lanes; add the outputs. `most`: after so many deviations, what is left is interpreted."""
        given: Sequence[Any] | None = None  # the state as the loop has it, from batch to batch
        while given is not None or (self.deviations < most and self.form.fits(state)):
            given = self.form.given(state) if given is None else given
            at, deviates, *returned = self._loop(*self._arguments(), *given)
            given = returned or given  # arrays change in place
            if deviates or at < 0:
                state, given = self.form.taken(state, returned), None
            if at < 0:
                break
            if deviates:
                state = self._one(int(at), state, interpret)
            lane = self._lanes[at]
            if self._heads[at] == len(lane.batch) and lane.has_more:
                lane.next_batch(self)
                self._heads[at] = 0
            elif not deviates:
                raise InternalError(problem="a compiled loop over several lanes does not advance")
        else:
            left = [batch for n, lane in enumerate(self._lanes) for batch in lane.rest(int(self._heads[n]))]
            self.interpreted += sum(map(len, left))
            state = rest(state, left, outputs) if left else state
        for lane in self._lanes:
            outputs += [made for written in lane.written if (made := written.outputs()) is not None]
        return state

    def _one(self, at: int, state: State, interpret: Interpreter) -> State:
        """Return the state after the next event of a lane, which the interpreter processes."""
        row, written = int(self._heads[at]), self._lanes[at].written[-1]
        made: list[OutputBatch] = []
        state = interpret(state, written.batch.cut(row, row + 1), made)
        written.add(row, row + 1, made)
        self._heads[at] += 1
        self.interpreted += 1
        self.deviations += 1
        return state

    def _arguments(self) -> list[Array]:
        stops = np.array([len(lane.batch) for lane in self._lanes], np.int64)
        more = np.array([lane.has_more for lane in self._lanes], np.bool_)
        for array in (stops, more):
            array.flags.writeable = False
        numbers = [read_only(self._lanes[n].batch.seq, np.int64) for n in self._with_numbers]
        return [self._heads, stops, more, *numbers, *(one for lane in self._lanes for one in lane.arguments)]
