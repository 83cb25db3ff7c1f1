"""Folding many windows of a batch with one compiled loop, each into a state of its own, and joining such states before events that end windows.

The interpreter folds the windows that deviate. The law: equal to folding each window as a batch, from its own state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import repeat

import numpy as np

from dgs.compiled.lanes_as_columns import Array
from dgs.compiled.lowering.python_values import flat, type_of
from dgs.compiled.lowering.value_types import (
    NONE,
    NUMBERS,
    Type,
    is_named_tuple,
    joined,
    scalars_of,
    tuple_of,
)
from dgs.compiled.merged_run import Interpreter, Loop
from dgs.model.events import EventBatch, Int64s
from dgs.model.outputs import OutputBatch
from dgs.model.program import State


def common_type(states: Sequence[State]) -> Type:
    """Return the type that the types of all states join to. Raises Refused."""
    classes = set(map(type, states))
    if type(None) in classes and len(classes) > 1:
        return joined(NONE, common_type([state for state in states if state is not None]))
    of = classes.pop()
    if not classes and of is int:
        return joined(type_of(min(states)), type_of(max(states)))
    if not classes and of in (float, bool):
        return type_of(states[0])
    if not classes and (of is tuple or is_named_tuple(of)) and len(set(map(len, states))) == 1:
        parts = (common_type(part) for part in zip(*states, strict=True))
        return tuple_of(*parts, of=None if of is tuple else of)
    return reduce(joined, map(type_of, states))


def arrays_of(states: Sequence[State], of: Type) -> list[Array]:
    """Return the scalars of states, converted to a type that their types join to, one array for each scalar."""
    if of in NUMBERS:
        return [np.array(states, scalars_of(of)[0])]
    if of.name == "tuple" and states:
        parts = zip(zip(*states, strict=True), of.parts, strict=True)
        return [array for part, of_part in parts for array in arrays_of(part, of_part)]
    if of.is_optional:
        there = [state is not None for state in states]
        fill = (
            states[there.index(True)]
            if any(there)
            else flat(of.parts[0]).value(*[0] * (len(scalars_of(of)) - 1))
        )
        known = [fill if state is None else state for state in states]
        return [np.array(there), *arrays_of(known, of.parts[0])]
    rows = zip(*map(flat(of).scalars, states), strict=True) if states else repeat(())
    return [np.array(row, scalar) for row, scalar in zip(rows, scalars_of(of), strict=False)]


class Partials:
    """The partial states to join into a state before events: one for each child and event, or `nothing`. Raises Refused."""

    def __init__(self, children: Sequence[Sequence[State]], nothing: object) -> None:
        self._of_children = []
        for states in children:
            there = [state is not nothing for state in states]
            if any(there):
                fill = states[there.index(True)]
                known = states if all(there) else [fill if one is nothing else one for one in states]
                self._of_children.append((np.array(there), known))

    def __len__(self) -> int:
        return len(self._of_children)

    def joined_type(self, state: Type) -> Type:
        """Return the type that the type of a state and those of all partial states join to. Raises Refused."""
        return reduce(joined, (common_type(states) for _, states in self._of_children), state)

    def columns(self, of: Type) -> list[Array]:
        """Return for each child which states exist, and their scalars."""
        found = [array for there, states in self._of_children for array in (there, *arrays_of(states, of))]
        for array in found:
            array.flags.writeable = False
        return found


class WindowsAtOnce:
    """The windows of a batch, from one start to one stop each.

    `interpreted`: the number of events in windows that deviated; `deviations`: the number of these windows.
    """

    def __init__(
        self, loop: Loop, of: Type, batch: EventBatch, bounds: tuple[Int64s, Int64s], columns: list[Array]
    ) -> None:
        self._loop, self._of, self._batch = loop, of, batch
        self._bounds, self._columns = bounds, columns
        self.interpreted = self.deviations = 0

    def fold(
        self, states: Sequence[State], interpret: Interpreter, outputs: list[OutputBatch]
    ) -> list[State]:
        """Return the states after their windows. `interpret`: folds a window that deviates."""
        arrays = arrays_of(states, self._of)
        starts, stops = self._bounds
        others: dict[int, State] = {}
        at, count = 0, len(states)
        while at < count:
            at, deviates = self._loop(at, count, starts, stops, *arrays, *self._columns)
            if deviates:
                window = self._batch.cut(int(starts[at]), int(stops[at]))
                others[at] = interpret(states[at], window, outputs)
                self.interpreted += len(window)
                self.deviations += 1
                at += 1
        lists = [array.tolist() for array in arrays]
        value = flat(self._of).value
        found = map(value, *lists) if lists else (value() for _ in range(count))
        return [others.get(number, state) for number, state in enumerate(found)]
