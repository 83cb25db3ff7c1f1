"""Runs whose columns are all numbers, merged by sorting and by searching: some ten times as fast as grouping them.

A run is a list of arrays: first its keys, each key once, then its parts. It has no nulls and no NaN.

>>> one, other = [np.array([1, 4]), np.array([10, 40])], [np.array([0, 4]), np.array([5, 2])]
>>> [column.tolist() for column in united([one, other], 1, ("sum",))]
[[0, 1, 4], [5, 10, 42]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dgs.query.compact.arrow_rows import whole

Run = list[npt.NDArray[Any]]
_MERGES: dict[str, Any] = {"sum": np.add, "min": np.minimum, "max": np.maximum}
_MOST_CODES = 2**62


def numbers_of(table: pa.Table) -> Run | None:
    """Return the columns of a table as arrays, None if one is no number, or holds nulls or NaN."""
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
    """Return several runs as one in the order of its keys, None if they do not fit one number. `merges`: how parts of a key become one."""
    ordered = [one for run in runs if (one := in_key_order(run, keys)) is not None]
    if len(ordered) < len(runs):
        return None
    columns = [np.concatenate(parts) for parts in zip(*ordered, strict=True)]
    codes = codes_of(columns[:keys])
    if codes is None or not len(codes):
        return None if codes is None else columns
    order = np.argsort(codes, kind="stable")  # it takes runs in order as they are
    codes = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    firsts = order[starts]
    made = [column[firsts] for column in columns[:keys]]
    for column, merge in zip(columns[keys:], merges, strict=True):
        made.append(_MERGES[merge].reduceat(column[order], starts))
    return made


def codes_of(keys: Run) -> npt.NDArray[Any] | None:
    """Return one number for each key, in the order of the keys; None if there are none, or more combinations than numbers."""
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
        first, last = base[0][0], base[0][-1]  # all numbers from one to another are there
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
