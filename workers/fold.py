"""Running the user's update over released runs: the only place where single events exist.

A run is folded stretch by stretch, or merged by OrderKey where its lanes alternate densely. Outputs come back as one
OutputBatch per stream and stretch, each output with the row of its event.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgs import columns
from dgs.errors import DgsError, UserCodeError
from dgs.events import Event, EventBatch, Int64s
from dgs.order import OrderKey
from dgs.outputs import OutputBatch
from dgs.program import Emit, Program, State, StateType, Update
from dgs.user_code import user_error
from workers.runs import Rows, Run

NOTHING = object()
"""In place of a state: there is none (yet, or any more)."""


EVENTS_AT_ONCE = 4096
"""Events are turned into Python objects so many at a time: their columns stay in the cache."""


@dataclass(frozen=True, slots=True)
class _Mixed:
    """Events of several batches in one order, to find one of them again."""

    cuts: dict[int, EventBatch]
    part: Rows
    row: Rows
    first: dict[int, int]

    def cut(self, start: int, _stop: int) -> EventBatch:
        number = int(self.part[start])
        row = int(self.row[start]) - self.first[number]
        return self.cuts[number].cut(row, row + 1)


class Folder:
    """Folds the update of one state type over runs. Law: equal to calling `update` on each event in OrderKey order."""

    def __init__(self, program: Program, state_type: StateType, worker: str) -> None:
        self._program = program
        self._update = state_type.update
        self._update_batch = state_type.update_batch
        self._update_windows = state_type.update_windows
        self._worker = worker

    def fold(self, state: State, run: Run) -> tuple[State, list[OutputBatch]]:
        """Return the state after the run and the outputs. Raises UserCodeError if the user's code raises."""
        outputs: list[OutputBatch] = []
        if (windowed := self._as_windows(run)) is not None:
            return self._fold_as_windows(state, *windowed, outputs), outputs
        if run.is_dense:
            return self._fold_merged(state, run, outputs), outputs
        for _, batch in run.stretches():
            state = self._fold_batch(state, batch, outputs)
        return state, outputs

    def _as_windows(self, run: Run) -> tuple[list[EventBatch], list[EventBatch]] | None:
        """Split a run into the events of the one lane that does not accumulate and those that do; None if there are more."""
        if self._update_windows is None or len(set(run.lanes)) == 1:
            return None
        cutting: list[tuple[int, EventBatch]] = []
        summed: list[tuple[int, EventBatch]] = []
        for lane, batch in zip(run.lanes, run.batches, strict=True):
            accumulates = all(tag.kind in self._program.accumulating for tag in batch.tags)
            (summed if accumulates else cutting).append((lane, batch))
        if len({lane for lane, _ in cutting}) != 1:
            return None
        return [batch for _, batch in cutting], [batch for _, batch in summed]

    def _fold_as_windows(
        self,
        state: State,
        cutting: list[EventBatch],
        summed: list[EventBatch],
        outputs: list[OutputBatch],
    ) -> State:
        """Fold what accumulates window by window, in one call a batch, and join at the events between the windows."""
        for batch in cutting:
            partial: list[State] = [NOTHING] * len(batch)
            rest = []
            for part in summed:
                below = part.position_of(batch.key(len(batch) - 1))
                if below:
                    self.fold_windows(partial, part.cut(0, below), batch)
                if below < len(part):
                    rest.append(part.cut(below, len(part)))
            state, made = self.fold_joined(state, batch, [partial])
            outputs += made
            summed = rest
        for part in summed:
            last = [state]
            self.fold_windows(last, part, None)
            (state,) = last
        return state

    def fold_windows(
        self, states: list[State], batch: EventBatch, keys: EventBatch | None
    ) -> list[OutputBatch]:
        """Fold a batch into the partial states of windows: `states[i]` gets its events below `keys[i]` and not before.

        The last window gets the rest; without keys it is the only one. A state that is NOTHING is made when its first event
        comes. Returns the outputs.
        """
        cuts = np.array([len(batch)]) if keys is None else batch.positions_of(keys)
        starts = np.concatenate(([0], cuts[:-1]))
        filled = np.flatnonzero(cuts > starts).tolist()
        if self._update_windows is not None:
            self._windows_at_once(states, batch, cuts, filled)
            return []
        outputs: list[OutputBatch] = []
        for i in filled:
            state = self._program.identity() if states[i] is NOTHING else states[i]
            states[i] = self._fold_batch(state, batch.cut(int(starts[i]), int(cuts[i])), outputs)
        return outputs

    def _windows_at_once(
        self, states: list[State], batch: EventBatch, cuts: Int64s, filled: list[int]
    ) -> None:
        function = "update_windows"
        try:
            partial = columns.to_list(self._update_windows(batch, cuts[:-1]))  # type: ignore[misc]
            function = "join"
            join = self._program.join
            for i in filled:
                states[i] = partial[i] if states[i] is NOTHING else join(states[i], partial[i])
        except DgsError:
            raise
        except Exception as error:
            raise self._failed(function, error, batch.cut(0, 1).events()[0], batch.key(0)) from error

    def fold_joined(
        self, state: State, batch: EventBatch, parts: list[list[State]]
    ) -> tuple[State, list[OutputBatch]]:
        """Fold events, each after joining the base state with the partial states of its window: one list per child."""
        join, update = self._program.join, self._update
        windows = zip(*parts, strict=True)

        def joined_update(base: State, event: Event, emit: Emit) -> State:
            for part in next(windows):
                if part is not NOTHING:
                    base = join(base, part)
            return update(base, event, emit)

        events, left = batch.stream_of_events()
        state, values, rows = self._loop(state, events, left, len(batch), batch, joined_update)
        if not values:
            return state, []
        return state, [OutputBatch.of_rows(batch, values, np.array(rows, dtype=np.intp))]

    def _fold_batch(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        if self._update_batch is not None:
            return self._fold_columns(state, batch, outputs)
        for start in range(0, len(batch), EVENTS_AT_ONCE):
            part = batch.cut(start, min(len(batch), start + EVENTS_AT_ONCE))
            events, left = part.stream_of_events()
            state, values, rows = self._loop(state, events, left, len(part), part)
            if values:
                outputs.append(OutputBatch.of_rows(part, values, np.array(rows, dtype=np.intp)))
        return state

    def _fold_columns(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        def emit_batch(values: columns.Column, rows: Rows | None = None) -> None:
            if columns.length(values):
                outputs.append(OutputBatch.of_rows(batch, values, rows))

        try:
            return self._update_batch(state, batch, emit_batch)  # type: ignore[misc]
        except DgsError:
            raise
        except Exception as error:
            first = batch.cut(0, 1).events()[0]
            raise self._failed("update_batch", error, first, batch.key(0)) from error

    def _fold_merged(self, state: State, run: Run, outputs: list[OutputBatch]) -> State:
        order, part, row = run.merge_order()
        for start in range(0, len(order), EVENTS_AT_ONCE):
            parts, rows = part[start : start + EVENTS_AT_ONCE], row[start : start + EVENTS_AT_ONCE]
            state = self._fold_mixed(state, run.batches, parts, rows, outputs)
        return state

    def _fold_mixed(
        self, state: State, batches: list[EventBatch], part: Rows, row: Rows, outputs: list[OutputBatch]
    ) -> State:
        """Fold events of several batches: the next one is of batch `part[i]`, in whose row order they come."""
        cuts: dict[int, EventBatch] = {}
        for number in np.unique(part).tolist():
            mine = row[part == number]
            cuts[number] = batches[number].cut(int(mine[0]), int(mine[-1]) + 1)
        numbers = iter(part.tolist())
        streams = {number: cut.stream_of_events()[0] for number, cut in cuts.items()}
        events = (next(streams[number]) for number in numbers)
        first = {number: int(row[part == number][0]) for number in cuts}

        state, values, at = self._loop(state, events, numbers, len(part), _Mixed(cuts, part, row, first))
        emitted = np.array(at, dtype=np.intp)
        for number in np.unique(part[emitted]).tolist() if values else ():
            mine = np.flatnonzero(part[emitted] == number)
            rows = row[emitted[mine]] - first[number]
            outputs.append(OutputBatch.of_rows(cuts[number], columns.take(values, mine), rows))
        return state

    def _loop(
        self,
        state: State,
        events: Iterator[Event],
        left: Any,
        count: int,
        source: EventBatch | _Mixed,
        update: Update | None = None,
    ) -> tuple[State, list[Any], list[int]]:
        """Fold `update` over the events; return the state, the values emitted, and the event number of each value.

        The length hint of `left` says how many events are still to come, so that emit knows which one is being processed at
        no cost per event. `source` finds an event again when the user's code raises.
        """
        values: list[Any] = []
        rows: list[int] = []
        last = count - 1

        def emit(value: Any) -> None:
            values.append(value)
            rows.append(last - left.__length_hint__())

        update = update or self._update
        try:
            for event in events:
                state = update(state, event, emit)
        except DgsError:
            raise
        except Exception as error:
            at = source.cut(last - left.__length_hint__(), count - left.__length_hint__())
            raise self._failed(self._culprit(error), error, at.events()[0], at.key(0)) from error
        return state, values, rows

    def _culprit(self, error: Exception) -> str:
        """Return which of the user's functions raised, by the frames of the traceback: the loop itself keeps no note."""
        frames = traceback.walk_tb(error.__traceback__)
        codes = [frame.f_code for frame, _ in frames]
        return "join" if getattr(self._program.join, "__code__", None) in codes else "update"

    def _failed(self, function: str, error: Exception, event: Event, key: OrderKey) -> UserCodeError:
        return user_error(self._program, function, error, event=event, key=key, worker=self._worker)
