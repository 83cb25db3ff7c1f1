"""Groups of integers by keys that are integers near each other, counted and summed at the place of their key: no sorting, no hashing.

Rows that are in the order of their keys are summed in runs of equal keys.

>>> given = {"k": pa.array([7, 5, 7]), "v": pa.array([1, 2, 3])}
>>> grouped(given, ["k"], [([], "count_all"), ("v", "sum", None)]).to_pydict()
{'k': [5, 7], 'count_all': [1, 2], 'v_sum': [2, 4]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dgs.query.compact.number_runs import codes_of

PLACES = 2**16
"""Keys may span so many places, or as many as there are rows."""

EXACT = 2**53
"""Sums of floats are those of integers below it."""


def grouped(given: Mapping[str, pa.Array], keys: Sequence[str], asked: Sequence[Any]) -> pa.Table | None:
    """Return what `TableGroupBy.aggregate` returns, in the order of the keys; None where only that can do it."""
    is_known = all(one[1] in ("count_all", "sum") for one in asked)
    columns = _integers(given) if keys and is_known else None
    codes = None if columns is None else codes_of([columns[key] for key in keys])
    if columns is None or codes is None or not len(codes):
        return None
    if (codes[1:] >= codes[:-1]).all():
        return _in_runs(columns, codes, keys, asked)
    low, high = int(codes.min()), int(codes.max())
    if high - low >= max(PLACES, len(codes)) or any(
        _greatest(columns[label]) * len(codes) >= EXACT for label, function, *_ in asked if function == "sum"
    ):
        return None
    codes = codes - low
    counts = np.bincount(codes)
    there = np.flatnonzero(counts)
    made = {keys[0]: there + low} if len(keys) == 1 else _keys_of(columns, keys, codes, there)
    for label, function, *_ in asked:
        if function == "count_all":
            made[function] = counts[there]
        else:
            sums = np.bincount(codes, weights=columns[label].astype(np.float64))[there]
            made[f"{label}_sum"] = sums.astype(np.int64)
    return pa.table(made)


def _keys_of(columns: Mapping[str, Any], keys: Sequence[str], codes: Any, there: Any) -> dict[str, Any]:
    """Return the keys of the codes that are there, each from a row that has it."""
    row = np.empty(int(there[-1]) + 1, dtype=np.int64)
    row[codes] = np.arange(len(codes))
    return {key: columns[key][row[there]] for key in keys}


def _in_runs(columns: Mapping[str, Any], codes: Any, keys: Sequence[str], asked: Sequence[Any]) -> pa.Table:
    """Return the groups of rows that are in the order of their keys, so that each group is a run of rows."""
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    made = {key: columns[key][starts] for key in keys}
    for label, function, *_ in asked:
        if function == "count_all":
            made[function] = np.diff(starts, append=len(codes))
        else:
            made[f"{label}_sum"] = np.add.reduceat(columns[label], starts)
    return pa.table(made)


def _integers(given: Mapping[str, pa.Array]) -> dict[str, Any] | None:
    """Return the columns as arrays of NumPy, None if one is not of integers alone."""
    if any(not pa.types.is_int64(one.type) or one.null_count for one in given.values()):
        return None
    return {name: one.to_numpy() for name, one in given.items()}


def _greatest(column: Any) -> int:
    return max(abs(int(column.min())), abs(int(column.max())))
