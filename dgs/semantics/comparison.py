"""Comparison of outputs, as multisets, with those of the sequential program.

Values are equal if their codec bytes are (NumPy scalars count as Python numbers). With a tolerance, numbers at the same
positions of otherwise equal values may differ by `tolerance * max(1, |a|, |b|)`, if one of them is a float.

>>> compare([1, 2, 2], [2, 1, 2])
Comparison(missing=(), unexpected=())
>>> compare([("a", 1.0)], [("a", 1.0 + 1e-12)], tolerance=1e-9).is_equal
True
>>> print(compare([1, 2, 2], [2, 3]))
the outputs differ from those of the sequential program: 2 missing, 1 unexpected
  missing:    1
  missing:    2
  unexpected: 3
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgs import codec
from dgs.model.user_code import shown

SHOWN = 5
"""The most differences of each kind to show."""

Numbered = tuple[tuple[float, ...], Any]
"""The numbers of a value, and the value."""


@dataclass(frozen=True)
class Comparison:
    """The difference of two multisets of outputs: the missing ones and the unexpected ones."""

    missing: tuple[Any, ...]
    unexpected: tuple[Any, ...]

    @property
    def is_equal(self) -> bool:
        """Whether the two multisets are equal."""
        return not self.missing and not self.unexpected

    def differences(self) -> list[str]:
        """Return the first differences, one per line."""
        lines = [f"missing:    {shown(value)}" for value in self.missing[:SHOWN]]
        return lines + [f"unexpected: {shown(value)}" for value in self.unexpected[:SHOWN]]

    def __str__(self) -> str:
        if self.is_equal:
            return "the outputs equal those of the sequential program"
        head = f"{len(self.missing):,} missing, {len(self.unexpected):,} unexpected"
        lines = "".join(f"\n  {line}" for line in self.differences())
        return f"the outputs differ from those of the sequential program: {head}{lines}"


def compare(expected: Iterable[Any], got: Iterable[Any], *, tolerance: float | None = None) -> Comparison:
    """Compare two multisets of values. Raises CodecError for values that the codec cannot encode."""
    wanted, found = list(expected), list(got)
    lacking, surplus = _difference(wanted, found)
    # only now, since searching every value for NumPy scalars takes longer than the comparison
    if lacking or surplus:
        lacking, surplus = _difference(lacking, surplus, plain)
    if tolerance is not None and lacking and surplus:
        # Equal values are not always the best pairs: 1.0 and 1.1 match 1.1 and 1.2 if 0.1 is allowed.
        attempts = (without_close_pairs(*pair, tolerance) for pair in ((lacking, surplus), (wanted, found)))
        lacking, surplus = next(attempts)
        if lacking or surplus:
            lacking, surplus = min((lacking, surplus), next(attempts), key=lambda rest: len(rest[0]))
    return Comparison(tuple(lacking), tuple(surplus))


def _difference(
    wanted: list[Any], found: list[Any], form: Callable[[Any], Any] | None = None
) -> tuple[list[Any], list[Any]]:
    """Return the values that only one of two multisets has, compared by `form(value)` (None: by the value)."""
    values: dict[bytes, list[Any]] = {}
    for value in wanted:
        values.setdefault(codec.encode(form(value) if form else value), []).append(value)
    surplus: list[Any] = []
    for value in found:
        same = values.get(codec.encode(form(value) if form else value))
        if same:
            same.pop()
        else:
            surplus.append(value)
    return [value for same in values.values() for value in same], surplus


def plain(value: Any) -> Any:
    """Return a value with NumPy scalars replaced by Python numbers, at every depth."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {plain(key): plain(item) for key, item in value.items()}
    return value


def without_close_pairs(
    lacking: list[Any], surplus: list[Any], tolerance: float
) -> tuple[list[Any], list[Any]]:
    """Pair values that are equal up to the tolerance; return those without a partner.

    A value is split into its numbers and the rest. Values with equal rests are paired in the order of their numbers, which finds
    the most pairs possible for values with one number.

    >>> without_close_pairs([("a", 1.0), ("b", 2.0)], [("b", 2.0), ("a", 1.0 + 1e-12)], 1e-9)
    ([], [])
    """
    rest: list[Any] = []
    waiting: dict[bytes, list[Numbered]] = {}
    for value in surplus:
        numbers, key = _split(value)
        waiting.setdefault(key, []).append((numbers, value))
    groups: dict[bytes, list[Numbered]] = {}
    for value in lacking:
        numbers, key = _split(value)
        groups.setdefault(key, []).append((numbers, value))
    for key, wanted in groups.items():
        found = waiting.pop(key, [])
        alone, left_over = _pair(wanted, found, tolerance)
        rest.extend(alone)
        waiting[key] = [((), value) for value in left_over]
    return rest, [value for group in waiting.values() for _, value in group]


def _pair(wanted: list[Numbered], found: list[Numbered], tolerance: float) -> tuple[list[Any], list[Any]]:
    """Match two lists of the same shape in the order of their numbers; the best matching if each value has one float."""
    wanted, found = sorted(wanted, key=_sorting), sorted(found, key=_sorting)
    taken = [False] * len(found)
    alone, start = [], 0
    for numbers, value in wanted:
        while start < len(found) and (taken[start] or _is_below(found[start][0], numbers, tolerance)):
            start += 1
        for i in range(start, len(found)):
            if not taken[i] and _are_close(numbers, found[i][0], tolerance):
                taken[i] = True
                break
            if numbers and not _is_close(numbers[0], found[i][0][0], tolerance):
                alone.append(value)
                break
        else:
            alone.append(value)
    return alone, [value for (_, value), used in zip(found, taken, strict=True) if not used]


def _sorting(item: Numbered) -> tuple[tuple[bool, float], ...]:
    return tuple((_is_nan(x), 0.0 if _is_nan(x) else x) for x in item[0])


def _is_below(found: tuple[float, ...], wanted: tuple[float, ...], tolerance: float) -> bool:
    return bool(wanted) and found[0] < wanted[0] and not _is_close(found[0], wanted[0], tolerance)


def _are_close(a: tuple[float, ...], b: tuple[float, ...], tolerance: float) -> bool:
    return all(_is_close(x, y, tolerance) for x, y in zip(a, b, strict=True))


def _is_close(a: float, b: float, tolerance: float) -> bool:
    """Return whether two numbers count as equal; two integers (floats to type checkers) only if they are equal."""
    if _is_nan(a) or _is_nan(b):
        return _is_nan(a) and _is_nan(b)
    if a == b or (type(a) is int and type(b) is int):
        return a == b
    try:
        return abs(a - b) <= tolerance * max(1.0, abs(a), abs(b)) < math.inf
    except OverflowError:  # an integer too large for a float
        return False


def _is_nan(number: float) -> bool:
    return number != number  # noqa: PLR0124 - math.isnan refuses integers too large for a float


def _split(value: Any) -> tuple[tuple[float, ...], bytes]:
    """Return the numbers of a value, and the bytes of the value without them."""
    numbers: list[float] = []
    rest = _without_numbers(value, numbers)
    return tuple(numbers), codec.encode(rest)


def _without_numbers(value: Any, numbers: list[float]) -> Any:
    value = plain(value)
    if type(value) in (int, float):
        numbers.append(value)
        return "number"
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        numbers.extend(value.ravel().tolist())
        return ("numbers", value.shape)
    if type(value) in (list, tuple):
        return [type(value).__name__, *(_without_numbers(item, numbers) for item in value)]
    if type(value) is dict:
        return ["dict", *_items_without_numbers(value, numbers)]
    return ["value", value]


def _items_without_numbers(value: dict[Any, Any], numbers: list[float]) -> Iterator[Any]:
    for key in sorted(value, key=codec.encode):
        yield key, _without_numbers(value[key], numbers)
