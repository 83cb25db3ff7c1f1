"""Windows of events and their partial states: folding many windows at once, and joining such states before the event that ends a window.

The law: equal to folding each window alone, event by event.
"""

from __future__ import annotations

import numpy as np

from dgs.errors.raised import RAISED, is_ours
from dgs.model import columns
from dgs.model.events import Event, EventBatch, Int64s
from dgs.model.outputs import OutputBatch
from dgs.model.program import Emit, Program, State, Update, UpdateWindows, window_states
from dgs.model.user_code import UserCode
from dgs.workers.protocol.folding.update_loop import Feed, ScalarLoop
from dgs.workers.protocol.releases import Release

NOTHING = object()
"""Stands where a state would be: the state is not here yet, or no longer."""


class Windows:
    """Folds many windows of a batch at once, with `update_windows`: their events accumulate and emit nothing."""

    def __init__(self, code: UserCode, update_windows: UpdateWindows, joined: Joined) -> None:
        self._code, self._update_windows, self._joined = code, update_windows, joined
        self.events = 0

    def split(self, release: Release) -> tuple[list[EventBatch], list[EventBatch]] | None:
        """Return the events of the only lane that does not accumulate, and all others. None unless there is one among several."""
        if len(set(release.lanes)) == 1:
            return None
        ending: list[tuple[int, EventBatch]] = []
        summed: list[EventBatch] = []
        for lane, batch in zip(release.lanes, release.batches, strict=True):
            if all(tag.kind in self._code.program.accumulating for tag in batch.tags):
                summed.append(batch)
            else:
                ending.append((lane, batch))
        if len({lane for lane, _ in ending}) != 1:
            return None
        return [batch for _, batch in ending], summed

    def fold(
        self, state: State, ending: list[EventBatch], summed: list[EventBatch], outputs: list[OutputBatch]
    ) -> State:
        """Return the state after both; add the outputs. Each event of `ending` ends a window of `summed`, joined in before it."""
        for batch in ending:
            partial: list[State] = [NOTHING] * len(batch)
            rest = []
            for part in summed:
                below = part.position_of(batch.key(len(batch) - 1))
                if below:
                    self.fill(partial, part.cut(0, below), batch)
                if below < len(part):
                    rest.append(part.cut(below, len(part)))
            state, made = self._joined.fold(state, batch, [partial])
            outputs += made
            summed = rest
        for part in summed:
            last = [state]
            self.fill(last, part, None)
            (state,) = last
        return state

    def fill(self, states: list[State], batch: EventBatch, keys: EventBatch | None) -> None:
        """Fold a batch into the partial states of windows: see `Folder.fold_windows`."""
        self.events += len(batch)
        stops, filled = windows_of(batch, keys)

        def update_windows() -> list[State]:
            return window_states(self._update_windows(batch.seen(), stops[:-1]))

        def joined() -> None:
            join = self._code.program.join
            for i in filled:
                states[i] = partial[i] if states[i] is NOTHING else join(states[i], partial[i])

        partial = self._code.call("update_windows", update_windows, at=lambda: self._culprit(batch))
        self._code.call("join", joined, at=batch)

    def _culprit(self, batch: EventBatch) -> EventBatch:
        """Return the first event for which `update_windows` raises alone, or the fewest events for which it raises."""
        while len(batch) > 1:
            half = len(batch) // 2
            parts = (batch.cut(0, half), batch.cut(half, len(batch)))
            found = next((part for part in parts if self._raises(part)), None)
            if found is None:
                return batch
            batch = found
        return batch

    def _raises(self, batch: EventBatch) -> bool:
        try:
            window_states(self._update_windows(batch.seen(), np.zeros(0, dtype=np.int64)))
        except RAISED as error:
            if is_ours(error):
                raise
            return True
        return False


class Joined:
    """Folds events with the partial states of their windows: before each event these are joined into the base state."""

    def __init__(self, program: Program, update: Update, loop: ScalarLoop) -> None:
        self._program, self._update, self._loop = program, update, loop

    def fold(
        self, state: State, batch: EventBatch, parts: list[list[State]]
    ) -> tuple[State, list[OutputBatch]]:
        """Return the state after the events and the outputs: see `Folder.fold_joined`."""
        join, update = self._program.join, self._update
        windows = zip(*parts, strict=True)

        def joined_update(base: State, event: Event, emit: Emit) -> State:
            for part in next(windows):
                if part is not NOTHING:
                    base = join(base, part)
            return update(base, event, emit)

        state, values, rows = self._loop.fold(state, Feed.of(batch), joined_update)
        return state, [OutputBatch.of_rows(batch, values, rows)] if columns.length(values) else []


def windows_of(batch: EventBatch, keys: EventBatch | None) -> tuple[Int64s, list[int]]:
    """Return where each window stops in a batch, and the windows that have events. Without keys it is one window."""
    stops = np.array([len(batch)]) if keys is None else batch.positions_of(keys)
    starts = np.concatenate(([0], stops[:-1]))
    return stops, np.flatnonzero(stops > starts).tolist()
