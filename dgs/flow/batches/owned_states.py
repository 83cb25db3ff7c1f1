"""The states that a user's `join` may change: those that nothing else holds. Of any other it gets a copy.

A `join` owns both states. But `lift` may return the value itself, which other steps also read, and `result` the state itself, which the
next block changes after it was emitted.

>>> class Lists:
...     def lift(self, value): return value
...     def result(self, state): return state
>>> value = [1]
>>> lift_of(Lists())(value) is value, result_of_kept(Lists())(value) is value
(False, False)
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

_PLAIN = frozenset([int, float, str, bytes, bool, type(None)])


def lift_of(monoid: Any) -> Callable[[Any], Any]:
    """Return the `lift` of a monoid whose `join` may change the lifted state: it copies a state that may be the value itself."""
    lift: Callable[[Any], Any] = monoid.lift
    if _is_ours(monoid):
        return lift
    may_hold_value = _of_dgs(monoid)  # the result of a user's monoid inside it

    def lifted(value: Any) -> Any:
        state = lift(value)
        return owned(state) if may_hold_value or state is value else state

    return lifted


def result_of_kept(monoid: Any) -> Callable[[Any], Any]:
    """Return the `result` of a monoid for states that are joined again: it gets a copy, since a user's may change or return the state."""
    result: Callable[[Any], Any] = monoid.result
    return result if _is_ours(monoid) else lambda state: result(owned(state))


def _is_ours(monoid: Any) -> bool:
    """Return whether a monoid, with all monoids inside it, is one of dgs: their results share nothing with states."""
    inner = [*getattr(monoid, "_parts", ()), *filter(None, [getattr(monoid, "monoid", None)])]
    return _of_dgs(monoid) and all(map(_is_ours, inner))


def _of_dgs(monoid: Any) -> bool:
    return type(monoid).__module__.startswith("dgs.monoids.")


def owned(state: Any) -> Any:
    """Return a state that may be changed: a copy, unless it cannot change."""
    kind = type(state)
    if kind in _PLAIN or (kind is tuple and _PLAIN.issuperset(map(type, state))):
        return state
    return deepcopy(state)
