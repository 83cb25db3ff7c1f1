"""Folding the user's update over releases.

A release is folded stretch by stretch, or merged by OrderKey where its lanes alternate densely. Outputs come back as one
OutputBatch per stream and stretch, each output with the row of its event.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dgs.model import columns
from dgs.model.events import Event, EventBatch, Int64s
from dgs.model.outputs import BatchEmitter, OutputBatch
from dgs.model.program import Emit, Program, State, StateType
from dgs.model.user_code import UserCode
from dgs.workers.protocol.releases import Release
from dgs.workers.protocol.update_loop import Feed, ScalarLoop

NOTHING = object()
"""In place of a state: there is none (yet, or any more)."""


FEW_EVENTS = 32
"""So many events are folded one by one even where there is an `update_batch`: a call of it costs more."""


class Folder:
    """Folds the update of one state type over releases. Law: equal to calling `update` on each event in OrderKey order."""

    def __init__(self, program: Program, state_type: StateType, worker: str) -> None:
        self._program = program
        self._update = state_type.update
        self._update_batch = state_type.update_batch
        self._update_windows = state_type.update_windows
        self._code = UserCode(program, worker)
        self._loop = ScalarLoop(self._code, state_type.update)

    def fold(self, state: State, release: Release) -> tuple[State, list[OutputBatch]]:
        """Return the state after the release and the outputs. Raises UserCodeError if the user's code raises."""
        outputs: list[OutputBatch] = []
        if (windowed := self._as_windows(release)) is not None:
            return self._fold_as_windows(state, *windowed, outputs), outputs
        if release.is_dense:
            return self._loop.fold_merged(state, release, outputs), outputs
        for _, batch in release.stretches():
            state = self._fold_batch(state, batch, outputs)
        return state, outputs

    def _as_windows(self, release: Release) -> tuple[list[EventBatch], list[EventBatch]] | None:
        """Split a release into the events of the one lane that does not accumulate and those that do; None if there are more."""
        if self._update_windows is None or len(set(release.lanes)) == 1:
            return None
        cutting: list[tuple[int, EventBatch]] = []
        summed: list[tuple[int, EventBatch]] = []
        for lane, batch in zip(release.lanes, release.batches, strict=True):
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
        def update_windows() -> list[State]:
            return columns.to_list(self._update_windows(batch, cuts[:-1]))  # type: ignore[misc]

        def joined() -> None:
            join = self._program.join
            for i in filled:
                states[i] = partial[i] if states[i] is NOTHING else join(states[i], partial[i])

        partial = self._code.call("update_windows", update_windows, at=batch)
        self._code.call("join", joined, at=batch)

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

        state, values, rows = self._loop.fold(state, Feed.of(batch), joined_update)
        if not values:
            return state, []
        return state, [OutputBatch.of_rows(batch, values, rows)]

    def _fold_batch(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        count = len(batch)
        if self._update_batch is not None and count > FEW_EVENTS:
            return self._fold_columns(state, batch, outputs)
        if count == 1:
            return self._fold_one(state, batch, outputs)
        return self._loop.fold_batch(state, batch, outputs)

    def _fold_one(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        """Fold a single event, as where a worker waits for the others at every event."""
        values: list[Any] = []
        event = next(batch.stream_of_events()[0])
        state = self._code.call("update", self._update, state, event, values.append, at=batch)
        if values:
            rows = np.zeros(len(values), dtype=np.intp) if len(values) > 1 else None
            outputs.append(OutputBatch.of_rows(batch, values, rows))
        return state

    def _fold_columns(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        update_batch, emit = self._update_batch, BatchEmitter(batch, outputs)
        return self._code.call("update_batch", update_batch, state, batch, emit, at=batch)  # type: ignore[arg-type]
