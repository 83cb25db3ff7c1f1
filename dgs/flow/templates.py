"""The three templates of operators (data-trace types, Table 3): `Stateless`, `KeyedOrdered`, `KeyedUnordered`.

Users write a subclass and pass it to `apply`. Each is right by its form: it can see no more of the order than its input's type promises.

>>> class Doubled(Stateless):
...     def on_item(self, key, value, emit): emit(key, 2 * value)
>>> overrides(Doubled(), "on_item"), overrides(KeyedOrdered(), "on_marker")
(True, False)
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar

from dgs.flow.panes import CountWindow

EmitPair = Callable[[Any, Any], None]
"""Takes a key and a value."""

EmitValue = Callable[[Any], None]
"""Takes a value; the key stays."""


class Template:
    """The base of the templates.

    `gives`: the type of the emitted values, if known. `changes_values`: it changes its values in place, so no other step may get them.
    `takes_key`, `takes_value`: the types of its input, if known.
    """

    gives: ClassVar[Any] = Any
    gives_key: ClassVar[Any] = Any
    takes_key: ClassVar[Any] = Any
    takes_value: ClassVar[Any] = Any
    changes_values: ClassVar[bool] = False


class Stateless(Template):
    """U(K, V) to U(L, W): each item on its own."""

    def on_item(self, key: Any, value: Any, emit: EmitPair) -> None:
        """Take an item; emit any number of items."""
        raise NotImplementedError


class KeyedOrdered(Template):
    """O(K, V) to O(K, W): a state for each key, which sees the items of its key in order.

    The state of a new key is `initial_state()`, at any time. `on_marker` is called at the end of each block for every key seen
    so far, in that block or earlier; a template without `on_marker` does nothing in blocks without items.
    """

    def initial_state(self) -> Any:
        """Return the state of a new key."""
        return None

    def on_item(self, state: Any, key: Any, value: Any, emit: EmitValue) -> Any:
        """Take an item and return the next state."""
        raise NotImplementedError

    def on_marker(self, state: Any, key: Any, at: int | None, emit: EmitValue) -> Any:  # noqa: ARG002 - the contract
        """Take the end of a block, whose time is `at`, and return the next state."""
        return state

    def on_end(self, state: Any, key: Any, emit: EmitValue) -> None:
        """Take the end of the input, after the last marker."""


class KeyedUnordered(Template):
    """U(K, V) to U(L, W): a state for each key, which sees the joined aggregate of each block's items.

    Law of `idle="skip"`: `update_state(s, identity) == s`. Law of `on_item`: it reads the state of the last marker only.
    """

    monoid: Any = None
    idle: ClassVar[str] = "all"

    def lift(self, key: Any, value: Any) -> Any:  # noqa: ARG002 - the contract
        """Return the aggregate of one item, by default the monoid's of the value."""
        return self.monoid.lift(value)

    def initial_state(self) -> Any:
        """Return the state of a key before the first block."""
        return None

    def update_state(self, state: Any, found: Any) -> Any:
        """Return the state after a block. `found`: the result of the monoid for the items of the key."""
        raise NotImplementedError

    def on_item(self, state: Any, key: Any, value: Any, emit: EmitPair) -> None:
        """Take an item, with the state of the last marker."""

    def on_marker(self, state: Any, key: Any, at: int | None, emit: EmitPair) -> None:
        """Take the end of a block, whose time is `at`, with the new state."""


def overrides(template: Template, method: str) -> bool:
    """Return whether a template has an optional method."""
    bases = (Stateless, KeyedOrdered, KeyedUnordered)
    base = next(cls for cls in bases if isinstance(template, cls))
    return getattr(type(template), method) is not getattr(base, method)


def has_end(template: KeyedOrdered) -> bool:
    """Return whether a template does something at the end of the input."""
    drops = isinstance(template, FoldOfCounts) and template.over.partial == "drop"
    return overrides(template, "on_end") and not drops


class FoldOfBlocks(KeyedOrdered):
    """The template of `fold` over blocks, or over all history: a key with items in a block emits its state at the marker.

    Law: a marker does nothing to a key without items in its block. So a key is idle between its blocks, or forgotten if it keeps no state.
    """

    def __init__(self, function: Callable[[Any, Any], Any], start: Any, *, keeps_state: bool) -> None:
        self.function = function
        self.start = start
        self.keeps_state = keeps_state

    def initial_state(self) -> Any:
        """Return the start, and False: there were no items."""
        return deepcopy(self.start), False

    def on_item(self, state: Any, key: Any, value: Any, emit: EmitValue) -> Any:  # noqa: ARG002 - the contract
        """Fold an item in."""
        return self.function(state[0], value), True

    def on_marker(self, state: Any, key: Any, at: int | None, emit: EmitValue) -> Any:  # noqa: ARG002 - the contract
        """Emit the state of a block with items."""
        folded, has_items = state
        if has_items:
            emit(deepcopy(folded))
        return (folded, False) if self.keeps_state else self.initial_state()


class FoldOfCounts(KeyedOrdered):
    """The template of `fold` over windows by count: a window emits with its last item. The state: the number of items, the open windows."""

    def __init__(self, function: Callable[[Any, Any], Any], start: Any, over: CountWindow) -> None:
        self.function = function
        self.start = start
        self.over = over

    def initial_state(self) -> Any:
        """Return no items and no windows."""
        return 0, []

    def on_item(self, state: Any, key: Any, value: Any, emit: EmitValue) -> Any:  # noqa: ARG002 - the contract
        """Fold an item into the open windows."""
        number, windows = state
        if number % self.over.slide == 0:
            windows = [*windows, (0, deepcopy(self.start))]
        windows = [(items + 1, self.function(folded, value)) for items, folded in windows]
        while windows and windows[0][0] == self.over.size:
            emit(windows[0][1])
            windows = windows[1:]
        return number + 1, windows

    def on_end(self, state: Any, key: Any, emit: EmitValue) -> None:  # noqa: ARG002 - the contract
        """Emit the windows that the end of the input cuts short, if the user wants them."""
        if self.over.partial == "emit":
            for _, folded in state[1]:
                emit(folded)


def fold_template(
    function: Callable[[Any, Any], Any], start: Any, over: CountWindow | str | None
) -> KeyedOrdered:
    """Return the template of a `fold` over windows of a number of items, blocks, or the whole history."""
    if isinstance(over, CountWindow):
        return FoldOfCounts(function, start, over)
    return FoldOfBlocks(function, start, keeps_state=over == "history")
