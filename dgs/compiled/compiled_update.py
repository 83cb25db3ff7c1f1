"""Folding batches with a compiled update: machine code where it is sure to do what Python does, the interpreter for the other events.

Law: for every batch, the state and every event's outputs are those of the interpreted update, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dgs.compiled.lanes_as_columns import Array, columns_of, lane_class
from dgs.compiled.loop_files import machine_code
from dgs.compiled.loop_text import LaneClass, LoopText, loop_text
from dgs.compiled.method_source import Surroundings, function_of
from dgs.compiled.python_values import to_python, to_scalars, type_of
from dgs.compiled.value_types import DoesNotFit, NotYet, Refusal, Refused, Type, joined
from dgs.compiled.written_outputs import Written
from dgs.errors.resources import CompileError
from dgs.model.events import EventBatch
from dgs.model.outputs import OutputBatch
from dgs.model.program import State, Update

Interpreter = Callable[[State, EventBatch, list[OutputBatch]], State]
"""Folds a batch with the user's own update, and adds the outputs."""

Loop = Callable[..., Any]
"""A loop: rows to start and stop at, columns, scalars of a state -> the row it has come to, whether that deviates, scalars."""

MOST_DEVIATIONS = 8
"""After so many in one batch, the rest of it is interpreted."""
UNTIL_IT_FITS = 64
"""The number of events that are interpreted before the state is looked at again."""


class CompiledUpdate:
    """An update as loops over columns: one loop for each class of lanes and type of state, made when the first batch comes.

    `interpret`: folds what is not compiled. `is_required`: what is refused raises CompileError. `refusals`: why batches were interpreted,
    by their kinds. `events`: how many were compiled. `deviations`: how many the compiled loop left to the interpreter. `interpreted`: how
    many were interpreted, those included. `translate`: makes a loop of its text; None: it is not ready yet. `least`: so many events are
    interpreted first, as compiling is not worth it for fewer.
    """

    def __init__(
        self,
        update: Update,
        interpret: Interpreter,
        *,
        is_required: bool = False,
        translate: Callable[[LoopText], Loop | None] = machine_code,
        least: int = 0,
    ) -> None:
        self._update, self._interpret, self._is_required = update, interpret, is_required
        self._translate, self._least = translate, least
        self._loops: dict[tuple[LaneClass, Type], tuple[LoopText, Loop | None] | Refusal] = {}
        self._widest: dict[LaneClass, Type] = {}
        self._surroundings: Surroundings | None = None
        self.refusals: dict[tuple[str, ...], Refusal] = {}
        self.events = self.deviations = self.interpreted = 0

    def fold(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        """Return the state after a batch; add its outputs. Raises CompileError if it must be compiled and is not accepted."""
        try:
            text, loop, arrays = self._prepared(state, batch)
        except Refused as refused:
            self._refuse(batch, refused)
            self.interpreted += len(batch)
            return self._interpret(state, batch, outputs)
        written = Written(batch, text.sites)
        before = self.interpreted
        state = self._folded(text.state, loop, state, arrays, written)
        self.events += len(batch) - (self.interpreted - before)
        found = written.outputs()
        if found is not None:
            outputs.append(found)
        return state

    def text(self, state: State, batch: EventBatch) -> LoopText | Refusal:
        """Return the text of the loop for a batch like this one, or why it is interpreted."""
        try:
            return self._prepared(state, batch)[0]
        except Refused as refused:
            return refused.refusal

    def _prepared(self, state: State, batch: EventBatch) -> tuple[LoopText, Loop, list[Array]]:
        """Return the loop for a batch, and its columns. Raises Refused."""
        if self.interpreted < self._least:
            raise NotYet("there were few events so far")
        lane = lane_class(batch, reads_stream="stream" in function_of(self._update).__code__.co_names)
        text, loop = self._loop(lane, type_of(state))
        return text, loop, columns_of(batch, lane)

    def _refuse(self, batch: EventBatch, refused: Refused) -> None:
        """Note why a batch is interpreted. Values that do not fit are no fault of the program."""
        if isinstance(refused, NotYet):
            return
        kinds = tuple(dict.fromkeys(str(tag.kind) for tag in batch.tags))
        self.refusals[kinds] = refused.refusal
        if self._is_required and not isinstance(refused, DoesNotFit):
            program = type(getattr(self._update, "__self__", self._update)).__name__
            raise CompileError(program=program, kind=", ".join(kinds), problem=str(refused.refusal))

    def _folded(self, of: Type, loop: Loop, state: State, arrays: list[Array], written: Written) -> State:
        """Return the state after a batch. The loop goes on after each event that it leaves to the interpreter."""
        count, at = len(written.batch), 0
        arguments = (*arrays, *written.arguments)
        for _ in range(MOST_DEVIATIONS):
            step = UNTIL_IT_FITS
            if _is_of(state, of):
                at, deviates, *scalars = loop(at, count, *arguments, *to_scalars(state, of))
                state = to_python(iter(scalars), of)
                if not deviates:
                    return state
                self.deviations += 1
                step = 1
            stop = min(at + step, count)
            state, at = self._interpreted(state, at, stop, written), stop
        return self._interpreted(state, at, count, written) if at < count else state

    def _interpreted(self, state: State, start: int, stop: int, written: Written) -> State:
        """Return the state after events that the interpreter processes."""
        outputs: list[OutputBatch] = []
        state = self._interpret(state, written.batch.cut(start, stop), outputs)
        self.interpreted += stop - start
        written.add(start, stop, outputs)
        return state

    def _loop(self, lane: LaneClass, state: Type) -> tuple[LoopText, Loop]:
        """Return the loop for a class of lanes and a type of state. Raises Refused."""
        function = function_of(self._update)
        if self._surroundings is not None and self._surroundings.have_changed():
            self._surroundings = None
            self._loops.clear()
        if self._surroundings is None:
            self._surroundings = Surroundings(function, self._update.__self__)  # type: ignore[attr-defined]
        state = self._widened(lane, state)
        found = self._loops.get((lane, state))
        if found is None:
            try:
                found = loop_text(function, self._surroundings, lane, state), None
            except Refused as refused:
                found = refused.refusal
            self._loops[lane, state] = found
        if isinstance(found, Refusal):
            raise Refused.of(found)
        text, loop = found
        self._widest[lane] = text.state
        loop = loop or self._translate(text)
        if loop is None:
            raise NotYet("it is being compiled")
        self._loops[lane, state] = text, loop
        return text, loop

    def _widened(self, lane: LaneClass, state: Type) -> Type:
        """Return the widest type of a state so far, if the state fits into it."""
        try:
            return joined(self._widest.get(lane, state), state)
        except Refused:
            return state


def _is_of(state: State, of: Type) -> bool:
    """Whether a state can be one of a type."""
    try:
        return joined(of, type_of(state)) == of
    except Refused:
        return False
