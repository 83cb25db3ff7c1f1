"""The loops of an update: one for each class of lanes and type of state, made on first use, and again when values that it reads change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dgs.compiled.lowering.loop_text import LaneClass, LoopText, loop_text
from dgs.compiled.lowering.merged_lanes import Order, merged_text
from dgs.compiled.lowering.method_source import Surroundings, function_of
from dgs.compiled.lowering.value_types import (
    DoesNotFit,
    NotYet,
    ReadsStream,
    Refusal,
    Refused,
    Type,
    has_floats,
    joined,
)
from dgs.compiled.lowering.window_lanes import windows_text
from dgs.compiled.merged_run import Loop
from dgs.model.program import Update

WINDOWS = (Order((-1,), ()),)
"""In place of an order of lanes: the loop folds windows of one lane."""
NESTED_TOO_DEEPLY = (RecursionError, MemoryError, SyntaxError)
"""The exceptions that Python raises for a text with too deep nesting."""
TOO_DEEP = Refusal("it has too many expressions or branches inside each other")
PATIENCE, TRIED_EVERY = 8, 64
"""Lanes that have been refused PATIENCE times are tried only every TRIED_EVERY times: finding the keys of their events takes time."""
MOST_CHANGES = 8
"""After so many changes of values that an update reads from outside, it is interpreted: each change needs another loop."""

Key = tuple[tuple[LaneClass, ...], tuple[Order, ...], Type, int]
"""The classes of lanes, their order, the type of states and the number of children, see `UpdateLoops.of`."""
Found = tuple[LoopText, Loop, Sequence[LoopText]]
"""A loop, and the texts for each lane."""


class UpdateLoops:
    """The loops of an update. `translate`: makes a loop of its text; it returns None if the loop is not ready yet.

    `reads_stream`: whether the update reads names of streams. `version`: changes when `of` may return other loops than before.
    """

    def __init__(self, update: Update, translate: Callable[[LoopText], Loop | None]) -> None:
        self._update, self._translate = update, translate
        self._loops: dict[Key, tuple[LoopText, Loop | None, Sequence[LoopText]] | Refusal] = {}
        self._ready: dict[Key, Found] = {}  # the loops that were returned, by the arguments of `of`
        self._widest: dict[tuple[LaneClass, ...], Type] = {}
        self._refused: dict[tuple[LaneClass, ...], int] = {}  # how often, without having been accepted since
        self._surroundings: Surroundings | None = None
        self._changes, self.reads_stream = 0, False
        self.version = 0

    def of(
        self, lanes: tuple[LaneClass, ...], orders: tuple[Order, ...], state: Type, children: int = 0
    ) -> Found:
        """Return the loop for lanes of some classes and a type of state, and the texts for each lane. Raises Refused.

        `children`: see `loop_text`.
        """
        function = function_of(self._update)
        if self._surroundings is not None and self._surroundings.have_changed():
            self._surroundings = None
            self._loops.clear()
            self._forget()
            self._changes += 1
        if self._changes > MOST_CHANGES:
            raise DoesNotFit(f"what it reads from outside has changed more than {MOST_CHANGES} times")
        if self._surroundings is None:
            self._surroundings = Surroundings(function, self._update.__self__)  # type: ignore[attr-defined]
        asked = (lanes, orders, state, children)
        if asked not in self._ready:
            self._ready[asked] = self._made(
                self._surroundings, (lanes, orders, self._widened(lanes, state), children)
            )
        return self._ready[asked]

    @contextmanager
    def trying(self, lanes: tuple[LaneClass, ...]) -> Iterator[None]:
        """Count whether the loop for lanes of some classes is refused. Raises NotYet if it has been so often, and may be again."""
        count = self._refused.get(lanes, 0)
        if count >= PATIENCE:
            self._refused[lanes] = count + 1
            if count % TRIED_EVERY:
                raise NotYet("it has been refused before")
        try:
            yield
        except (NotYet, DoesNotFit, ReadsStream):
            raise
        except Refused:
            self._refused[lanes] = count + 1
            raise
        self._refused.pop(lanes, None)

    def refuses(self, lane: LaneClass, state: Type) -> bool:
        """Return whether events of one lane are refused, whatever they are merged with. It only takes the text of their loop."""
        key = ((lane,), (), self._widened((lane,), state), 0)
        if key not in self._loops and self._surroundings is not None:
            self._loops[key] = self._lowered(self._surroundings, *key)
        return isinstance(self._loops.get(key), Refusal)

    def is_current(self, version: int | None) -> bool:
        """Return whether `of` would now return the same loops as at a version."""
        around = self._surroundings
        return version == self.version and around is not None and not around.have_changed()

    def _forget(self) -> None:
        self._ready.clear()
        self.version += 1

    def _made(self, surroundings: Surroundings, key: Key) -> Found:
        """Make a loop, and return it from now on, or raise Refused."""
        if key not in self._loops:
            self._loops[key] = self._lowered(surroundings, *key)
        found = self._loops[key]
        if isinstance(found, Refusal):
            raise Refused.of(found)
        text, loop, of_lanes = found
        if self._widest.get(key[0]) != of_lanes[0].state:
            self._widest[key[0]] = of_lanes[0].state
            self._forget()
        try:
            loop = loop or self._translate(text)
        except NESTED_TOO_DEEPLY:
            self._loops[key] = TOO_DEEP
            raise Refused.of(TOO_DEEP) from None
        except Refused as refused:
            self._loops[key] = refused.refusal  # trying again at each batch would take time
            raise
        if loop is None:
            raise NotYet("it is being compiled")
        self._loops[key] = text, loop, of_lanes
        return text, loop, of_lanes

    def _lowered(
        self,
        surroundings: Surroundings,
        lanes: tuple[LaneClass, ...],
        orders: tuple[Order, ...],
        state: Type,
        children: int,
    ) -> tuple[LoopText, None, Sequence[LoopText]] | Refusal:
        """Return the text of a loop for lanes, and the texts for each lane, or why there is none. Raises ReadsStream."""
        try:
            if len(lanes) > 1:
                text, each = merged_text(surroundings.of, surroundings, lanes, orders, state)
                return text, None, each
            if orders == WINDOWS:
                text, of_lane = windows_text(surroundings.of, surroundings, lanes[0], state)
                return text, None, (of_lane,)
            text = loop_text(surroundings.of, surroundings, lanes[0], state, children=children)
        except ReadsStream:
            self.reads_stream = True
            raise
        except Refused as refused:
            return refused.refusal
        except NESTED_TOO_DEEPLY:
            return TOO_DEEP
        return text, None, (text,)

    def have_floats(self, lanes: tuple[LaneClass, ...], orders: tuple[Order, ...], state: Type) -> bool:
        """Return whether the states of a loop over several lanes have floats. Raises Refused."""
        return has_floats(self._widened(lanes, state)) or has_floats(self.of(lanes, orders, state)[0].state)

    def _widened(self, lanes: tuple[LaneClass, ...], state: Type) -> Type:
        """Return the widest type of a state so far, if the state fits into it."""
        try:
            return joined(self._widest.get(lanes, state), state)
        except Refused:
            return state
