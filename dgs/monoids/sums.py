"""Sums, counts and means.

Integers are summed exactly, whatever their size: Python's integers compute a sum that may exceed 64 bits. The last digits of
a sum of floats depend on the order of addition. NaN is absorbing.

>>> SUM.fold(np.array([2**62, 2**62])), SUM.windows(np.array([1, 2, 3, 4]), np.array([1, 1, 3]))
(9223372036854775808, array([1, 0, 5, 4]))
>>> MEAN.result(MEAN.join(MEAN.fold([1, 2]), MEAN.lift(6)))
3.0
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dgs.model import columns
from dgs.model.columns import Column
from dgs.monoids.contract import Cuts, Simple, bounds

INT64_BITS = 63


class Sum(Simple):
    """The sum of numbers; 0 without numbers."""

    def identity(self) -> int:
        return 0

    def lift(self, value: Any) -> Any:
        """Return the value as a number: True counts 1."""
        return 0 + value

    def join(self, left: Any, right: Any) -> Any:
        return left + right

    def fold(self, column: Column) -> Any:
        values = columns.numbers(column)
        if not _fits(values, len(values)):
            return sum(values.tolist())
        if values.dtype.kind != "f":
            return np.add.reduce(values).item()
        with np.errstate(all="ignore"):  # infinities cancel to NaN, as they do in Python
            return 0 + np.add.reduce(values).item()

    def windows(self, column: Column, cuts: Cuts) -> Column:
        """Return the sum of each window: an array of integers, or a list."""
        values = columns.numbers(column)
        starts, stops = bounds(len(values), cuts)
        if not _fits(values, len(values)):
            listed = values.tolist()
            return [sum(listed[i:j]) for i, j in zip(starts.tolist(), stops.tolist(), strict=True)]
        sums = np.zeros(len(starts), dtype=values.dtype)
        some = starts < stops
        with np.errstate(all="ignore"):
            if some.all():
                sums = np.add.reduceat(values, starts)
            elif some.any():
                sums[some] = np.add.reduceat(values, starts[some])
        if values.dtype.kind != "f":
            return sums
        return [0 + total if any_ else 0 for total, any_ in zip(sums.tolist(), some.tolist(), strict=True)]

    def result(self, state: Any) -> Any:
        return state


def _fits(values: npt.NDArray[Any], count: int) -> bool:
    """Return whether NumPy's sums of up to `count` of the values are exact (floats: as exact as they can be)."""
    if values.dtype.kind == "f":
        return count > 0
    if values.dtype.kind not in "iu" or not count:
        return False
    # If no value is negative, the OR of all bounds the largest: one pass instead of two.
    bits: int = np.bitwise_or.reduce(values).item()
    if bits < 0:
        bits = max(int(values.max()), -int(values.min()))
    return bool(bits * count < 2**INT64_BITS)


class Count(Simple):
    """The number of values. For events without payload, count another column, such as `batch.ts`."""

    def identity(self) -> int:
        return 0

    def lift(self, value: Any) -> int:  # noqa: ARG002 - any value is one value
        return 1

    def join(self, left: int, right: int) -> int:
        return left + right

    def fold(self, column: Column) -> int:
        return columns.length(column)

    def windows(self, column: Column, cuts: Cuts) -> Column:
        starts, stops = bounds(columns.length(column), cuts)
        return stops - starts

    def result(self, state: int) -> int:
        return state


Totals = tuple[Any, int]


class Mean(Simple):
    """The mean of numbers: their sum and their count."""

    def identity(self) -> Totals:
        return 0, 0

    def lift(self, value: Any) -> Totals:
        return 0 + value, 1

    def join(self, left: Totals, right: Totals) -> Totals:
        return left[0] + right[0], left[1] + right[1]

    def fold(self, column: Column) -> Totals:
        return SUM.fold(column), COUNT.fold(column)

    def windows(self, column: Column, cuts: Cuts) -> list[Totals]:
        parts = (SUM.windows(column, cuts), COUNT.windows(column, cuts))
        return list(zip(*map(columns.to_list, parts), strict=True))

    def result(self, state: Totals) -> Any:
        total, count = state
        return total / count if count else None


SUM = Sum()
"""The sum of numbers."""
COUNT = Count()
"""The number of values."""
MEAN = Mean()
"""The mean of numbers."""
