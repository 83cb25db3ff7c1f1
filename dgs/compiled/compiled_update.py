"""Folding batches with a compiled update: machine code where it certainly does what Python does, the interpreter for all other events.

Law: for every batch, the state and every event's outputs are those of the interpreted update, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from dgs.compiled.called_loops import CalledLoop
from dgs.compiled.lanes_as_columns import columns_of, joined_class, lane_class, shape_of, with_nulls
from dgs.compiled.loop_files import machine_code
from dgs.compiled.lowering.loop_text import LaneClass, LoopText
from dgs.compiled.lowering.merged_lanes import Order
from dgs.compiled.lowering.value_types import (
    DoesNotFit,
    NotYet,
    ReadsStream,
    Refusal,
    Refused,
)
from dgs.compiled.merged_run import Interpreter, Loop, MergedRun, Rest
from dgs.compiled.states_as_arrays import Keys, ScalarState, form_of, have_no_key, keys_of, state_type
from dgs.compiled.update_loops import WINDOWS, UpdateLoops
from dgs.compiled.verified_folds import VerifiedFolds
from dgs.compiled.windows_at_once import Partials, WindowsAtOnce, common_type
from dgs.compiled.written_outputs import Written
from dgs.errors import InternalError
from dgs.errors.resources import CompileError
from dgs.model.events import EventBatch, Int64s
from dgs.model.outputs import OutputBatch
from dgs.model.program import State, Update

MOST_DEVIATIONS = 8
"""After so many deviations in one batch, or one run of several lanes, its rest is interpreted."""
MOST_KEPT, MOST_FOLDS = 4096, 64
"""Folds that are prepared for batches of at most MOST_KEPT events are kept for later batches, for MOST_FOLDS streams."""
UNTIL_IT_FITS = 64
"""The number of events to interpret before the state is checked again."""
RowsInterpreter = Callable[[State, int, int, list[OutputBatch]], State]
"""Interprets the events of a batch from one row to another, and adds the outputs."""


class CompiledUpdate:
    """An update as loops over columns: one loop for each class of lanes and type of state, made at the first batch.

    `interpret`: folds events that are not compiled. `is_required`: a refusal raises CompileError. `refusals`: why batches were interpreted,
    by their kinds. `apart`: lanes whose events are refused, so that others are merged without them. `events`: how many were compiled.
    `deviations`: how many of them the compiled loop left to the interpreter. `interpreted`: how many were interpreted, with these.
    `translate`: makes a loop of its text; it returns None if the loop is not ready yet.
    """

    def __init__(
        self,
        update: Update,
        interpret: Interpreter,
        *,
        is_required: bool = False,
        translate: Callable[[LoopText], Loop | None] = machine_code,
    ) -> None:
        self._update, self._interpret, self._is_required = update, interpret, is_required
        self._loops = UpdateLoops(update, translate)
        self._lanes: dict[int, tuple[LaneClass, EventBatch]] = {}
        self._nullable: dict[LaneClass, LaneClass] = {}
        self._folds: dict[str, _Fold] = {}
        self._verified = VerifiedFolds()
        self.apart: set[int] = set()
        self.refusals: dict[tuple[str, ...], Refusal] = {}
        self.events = self.deviations = self.interpreted = 0

    def fold(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        """Return the state after a batch; add its outputs. Raises CompileError if it must be compiled and is not accepted."""

        def interpret(state: State, start: int, stop: int, made: list[OutputBatch]) -> State:
            return self._interpret(state, batch.cut(start, stop), made)

        return self._fold(state, batch, None, interpret, outputs)

    def fold_joined(
        self,
        state: State,
        batch: EventBatch,
        partials: Partials,
        interpret: RowsInterpreter,
        outputs: list[OutputBatch],
    ) -> State:
        """Return the state after a batch, with partial states joined into it before each event; add the outputs.

        `interpret`: does the same for the events of some rows. A `join` that is not compiled is no error.
        """
        return self._fold(state, batch, partials, interpret, outputs)

    def _fold(
        self,
        state: State,
        batch: EventBatch,
        partials: Partials | None,
        interpret: RowsInterpreter,
        outputs: list[OutputBatch],
    ) -> State:
        """Fold a batch by a compiled loop; interpret it if the loop is refused."""
        try:
            fold, given, columns = self._prepared(state, batch, partials)
        except Refused as refused:
            self._refuse([batch], refused, may_raise=partials is None)
            self.interpreted += len(batch)
            return interpret(state, 0, len(batch), outputs)

        def compiled(state: State, outputs: list[OutputBatch]) -> State:
            before = self.interpreted
            state = self._folded(fold, columns, given, state, interpret)
            self.events += len(batch) - (self.interpreted - before)
            found = fold.written.outputs()
            if found is not None:
                outputs.append(found)
            return state

        return self._verified.fold(
            compiled, lambda s, made: interpret(s, 0, len(batch), made), state, outputs
        )

    def merged(
        self,
        state: State,
        lanes: Mapping[int, Sequence[EventBatch]],
        ordered: Mapping[int, Sequence[int]],
        *,
        is_by_key: bool = True,
    ) -> MergedRun | None:
        """Return a run of a loop over several lanes; None if they are folded in another way.

        `ordered`: the lanes that each lane depends on. `is_by_key`: the interpreter would merge the lanes by OrderKey. Lanes are
        merged so also if the state has floats, whose sums depend on the order. Lanes of earlier runs with which these are ordered
        take part without events, so that there are few different loops.
        """
        if not self.apart.isdisjoint(lanes):
            return None
        try:
            for lane, own in lanes.items():
                known = [] if lane not in self._lanes else [self._lanes[lane][0]]
                found = joined_class([*known, *map(self._lane_class, own)])
                self._lanes[lane] = found, own[0].cut(0, 0)
            together = self._together(lanes, ordered)
            batches = [list(lanes.get(lane, [self._lanes[lane][1]])) for lane in together]
            classes = tuple(self._lanes[lane][0] for lane in together)
            with self._loops.trying(classes):
                keys = keys_of(state, [batch for of_lane in batches for batch in of_lane])
                of = state_type(state, keys)
                are_ordered = all({*together} <= {lane, *ordered.get(lane, ())} for lane in together)
                if not are_ordered and self._loops.have_floats(classes, self._orders(together, ordered), of):
                    if not is_by_key:
                        return None
                    ordered = {lane: [one for one in together if one != lane] for lane in together}
                orders = self._orders(together, ordered)
                text, loop, texts = self._loops.of(classes, orders, of)
                twins = [n for n, order in enumerate(orders) if order.twins]
                return MergedRun(form_of(text.state, keys), loop, batches, classes, texts, with_numbers=twins)
        except ReadsStream:  # the update needs classes of lanes with the names of streams
            self._lanes.clear()
            return self.merged(state, lanes, ordered, is_by_key=is_by_key)
        except Refused as refused:
            if is_by_key:  # otherwise stretches of single lanes give the reason, if they are refused, too
                self._refuse([batch for own in lanes.values() for batch in own], refused)
            if isinstance(refused, (NotYet, DoesNotFit)) or not self._set_apart(state, lanes, ordered):
                return None
            return self.merged(state, lanes, ordered, is_by_key=is_by_key)

    def _set_apart(
        self, state: State, lanes: Mapping[int, Sequence[EventBatch]], ordered: Mapping[int, Sequence[int]]
    ) -> bool:
        """Set those lanes apart that are refused on their own, if others are not. Return whether merging is to be tried again."""
        together = self._together(lanes, ordered)
        found = {lane for lane, own in lanes.items() if type(state) is dict and have_no_key(own)}
        batches = [batch for lane, own in lanes.items() if lane not in found for batch in own]
        try:
            of = state_type(state, keys_of(state, batches))
            left = [lane for lane in together if lane not in found]
            found |= {lane for lane in left if self._loops.refuses(self._lanes[lane][0], of)}
        except ReadsStream:
            self._lanes.clear()
            return True
        except Refused:
            return False
        if not found or found.issuperset(together):
            return False
        self.apart |= found
        return True

    def _together(self, lanes: Iterable[int], ordered: Mapping[int, Sequence[int]]) -> list[int]:
        """Return the lanes that one loop merges, by rank."""
        group, new = set(lanes), list(lanes)
        while new:
            found = {one for lane in new for one in ordered.get(lane, ())} & self._lanes.keys() - self.apart
            new = list(found - group)
            group |= found
        return sorted(group, key=lambda lane: (self._lanes[lane][1].rank, lane))

    def _orders(self, together: list[int], ordered: Mapping[int, Sequence[int]]) -> tuple[Order, ...]:
        """Return the order of each lane for the loop. Lanes are numbered by their places in `together`."""
        place = {lane: number for number, lane in enumerate(together)}
        waits = [tuple(place[one] for one in ordered.get(lane, ()) if one in place) for lane in together]
        ranks = [self._lanes[lane][1].rank for lane in together]
        of_rank = {rank: [n for n, other in enumerate(ranks) if other == rank] for rank in ranks}
        depend = {rank for n, rank in enumerate(ranks) if not set(waits[n]).isdisjoint(of_rank[rank])}
        twins = [tuple(m for m in of_rank[rank] if m != n and rank in depend) for n, rank in enumerate(ranks)]
        return tuple(map(Order, waits, twins))

    def fold_merged(self, run: MergedRun, state: State, rest: Rest, outputs: list[OutputBatch]) -> State:
        """Return the state after a run of several lanes; add the outputs. `rest`: interprets the rest of all lanes."""

        def compiled(state: State, made: list[OutputBatch]) -> State:
            return run.fold(state, self._interpret, rest, made, MOST_DEVIATIONS)

        state = self._verified.fold(compiled, lambda s, made: rest(s, run.batches, made), state, outputs)
        self.events += run.count - run.interpreted
        self.interpreted += run.interpreted
        self.deviations += run.deviations
        return state

    def fold_windows(
        self,
        states: Sequence[State],
        batch: EventBatch,
        bounds: tuple[Int64s, Int64s],
        outputs: list[OutputBatch],
    ) -> list[State] | None:
        """Return the states after the windows of a batch, each folded into its own. None if they are folded in another way.

        `bounds`: where each window starts and stops.
        """
        try:
            lane, of = self._lane_class(batch), common_type(states)
            _, loop, (text,) = self._loops.of((lane,), WINDOWS, of)
            columns = [*columns_of(batch, lane, text), np.zeros(1, np.int64)]
        except ReadsStream:
            self._lanes.clear()
            return None
        except Refused:
            return None  # folding a single window gives the reason, if it is refused, too
        run = WindowsAtOnce(loop, text.state, batch, bounds, columns)

        def compiled(states: list[State], made: list[OutputBatch]) -> list[State]:
            return run.fold(states, self._interpret, made)

        def interpreted(states: list[State], made: list[OutputBatch]) -> list[State]:
            parts = zip(states, *(rows.tolist() for rows in bounds), strict=True)
            return [self._interpret(state, batch.cut(*rows), made) for state, *rows in parts]

        found: list[State] = self._verified.fold(compiled, interpreted, list(states), outputs)
        self.events += int(sum(bounds[1] - bounds[0])) - run.interpreted
        self.interpreted += run.interpreted
        self.deviations += run.deviations
        return found

    def _lane_class(self, batch: EventBatch) -> LaneClass:
        """Return the class of the lane of a batch; once nulls have come, the class for batches with nulls. Raises Refused."""
        found = lane_class(batch, reads_stream=self._loops.reads_stream)
        known = self._nullable.get(found)
        if known is None:
            wide = reduce(with_nulls, self._nullable, found)
            self._nullable = {one: with_nulls(one, wide) for one in (*self._nullable, found)}
            return self._nullable[found]
        return known

    def text(self, state: State, batch: EventBatch) -> LoopText | Refusal:
        """Return the text of the loop for a batch like this one, or why it is interpreted."""
        try:
            return self._new_fold(state, batch, None, keys_of(state, [batch], are_many_allowed=True)).text
        except Refused as refused:
            return refused.refusal

    def _prepared(
        self, state: State, batch: EventBatch, partials: Partials | None
    ) -> tuple[_Fold, Sequence[Any], list[Any]]:
        """Return the fold for a batch, the state in the form for the loop, and the columns. Raises Refused."""
        fold, given = self._folds.get(batch.stream), None
        if (
            fold is not None
            and partials is None
            and fold.suits(batch)
            and self._loops.is_current(fold.version)
        ):
            given = fold.form.given(state)
        if fold is None or given is None:
            with self._loops.trying((self._lane_class(batch),)):
                fold = self._new_fold(state, batch, partials, keys_of(state, [batch]))
            given = fold.form.given(state)
            if given is None:
                raise InternalError(
                    problem=f"a compiled loop does not take a state of {type(state).__name__}"
                )
            if fold.version is not None:
                if len(self._folds) >= MOST_FOLDS:
                    self._folds.clear()
                self._folds[batch.stream] = fold
        else:
            fold.written.begin(batch)
        columns: list[Any] = columns_of(batch, fold.lane, fold.text)
        if partials is not None:
            columns += partials.columns(fold.text.state)
        return fold, given, [*columns, *fold.form.of_batch(batch), *fold.places]

    def _new_fold(
        self, state: State, batch: EventBatch, partials: Partials | None, keys: Keys | None
    ) -> _Fold:
        """Return a fold for batches like this one. `keys`: its keys if the state is a dict. Raises Refused."""
        of = state_type(state, keys)
        if partials is not None:
            of = partials.joined_type(of)
        children = 0 if partials is None else len(partials)
        try:
            lane = self._lane_class(batch)
            text, loop, _ = self._loops.of((lane,), (), of, children)
        except ReadsStream:  # the update needs a class of lanes with the name of the stream
            self._lanes.clear()
            lane = self._lane_class(batch)
            text, loop, _ = self._loops.of((lane,), (), of, children)
        is_kept = keys is None and partials is None and len(batch) <= MOST_KEPT
        version = self._loops.version if is_kept else None
        return _Fold(batch, (lane, text, loop), form_of(text.state, keys), version)

    def _refuse(self, batches: Iterable[EventBatch], refused: Refused, *, may_raise: bool = True) -> None:
        """Note why batches are interpreted. Values that do not fit are not the program's fault."""
        if isinstance(refused, NotYet):
            return
        kinds = tuple(dict.fromkeys(str(tag.kind) for batch in batches for tag in batch.tags))
        self.refusals[kinds] = refused.refusal
        if self._is_required and may_raise and not isinstance(refused, DoesNotFit):
            program = type(getattr(self._update, "__self__", self._update)).__name__
            raise CompileError(program=program, kind=", ".join(kinds), problem=str(refused.refusal))

    def _folded(
        self,
        fold: _Fold,
        columns: list[Any],
        given: Sequence[Any] | None,
        state: State,
        interpret: RowsInterpreter,
    ) -> State:
        """Return the state after a batch. The loop goes on after each event that it leaves to the interpreter.

        `given`: the state in the form for the loop.
        """
        written, form = fold.written, fold.form

        def interpreted(state: State, start: int, stop: int) -> State:
            made: list[OutputBatch] = []
            state = interpret(state, start, stop, made)
            self.interpreted += stop - start
            written.add(start, stop, made)
            return state

        count, at = len(written.batch), 0
        for attempt in range(MOST_DEVIATIONS):
            given = form.given(state) if attempt else given
            step = UNTIL_IT_FITS
            if given is not None:
                at, deviates, *returned = fold.loop(at, count, *columns, *given)
                state = form.taken(state, returned)
                if not deviates:
                    return state
                self.deviations += 1
                step = 1
            stop = min(at + step, count)
            state, at = interpreted(state, at, stop), stop
            if at == count:
                return state
        return interpreted(state, at, count)


class _Fold:
    """The prepared fold of the batches of a stream: their class, the loop, the form of states, and the arrays it writes to.

    `version`: of the loops, None if this is for one batch. `places`: the addresses of the last columns.
    """

    def __init__(
        self, batch: EventBatch, of: tuple[LaneClass, LoopText, Loop], form: ScalarState, version: int | None
    ) -> None:
        self.lane, self.text, self.loop = of
        self.form, self.version = form, version
        self._tags, self._payload = batch.tags, shape_of(batch.payload)
        room = None if version is None else MOST_KEPT
        self.written = Written(batch, self.text.sites, form.objects, room=room)
        loop = self.loop
        self.places: Sequence[Any] = self.written.arguments
        if version is not None and isinstance(loop, CalledLoop):
            self.places = loop.places(self.places)

    def suits(self, batch: EventBatch) -> bool:
        """Return whether another batch of the stream certainly has the same class, by a quick test."""
        tags = batch.tags
        are_same = tags is self._tags or (len(tags) == 1 and tags == self._tags)
        return are_same and len(batch) <= MOST_KEPT and bool(shape_of(batch.payload) == self._payload)
