"""The partners of rows in a join by equal keys, found by NumPy.

>>> left, right = partners([(pa.array([7, None, 5]), pa.array([5, 7, 7, None]))], 100)
>>> left.tolist(), right.tolist()
([0, 0, 2], [1, 2, 0])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dgs.query.compact.arrow_scalars import POOL
from dgs.query.compact.number_runs import PLACES, codes_of

Places = npt.NDArray[np.int64]
Taking = Callable[[pa.Array], pa.Array]


class Pairs:
    """The places of left and right rows that are partners, and the functions that take them from a column of each side."""

    __slots__ = ("left", "of_left", "of_right", "right")

    def __init__(self, left: Places, right: Places, counts: tuple[int, int]) -> None:
        self.left, self.right = left, right
        self.of_left, self.of_right = map(_taking, (left, right), counts)


def _taking(places: Places, count: int) -> Taking:
    """Return the function that takes places from a column of `count` rows; for all places in order, it returns the column itself."""
    if len(places) == count and (not count or (places[0] == 0 and (places[1:] - places[:-1] == 1).all())):
        return lambda column: column
    wanted = pa.array(places)
    return lambda column: pc.take(column, wanted, memory_pool=POOL)


class Known:
    """Cached partners of rows, valid while the keys are the same arrays: most new rows have a known key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._keys: list[pa.Array] = []
        self._pairs: Pairs | None = None

    def partners(self, keys: Sequence[tuple[pa.Array, pa.Array]]) -> Pairs | None:
        """Return the pairs of rows with equal keys, as `partners` does; None if there are more than `most`."""
        arrays = [one for pair in keys for one in pair]
        if not self._keys or list(map(_memory, arrays)) != list(map(_memory, self._keys)):
            found = partners(keys, self._most)
            self._pairs = None if found is None else Pairs(*found, (len(keys[0][0]), len(keys[0][1])))
            self._keys = arrays  # kept, so that no other array gets their memory
        return self._pairs


def _memory(array: pa.Array) -> tuple[int, ...]:
    """Return the addresses of the values of an array."""
    return (len(array), array.offset, *(0 if one is None else one.address for one in array.buffers()))


def partners(keys: Sequence[tuple[pa.Array, pa.Array]], most: int) -> tuple[Places, Places] | None:
    """Return the places of left and of right rows whose keys are all equal, as pairs in the order of the left rows. Null equals nothing.

    `keys`: for each pair of keys, the values of the left and of the right rows, in arrays of one type. None for more than `most` pairs.
    """
    codes = codes_of([_numbers(one, other) for one, other in keys])
    if codes is None:
        return None
    count = len(keys[0][0])
    lefts, rights = _present([one for one, _ in keys]), _present([other for _, other in keys])
    of_left, of_right = codes[:count], codes[count:]
    of_left = of_left if len(lefts) == len(of_left) else of_left[lefts]
    of_right = of_right if len(rights) == len(of_right) else of_right[rights]
    if len(of_right) and (of_right[1:] > of_right[:-1]).all():
        return _pairs_of_one(lefts, rights, of_left, of_right, most)
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


def _pairs_of_one(
    lefts: Places, rights: Places, of_left: Places, of_right: Places, most: int
) -> tuple[Places, Places] | None:
    """Return the pairs if right keys are unique and in order: rows of a state by their keys."""
    low, high = int(of_right[0]), int(of_right[-1])
    if high - low < max(PLACES, len(of_left)):
        place_of = np.full(high - low + 1, -1)
        place_of[of_right - low] = np.arange(len(of_right))
        place = np.clip(of_left, low, high)
        has_partner = place == of_left
        place -= low
        place = place_of[place]
        has_partner &= place >= 0
    else:
        place = np.minimum(np.searchsorted(of_right, of_left), len(of_right) - 1)
        has_partner = of_right[place] == of_left
    if np.count_nonzero(has_partner) > most:
        return None
    if not has_partner.all():
        lefts, place = lefts[has_partner], place[has_partner]
    return lefts, place if len(rights) == rights[-1] + 1 else rights[place]


def _numbers(left: pa.Array, right: pa.Array) -> npt.NDArray[Any]:
    """Return a number for each value of both sides: the same for equal values, and any for null."""
    both = pa.concat_arrays([left, right])
    if not pa.types.is_int64(both.type):
        both = both.dictionary_encode().indices
    if both.null_count:
        both = pc.fill_null(both, 0)
    return both.to_numpy().astype(np.int64, copy=False)  # type: ignore[no-any-return]


def _present(keys: Sequence[pa.Array]) -> Places:
    """Return the places of the rows without null keys."""
    if not any(one.null_count for one in keys):
        return np.arange(len(keys[0]))
    is_present = np.logical_and.reduce([pc.is_valid(one).to_numpy(zero_copy_only=False) for one in keys])
    return np.flatnonzero(is_present)
