"""Folding many windows of a batch with one compiled loop, each into a state of its own; the interpreter folds the windows that deviate.

The law: equal to folding each window as a batch, from the state that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from dgs.compiled.lanes_as_columns import Array
from dgs.compiled.lowering.python_values import to_python, to_scalars, type_of
from dgs.compiled.lowering.value_types import Type, joined, scalars_of
from dgs.compiled.merged_run import Interpreter, Loop
from dgs.model.events import EventBatch, Int64s
from dgs.model.outputs import OutputBatch
from dgs.model.program import State


def common_type(states: Sequence[State]) -> Type:
    """Return the type that the types of all states join to. Raises Refused."""
    return reduce(joined, map(type_of, states))


class WindowsAtOnce:
    """The windows of a batch, from one start to one stop each. `interpreted`: the events of the windows that deviated, `deviations` of them."""

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
        rows = [to_scalars(state, self._of) for state in states]
        types = map(np.dtype, scalars_of(self._of))
        arrays = [np.array([row[n] for row in rows], of) for n, of in enumerate(types)]
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
        parts = zip(*(array.tolist() for array in arrays), strict=True) if arrays else iter([()] * count)
        found = [to_python(iter(part), self._of) for part in parts]
        return [others.get(number, state) for number, state in enumerate(found)]
