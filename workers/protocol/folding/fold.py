"""Folding the user's update over releases: the choice between the ways to fold, and those over whole batches and windows.

The choice depends on what is folded and on what the state type offers. In each group the first line that fits decides:

    what is folded     if                                                               way
    ----------------   --------------------------------------------------------------   -----------------------
    a release          all lanes but one accumulate, and there is an `update_windows`   Windows.fold
                       with `compile: auto`, it is small and that was faster            as if nothing were compiled
                       it has several lanes, and `update` is compiled (if there is an
                       `update_batch`, too, only where they alternate densely)          CompiledUpdate.fold_merged
                       its lanes alternate densely, and only a few events, of some
                       lanes, are not compiled                                          the parts between and at those
                       its lanes alternate densely                                      ScalarLoop.fold_merged
                       else                                                             each stretch as a batch
    a batch            it has more than `few_events`, and there is an `update_batch`      _Columns.fold
                       it has more than `few_events`, and `update` is compiled            CompiledUpdate.fold
                       it is one event                                                  ScalarLoop.fold_one
                       else                                                             ScalarLoop.fold_batch
    windows            there is an `update_windows`                                     Windows.fill
                       `update` is compiled, and emits nothing                          CompiledUpdate.fold_windows
                       else                                                             each window as a batch
    events and their   `update` is compiled, and the state is no dict                   CompiledUpdate.fold_joined
    windows' states    else                                                             Joined.fold

Outputs come back as one OutputBatch per stream and stretch, each output with the row of its event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dgs.model.events import EventBatch, Int64s
from dgs.model.outputs import BatchEmitter, OutputBatch
from dgs.model.program import Program, State, StateType, UpdateBatch
from dgs.model.user_code import States, UserCode
from dgs.workers.protocol.bounds import BOUNDS, Bounds, no_time
from dgs.workers.protocol.folding.joined_windows import NOTHING, Joined, Windows, windows_of
from dgs.workers.protocol.folding.to_compile import (
    CompiledCounts,
    ToCompile,
    cheaper_way,
    compiled_update,
    counts_of,
)
from dgs.workers.protocol.folding.update_loop import ScalarLoop
from dgs.workers.protocol.releases import Release

if TYPE_CHECKING:
    from dgs.compiled.cheaper_way import CheaperWay
    from dgs.compiled.compiled_update import CompiledUpdate
    from dgs.compiled.loop_files import MadeLoops

Folded = TypeVar("Folded")

FIRST = 8192
"""The events that are interpreted before anything is known of their cost."""
AT_ONCE = 0.02
"""The seconds of interpreting after which it is looked again whether machine code is there, or pays."""
MOST_TRIES = 3
"""The most pieces of a release on which machine code is tried: pieces of uneven lanes may be too small to tell."""


class Folder:
    """Folds the update of one state type over releases. Law: equal to calling `update` on each event in OrderKey order.

    Its methods raise UserCodeError if the user's code raises. `compiled`: the user's update if it is to be compiled; it does the same as
    the update of the state type. The methods raise CompileError if it must be compiled and is not accepted.
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
        clock = no_time if compiled is None else compiled.clock
        self._loop = ScalarLoop(code, state_type.update, bounds, clock)
        self._joined = Joined(program, state_type.update, self._loop)
        self._columns = self._windows = None
        if state_type.update_batch is not None:
            self._columns = _Columns(code, state_type.update_batch)
        if state_type.update_windows is not None:
            self._windows = Windows(code, state_type.update_windows, self._joined)
        self._compiled: CompiledUpdate | None = None
        self._made: MadeLoops | None = None
        self._cheaper: CheaperWay | None = None
        self._cheaper_joins: CheaperWay | None = None
        self._to_compile = compiled
        self._may_wait = compiled is not None
        self._waits = self._may_wait and self._columns is None
        if compiled is not None and compiled.is_required:
            self._compile(compiled)

    def _compile(self, compiled: ToCompile) -> None:
        """Have the update compiled from now on."""
        if (found := compiled_update(compiled, self._loop)) is not None:
            self._compiled, self._made, cheaper, self._cheaper_joins = found
            self._cheaper = self._cheaper or cheaper
            if self._cheaper is not None and self._loop.timed:
                self._cheaper.known = self._loop.seconds / self._loop.timed
        else:
            self._cheaper = None
        self._to_compile = None

    def _compile_in_time(self) -> None:
        """Have the update compiled from now on if that pays."""
        if (
            self._to_compile is not None
            and self._loop.timed
            and self._to_compile.pays(self._loop, self._in_batches)
        ):
            self._compile(self._to_compile)

    @property
    def _in_batches(self) -> int:
        """The number of events that were folded by `update_batch` or `update_windows`."""
        return sum(one.events for one in (self._columns, self._windows) if one is not None)

    @property
    def compiled_counts(self) -> CompiledCounts | None:
        """Figures of what machine code has folded, None if none is to."""
        update, loops = self._compiled, self._made
        if update is None or loops is None:
            return None
        return counts_of(update, loops, self.interpreted)

    @property
    def interpreted(self) -> int:
        """The number of events that were folded one by one."""
        return self._loop.events

    def fold(self, state: State, release: Release) -> tuple[State, list[OutputBatch]]:
        """Return the state after the release and the outputs.

        Until a loop is compiled, events are folded in pieces, so that the loop can fold the rest of a large release. Then it is tried on pieces.
        """
        outputs: list[OutputBatch] = []
        rest: Release | None = release
        tries = MOST_TRIES
        while rest is not None:
            self._compile_in_time()
            if tries and (size := self._tried_on(rest)) is not None:
                tries -= 1
                piece, rest = rest.cut(max(1, size // len(rest.lanes)))
                state = self._fold_piece(state, piece, outputs)
                continue
            most = self._interpreted_at_once
            if self._to_compile is None and (not self._may_wait or len(rest) <= most):
                return self._fold_piece(state, rest, outputs), outputs
            if self._cheaper is None and len(rest) > self._bounds.events_at_once:
                self._cheaper = None if self._to_compile is None else cheaper_way(self._to_compile)
            before = self._loop.events
            is_cut = len(rest) > most and (self._waits or self._is_merged_by_event(rest))
            piece, rest = rest.cut(max(1, most // len(rest.lanes))) if is_cut else (rest, None)
            state = self._fold_piece(state, piece, outputs)
            self._waits = self._may_wait and self._loop.events - before == len(piece)
        return state, outputs

    def _is_merged_by_event(self, release: Release) -> bool:
        """Whether a release is interpreted although there is an `update_batch`: machine code may fold it."""
        return self._may_wait and self._columns is not None and release.is_dense(self._bounds.short_stretch)

    @property
    def _interpreted_at_once(self) -> int:
        """The events that are interpreted before it is looked again whether machine code is there, or pays."""
        loop = self._loop
        return max(FIRST, int(AT_ONCE * loop.timed / loop.seconds)) if loop.seconds else FIRST

    def _tried_on(self, release: Release) -> int | None:
        """Return the size of the piece on which machine code is tried before the rest of a release; None if it is used, or not used, as it is."""
        if self._compiled is None or self._cheaper is None or not release.lanes:
            return None
        return self._cheaper.piece_of(len(release))

    def _fold_piece(self, state: State, release: Release, outputs: list[OutputBatch]) -> State:
        """Return the state after events that are folded at once; add their outputs."""
        if self._windows is not None and (split := self._windows.split(release)) is not None:
            return self._windows.fold(state, *split, outputs)
        if self._cheaper is None or (choice := self._choice(len(release))) is True:
            return self._fold_release(state, release, outputs, self._compiled)
        if choice is False:
            return self._fold_release(state, release, outputs, None)
        return self._measured(
            len(release), lambda compiled: self._fold_release(state, release, outputs, compiled)
        )

    def _choice(self, count: int) -> bool | None:
        """Return whether `count` events are folded by machine code, if `update` is compiled. None: both ways are to be measured."""
        if self._cheaper is None or count <= self._bounds.few_events:
            return True
        return self._cheaper.choice(count)

    def _in_cheaper_way(self, count: int, fold: Callable[[CompiledUpdate | None], Folded]) -> Folded:
        """Return the result of folding `count` events, with machine code or without; if there is a choice, in the cheaper way."""
        choice = self._choice(count)
        return self._measured(count, fold) if choice is None else fold(self._compiled if choice else None)

    def _measured(self, count: int, fold: Callable[[CompiledUpdate | None], Folded]) -> Folded:
        """Return the result of folding `count` events in the way that is to be measured."""
        update, cheaper = self._compiled, self._cheaper
        if cheaper is None:
            return fold(update)

        def folded(is_compiled: bool) -> tuple[Folded, bool]:
            if update is None or not is_compiled:
                return fold(None), False
            before = update.events
            return fold(update), update.events > before

        return cheaper.folded(count, folded)

    def _fold_release(
        self, state: State, release: Release, outputs: list[OutputBatch], compiled: CompiledUpdate | None
    ) -> State:
        """Return the state after the release; add its outputs."""
        bounds = self._bounds
        # Compiled or not, the order is the same: that of independent events shows in sums of floats.
        is_dense = release.is_dense(bounds.short_loop if self._columns is None else bounds.short_stretch)
        if (merged := self._merged(state, release, compiled, is_dense=is_dense)) is not None:
            return merged(state, outputs)
        if is_dense and (parts := self._parts(state, release, compiled)):
            for part in parts:
                state = self._fold_release(state, part, outputs, compiled)
            return state
        if is_dense:
            return self._loop.fold_merged(state, release, outputs)
        for _, batch in release.stretches():
            state = self._fold_batch(state, batch, outputs, compiled)
        return state

    def _parts(self, state: State, release: Release, compiled: CompiledUpdate | None) -> list[Release]:
        """Return the parts of a release at and between the events that machine code does not take. Empty unless it takes those between, and that pays."""
        lanes = release.by_lane()
        if compiled is None or compiled.apart.isdisjoint(lanes):
            return []
        others = {lane: own for lane, own in lanes.items() if lane not in compiled.apart}
        if len(others) < 2 or (run := compiled.merged(state, others, release.ordered)) is None:  # noqa: PLR2004
            return []
        return release.around(compiled.apart, max(self._bounds.short_loop, run.least_events))

    def _merged(
        self, state: State, release: Release, compiled: CompiledUpdate | None, *, is_dense: bool
    ) -> Callable[[State, list[OutputBatch]], State] | None:
        """Return the update that folds a release of several lanes with one compiled loop; None if another way is taken."""
        if compiled is None or len(release) <= self._bounds.few_events:
            return None
        lanes = release.by_lane()
        if len(lanes) == 1 or (self._columns is not None and not is_dense):
            return None
        if (run := compiled.merged(state, lanes, release.ordered, is_by_key=is_dense)) is None:
            return None

        def rest(state: State, batches: list[EventBatch], outputs: list[OutputBatch]) -> State:
            return self._loop.fold_merged(state, Release((0,) * len(batches), batches), outputs)

        return lambda state, outputs: compiled.fold_merged(run, state, rest, outputs)

    def _fold_batch(
        self, state: State, batch: EventBatch, outputs: list[OutputBatch], compiled: CompiledUpdate | None
    ) -> State:
        count = len(batch)
        if self._columns is not None and count > self._bounds.few_events:
            return self._columns.fold(state, batch, outputs)
        if compiled is not None and count > self._bounds.few_events:
            return compiled.fold(state, batch, outputs)
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
        self._compile_in_time()
        if self._windows is not None:
            self._windows.fill(states, batch, keys)
            return []
        if self._waits and len(batch) > 2 * (most := self._interpreted_at_once):
            before = self._loop.events
            outputs = self._fill(states, batch.cut(0, most), keys)
            self._waits = self._loop.events - before == most
            return outputs + self.fold_windows(states, batch.cut(most, len(batch)), keys)
        return self._fill(states, batch, keys)

    def _fill(self, states: list[State], batch: EventBatch, keys: EventBatch | None) -> list[OutputBatch]:
        """Fold a batch into the partial states of windows, without cutting it."""
        outputs: list[OutputBatch] = []
        stops, filled = windows_of(batch, keys)
        bounds = np.concatenate(([0], stops[:-1]))[filled], stops[filled]
        before = [self._program.identity() if states[i] is NOTHING else states[i] for i in filled]
        after = self._fold_each(before, batch, bounds, outputs)
        for i, state in zip(filled, after, strict=True):
            states[i] = state
        return outputs

    def _fold_each(
        self,
        states: list[State],
        batch: EventBatch,
        bounds: tuple[Int64s, Int64s],
        outputs: list[OutputBatch],
    ) -> list[State]:
        """Return the states after the windows of a batch, each folded into its own. `bounds`: where each starts and stops."""
        windows = (batch.cut(*rows) for rows in zip(*(rows.tolist() for rows in bounds), strict=True))
        pairs = zip(states, windows, strict=True)

        def folded(compiled: CompiledUpdate | None) -> list[State]:
            if compiled is None:
                return [self._fold_batch(state, window, outputs, None) for state, window in pairs]
            found = compiled.fold_windows(states, batch, bounds, outputs) if len(states) > 1 else None
            if found is not None:
                return found
            return [self._fold_window(state, window, outputs) for state, window in pairs]

        return self._in_cheaper_way(len(batch), folded) if len(states) > 1 else folded(self._compiled)

    def _fold_window(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        return self._in_cheaper_way(
            len(batch), lambda compiled: self._fold_batch(state, batch, outputs, compiled)
        )

    def fold_joined(
        self, state: State, batch: EventBatch, parts: list[list[State]]
    ) -> tuple[State, list[OutputBatch]]:
        """Fold events, each after joining the base state with the partial states of its window: one list per child."""
        self._compile_in_time()
        update, joining, cheaper = self._compiled, self._joined, self._cheaper_joins
        few = self._bounds.few_events
        if update is None or cheaper is None or type(state) is dict or len(batch) <= few:
            return joining.fold(state, batch, parts)
        from dgs.compiled.windows_at_once import Partials

        def interpret(state: State, start: int, stop: int, outputs: list[OutputBatch]) -> State:
            state, made = joining.fold(state, batch.cut(start, stop), [own[start:stop] for own in parts])
            outputs += made
            return state

        def folded(is_compiled: bool) -> tuple[tuple[State, list[OutputBatch]], bool]:
            if not is_compiled:
                return joining.fold(state, batch, parts), False
            before, outputs = update.events, list[OutputBatch]()
            found = update.fold_joined(state, batch, Partials(parts, NOTHING), interpret, outputs)
            return (found, outputs), update.events > before

        return cheaper.folded(len(batch), folded)


class _Columns:
    """Folds whole batches with `update_batch`."""

    def __init__(self, code: UserCode, update_batch: UpdateBatch) -> None:
        self._code, self._update_batch, self._states = code, update_batch, States(code.program)
        self.events = 0

    def fold(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        """Return the state after a batch; add its outputs."""
        self.events += len(batch)
        emit = BatchEmitter(batch, outputs)
        new = self._code.call("update_batch", self._update_batch, state, batch.seen(), emit, at=batch)
        emit.finish()
        if new is None and state is not None:
            self._code.call("update_batch", self._states.check_none, at=batch)
        return new
