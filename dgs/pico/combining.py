"""The parts of a lowered pipeline that have a state: the monoid of an operator, windows by count with their numbers, rows of a list.

>>> from dgs.pico.operators import fold_reduce
>>> total = Combined(fold_reduce(lambda s, x: s + x, 0, lambda a, b: a + b), has_places=False)
>>> total.result(total.join(total.lift(1), total.folded(total.lift(2), 3)))
6
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from dgs.flow.batches.owned_states import owned
from dgs.flow.panes import CountWindow
from dgs.flow.templates import EmitValue, KeyedOrdered
from dgs.pico.operators import Combine


class Combined:
    """The monoid of an operator: a state is empty, or holds one value. With places, the value is `(place, value)`."""

    def __init__(self, operator: Combine, *, has_places: bool) -> None:
        self.operator, self.has_places = operator, has_places

    def identity(self) -> Any:
        """Return the state of no values."""
        return ()

    def lift(self, value: Any) -> Any:
        """Return the state of one value."""
        return self.folded((), value)

    def folded(self, state: Any, value: Any) -> Any:
        """Return the state with one more value."""
        operator = self.operator
        place, value = value if self.has_places else ((), value)
        if operator.fold is None:
            value = owned(value)  # other steps have the value, too, and `join` may change it
            joined = operator.join(state[1], value) if state else value
        else:
            values = value if operator.binary else (value,)
            joined = operator.fold(state[1] if state else deepcopy(operator.start), *values)
        return (max(state[0], place) if state else place, joined)

    def join(self, left: Any, right: Any) -> Any:
        """Return the state of both."""
        if not left or not right:
            return left or right
        return (max(left[0], right[0]), self.operator.join(left[1], right[1]))

    def result(self, state: Any) -> Any:
        """Return the combined value."""
        return state if self.has_places else state[1]


class Windows(KeyedOrdered):
    """The windows by count of each key: `(number, items)`, with the last item of each."""

    def __init__(self, over: CountWindow) -> None:
        self.over = over

    def initial_state(self) -> Any:
        """Return no items and no windows."""
        return 0, []

    def on_item(self, state: Any, key: Any, value: Any, emit: EmitValue) -> Any:  # noqa: ARG002 - the contract
        """Add an item to the open windows."""
        count, windows = state
        if count % self.over.slide == 0:
            windows = [*windows, (count // self.over.slide, [])]
        windows = [(number, [*items, value]) for number, items in windows]
        for number, items in windows:
            if len(items) == self.over.size:
                emit((number, items))
        return count + 1, [one for one in windows if len(one[1]) < self.over.size]

    def on_end(self, state: Any, key: Any, emit: EmitValue) -> None:  # noqa: ARG002 - the contract
        """Emit the windows that the end cuts short, if the user wants them."""
        for one in state[1] if self.over.partial == "emit" else ():
            emit(one)


class Numbered(KeyedOrdered):
    """Gives each value of a list its row, because times may be equal."""

    def initial_state(self) -> Any:
        """Return the row of the first value."""
        return 0

    def on_item(self, state: Any, key: Any, value: Any, emit: EmitValue) -> Any:  # noqa: ARG002 - the contract
        """Give a value its row."""
        place, found = value
        emit(((*place, state), found))
        return state + 1
