"""Folding the user's update over releases: the choice between the ways to fold, and those over whole batches and windows.

The choice depends on what is folded and on what the state type offers. In each group the first line that fits decides:

    what is folded     if                                                               way
    ----------------   --------------------------------------------------------------   -----------------------
    a release          all lanes but one accumulate, and there is an `update_windows`   _Windows.fold
                       it has several lanes, and `update` is compiled (if there is an
                       `update_batch`, too, only where they alternate densely)          CompiledUpdate.fold_merged
                       its lanes alternate densely                                      ScalarLoop.fold_merged
                       else                                                             each stretch as a batch
    a batch            it has more than `few_events`, and there is an `update_batch`      _Columns.fold
                       it has more than `few_events`, and `update` is compiled            CompiledUpdate.fold
                       it is one event                                                  ScalarLoop.fold_one
                       else                                                             ScalarLoop.fold_batch
    windows            there is an `update_windows`                                     _Windows.fill
                       else                                                             each window as a batch
    events and their   always                                                           _Joined.fold
    windows' states

Outputs come back as one OutputBatch per stream and stretch, each output with the row of its event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dgs.model import columns
from dgs.model.events import Event, EventBatch, Int64s
from dgs.model.outputs import BatchEmitter, OutputBatch
from dgs.model.program import Emit, Program, State, StateType, Update, UpdateBatch, UpdateWindows
from dgs.model.user_code import RAISED, States, UserCode
from dgs.workers.protocol.bounds import BOUNDS, Bounds
from dgs.workers.protocol.folding.update_loop import Feed, ScalarLoop
from dgs.workers.protocol.releases import Release

if TYPE_CHECKING:
    from dgs.compiled.compiled_update import CompiledUpdate

NOTHING = object()
"""Stands where a state would be: the state is not here yet, or no longer."""


class ToCompile(NamedTuple):
    """An update that is to be compiled. `is_required`: it must be. `least`: so many events are interpreted first."""

    update: Update
    is_required: bool
    least: int


class Folder:
    """Folds the update of one state type over releases. Law: equal to calling `update` on each event in OrderKey order.

    Its methods raise UserCodeError if the user's code raises. `compiled`: the user's update if it is to be compiled; what it does is what
    the update of the state type does. They raise CompileError if it must be compiled and is not accepted.
    """

    def __init__(
        self,
        program: Program,
        state_type: StateType,
        worker: str,
        bounds: Bounds = BOUNDS,
        compiled: ToCompile | None = None,
    ) -> None:
        self._program, self._bounds = program, bounds
        code = UserCode(program, worker)
        self._loop = ScalarLoop(code, state_type.update, bounds)
        self._joined = _Joined(program, state_type.update, self._loop)
        self._columns = self._windows = None
        if state_type.update_batch is not None:
            self._columns = _Columns(code, state_type.update_batch)
        if state_type.update_windows is not None:
            self._windows = _Windows(code, state_type.update_windows, self._joined)
        self._compiled = None if compiled is None else _compiled_update(compiled, self._loop)

    @property
    def is_compiled(self) -> bool | None:
        """Whether machine code folds events by now, None if none is to."""
        return None if self._compiled is None else self._compiled.events > 0

    @property
    def compiled_events(self) -> int:
        """The number of events that machine code has folded."""
        return 0 if self._compiled is None else self._compiled.events

    def fold(self, state: State, release: Release) -> tuple[State, list[OutputBatch]]:
        """Return the state after the release and the outputs."""
        outputs: list[OutputBatch] = []
        if self._windows is not None and (split := self._windows.split(release)) is not None:
            state = self._windows.fold(state, *split, outputs)
        elif (merged := self._merged(state, release)) is not None:
            state = merged(state, outputs)
        elif release.is_dense(self._bounds.short_stretch):
            state = self._loop.fold_merged(state, release, outputs)
        else:
            for _, batch in release.stretches():
                state = self._fold_batch(state, batch, outputs)
        return state, outputs

    def _merged(self, state: State, release: Release) -> Callable[[State, list[OutputBatch]], State] | None:
        """Return what folds a release of several lanes with one compiled loop; None if another way is taken."""
        if self._compiled is None or len(release) <= self._bounds.few_events:
            return None
        if self._columns is not None and not release.is_dense(self._bounds.short_stretch):
            return None
        lanes = release.by_lane()
        run = self._compiled.merged(state, lanes, release.ordered) if len(lanes) > 1 else None
        if run is None:
            return None

        def rest(state: State, batches: list[EventBatch], outputs: list[OutputBatch]) -> State:
            return self._loop.fold_merged(state, Release((0,) * len(batches), batches), outputs)

        compiled = self._compiled
        return lambda state, outputs: compiled.fold_merged(run, state, rest, outputs)

    def _fold_batch(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        count = len(batch)
        if self._columns is not None and count > self._bounds.few_events:
            return self._columns.fold(state, batch, outputs)
        if self._compiled is not None and count > self._bounds.few_events:
            return self._compiled.fold(state, batch, outputs)
        if count == 1:
            return self._loop.fold_one(state, batch, outputs)
        return self._loop.fold_batch(state, batch, outputs)

    def fold_windows(
        self, states: list[State], batch: EventBatch, keys: EventBatch | None
    ) -> list[OutputBatch]:
        """Fold a batch into the partial states of windows: `states[i]` gets the events from `keys[i - 1]` to below `keys[i]`.

        The last window gets the rest; without keys there is one window. A state that is NOTHING is made from the identity when
        its window has an event. Returns the outputs.
        """
        outputs: list[OutputBatch] = []
        if self._windows is not None:
            self._windows.fill(states, batch, keys)
            return outputs
        stops, filled = _windows_of(batch, keys)
        for i in filled:
            window = batch.cut(int(stops[i - 1]) if i else 0, int(stops[i]))
            state = self._program.identity() if states[i] is NOTHING else states[i]
            states[i] = self._fold_batch(state, window, outputs)
        return outputs

    def fold_joined(
        self, state: State, batch: EventBatch, parts: list[list[State]]
    ) -> tuple[State, list[OutputBatch]]:
        """Fold events, each after joining the base state with the partial states of its window: one list per child."""
        return self._joined.fold(state, batch, parts)


class _Columns:
    """Folds whole batches with `update_batch`."""

    def __init__(self, code: UserCode, update_batch: UpdateBatch) -> None:
        self._code, self._update_batch, self._states = code, update_batch, States(code.program)

    def fold(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        """Return the state after a batch; add its outputs."""
        emit = BatchEmitter(batch, outputs)
        new = self._code.call("update_batch", self._update_batch, state, batch.seen(), emit, at=batch)
        emit.finish()
        if new is None and state is not None:
            self._code.call("update_batch", self._states.check_none, at=batch)
        return new


class _Windows:
    """Folds many windows of a batch at once, with `update_windows`: their events accumulate and emit nothing."""

    def __init__(self, code: UserCode, update_windows: UpdateWindows, joined: _Joined) -> None:
        self._code, self._update_windows, self._joined = code, update_windows, joined

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
        stops, filled = _windows_of(batch, keys)

        def update_windows() -> list[State]:
            return columns.to_list(self._update_windows(batch.seen(), stops[:-1]))

        def joined() -> None:
            join = self._code.program.join
            for i in filled:
                states[i] = partial[i] if states[i] is NOTHING else join(states[i], partial[i])

        partial = self._code.call("update_windows", update_windows, at=lambda: self._culprit(batch))
        self._code.call("join", joined, at=batch)

    def _culprit(self, batch: EventBatch) -> EventBatch:
        """Return the first event for which `update_windows` raises alone, or as few as raise together."""
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
            columns.to_list(self._update_windows(batch.seen(), np.zeros(0, dtype=np.int64)))
        except RAISED:
            return True
        return False


class _Joined:
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


def _compiled_update(compiled: ToCompile, loop: ScalarLoop) -> CompiledUpdate | None:
    """Return an update as machine code, with the loop that interprets what is not compiled. None where numba is not installed."""
    from dgs.compiled.compiled_beside import loop_or_none
    from dgs.compiled.compiled_update import CompiledUpdate
    from dgs.compiled.loop_files import is_available

    if compiled.is_required:
        return CompiledUpdate(compiled.update, loop.fold_batch, is_required=True)
    if not is_available():
        return None
    return CompiledUpdate(compiled.update, loop.fold_batch, translate=loop_or_none, least=compiled.least)


def _windows_of(batch: EventBatch, keys: EventBatch | None) -> tuple[Int64s, list[int]]:
    """Return where each window stops in a batch, and the windows that have events. Without keys it is one window."""
    stops = np.array([len(batch)]) if keys is None else batch.positions_of(keys)
    starts = np.concatenate(([0], stops[:-1]))
    return stops, np.flatnonzero(stops > starts).tolist()
