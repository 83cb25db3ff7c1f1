"""Sums and means of floats without rounding: the same bits in every order of joining, and under every plan.

A state is the exact sum: an odd integer times a power of two. So `join` is associative and commutative to the last bit; sums of floats
(`SUM`, `MEAN`) are so only up to rounding. The result is rounded once, to the float nearest to the exact result.

>>> SUM.fold([1e16, 1.0, -1e16]), SUM_EXACT.result(SUM_EXACT.fold([1e16, 1.0, -1e16]))
(0.0, 1.0)
>>> MEAN_EXACT.result(MEAN_EXACT.join(MEAN_EXACT.lift(0.1), MEAN_EXACT.fold([0.2, 0.3])))
0.2
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dgs.model import columns
from dgs.model.columns import Column
from dgs.monoids.contract import Cuts, Simple, windows_by_fold
from dgs.monoids.sums import COUNT, SUM

Exact = tuple[int, int, float]
"""A sum: an integer that is odd or 0, the exponent of the power of two it is multiplied with, and the sum of infinities and NaN, else 0."""

ZERO: Exact = (0, 0, 0.0)

MANTISSA, HALF = 53, 26
"""The bits of a float's mantissa, and those of its lower half: sums of halves fit into 64 bits."""


class SumExact(Simple):
    """The sum of numbers, as the nearest float; 0.0 without numbers. NaN is absorbing; a sum beyond all floats is infinite."""

    def identity(self) -> Exact:
        return ZERO

    def lift(self, value: Any) -> Exact:
        if not math.isfinite(value):
            return _special(float(value))
        numerator, denominator = value.as_integer_ratio()
        return _reduced(numerator, 1 - denominator.bit_length(), 0.0)

    def join(self, left: Exact, right: Exact) -> Exact:
        low = min(left[1], right[1])
        total = (left[0] << (left[1] - low)) + (right[0] << (right[1] - low))
        return _reduced(total, low, left[2] + right[2])

    def fold(self, column: Column) -> Exact:
        values = columns.numbers(column)
        if values.dtype.kind != "f":
            return (
                _reduced(int(SUM.fold(column)), 0, 0.0) if values.dtype.kind in "iub" else self._each(column)
            )
        doubles = values.astype(np.float64)
        finite = np.isfinite(doubles)
        special = 0.0 if finite.all() else _sum_of_specials(doubles[~finite])
        total, low = _exact_sum(doubles[finite])
        return _reduced(total, low, special)

    def _each(self, column: Column) -> Exact:
        total = ZERO
        for value in columns.to_list(column):
            total = self.join(total, self.lift(value))
        return total

    def windows(self, column: Column, cuts: Cuts) -> list[Exact]:
        return windows_by_fold(self, column, cuts)

    def result(self, state: Exact) -> float:
        return _rounded(state, 1)


class MeanExact(Simple):
    """The mean of numbers, as the float nearest to the exact mean; None without numbers."""

    def identity(self) -> tuple[Exact, int]:
        return ZERO, 0

    def lift(self, value: Any) -> tuple[Exact, int]:
        return SUM_EXACT.lift(value), 1

    def join(self, left: tuple[Exact, int], right: tuple[Exact, int]) -> tuple[Exact, int]:
        return SUM_EXACT.join(left[0], right[0]), left[1] + right[1]

    def fold(self, column: Column) -> tuple[Exact, int]:
        return SUM_EXACT.fold(column), COUNT.fold(column)

    def windows(self, column: Column, cuts: Cuts) -> list[tuple[Exact, int]]:
        return windows_by_fold(self, column, cuts)

    def result(self, state: tuple[Exact, int]) -> float | None:
        total, count = state
        return _rounded(total, count) if count else None


def _reduced(total: int, exponent: int, special: float) -> Exact:
    """Return the unique state of a sum: without factors of two in the integer."""
    if special:  # also for NaN: the finite part then does not count
        return _special(special)
    if not total:
        return ZERO
    zeros = (total & -total).bit_length() - 1
    return total >> zeros, exponent + zeros, 0.0


def _special(value: float) -> Exact:
    return 0, 0, math.nan if math.isnan(value) else value


def _sum_of_specials(values: npt.NDArray[np.float64]) -> float:
    """Return the sum of infinities and NaN: NaN unless all are the same infinity."""
    first = float(values[0])
    return first if bool((values == first).all()) else math.nan


def _exact_sum(values: npt.NDArray[np.float64]) -> tuple[int, int]:
    """Return an integer and an exponent: the exact sum of finite floats. Mantissas are added by exponent, in two halves."""
    if not len(values):
        return 0, 0
    fractions, exponents = np.frexp(values)
    mantissas = np.ldexp(fractions, MANTISSA).astype(np.int64)
    order = np.argsort(exponents, kind="stable")
    sorted_exponents = exponents[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_exponents[1:] != sorted_exponents[:-1])))
    high = np.add.reduceat((mantissas >> HALF)[order], starts).tolist()
    low = np.add.reduceat((mantissas & ((1 << HALF) - 1))[order], starts).tolist()
    powers = sorted_exponents[starts].tolist()
    least = powers[0]
    parts = zip(high, low, powers, strict=True)
    return sum(
        ((upper << HALF) + lower) << (power - least) for upper, lower, power in parts
    ), least - MANTISSA


def _rounded(state: Exact, count: int) -> float:
    """Return the float nearest to a sum divided by a count."""
    total, exponent, special = state
    if special:
        return special
    try:
        return (total << max(exponent, 0)) / (count << max(-exponent, 0))
    except OverflowError:
        return math.inf if total > 0 else -math.inf


SUM_EXACT = SumExact()
"""The exact sum of numbers, the same in any order."""
MEAN_EXACT = MeanExact()
"""The mean of numbers by their exact sum."""
