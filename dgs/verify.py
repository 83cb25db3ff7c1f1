"""Comparing outputs, as multisets, with those of the sequential program.

Values are equal when their codec bytes are (NumPy scalars count as the Python numbers they stand for). With a tolerance,
floats at the same places of otherwise equal values may differ by `tolerance * max(1, |a|, |b|)`.

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
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgs import codec

SHOWN = 5
"""How many differences of each kind are shown."""


@dataclass(frozen=True)
class Comparison:
    """What is missing from the outputs, and what is there although it should not be."""

    missing: tuple[Any, ...]
    unexpected: tuple[Any, ...]

    @property
    def is_equal(self) -> bool:
        """Whether the two multisets are equal."""
        return not self.missing and not self.unexpected

    def differences(self) -> list[str]:
        """Return the first differences, one a line."""
        lines = [f"missing:    {_shown(value)}" for value in self.missing[:SHOWN]]
        return lines + [f"unexpected: {_shown(value)}" for value in self.unexpected[:SHOWN]]

    def __str__(self) -> str:
        if self.is_equal:
            return "the outputs equal those of the sequential program"
        head = f"{len(self.missing):,} missing, {len(self.unexpected):,} unexpected"
        lines = "".join(f"\n  {line}" for line in self.differences())
        return f"the outputs differ from those of the sequential program: {head}{lines}"


def compare(expected: Iterable[Any], got: Iterable[Any], *, tolerance: float | None = None) -> Comparison:
    """Compare two multisets of values. Raises CodecError for values the codec does not carry."""
    left: dict[bytes, Any] = {}
    counts: Counter[bytes] = Counter()
    for value in expected:
        key = codec.encode(plain(value))
        left.setdefault(key, value)
        counts[key] += 1
    surplus: list[Any] = []
    for value in got:
        key = codec.encode(plain(value))
        if counts[key] > 0:
            counts[key] -= 1
        else:
            surplus.append(value)
    lacking = [left[key] for key, count in counts.items() for _ in range(count)]
    if tolerance is not None:
        lacking, surplus = _close_pairs_removed(lacking, surplus, tolerance)
    return Comparison(tuple(lacking), tuple(surplus))


def plain(value: Any) -> Any:
    """Return a value with NumPy scalars replaced by Python ones, at every depth."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {plain(key): plain(item) for key, item in value.items()}
    return value


def _close_pairs_removed(
    lacking: list[Any], surplus: list[Any], tolerance: float
) -> tuple[list[Any], list[Any]]:
    """Pair values that are equal up to the tolerance; return those without a partner."""
    rest: list[Any] = []
    waiting: dict[bytes, list[tuple[tuple[float, ...], Any]]] = {}
    for value in surplus:
        floats, key = _split(value)
        waiting.setdefault(key, []).append((floats, value))
    groups: dict[bytes, list[tuple[tuple[float, ...], Any]]] = {}
    for value in lacking:
        floats, key = _split(value)
        groups.setdefault(key, []).append((floats, value))
    for key, wanted in groups.items():
        found = waiting.pop(key, [])
        alone, left_over = _pair(wanted, found, tolerance)
        rest.extend(alone)
        waiting[key] = [((), value) for value in left_over]
    return rest, [value for group in waiting.values() for _, value in group]


def _pair(
    wanted: list[tuple[tuple[float, ...], Any]], found: list[tuple[tuple[float, ...], Any]], tolerance: float
) -> tuple[list[Any], list[Any]]:
    """Match two lists of the same shape in the order of their floats: for one float a value this is the best matching."""
    wanted, found = sorted(wanted, key=_sorting), sorted(found, key=_sorting)
    taken = [False] * len(found)
    alone, start = [], 0
    for floats, value in wanted:
        while start < len(found) and (taken[start] or _is_below(found[start][0], floats, tolerance)):
            start += 1
        for i in range(start, len(found)):
            if not taken[i] and _are_close(floats, found[i][0], tolerance):
                taken[i] = True
                break
            if floats and not _is_close(floats[0], found[i][0][0], tolerance):
                alone.append(value)
                break
        else:
            alone.append(value)
    return alone, [value for (_, value), used in zip(found, taken, strict=True) if not used]


def _sorting(item: tuple[tuple[float, ...], Any]) -> tuple[tuple[bool, float], ...]:
    return tuple((math.isnan(x), 0.0 if math.isnan(x) else x) for x in item[0])


def _is_below(found: tuple[float, ...], wanted: tuple[float, ...], tolerance: float) -> bool:
    return bool(wanted) and found[0] < wanted[0] and not _is_close(found[0], wanted[0], tolerance)


def _are_close(a: tuple[float, ...], b: tuple[float, ...], tolerance: float) -> bool:
    return all(_is_close(x, y, tolerance) for x, y in zip(a, b, strict=True))


def _is_close(a: float, b: float, tolerance: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= tolerance * max(1.0, abs(a), abs(b)) < math.inf


def _split(value: Any) -> tuple[tuple[float, ...], bytes]:
    """Return the floats of a value and the bytes of what is left of it."""
    floats: list[float] = []
    rest = _without_floats(value, floats)
    return tuple(floats), codec.encode(rest)


def _without_floats(value: Any, floats: list[float]) -> Any:
    value = plain(value)
    if isinstance(value, float):
        floats.append(value)
        return "float"
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        floats.extend(value.ravel().tolist())
        return ("floats", value.shape)
    if type(value) in (list, tuple):
        return [type(value).__name__, *(_without_floats(item, floats) for item in value)]
    if type(value) is dict:
        return ["dict", *_items_without_floats(value, floats)]
    return ["value", value]


def _items_without_floats(value: dict[Any, Any], floats: list[float]) -> Iterator[Any]:
    for key in sorted(value, key=codec.encode):
        yield key, _without_floats(value[key], floats)


def _shown(value: Any) -> str:
    from dgs.user_code import shown

    return shown(value)
