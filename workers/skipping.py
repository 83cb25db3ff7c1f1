"""Folding with `on_error: skip`: events whose `update` raises are left out, all others are folded as if these had not come.

A run is tried as a whole. If it fails, the state before it, of which a copy was kept as bytes, is folded over its halves, and so
on down to the single events that raise: few of many cost about as many copies of the state as the run has digits. Nothing is
known of outputs but those of attempts that succeed.

>>> from dgs.tags import Tag
>>> class Ratios(Program):
...     def init(self): return []
...     def update(self, state, event, emit):
...         emit(len(state))
...         state.append(1 / event.payload)
...         return state
>>> batch = EventBatch.of("s", rank=0, tags=[Tag("n")], ts=[1, 2, 3], payload=[2, 0, 4])
>>> state, made = Skipping(Ratios(), Ratios().states()[0], "w1").fold([], Run((0,), [batch]))
>>> state, [one.to_list() for one in made if isinstance(one, OutputBatch)]
([0.5, 0.25], [[0], [1]])
>>> [one.letter.error for one in made if isinstance(one, Skipped)]
['ZeroDivisionError: division by zero']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dgs import codec
from dgs.errors import DgsError, UserCodeError
from dgs.events import EventBatch
from dgs.outputs import OutputBatch
from dgs.program import Program, State, StateType
from dgs.skipping import DeadLetter, saved
from dgs.user_code import user_error
from workers.effects import Skipped
from workers.fold import NOTHING, Folder
from workers.runs import Run

SINGLY = 32
"""A run of so many events that has failed is searched with `update` alone."""

UPDATES = ("update", "update_batch", "update_windows")
"""What may raise because of an event. A fork or a join that raises stops the run: no event is to blame."""

Made = list[OutputBatch | Skipped]


class Skipping:
    """Folds as a Folder does, but leaves out what raises. Law: the outputs and the state are those of the other events."""

    def __init__(self, program: Program, state_type: StateType, worker: str) -> None:
        self._program, self._worker = program, worker
        self._whole = Folder(program, state_type, worker)
        singly = replace(state_type, update_batch=None, update_windows=None)
        self._singly = Folder(program, singly, worker)

    def fold(self, state: State, run: Run) -> tuple[State, Made]:
        """Return the state after the run, the outputs and what was left out. Raises StateNotSavedError."""
        return self._fold(state, run, self._whole)

    def _fold(self, state: State, run: Run, folder: Folder) -> tuple[State, Made]:
        before = self._saved(state)
        try:
            state, outputs = folder.fold(state, run)
        except UserCodeError as error:
            raised = _forgiven(error)
        else:
            return state, [*outputs]
        state = codec.decode(before)
        is_searched = folder is self._singly
        if is_searched and len(run) == 1:
            return state, [_skipped(run.batches[0], raised)]
        is_few = len(run) <= SINGLY
        made: Made = []
        for part in [run] if is_few and not is_searched else _halves(run):
            state, more = self._fold(state, part, self._singly if is_few else folder)
            made += more
        return state, made

    def fold_windows(self, states: list[State], batch: EventBatch, keys: EventBatch | None) -> Made:
        """Fold a batch into the partial states of windows, as `Folder.fold_windows` does."""
        before = self._saved(_kept(states))
        try:
            return [*self._whole.fold_windows(states, batch, keys)]
        except UserCodeError as error:
            _forgiven(error)
        _put_back(states, before)
        cuts = np.array([len(batch)]) if keys is None else batch.positions_of(keys)
        start, made = 0, Made()
        for i, stop in enumerate(cuts.tolist()):
            if start < stop:
                state = self._identity() if states[i] is NOTHING else states[i]
                states[i], more = self.fold(state, Run((0,), [batch.cut(start, stop)]))
                made += more
            start = stop
        return made

    def fold_joined(self, state: State, batch: EventBatch, parts: list[list[State]]) -> tuple[State, Made]:
        """Fold events, each into the base state joined with the partial states of its window: see `Folder.fold_joined`."""
        before = self._saved([state, [_kept(of_child) for of_child in parts]])
        try:
            state, outputs = self._whole.fold_joined(state, batch, parts)
        except UserCodeError as error:
            _forgiven(error)
        else:
            return state, [*outputs]
        state, kept = codec.decode(before)
        made: Made = []
        for row in range(len(batch)):
            for of_child in kept:
                if row in of_child:
                    state = self._joined(state, of_child[row])
            state, more = self._fold(state, Run((0,), [batch.cut(row, row + 1)]), self._singly)
            made += more
        return state, made

    def _saved(self, state: Any) -> bytes:
        return saved(self._program, state, worker=self._worker)

    def _identity(self) -> State:
        return self._called("identity", self._program.identity)

    def _joined(self, state: State, part: State) -> State:
        return self._called("join", lambda: self._program.join(state, part))

    def _called(self, name: str, function: Any) -> Any:
        try:
            return function()
        except DgsError:
            raise
        except Exception as error:
            raise user_error(self._program, name, error, worker=self._worker) from error


def _forgiven(error: UserCodeError) -> UserCodeError:
    """Return the error if an event is to blame, else raise it."""
    if error.function not in UPDATES:
        raise error
    return error


def _skipped(batch: EventBatch, raised: UserCodeError) -> Skipped:
    key = batch.key(0)
    return Skipped(batch, DeadLetter.of(batch.events()[0], key, raised))


def _kept(states: list[State]) -> dict[int, State]:
    """Return the states that are there, by their places."""
    return {i: state for i, state in enumerate(states) if state is not NOTHING}


def _put_back(states: list[State], before: bytes) -> None:
    states[:] = [NOTHING] * len(states)
    for i, state in codec.decode(before).items():
        states[i] = state


def _halves(run: Run) -> Iterator[Run]:
    """Yield the first half of the events by OrderKey, which all dependent lanes agree with, and the second."""
    _, part, row = run.merge_order()
    middle = len(run) // 2
    key = run.batches[int(part[middle])].key(int(row[middle]))
    places = [batch.position_of(key) for batch in run.batches]
    ends = (
        [(0, place) for place in places],
        [(place, len(b)) for place, b in zip(places, run.batches, strict=True)],
    )
    for half in ends:
        kept = [
            (lane, batch.cut(*cut))
            for lane, batch, cut in zip(run.lanes, run.batches, half, strict=True)
            if cut[0] < cut[1]
        ]
        yield Run(tuple(lane for lane, _ in kept), [batch for _, batch in kept], run.ordered)
