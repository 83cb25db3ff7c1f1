"""The laws of operators, tried on values.

>>> from dgs.pico.operators import fold_reduce, reduce
>>> start_mistake(fold_reduce(lambda s, x: s + x, 1, lambda a, b: a + b))
'join(1, 1) == 2'
>>> broken_law(reduce(lambda a, b: a - b), [1, 2, 3])
'join(1, join(1, 1)) == 1, join(join(1, 1), 1) == -1'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import reduce
from itertools import product
from typing import Any

from dgs.errors.raised import RAISED, is_ours
from dgs.pico.operators import Combine


def start_mistake(operator: Combine) -> str | None:
    """Return how the start of a fold changes a state that it is joined with, tried with the start itself; None if it does not."""
    start = operator.start
    try:
        joined = operator.join(deepcopy(start), deepcopy(start))
    except RAISED as error:
        if is_ours(error):
            raise
        return f"join({start!r}, {start!r}) raises {error!r}"
    return None if _equal(joined, start) else f"join({start!r}, {start!r}) == {joined!r}"


def broken_law(operator: Combine, values: Sequence[Any]) -> str | None:
    """Return a law that an operator breaks on values, with both sides; None if all hold. Values: pairs for an operator of two collections."""
    if operator.fold is not None and (text := _cut(operator, values)):
        return text
    states = [_folded(operator, [value]) for value in values[:4]]
    return next((text for three in product(states, repeat=3) if (text := _algebra(operator, *three))), None)


def _cut(operator: Combine, values: Sequence[Any]) -> str | None:
    """Compare the fold of all values with that of every two parts, joined."""
    whole = _folded(operator, values)
    for cut in range(len(values) + 1):
        left, right = _folded(operator, values[:cut]), _folded(operator, values[cut:])
        joined = operator.join(deepcopy(left), deepcopy(right))
        if not _equal(joined, whole):
            return f"in one part {whole!r}, in parts of {cut} and {len(values) - cut} values {joined!r}"
    return None


def _algebra(operator: Combine, a: Any, b: Any, c: Any) -> str | None:
    def join(left: Any, right: Any) -> Any:
        return operator.join(deepcopy(left), deepcopy(right))

    if not _equal(one := join(a, join(b, c)), other := join(join(a, b), c)):
        return f"join({a!r}, join({b!r}, {c!r})) == {one!r}, join(join({a!r}, {b!r}), {c!r}) == {other!r}"
    if operator.commutative and not _equal(one := join(a, b), other := join(b, a)):
        return f"join({a!r}, {b!r}) == {one!r}, join({b!r}, {a!r}) == {other!r}"
    return None


def _folded(operator: Combine, values: Iterable[Any]) -> Any:
    if operator.fold is None:
        return reduce(operator.join, deepcopy(list(values)))
    spread = (lambda state, pair: operator.fold(state, *pair)) if operator.binary else operator.fold  # type: ignore[misc]
    return reduce(spread, values, deepcopy(operator.start))


def _equal(left: Any, right: Any) -> bool:
    return bool(left == right)
