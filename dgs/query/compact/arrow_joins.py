"""The partners of rows in a join by equal keys, found by NumPy.

>>> left, right = partners([(pa.array([7, None, 5]), pa.array([5, 7, 7, None]))], 100)
>>> left.tolist(), right.tolist()
([0, 0, 2], [1, 2, 0])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dgs.query.compact.number_runs import codes_of

Places = npt.NDArray[np.int64]


def partners(keys: Sequence[tuple[pa.Array, pa.Array]], most: int) -> tuple[Places, Places] | None:
    """Return the places of left and of right rows whose keys are all equal, as pairs by the left one. Null equals nothing.

    `keys`: of each pair of keys those of the left and of the right rows, in arrays of one type. None for more than `most` pairs.
    """
    codes = codes_of([_numbers(one, other) for one, other in keys])
    if codes is None:
        return None
    count = len(keys[0][0])
    lefts, rights = _present([one for one, _ in keys]), _present([other for _, other in keys])
    of_left, of_right = codes[:count][lefts], codes[count:][rights]
    order = np.argsort(of_right, kind="stable")
    known, starts, counts = np.unique(of_right[order], return_index=True, return_counts=True)
    if not len(known):
        return lefts[:0], rights[:0]
    place = np.minimum(np.searchsorted(known, of_left), len(known) - 1)
    times = np.where(known[place] == of_left, counts[place], 0)
    pairs = int(times.sum())
    if pairs > most:
        return None
    before = np.repeat(np.cumsum(times) - times, times)
    number = np.arange(pairs) - before
    return np.repeat(lefts, times), rights[order[np.repeat(starts[place], times) + number]]


def _numbers(left: pa.Array, right: pa.Array) -> npt.NDArray[Any]:
    """Return a number for each value of both sides, the same for equal ones, and any for null."""
    both = pa.concat_arrays([left, right])
    if not pa.types.is_int64(both.type):
        both = both.dictionary_encode().indices
    return pc.fill_null(both, 0).to_numpy().astype(np.int64, copy=False)  # type: ignore[no-any-return]


def _present(keys: Sequence[pa.Array]) -> Places:
    """Return the places of the rows none of whose keys is null."""
    if not any(one.null_count for one in keys):
        return np.arange(len(keys[0]))
    is_present = np.logical_and.reduce([pc.is_valid(one).to_numpy(zero_copy_only=False) for one in keys])
    return np.flatnonzero(is_present)
