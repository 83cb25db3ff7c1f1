"""Folding with `on_error: skip`: an event whose `update` raises is left out, and the others are folded as if it had not come.

A release is tried as a whole. If that fails, the state before it is decoded from bytes that were kept. If `update` raised, the event is
known: the events before it are folded again, it is left out, and the rest is tried. If `update_batch` or
`update_windows` raised, the release is tried by halves until few events are left, and these are folded with `update`. Only
attempts that succeed give outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dgs import codec
from dgs.errors import UserCodeError
from dgs.model.events import EventBatch, declared_stream
from dgs.model.order import OrderKey
from dgs.model.outputs import OutputBatch
from dgs.model.program import Program, State, StateType
from dgs.model.user_code import UserCode
from dgs.semantics.skipped_events import DeadLetter, for_readable, letter_in, saved
from dgs.workers.protocol.bounds import BOUNDS, Bounds
from dgs.workers.protocol.folding.fold import Folder
from dgs.workers.protocol.folding.joined_windows import NOTHING
from dgs.workers.protocol.folding.to_compile import CompiledCounts, ToCompile
from dgs.workers.protocol.messages import Skipped
from dgs.workers.protocol.releases import Release

UPDATES = ("update", "update_batch", "update_windows")
"""The functions that may raise because of an event. A fork or a join that raises stops the run: no event is to blame."""

Made = list[OutputBatch | Skipped]


class Skipping:
    """A Folder that leaves out events that raise. Law: state and outputs are as if the other events were all there are."""

    def __init__(
        self,
        program: Program,
        state_type: StateType,
        worker: str,
        bounds: Bounds = BOUNDS,
        compiled: ToCompile | None = None,
    ) -> None:
        self._program, self._worker, self._bounds = program, worker, bounds
        self._code = UserCode(program, worker)
        state_type = for_readable(state_type)
        self._whole = Folder(program, state_type, worker, bounds, compiled)
        singly = replace(state_type, update_batch=None, update_windows=None)
        self._singly = Folder(program, singly, worker, bounds)

    @property
    def compiled_counts(self) -> CompiledCounts | None:
        """Figures of what machine code has folded, None if none is to."""
        found = self._whole.compiled_counts
        if found is None:
            return None
        return found._replace(interpreted_events=found.interpreted_events + self._singly.interpreted)

    def fold(self, state: State, release: Release) -> tuple[State, Made]:
        """Return the state after the release, the outputs and the events that were left out. Raises StateNotSavedError."""
        return self._fold(state, release, self._whole)

    def _fold(
        self, state: State, release: Release, folder: Folder, before: bytes | None = None
    ) -> tuple[State, Made]:
        """Fold the events of a release that do not raise. `before`: the state as bytes, if the caller has them."""
        made: Made = []
        while release.batches:
            before = before or self._saved(state)
            try:
                state, outputs = folder.fold(state, release)
            except UserCodeError as error:
                raised = _forgiven(error)
            else:
                return state, [*made, *_letters_apart(outputs, self._worker)]
            state = codec.decode(before)
            if raised.function == "update":
                first, offender, release = _around(release, raised)
                state, more = self._fold(state, first, folder, before)
                made += [
                    *more,
                    Skipped(offender, DeadLetter.of(offender.events()[0], offender.key(0), raised)),
                ]
            elif len(release) <= self._bounds.singly:
                folder = self._singly
                continue
            else:
                first, release = _halves(release)
                state, more = self._fold(state, first, folder, before)
                made += more
            before = None
        return state, made

    def fold_windows(self, states: list[State], batch: EventBatch, keys: EventBatch | None) -> Made:
        """Fold a batch into the partial states of windows, as `Folder.fold_windows` does."""
        before = self._saved(_kept(states))
        try:
            return [*_letters_apart(self._whole.fold_windows(states, batch, keys), self._worker)]
        except UserCodeError as error:
            _forgiven(error)
        _put_back(states, before)
        cuts = np.array([len(batch)]) if keys is None else batch.positions_of(keys)
        start, made = 0, Made()
        for i, stop in enumerate(cuts.tolist()):
            if start < stop:
                state = self._identity() if states[i] is NOTHING else states[i]
                states[i], more = self.fold(state, Release((0,), [batch.cut(start, stop)]))
                made += more
            start = stop
        return made

    def fold_joined(self, state: State, batch: EventBatch, parts: list[list[State]]) -> tuple[State, Made]:
        """Fold events, each into the base state joined with its window's partial states: see `Folder.fold_joined`."""
        before = self._saved([state, [_kept(of_child) for of_child in parts]])
        try:
            state, outputs = self._whole.fold_joined(state, batch, parts)
        except UserCodeError as error:
            _forgiven(error)
        else:
            return state, [*_letters_apart(outputs, self._worker)]
        state, kept = codec.decode(before)
        made: Made = []
        for row in range(len(batch)):
            for of_child in kept:
                if row in of_child:
                    state = self._code.call("join", self._program.join, state, of_child[row])
            state, more = self._fold(state, Release((0,), [batch.cut(row, row + 1)]), self._singly)
            made += more
        return state, made

    def _saved(self, state: Any) -> bytes:
        return saved(self._program, state, worker=self._worker)

    def _identity(self) -> State:
        return self._code.call("identity", self._program.identity)


def _letters_apart(outputs: Iterable[OutputBatch], worker: str) -> Iterator[OutputBatch | Skipped]:
    """Yield outputs, and the parts of events that were left out, which stand among them."""
    for batch in outputs:
        values = batch.values if isinstance(batch.values, list) else ()
        letters = {row: letter for row, value in enumerate(values) if (letter := letter_in(value))}
        if not letters:
            yield batch
            continue
        tags = batch.tag_list()
        for row, letter in letters.items():
            ts, seq = batch.ts[row : row + 1], batch.seq[row : row + 1]
            event = EventBatch.of(batch.stream, rank=batch.rank, tags=[tags[row]], ts=ts, seq=seq)
            yield Skipped(event, replace(letter, worker=worker))
        others = np.setdiff1d(np.arange(len(batch)), list(letters))
        if len(others):
            yield batch.take(others)


def _forgiven(error: UserCodeError) -> UserCodeError:
    """Return the error if an event is to blame, else raise it."""
    if error.function not in UPDATES:
        raise error
    return error


def _kept(states: list[State]) -> dict[int, State]:
    """Return the states that exist, by their places."""
    return {i: state for i, state in enumerate(states) if state is not NOTHING}


def _put_back(states: list[State], before: bytes) -> None:
    states[:] = [NOTHING] * len(states)
    for i, state in codec.decode(before).items():
        states[i] = state


def _around(release: Release, raised: UserCodeError) -> tuple[Release, EventBatch, Release]:
    """Return the events before the one that raised, that event, and the events after it."""
    rank = next(batch.rank for batch in release.batches if declared_stream(batch.stream) == raised.stream)
    first, rest = _cut(release, OrderKey(raised.ts, rank, raised.seq))
    offender, rest = _cut(rest, OrderKey(raised.ts, rank, raised.seq + 1))
    return first, offender.batches[0], rest


def _halves(release: Release) -> tuple[Release, Release]:
    """Return the first half of the events and the second."""
    _, part, row = release.merge_order()
    middle = len(release) // 2
    return _cut(release, release.batches[int(part[middle])].key(int(row[middle])))


def _cut(release: Release, key: OrderKey) -> tuple[Release, Release]:
    """Return the events below a key, and the others. Dependent events are processed in the order of their keys."""
    places = [batch.position_of(key) for batch in release.batches]
    parts = list(zip(release.lanes, release.batches, places, strict=True))
    below = [(lane, batch.cut(0, place)) for lane, batch, place in parts if place]
    above = [(lane, batch.cut(place, len(batch))) for lane, batch, place in parts if place < len(batch)]
    return _of(below, release), _of(above, release)


def _of(parts: list[tuple[int, EventBatch]], release: Release) -> Release:
    return Release(tuple(lane for lane, _ in parts), [batch for _, batch in parts], release.ordered)
