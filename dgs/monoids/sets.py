"""The set of all values that occur.

>>> DISTINCT.join(DISTINCT.fold(["a", "b", "a"]), DISTINCT.lift("c")) == {"a", "b", "c"}
True
"""

from __future__ import annotations

from typing import Any

from dgs.model import columns
from dgs.model.columns import Column
from dgs.monoids.contract import Cuts, Simple, windows_by_fold


class Distinct(Simple):
    """The set of the values, which must be hashable (lists count as tuples) and not NaN."""

    def identity(self) -> set[Any]:
        return set()

    def lift(self, value: Any) -> set[Any]:
        return {columns.hashable(value)}

    def join(self, left: set[Any], right: set[Any]) -> set[Any]:
        """Return the union: the smaller set goes into the larger one."""
        large, small = (left, right) if len(left) >= len(right) else (right, left)
        large |= small
        return large

    def fold(self, column: Column) -> set[Any]:
        return set(columns.distinct(column)[0])

    def windows(self, column: Column, cuts: Cuts) -> list[set[Any]]:
        return windows_by_fold(self, column, cuts)

    def result(self, state: set[Any]) -> set[Any]:
        return set(state)


DISTINCT = Distinct()
"""The set of all values."""
