"""The numbers of rows and events: `RowNumbers`, consecutive ones that take no memory, and the numbers of the events of a front.

A front makes any number of events of a row. Each has the number of its row and its place among the row's events (`number_of`).

>>> numbers = RowNumbers(10, 5)
>>> numbers[2], numbers[1:3], numbers[np.array([0, 4])].tolist(), len(numbers)
(12, RowNumbers(first=11, count=2), [10, 14], 5)
>>> np.concatenate([numbers, numbers[:1]]).tolist()
[10, 11, 12, 13, 14, 10]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

ROWS_APART = 1024 * 1031
"""The numbers from one row to the next behind a front: more than 2^20, so that a row may have that many events. Streams are dealt in
blocks of 1024, and 1031 is prime: so rows are dealt to any number of splits in turn."""


def number_of(row: int, place: int) -> int:
    """Return the number of an event of a row in its stream, behind a front.

    >>> [number_of(row, 0) // 1024 % 4 for row in range(5)]              # the splits of five rows
    [0, 3, 2, 1, 0]
    """
    return row * ROWS_APART + place


@dataclass(frozen=True, slots=True)
class RowNumbers:
    """The numbers `first`, `first + 1`, ..., `count` of them. NumPy converts it to an array (int64[count]) when it needs one."""

    first: int
    count: int

    def __len__(self) -> int:
        return self.count

    @overload
    def __getitem__(self, rows: int) -> int: ...
    @overload
    def __getitem__(self, rows: slice) -> RowNumbers: ...
    @overload
    def __getitem__(self, rows: npt.NDArray[Any]) -> Int64s: ...

    def __getitem__(self, rows: Any) -> Any:
        if type(rows) is int and 0 <= rows < self.count:
            return self.first + rows
        if type(rows) is np.ndarray:
            picked = rows.nonzero()[0] if rows.dtype.kind == "b" else rows
            return (picked + self.first).astype(np.int64, copy=False)
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.count)
            if step == 1:
                return RowNumbers(self.first + start, max(0, stop - start))
            return np.asarray(self)[rows]
        return self.first + range(self.count)[rows]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.arange(self.first, self.first + self.count, dtype=np.int64 if dtype is None else dtype)

    def tolist(self) -> list[int]:
        """Return the numbers as Python integers."""
        return list(range(self.first, self.first + self.count))

    @property
    def dtype(self) -> np.dtype[np.int64]:
        """The type of the array that this stands for."""
        return np.dtype(np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes held: none."""
        return 0
