"""The greatest few values, and the latest one: of records by one of their fields, or of ordered values.

Records with equal fields, and equal values such as 1 and 1.0, are ordered by their codec bytes, so that the result does not depend on
their arrival. NaN is greater than anything, and must not be lost.

>>> Top(2).fold([3, 1, 5, 4])
[5, 4]
>>> readings = [{"ts": 1, "temp": 20}, {"ts": 7, "temp": 25}, {"ts": 3, "temp": 30}]
>>> Latest().fold(readings), Top(1, by="temp").fold(readings)
({'ts': 7, 'temp': 25}, [{'ts': 3, 'temp': 30}])
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from dgs import codec
from dgs.errors import ProgramError
from dgs.model import columns
from dgs.model.columns import Column
from dgs.monoids.contract import Cuts, check_names, field_of, refuses, windows_by_fold


class Top:
    """The greatest `count` values, greatest first; records by their field `by`."""

    @refuses
    def __init__(self, count: int, *, by: str | None = None) -> None:
        check_names(type(self).__name__, *([] if by is None else [by]))
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ProgramError(
                program=type(self).__name__,
                problem=f"cannot keep the greatest {count!r} values: give a whole number of at least 1",
            )
        self.count = count
        self.by = by

    def identity(self) -> list[Any]:
        return []

    def lift(self, value: Any) -> list[Any]:
        return [value]

    def join(self, left: list[Any], right: list[Any]) -> list[Any]:
        return (
            heapq.nlargest(self.count, (*left, *right), key=self._rank) if left and right else left or right
        )

    def fold(self, column: Column) -> list[Any]:
        """Return the greatest of a column; a vectorised pass first removes smaller values."""
        count = columns.length(column)
        values = column if self.by is None else field_of(column, self.by)
        if count > self.count and isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
            least = np.partition(values, count - self.count)[count - self.count]
            column = columns.take(column, np.flatnonzero(~(values < least)))
        return heapq.nlargest(self.count, columns.to_list(column), key=self._rank)

    def windows(self, column: Column, cuts: Cuts) -> list[list[Any]]:
        return windows_by_fold(self, column, cuts)

    def result(self, state: list[Any]) -> list[Any]:
        return list(state)

    def _rank(self, value: Any) -> Any:
        return (*_rank(value), _Bytes(value)) if self.by is None else _rank_of_record(value, self.by)


class Latest:
    """The record with the greatest field `by`, by default the latest; None without records.

    Of records with the same time the result is the one with the greatest codec bytes: a join cannot know the order of arrival.
    """

    @refuses
    def __init__(self, *, by: str = "ts") -> None:
        check_names(type(self).__name__, by)
        self.by = by
        self._top = Top(1, by=by)

    def identity(self) -> None:
        """Return None."""

    def lift(self, value: Any) -> Any:
        return value

    def join(self, left: Any, right: Any) -> Any:
        if left is None or right is None:
            return right if left is None else left
        return max(left, right, key=lambda record: _rank_of_record(record, self.by))

    def fold(self, column: Column) -> Any:
        return next(iter(self._top.fold(column)), None)

    def windows(self, column: Column, cuts: Cuts) -> list[Any]:
        return windows_by_fold(self, column, cuts)

    def result(self, state: Any) -> Any:
        return state


def _rank(value: Any) -> tuple[bool, Any]:
    """Return the sort key of a value; all NaN are equal."""
    return (True, None) if value != value else (False, value)  # noqa: PLR0124 - NaN is not equal to itself


def _rank_of_record(record: dict[str, Any], by: str) -> tuple[bool, Any, _Bytes]:
    return *_rank(record[by]), _Bytes(record)


class _Bytes:
    """The codec bytes of a value, made only when two records with equal fields are compared."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        is_same = isinstance(other, _Bytes) and self.value is other.value
        return is_same or (
            isinstance(other, _Bytes) and codec.encode(self.value) == codec.encode(other.value)
        )

    def __lt__(self, other: _Bytes) -> bool:
        return codec.encode(self.value) < codec.encode(other.value)

    __hash__ = None  # type: ignore[assignment]  # for ordering only
