"""The parts that a node keeps of items in columns: for each block, the joined states of its keys, the same as item by item.

Sums of floats depend on their order, and minima of floats on whether 0.0 or -0.0 comes first: these are computed in rows.

>>> from dgs.monoids import COUNT, SUM
>>> bounds = np.array([0, 2, 3])
>>> parts(COUNT, np.array([0, 0, 1]), ["a", "b"], None, bounds), parts(SUM, None, ["a"], np.array([1, 2, 4]), bounds)
([{'a': 2}, {'b': 1}], [{'a': 3}, {'a': 4}])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dgs.flow.batches.column_items import NoColumns, Numbers, Records, typed
from dgs.flow.batches.column_keys import DENSE, SMALL, coded
from dgs.model import columns
from dgs.model.columns import Column
from dgs.monoids import AllOf, Count, FieldOf, MapOf, Max, Mean, MeanExact, Min, Sum, SumExact

EXACT = 2**53
"""Sums of integers up to this are exact in floats."""

OF_RECORDS = (AllOf, MapOf, FieldOf)
"""The monoids that are made of others."""

_INTEGERS, _NUMBERS = (Sum, Mean, Max, Min), (SumExact, MeanExact)
_FORMS = ("identity", "lift", "join", "fold", "windows")

States = tuple[list[int], list[Any]]
"""The numbers of the keys that occur, and the state of each."""

Fold = Callable[[Numbers, int, int, int], States]
"""Takes the numbers of the keys of items, the first item and the one after the last, and the number of keys."""


def rows_because(monoid: Any) -> str:
    """Return why a monoid is joined in rows; an empty text if it has a form for columns.

    >>> from dgs.monoids import DISTINCT, SUM
    >>> rows_because(SUM), rows_because(AllOf(total=SUM, names=DISTINCT))
    ('', 'Distinct has no form for columns')
    """
    if isinstance(monoid, AllOf):
        return next(filter(None, map(rows_because, monoid.monoids.values())), "")
    if isinstance(monoid, (FieldOf, MapOf)):
        return rows_because(monoid.monoid)
    kind = next((one for one in (Count, *_INTEGERS, *_NUMBERS) if isinstance(monoid, one)), None)
    if kind is None or any(getattr(type(monoid), name) is not getattr(kind, name) for name in _FORMS):
        return f"{type(monoid).__name__} has no form for columns"
    return ""


def parts(
    monoid: Any, codes: Numbers | None, keys: Sequence[Any], value: Any, bounds: Numbers
) -> list[dict[Any, Any]]:
    """Return the states by key of each block. `bounds`: where in the items blocks begin, and the end. Raises NoColumns.

    `value`: a column, or Records. `codes`: the number of each item's key; None: all have the first one. No block is empty.
    """
    count = int(bounds[-1])
    if codes is None and not isinstance(monoid, OF_RECORDS):
        states = columns.to_list(monoid.windows(column_of(monoid, value, count), bounds[1:-1]))
        return [{keys[0]: state} for state in states]
    numbers = np.zeros(count, dtype=np.int64) if codes is None else codes
    fold, made = _fold(monoid, value, count), []
    for start, stop in pairwise(bounds.tolist()):
        present, states = fold(numbers[start:stop], start, stop, len(keys))
        made.append({keys[place]: state for place, state in zip(present, states, strict=True)})
    return made


def _fold(monoid: Any, value: Any, count: int) -> Fold:
    """Return how a monoid is folded over parts of these values. Raises NoColumns."""
    if isinstance(monoid, Count):
        return lambda codes, _start, _stop, size: _counts(codes, size)
    if isinstance(monoid, FieldOf):
        for name in monoid.names:
            value = _field(value, name)
        return _fold(monoid.monoid, value, count)
    if isinstance(monoid, AllOf):
        return _all_of([_fold(one, value, count) for one in monoid.monoids.values()])
    if isinstance(monoid, MapOf):
        return _map_of(monoid, value, count)
    column = column_of(monoid, value, count)
    if type(monoid).windows is Sum.windows and _is_exact(column):
        return lambda codes, start, stop, size: _sums(codes, column[start:stop], size)
    return lambda codes, start, stop, _: _by_windows(monoid, codes, columns.cut(column, start, stop))


def _field(value: Any, name: str) -> Column:
    if not isinstance(value, Records):
        raise NoColumns
    return value.field(name)


def column_of(monoid: Any, value: Any, count: int) -> Column:
    """Return the values as a column whose states are the same in columns and item by item. Raises NoColumns."""
    if isinstance(monoid, Count):
        return np.zeros(count, dtype=np.int64)
    column = value if isinstance(value, Records) else typed(value)
    is_number = isinstance(column, np.ndarray) and (column.dtype.kind in "ib" or isinstance(monoid, _NUMBERS))
    if not is_number:
        raise NoColumns
    return column


def _is_exact(column: Numbers) -> bool:
    if column.dtype.kind != "i":
        return False
    largest = max(int(column.max()), -int(column.min())) if len(column) else 0
    return largest * len(column) <= EXACT


def _counts(codes: Numbers, size: int) -> States:
    codes, names = _narrow(codes, size)
    counts = np.bincount(codes)
    present = np.flatnonzero(counts)
    return _named(present, names), counts[present].tolist()


def _sums(codes: Numbers, column: Numbers, size: int) -> States:
    codes, names = _narrow(codes, size)
    present = np.flatnonzero(np.bincount(codes))
    sums = np.bincount(codes, weights=column)[present]
    return _named(present, names), sums.astype(np.int64).tolist()


def _narrow(codes: Numbers, size: int) -> tuple[Numbers, Numbers | None]:
    """Return the numbers; if only a few of many occur, smaller numbers, and the original of each."""
    if size <= max(DENSE * len(codes), SMALL):
        return codes, None
    names, narrow = np.unique(codes, return_inverse=True)
    return narrow, names


def _named(present: Numbers, names: Numbers | None) -> list[int]:
    return (present if names is None else names[present]).tolist()  # type: ignore[no-any-return]


def _by_windows(monoid: Any, codes: Numbers, column: Column) -> States:
    """Return the states of keys as windows of the items in order of their keys."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    ends = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    present = ordered[np.append(0, ends)].tolist() if len(ordered) else []
    return present, columns.to_list(monoid.windows(columns.take(column, order), ends))


def _all_of(folds: list[Fold]) -> Fold:
    def fold(codes: Numbers, start: int, stop: int, size: int) -> States:
        found = [one(codes, start, stop, size) for one in folds]
        by_key = [dict(zip(present, states, strict=True)) for present, states in found]
        present = found[0][0] if found else []
        return present, [tuple(states[place] for states in by_key) for place in present]

    return fold


def _map_of(monoid: MapOf, value: Any, count: int) -> Fold:
    """Fold by both keys at once. The entries of a map come in the order of their first items."""
    numbers, names = coded(_field(value, monoid.key), count)
    if numbers is None:
        raise NoColumns
    inner = _fold(monoid.monoid, value if monoid.value is None else _field(value, monoid.value), count)
    width = len(names)

    def fold(codes: Numbers, start: int, stop: int, size: int) -> States:
        both = codes * width + numbers[start:stop]
        present, states = inner(both, start, stop, size * width)
        distinct, first = np.unique(both, return_index=True)
        first_of = dict(zip(distinct.tolist(), first.tolist(), strict=True))
        maps: dict[int, dict[Any, Any]] = {}
        for place, state in sorted(zip(present, states, strict=True), key=lambda pair: first_of[pair[0]]):
            key, name = divmod(place, width)
            maps.setdefault(key, {})[names[name]] = state
        return list(maps), list(maps.values())

    return fold
