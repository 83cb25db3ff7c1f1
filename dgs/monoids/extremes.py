"""The least and the greatest value: of numbers, texts, dates, or any ordered values.

The state of no values is None. Of equal values, such as 1 and 1.0, either may be the result. NaN is absorbing: it compares with
nothing, and must not be lost.

>>> MIN.windows(np.array([5, 3, 4]), np.array([0, 2])), MAX.fold(["b", "a"])
([None, 3, 4], 'b')
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from dgs.model import columns
from dgs.model.columns import Column
from dgs.monoids.contract import Cuts, Simple, bounds


class _Extreme(Simple):
    """The common part of Min and Max."""

    _ufunc: np.ufunc
    join: Callable[[Any, Any], Any]

    def identity(self) -> None:
        """Return None."""

    def lift(self, value: Any) -> Any:
        return value

    def fold(self, column: Column) -> Any:
        if not columns.length(column):
            return None
        if _is_vectorised(column):
            return self._ufunc.reduce(column).item()
        return reduce(self.join, columns.to_list(column), None)

    def windows(self, column: Column, cuts: Cuts) -> Column:
        starts, stops = bounds(columns.length(column), cuts)
        if not _is_vectorised(column):
            listed = columns.to_list(column)
            return [
                reduce(self.join, listed[i:j], None)
                for i, j in zip(starts.tolist(), stops.tolist(), strict=True)
            ]
        some = starts < stops
        if not some.any():
            return [None] * len(starts)
        found = self._ufunc.reduceat(column, starts[some])
        if some.all():
            return found
        every = iter(found.tolist())
        return [next(every) if is_any else None for is_any in some.tolist()]

    def result(self, state: Any) -> Any:
        return state


class Min(_Extreme):
    """The least value."""

    _ufunc = np.minimum

    def join(self, left: Any, right: Any) -> Any:
        if left is None:
            return right
        if right is None:
            return left
        return left if left < right or left != left else right  # noqa: PLR0124 - NaN is not equal to itself


class Max(_Extreme):
    """The greatest value."""

    _ufunc = np.maximum

    def join(self, left: Any, right: Any) -> Any:
        if left is None:
            return right
        if right is None:
            return left
        return left if left > right or left != left else right  # noqa: PLR0124 - NaN is not equal to itself


def _is_vectorised(column: Column) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind in "biuf"


MIN = Min()
"""The least value."""
MAX = Max()
"""The greatest value."""
