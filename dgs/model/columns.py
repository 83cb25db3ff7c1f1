"""Columns: many payloads or outputs as one value.

A column is a NumPy array, an Arrow array, a list of Python objects, or a dictionary of columns of one length (a record per
row). The data path uses only the functions here; they return views instead of copies if possible.

>>> column = {"a": np.arange(4), "b": ["w", "x", "y", "z"]}
>>> to_list(cut(column, 1, 3))
[{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'y'}]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dgs.errors import ProgramError
from dgs.errors.shortened import short_repr

Column = Any
"""np.ndarray | pa.Array | pa.ChunkedArray | list | dict[str, Column]"""

_WIDE = {kind: np.dtype(wide) for kind, wide in (("b", "i8"), ("i", "i8"), ("u", "i8"), ("f", "f8"))}

_HASHABLE = {str, int, float, bool, type(None)}

_NUMPY_TYPES = {int: np.int64, float: np.float64, bool: np.bool_}

_FIRST_TIME, _END_OF_TIME = np.datetime64("0001-01-01"), np.datetime64("10000-01-01")  # of `datetime`

Indices = npt.NDArray[np.intp]


def load_pandas() -> threading.Thread:
    """Begin to import pandas, if it is there, in a thread that is returned: it takes 0.2 s, which would come in the middle of a run.

    Nobody here needs it. But Arrow looks for it at its first conversion of a value or an array, and no setting of Arrow prevents that.
    """

    def load() -> None:
        with suppress(Exception):  # a conversion will say it
            pa.scalar(0)

    loading = threading.Thread(target=load, name="load-pandas", daemon=True)
    loading.start()
    return loading


def as_column(values: list[Any]) -> Column:
    """Return Python values as a column: numbers of one type as a NumPy array, records with the same names in one order as columns.

    >>> as_column([1, 2]), as_column([1, 2.5]), as_column([{"a": 1}, {"a": 2}])
    (array([1, 2]), [1, 2.5], {'a': array([1, 2])})
    """
    types = set(map(type, values))
    if len(types) != 1:
        return values
    (one,) = types
    if one in _NUMPY_TYPES:
        try:
            return np.array(values, dtype=_NUMPY_TYPES[one])
        except OverflowError:
            return values
    if one is dict:
        return _records(values)
    return values


def _records(values: list[dict[Any, Any]]) -> Column:
    names = tuple(values[0])
    if not names or not all(isinstance(name, str) for name in names):
        return values
    if set(map(tuple, values)) != {names}:
        return values
    return {name: as_column(list(map(itemgetter(name), values))) for name in names}


def is_column(given: Any) -> bool:
    """Return whether a value can be a column: it has a length and an order, and is not a single value.

    >>> [is_column(one) for one in ([1], range(2), {"x": [1]}, 5, "ab", {1, 2}, np.array(5), {"x": 1})]
    [True, True, True, False, False, False, False, False]
    """
    if isinstance(given, dict):
        return all(map(is_column, given.values()))
    is_single = isinstance(given, (str, bytes, bytearray, set, frozenset)) or getattr(given, "ndim", 1) == 0
    return hasattr(given, "__len__") and not is_single


def from_user(given: Any, what: str) -> Column:
    """Return a column of user code in one of the forms of columns: other sequences become lists, tables become records.

    NumPy arrays of Python objects become lists, too, since they cannot be sent to another process.

    Raises ProgramError, which names `what`, for anything else, and for columns of several lengths.

    >>> from_user({"n": range(2), "of": (3, 4)}, "emit_batch")
    {'n': [0, 1], 'of': [3, 4]}
    """
    if isinstance(given, (list, pa.Array, pa.ChunkedArray)) or (type(given) is np.ndarray and given.ndim):
        return of_sequence(given)
    if not is_column(given):
        problem = f"{short_repr(given)} is no column: give a list or an array, or a dictionary of these"
        raise ProgramError(program=what, problem=problem)
    if isinstance(given, dict):
        made = {name: from_user(part, what) for name, part in given.items()}
        lengths = {name: length(part) for name, part in made.items()}
        if len(set(lengths.values())) > 1:
            raise ProgramError(program=what, problem=f"the columns differ in length: {lengths}")
        return made
    return of_sequence(given)


def of_sequence(given: Any) -> Column:
    """Return a column that is not a dictionary in one of the forms of columns."""
    if isinstance(given, np.ma.MaskedArray) or (isinstance(given, np.ndarray) and given.dtype.hasobject):
        return given.tolist()  # masked values become None
    if isinstance(given, (list, np.ndarray, pa.Array, pa.ChunkedArray)):
        return given
    if hasattr(given, "__arrow_array__"):
        return pa.array(given)
    return pa.chunked_array(given) if hasattr(given, "__arrow_c_stream__") else list(given)


def length(column: Column) -> int:
    """Return the number of rows."""
    if isinstance(column, dict):
        return length(next(iter(column.values()))) if column else 0
    return len(column)


def cut(column: Column, start: int, stop: int) -> Column:
    """Return rows `start` to `stop` as a view (a list is copied, and so are rows that lie in several chunks)."""
    if isinstance(column, dict):
        return {name: cut(part, start, stop) for name, part in column.items()}
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        part = column.slice(start, stop - start)
        return part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
    return column[start:stop]


def take(column: Column, rows: Indices) -> Column:
    """Return the given rows, in that order, as a new column."""
    if isinstance(column, dict):
        return {name: take(part, rows) for name, part in column.items()}
    if isinstance(column, list):
        return [column[i] for i in rows.tolist()]
    if isinstance(column, np.ndarray):
        return column.take(rows, axis=0)
    return column.take(as_arrow(rows))


def as_arrow(column: Any) -> Any:
    """Return an array as an Arrow array, numbers without a copy. `pa.array` would also import pandas, which is slow.

    >>> as_arrow(np.array([3, 4, 5])[::2]).to_pylist(), as_arrow(np.array([True])).to_pylist()
    ([3, 5], [True])
    """
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "iuf" or not column.dtype.isnative:
        return pa.array(column)
    whole = np.ascontiguousarray(column)
    return pa.Array.from_buffers(pa.from_numpy_dtype(whole.dtype), len(whole), [None, pa.py_buffer(whole)])


def constant(value: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """Return the one value of an array `count` times, as a read-only array that takes no memory.

    >>> constant(np.array([7]), 3)
    array([7, 7, 7])
    """
    array = np.ndarray((count,), value.dtype, value, 0, (0,))  # like np.broadcast_to, but ten times as fast
    array.flags.writeable = False
    return array


def read_only(column: Column) -> Column:
    """Return a view of a column whose arrays cannot be written to; the column itself if none can. Lists are unchanged.

    >>> read_only({"a": np.arange(3)})["a"].flags.writeable
    False
    """
    if isinstance(column, dict):
        kept = {name: read_only(part) for name, part in column.items()}
        return kept if any(kept[name] is not column[name] for name in kept) else column
    if column is None or not isinstance(column, np.ndarray) or not column.flags.writeable:
        return column
    view = column.view()
    view.flags.writeable = False
    return view


def concat(columns: Sequence[Column]) -> Column:
    """Return the columns one after the other, a list if their types differ. Arrow dictionaries become plain arrays."""
    first = columns[0]
    if isinstance(first, dict) and all(isinstance(c, dict) and tuple(c) == tuple(first) for c in columns):
        return {name: concat([c[name] for c in columns]) for name in first}
    plain = [c.dictionary_decode() if isinstance(c, pa.DictionaryArray) else c for c in columns]
    return plain[0] if len(plain) == 1 else _concatenation(plain)(plain)


def _concatenation(columns: Sequence[Column]) -> Callable[[Any], Column]:
    """Return the function that concatenates columns: arrays of one type to an array, others to a list."""
    first = columns[0]
    if all(isinstance(c, np.ndarray) and c.dtype == first.dtype for c in columns):
        return np.concatenate
    if all(isinstance(c, pa.Array) and c.type == getattr(first, "type", None) for c in columns):
        return pa.concat_arrays  # type: ignore[no-any-return]  # pyarrow has no types
    return lambda several: [value for column in several for value in to_list(column)]


def to_list(column: Column) -> list[Any]:
    """Return the rows as Python objects; rows of named columns are dictionaries."""
    if isinstance(column, list):
        return column
    if isinstance(column, dict):
        from dgs.codec.trees import records_of

        return records_of(tuple(column), [*map(to_list, column.values())])
    if isinstance(column, np.ndarray):
        return column.tolist()  # type: ignore[no-any-return]
    if isinstance(column, pa.ChunkedArray):
        return list(chain.from_iterable(map(_arrow_list, column.chunks)))
    return _arrow_list(column)


def _arrow_list(array: Any) -> list[Any]:
    """Return what `to_pylist` does, which takes 1 to 4 us for each encoded value and each time."""
    kind = array.type
    if isinstance(array, pa.DictionaryArray) and not pa.types.is_nested(kind.value_type):
        values = array.dictionary.to_pylist()
        return [None if code is None else values[code] for code in array.indices.to_pylist()]
    if pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.unit != "ns"):
        times = array.to_numpy(zero_copy_only=False)
        if not np.any((times < _FIRST_TIME) | (times >= _END_OF_TIME)):
            return _with_zone(times.tolist(), getattr(kind, "tz", None))
    return array.to_pylist()  # type: ignore[no-any-return]  # raises an error for a time that Python lacks


def _with_zone(times: list[Any], name: str | None) -> list[Any]:
    if name is None:
        return times
    zone = pa.lib.string_to_tzinfo(name)
    return [time if time is None else zone.fromutc(time.replace(tzinfo=zone)) for time in times]


def numbers(column: Column) -> npt.NDArray[Any]:
    """Return a column as an array with the arithmetic of Python's numbers: 64 bits wide, or of objects if that is too narrow.

    The one difference is overflow: 64-bit integers wrap around.
    """
    if isinstance(column, np.ndarray):
        wide = _WIDE.get(column.dtype.kind)
        if wide is not None and column.dtype.itemsize <= wide.itemsize:
            return column if column.dtype == np.uint64 else column.astype(wide, copy=False)
    values = to_list(column)
    with suppress(OverflowError):
        for kind, dtype in ((int, np.int64), (float, np.float64)):
            if set(map(type, values)) == {kind}:
                return np.array(values, dtype=dtype)
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def distinct(column: Column) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """Return the distinct values (null counts) in the order of their first rows, and the position of each row's value among them.

    To be hashable, lists become tuples, and records tuples of pairs. Values that cannot be hashed are all taken for distinct.
    """
    if isinstance(column, np.ndarray) and column.dtype.kind in "biufUM" and column.ndim == 1:
        column = as_arrow(column)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.Array) and pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if isinstance(column, pa.Array) and not pa.types.is_nested(column.type):
        coded = column.dictionary_encode(null_encoding="encode")
        return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)
    values = to_list(column)
    plain = values if set(map(type, values)) <= _HASHABLE else list(map(hashable, values))
    try:
        found = list(dict.fromkeys(plain))
    except TypeError:
        return values, np.arange(len(values))
    number = dict(zip(found, range(len(found)), strict=True))
    return found, np.fromiter(map(number.__getitem__, plain), np.int64, len(plain))


def hashable(value: Any) -> Any:
    """Return a value with lists as tuples, and records as tuples of pairs sorted by name.

    >>> hashable([1, {"b": [2], "a": 3}])
    (1, (('a', 3), ('b', (2,))))
    """
    if isinstance(value, dict):
        return tuple((name, hashable(value[name])) for name in sorted(value))
    return tuple(map(hashable, value)) if isinstance(value, (list, tuple)) else value


def nbytes(column: Column) -> int:
    """Return the approximate size of a column in bytes; a Python object counts 64."""
    if isinstance(column, dict):
        return sum(map(nbytes, column.values()))
    if isinstance(column, list):
        return 64 * len(column)
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return _arrow_bytes(column)
    return int(column.nbytes)


def _arrow_bytes(array: Any) -> int:
    """Return about the same as Arrow's `nbytes`, which takes 7 us or more."""
    if isinstance(array, pa.DictionaryArray):
        values = array.dictionary.get_total_buffer_size()
        return int(len(array) * array.type.index_type.bit_width // 8 + values)
    return len(array) * array.type.bit_width // 8 if pa.types.is_primitive(array.type) else int(array.nbytes)


Int64s = npt.NDArray[np.int64]

ROWS_APART = 1024 * 1031
"""The distance between the numbers of two rows after a front: more than 2^20, so that a row may have that many events. Streams are dealt
in blocks of 1024, and 1031 is prime, so rows are dealt to any number of splits in turn."""


def number_of(row: int, place: int) -> int:
    """Return the number of an event in its stream after a front, by its row and its place in the row.

    >>> [number_of(row, 0) // 1024 % 4 for row in range(5)]              # the splits of five rows
    [0, 3, 2, 1, 0]
    """
    return row * ROWS_APART + place


@dataclass(frozen=True, slots=True)
class RowNumbers:
    """The numbers `first`, `first + 1`, ..., `count` of them. NumPy converts it to an array (int64[count]) when it needs one.

    >>> numbers = RowNumbers(10, 5)
    >>> numbers[2], numbers[1:3], numbers[np.array([0, 4])].tolist(), len(numbers)
    (12, RowNumbers(first=11, count=2), [10, 14], 5)
    >>> np.concatenate([numbers, numbers[:1]]).tolist()
    [10, 11, 12, 13, 14, 10]
    """

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
        """The type of the array that it converts to."""
        return np.dtype(np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes held: none."""
        return 0
