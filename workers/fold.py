"""Running the user's update over released runs: the only place where single events exist.

A run is folded stretch by stretch, or merged by OrderKey where its lanes alternate densely. Outputs come back as one
OutputBatch per stream and stretch, each output with the row of its event.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
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
        if run.is_dense:
            return self._fold_merged(state, run, outputs), outputs
        for _, batch in run.stretches():
            state = self._fold_batch(state, batch, outputs)
        return state, outputs

    def fold_windows(self, states: list[State], batch: EventBatch, keys: EventBatch) -> list[OutputBatch]:
        """Fold a batch into the partial states of windows: `states[i]` gets its events below `keys[i]` and not before.

        A state that is NOTHING is made from the identity when its first event comes. Returns the outputs.
        """
        cuts = batch.positions_of(keys)
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
                base = join(base, part)
            return update(base, event, emit)

        state, values, rows = self._loop(state, batch.events(), batch.key, joined_update)
        if not values:
            return state, []
        return state, [OutputBatch.of_rows(batch, values, np.array(rows, dtype=np.intp))]

    def _fold_batch(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        if self._update_batch is not None:
            return self._fold_columns(state, batch, outputs)
        state, values, rows = self._loop(state, batch.events(), batch.key)
        if values:
            outputs.append(OutputBatch.of_rows(batch, values, np.array(rows, dtype=np.intp)))
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
        batches = run.batches
        order, part, row = run.merge_order()
        events = [event for batch in batches for event in batch.events()]
        merged = [events[i] for i in order.tolist()]
        state, values, at = self._loop(state, merged, lambda i: batches[part[i]].key(int(row[i])))
        if values:
            emitted = np.array(at, dtype=np.intp)
            for number in np.unique(part[emitted]).tolist():
                mine = np.flatnonzero(part[emitted] == number)
                outputs.append(
                    OutputBatch.of_rows(batches[number], columns.take(values, mine), row[emitted[mine]])
                )
        return state

    def _loop(
        self,
        state: State,
        events: list[Event],
        key_of: Callable[[int], OrderKey],
        update: Update | None = None,
    ) -> tuple[State, list[Any], list[int]]:
        """Fold `update` over the events; return the state, the values emitted, and the event number of each value."""
        values: list[Any] = []
        rows: list[int] = []
        remaining: Any = iter(
            events
        )  # its length hint tells emit which event is being processed, at no cost per event
        last = len(events) - 1

        def emit(value: Any) -> None:
            values.append(value)
            rows.append(last - remaining.__length_hint__())

        update = update or self._update
        try:
            for event in remaining:
                state = update(state, event, emit)
        except DgsError:
            raise
        except Exception as error:
            row = last - remaining.__length_hint__()
            raise self._failed(self._culprit(error), error, events[row], key_of(row)) from error
        return state, values, rows

    def _culprit(self, error: Exception) -> str:
        """Return which of the user's functions raised, by the frames of the traceback: the loop itself keeps no note."""
        frames = traceback.walk_tb(error.__traceback__)
        codes = [frame.f_code for frame, _ in frames]
        return "join" if getattr(self._program.join, "__code__", None) in codes else "update"

    def _failed(self, function: str, error: Exception, event: Event, key: OrderKey) -> UserCodeError:
        return user_error(self._program, function, error, event=event, key=key, worker=self._worker)
