"""Keys as numbers: each item has the place of its key in a list of keys.

>>> numbers, keys = coded(np.array([7, 5, 7]), 3)
>>> [keys[number] for number in numbers]
[7, 5, 7]
>>> coded(Constant("FE"), 3)
(None, ['FE'])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dgs.flow.batches.column_items import Constant, NoColumns, Numbers, Tuples, typed
from dgs.model.columns import Column

DENSE = 4
"""Integer keys number themselves if their range is at most this many times as long as the number of items."""
SMALL = 1 << 16


def coded(key: Any, count: int) -> tuple[Numbers | None, Sequence[Any]]:
    """Return the number of each item's key, None if all have the first one, and the keys by number. Raises NoColumns."""
    if isinstance(key, Constant):
        return None, [key.value]
    if isinstance(key, Tuples):
        return _coded_tuples(key, count)
    return _coded_column(typed(key), count)


def _coded_column(column: Column, count: int) -> tuple[Numbers, Sequence[Any]]:
    if isinstance(column, pa.Array):
        array = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
        return array.indices.to_numpy().astype(np.int64, copy=False), _distinct(array.dictionary)
    if column.dtype.kind == "b":
        return column.astype(np.int64), [False, True]
    if column.dtype.kind == "f":
        if np.isnan(column).any() or (np.signbit(column) & (column == 0)).any():
            raise NoColumns
    elif count:
        low, high = int(column.min()), int(column.max())
        if high - low <= max(DENSE * count, SMALL):
            return (column - low if low else column), range(low, high + 1)
    found, codes = np.unique(column, return_inverse=True)
    return codes, found.tolist()


def _distinct(dictionary: Any) -> list[Any]:
    """Return the texts of a dictionary. Raises NoColumns if one occurs twice."""
    texts: list[Any] = dictionary.to_pylist()
    if len(set(texts)) < len(texts):
        raise NoColumns
    return texts


def _coded_tuples(key: Tuples, count: int) -> tuple[Numbers, Sequence[Any]]:
    parts = [_coded_column(typed(column), count) for column in key.columns]
    total = np.zeros(count, dtype=np.int64)
    size = 1
    for codes, keys in parts:
        size *= len(keys)
        if size > 1 << 62:
            raise NoColumns
        total = total * len(keys) + codes
    found, numbers = np.unique(total, return_inverse=True)
    keys_of = [_keys_at(place, [keys for _, keys in parts]) for place in found.tolist()]
    return numbers, keys_of


def _keys_at(place: int, parts: list[Sequence[Any]]) -> tuple[Any, ...]:
    """Return the parts of the key with a number, the last part first."""
    made: list[Any] = []
    for keys in reversed(parts):
        place, which = divmod(place, len(keys))
        made.append(keys[which])
    return tuple(reversed(made))
