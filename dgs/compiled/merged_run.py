"""Folding several lanes with one compiled loop, which merges them; the interpreter processes the events that deviate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dgs.compiled.lanes_as_columns import Array, as_array, columns_of
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
"""A loop: rows to start and stop at, columns, scalars of a state -> the row it has reached, whether that one deviates, scalars."""

Rest = Callable[[State, list[EventBatch], list[OutputBatch]], State]
"""Interprets the rest of all lanes, merged, and adds the outputs."""


class _Lane:
    """A lane in a run: all its batches, and the position of the loop in the current one. Raises Refused if a batch does not fit.

    `with_numbers`: the loop reads the numbers of its events. `outputs`: of the batches folded so far.
    """

    def __init__(
        self, batches: Sequence[EventBatch], of: LaneClass, text: LoopText, with_numbers: bool
    ) -> None:
        self._left, self._sites, self._with_numbers = list(batches), text.sites, with_numbers
        # checks all of them, since one may not fit
        self._columns = [columns_of(batch, of, text) for batch in batches]
        self._written: Written | None = None
        self.outputs: list[OutputBatch] = []
        self.numbers: list[Array] = []
        self.arguments: list[Array] = []

    def next_batch(self, form: ScalarState) -> None:
        """Go on with the next batch. Outputs are taken now, while they are in the processor's caches."""
        self.finish()
        batch = self._left.pop(0)
        own = form.of_batch(batch)
        self._written = Written(batch, self._sites, form.objects)
        self.arguments = [*self._columns.pop(0), *own, *self._written.arguments]
        self.numbers = [as_array(batch.seq, np.int64)] if self._with_numbers else []

    def finish(self) -> None:
        """Take the outputs of the folded batch."""
        if self._written is not None and (made := self._written.outputs()) is not None:
            self.outputs.append(made)
        self._written = None

    @property
    def written(self) -> Written:
        """The outputs of the current batch."""
        if self._written is None:
            raise InternalError(problem="a lane of compiled code is asked for its batch before it has one")
        return self._written

    @property
    def batch(self) -> EventBatch:
        """The current batch."""
        return self.written.batch

    @property
    def has_more(self) -> bool:
        """Whether more batches follow."""
        return bool(self._left)

    def rest(self, start: int) -> list[EventBatch]:
        """Return the events from a row of the current batch on, for the interpreter."""
        batch = self.batch
        if start == len(batch):
            return self._left
        self.written.add(start, len(batch), [])
        return [batch.cut(start, len(batch)), *self._left]


class MergedRun:
    """A run of a loop over several lanes. Law: the state and the outputs are those of `update`, event by event in OrderKey order.

    `with_numbers`: the lanes whose loop reads the numbers of its events. `batches`: all events. `count`: how many there are. `interpreted`:
    how many the interpreter has processed. `deviations`: at how many events the loop has stopped.
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
        self._loop, self._form = loop, form
        of_lanes = enumerate(zip(lanes, classes, texts, strict=True))
        self._lanes = [_Lane(*one, n in with_numbers) for n, one in of_lanes]
        self._heads, self._stops = np.zeros(len(lanes), np.int64), np.zeros(len(lanes), np.int64)
        self._more = np.zeros(len(lanes), np.bool_)
        for n in range(len(lanes)):
            self._next_batch(n)
        self.count = sum(map(len, batches))
        self.interpreted = self.deviations = 0

    @property
    def least_events(self) -> int:
        """The fewest events of a run that pay for moving the entries of the state."""
        return self._form.least_events

    def fold(
        self, state: State, interpret: Interpreter, rest: Rest, outputs: list[OutputBatch], most: int
    ) -> State:
        """Return the state after all lanes; add the outputs. `most`: the deviations after which the rest is interpreted."""
        given: Sequence[Any] | None = None  # the state stays in the loop's form from batch to batch
        while True:
            if given is None and self.deviations < most:
                given = self._form.given(state)
            if given is None:
                left = [
                    batch for n, lane in enumerate(self._lanes) for batch in lane.rest(int(self._heads[n]))
                ]
                self.interpreted += sum(map(len, left))
                state = rest(state, left, outputs) if left else state
                break
            at, deviates, *returned = self._loop(*self._arguments(), *given)
            given = returned or given  # arrays change in place
            if deviates or at < 0:
                state, given = self._form.taken(state, returned), None
            if at < 0:
                break
            if deviates:
                state = self._one(int(at), state, interpret)
            lane = self._lanes[at]
            if self._heads[at] == len(lane.batch) and lane.has_more:
                self._next_batch(at)
            elif not deviates:
                raise InternalError(problem="a compiled loop over several lanes does not advance")
        for lane in self._lanes:
            lane.finish()
            outputs += lane.outputs
        return state

    def _next_batch(self, at: int) -> None:
        """Go on with the next batch of a lane."""
        lane = self._lanes[at]
        lane.next_batch(self._form)
        self._heads[at], self._stops[at], self._more[at] = 0, len(lane.batch), lane.has_more

    def _one(self, at: int, state: State, interpret: Interpreter) -> State:
        """Return the state after the next event of a lane, which the interpreter processes."""
        row, written = int(self._heads[at]), self._lanes[at].written
        made: list[OutputBatch] = []
        state = interpret(state, written.batch.cut(row, row + 1), made)
        written.add(row, row + 1, made)
        self._heads[at] += 1
        self.interpreted += 1
        self.deviations += 1
        return state

    def _arguments(self) -> list[Array]:
        numbers = (one for lane in self._lanes for one in lane.numbers)
        columns = (one for lane in self._lanes for one in lane.arguments)
        return [self._heads, self._stops, self._more, *numbers, *columns]
