"""Runs whose columns are all numbers, merged by sorting and searching: about ten times as fast as grouping them.

A run is a list of arrays: first its keys, each key once, then its parts. It has no nulls and no NaN.

>>> one, other = [np.array([1, 4]), np.array([10, 40])], [np.array([0, 4]), np.array([5, 2])]
>>> [column.tolist() for column in united([one, other], 1, ("sum",))]
[[0, 1, 4], [5, 10, 42]]

Groups by integer keys in a small range are counted and summed at the place of their key, without sorting or hashing. Rows that are in the
order of their keys are summed in runs of equal keys.

>>> given = {"k": pa.array([7, 5, 7]), "v": pa.array([1, 2, 3])}
>>> grouped(given, ["k"], [([], "count_all"), ("v", "sum", None)]).to_pydict()
{'k': [5, 7], 'count_all': [1, 2], 'v_sum': [2, 4]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dgs.query.compact.arrow_rows import whole

Run = list[npt.NDArray[Any]]
_MERGES: dict[str, Any] = {"sum": np.add, "min": np.minimum, "max": np.maximum}
_MOST_CODES = 2**62


def numbers_of(table: pa.Table) -> Run | None:
    """Return the columns of a table as arrays, None if a column is not of numbers, or has nulls or NaN."""
    are_numbers = all(pa.types.is_int64(one) or pa.types.is_float64(one) for one in table.schema.types)
    if not are_numbers or any(column.null_count for column in table.columns):
        return None
    found = [np.asarray(whole(column)) for column in table.columns]
    return None if any(one.dtype.kind == "f" and np.isnan(one).any() for one in found) else found


def in_key_order(run: Run, keys: int) -> Run | None:
    """Return a run in the order of its keys, None if they do not fit one number: see `codes_of`."""
    codes = codes_of(run[:keys])
    if codes is None:
        return None
    if (codes[1:] > codes[:-1]).all():
        return run
    order = np.argsort(codes)
    return [column[order] for column in run]


def united(runs: Sequence[Run], keys: int, merges: Sequence[str]) -> Run | None:
    """Return several runs as one in the order of its keys, None if they do not fit one number. `merges`: how parts of a key are merged."""
    ordered = [one for run in runs if (one := in_key_order(run, keys)) is not None]
    if len(ordered) < len(runs):
        return None
    columns = [np.concatenate(parts) for parts in zip(*ordered, strict=True)]
    codes = codes_of(columns[:keys])
    if codes is None or not len(codes):
        return None if codes is None else columns
    order = np.argsort(codes, kind="stable")  # it needs runs in order
    codes = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    firsts = order[starts]
    made = [column[firsts] for column in columns[:keys]]
    for column, merge in zip(columns[keys:], merges, strict=True):
        made.append(_MERGES[merge].reduceat(column[order], starts))
    return made


def codes_of(keys: Run) -> npt.NDArray[Any] | None:
    """Return one number for each key, in the order of the keys; None without keys, or if there are more combinations than numbers."""
    if len(keys) == 1 or (keys and not len(keys[0])):
        return keys[0]
    if not keys or any(key.dtype.kind == "f" for key in keys):
        return None
    found, combinations = np.zeros(len(keys[0]), dtype=np.int64), 1
    for key in keys:
        low, high = int(key.min()), int(key.max())
        combinations *= high - low + 1
        if combinations > _MOST_CODES:
            return None
        found = found * (high - low + 1) + (key - low)
    return found


def inserted(large: Run, small: Run, keys: int) -> Run:
    """Return a large run and a small one, both in order, as one. All parts are sums."""
    place = _places(large[:keys], small[:keys])
    near = np.minimum(place, len(large[0]) - 1)
    known = place < len(large[0])
    for mine, theirs in zip(large[:keys], small[:keys], strict=True):
        known &= mine[near] == theirs
    is_known = bool(known.all())
    columns, places = list(large[:keys]), place if is_known else place[known]
    for mine, theirs in zip(large[keys:], small[keys:], strict=True):
        sums = mine.copy()
        sums[places] += theirs if is_known else theirs[known]
        columns.append(sums)
    if is_known:
        return columns
    fresh = ~known
    return [np.insert(mine, place[fresh], one[fresh]) for mine, one in zip(columns, small, strict=True)]


def _places(base: Run, wanted: Run) -> npt.NDArray[np.int64]:
    """Return for each wanted key the number of keys of the base before it: a binary search of all of them at once."""
    if (
        len(base) == 1
        and base[0].dtype.kind == "i"
        and int(base[0][-1]) - int(base[0][0]) == len(base[0]) - 1
    ):
        first, last = base[0][0], base[0][-1]  # all numbers of a range occur
        places: npt.NDArray[np.int64] = np.clip(wanted[0], first, last) - first + (wanted[0] > last)
        return places
    if len(base) == 1:
        return np.searchsorted(base[0], wanted[0]).astype(np.int64)
    low = np.zeros(len(wanted[0]), dtype=np.int64)
    high = np.full(len(wanted[0]), len(base[0]), dtype=np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        at = np.minimum(middle, len(base[0]) - 1)
        before = np.zeros(len(low), dtype=bool)
        same = np.ones(len(low), dtype=bool)
        for mine, theirs in zip(base, wanted, strict=True):
            value = mine[at]
            before |= same & (value < theirs)
            same &= value == theirs
        active = low < high
        low = np.where(active & before, middle + 1, low)
        high = np.where(active & ~before, middle, high)
    return low


PLACES = 2**16
"""Keys may span so many places, or as many places as there are rows."""

EXACT = 2**53
"""Sums of floats are those of integers below it."""


def grouped(given: Mapping[str, pa.Array], keys: Sequence[str], asked: Sequence[Any]) -> pa.Table | None:
    """Return the result of `TableGroupBy.aggregate`, in the order of the keys; None if only that method can compute it."""
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
    """Return the keys of the codes that occur, each from a row that has it."""
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
    """Return the columns as arrays of NumPy, None if a column is not of integers only."""
    if any(not pa.types.is_int64(one.type) or one.null_count for one in given.values()):
        return None
    return {name: one.to_numpy() for name, one in given.items()}


def _greatest(column: Any) -> int:
    return max(abs(int(column.min())), abs(int(column.max())))
