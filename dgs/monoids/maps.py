"""Maps of monoids by key: one state for each key that occurs.

>>> from dgs.monoids import SUM
>>> by_page = MapOf(SUM, key="page", value="amount")
>>> amounts = {"page": ["home", "shop", "home"], "amount": np.array([1, 2, 3])}
>>> by_page.fold(amounts), by_page.windows(amounts, np.array([1]))
({'home': 4, 'shop': 2}, [{'home': 1}, {'home': 3, 'shop': 2}])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.program import window_states
from dgs.monoids.contract import Cuts, Monoid, check_names, check_parts, field_of, refuses

States = dict[Any, Any]


class MapOf:
    """The state of a monoid over the column `value` (None: whole records) for each value of the column `key`.

    Values are records with a field `key` and a field `value`; keys must be hashable, and not NaN.
    """

    @refuses
    def __init__(self, monoid: Monoid, *, key: str = "key", value: str | None = "value") -> None:
        check_parts(type(self).__name__, monoid)
        check_names(type(self).__name__, key, *([] if value is None else [value]))
        self.monoid = monoid
        self.key = key
        self.value = value

    def identity(self) -> States:
        return {}

    def lift(self, value: dict[str, Any]) -> States:
        inner = value if self.value is None else value[self.value]
        return {value[self.key]: self.monoid.lift(inner)}

    def join(self, left: States, right: States) -> States:
        """Join key by key, the smaller map into the larger one."""
        large, small = (left, right) if len(left) >= len(right) else (right, left)
        join = self.monoid.join
        for key, state in small.items():
            large[key] = join(large[key], state) if key in large else state
        return large

    def fold(self, column: Column) -> States:
        return self.windows(column, np.empty(0, dtype=np.int64))[0]

    def windows(self, column: Column, cuts: Cuts) -> list[States]:
        """Return the map of each window. Rows sorted by window and key form groups, which are windows of the inner monoid."""
        maps: list[States] = [{} for _ in range(len(cuts) + 1)]
        count = columns.length(column)
        if not count:
            return maps
        keys, codes = columns.distinct(field_of(column, self.key))
        window = np.searchsorted(cuts, np.arange(count), side="right") if len(cuts) else 0
        group = window * len(keys) + codes
        order = np.argsort(group, kind="stable")
        grouped = group[order]
        ends = np.flatnonzero(grouped[1:] != grouped[:-1]) + 1
        inner = column if self.value is None else field_of(column, self.value)
        states = window_states(self.monoid.windows(columns.take(inner, order), ends))
        for which, state in zip(grouped[np.append(0, ends)].tolist(), states, strict=True):
            number, place = divmod(which, len(keys))
            maps[number] = self.join(maps[number], {keys[place]: state})
        return maps

    def result(self, state: States) -> States:
        return {key: self.monoid.result(inner) for key, inner in state.items()}
