"""Items in columns: the rows of a batch they come from, their keys, their values. A column is taken only when a step looks at it.

>>> items = Items(np.array([10, 20, 30]), None, Constant(()), Records.of({"ad": np.array([7, 8, 9]), "user": ["a", "b", "c"]}))
>>> some = items.chosen(np.array([0, 2]))
>>> some.at.tolist(), some.value.field("ad").tolist(), some.values()
([10, 30], [7, 9], [{'ad': 7, 'user': 'a'}, {'ad': 9, 'user': 'c'}])
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dgs.model import columns
from dgs.model.columns import Column

Numbers = npt.NDArray[Any]
INT64 = np.dtype(np.int64)


class NoColumns(Exception):  # noqa: N818 - a signal, not an error
    """A step cannot take these data in columns, but in rows."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One key, or one value, of all items."""

    value: Any


@dataclass(frozen=True, slots=True)
class Tuples:
    """Keys of several fields."""

    columns: tuple[Column, ...]


class Records:
    """Records in columns. Fields of the batch are taken on demand; `added` are those that steps have made."""

    __slots__ = ("_added", "_base", "_index", "names")

    def __init__(
        self, names: tuple[str, ...], base: dict[str, Column], index: Numbers | None, added: dict[str, Column]
    ) -> None:
        self.names, self._base, self._index, self._added = names, base, index, added

    @classmethod
    def of(cls, named: dict[str, Column]) -> Records:
        """Return the records of columns by name."""
        return cls(tuple(named), named, None, {})

    def column(self, name: str) -> Column:
        """Return a field in the form that it has."""
        if name in self._added:
            return self._added[name]
        whole = self._base[name]
        return whole if self._index is None else columns.take(whole, self._index)

    def field(self, name: Any) -> Column:
        """Return a field as a column of one type. Raises NoColumns if there is none."""
        if not isinstance(name, str) or name not in self.names:
            raise NoColumns
        return typed(self.column(name))

    def chosen(self, which: Numbers) -> Records:
        """Return some of the records."""
        index = which if self._index is None else self._index.take(which)
        return Records(
            self.names, self._base, index, {n: columns.take(c, which) for n, c in self._added.items()}
        )

    def having(self, name: str, column: Column) -> Records:
        """Return the records with one more field, or another one of this name."""
        names = self.names if name in self.names else (*self.names, name)
        return Records(names, self._base, self._index, {**self._added, name: column})

    def only(self, names: tuple[str, ...]) -> Records:
        """Return the records with these fields. Raises NoColumns if one is missing."""
        if not set(names) <= set(self.names):
            raise NoColumns
        return Records(names, self._base, self._index, self._added)

    def columns(self) -> dict[str, Column]:
        """Return all fields."""
        return {name: self.column(name) for name in self.names}


@dataclass(frozen=True, slots=True)
class Items:
    """Items of a batch whose events are at `ts`. `index`: the row of each item, non-decreasing; None: every row has one."""

    ts: npt.NDArray[np.int64]
    index: Numbers | None
    key: Any
    value: Any

    def __len__(self) -> int:
        return len(self.ts) if self.index is None else len(self.index)

    @property
    def at(self) -> npt.NDArray[np.int64]:
        """The time of each item."""
        return self.ts if self.index is None else self.ts.take(self.index)

    @property
    def rows(self) -> Numbers:
        """The row of each item."""
        return np.arange(len(self.ts)) if self.index is None else self.index

    def chosen(self, which: Numbers) -> Items:
        """Return some of the items, in their order."""
        is_records = isinstance(self.value, Records)
        return self.spread(self.value.chosen(which) if is_records else columns.take(self.value, which), which)

    def spread(self, value: Any, which: Numbers) -> Items:
        """Return items with these values, each with the row and the key of the item at `which`."""
        key = self.key
        if isinstance(key, Tuples):
            key = Tuples(tuple(columns.take(one, which) for one in key.columns))
        elif not isinstance(key, Constant):
            key = columns.take(key, which)
        return Items(self.ts, which if self.index is None else self.index.take(which), key, value)

    def first(self, count: int) -> Items:
        """Return the first items."""
        return self if len(self) <= count else self.chosen(np.arange(count))

    def having(self, value: Column) -> Items:
        """Return the items with other values."""
        return replace(self, value=Records.of(value) if isinstance(value, dict) else value)

    def value_column(self) -> Column:
        """Return the values as one column."""
        return self.value.columns() if isinstance(self.value, Records) else self.value

    def key_column(self) -> Any:
        """Return the keys in the form for functions of columns: a column, a tuple of columns, or the one key of all items."""
        if isinstance(self.key, Constant):
            return self.key.value
        return self.key.columns if isinstance(self.key, Tuples) else self.key

    def values(self) -> list[Any]:
        """Return the values as Python objects."""
        return columns.to_list(self.value_column())

    def keys(self) -> list[Any]:
        """Return the keys as Python objects."""
        if isinstance(self.key, Constant):
            return [self.key.value] * len(self)
        if isinstance(self.key, Tuples):
            return list(zip(*map(columns.to_list, self.key.columns), strict=True))
        return columns.to_list(self.key)


def typed(column: Column) -> Column:
    """Return a column as int64, float64 or bool of NumPy, or as texts of Arrow, plain or coded. Raises NoColumns for any other.

    Its values are the same Python objects as those of the column.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.Array):
        return _typed_arrow(column)
    if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind not in "biuf":
        raise NoColumns
    if column.dtype.kind in "iu":
        if column.dtype.itemsize == INT64.itemsize and column.dtype.kind == "u":
            raise NoColumns
        return column.astype(np.int64, copy=False)
    if column.dtype.itemsize > INT64.itemsize:
        raise NoColumns
    return column if column.dtype.kind == "b" else column.astype(np.float64, copy=False)


def _typed_arrow(array: Any) -> Column:
    if array.null_count:
        raise NoColumns
    kind = array.type
    if pa.types.is_dictionary(kind):
        if not _is_text(kind.value_type) or array.dictionary.null_count:
            raise NoColumns
        return array
    if _is_text(kind):
        return array
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return typed(array.to_numpy(zero_copy_only=False))
    raise NoColumns


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
