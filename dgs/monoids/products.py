"""Monoids made of monoids: over one field of records, and several side by side.

>>> from dgs.monoids import COUNT, MAX, SUM
>>> sales = AllOf(total=FieldOf(SUM, "amount"), greatest=FieldOf(MAX, "amount"), number=COUNT)
>>> sales.result(sales.fold({"amount": [3, 9, 4], "page": ["home", "shop", "home"]}))
{'total': 16, 'greatest': 9, 'number': 3}
"""

from __future__ import annotations

from typing import Any

from dgs.model.columns import Column
from dgs.model.program import window_states
from dgs.monoids.contract import Cuts, Monoid, check_names, check_parts, field_of, refuses

States = tuple[Any, ...]


class FieldOf:
    """A monoid over a field of records; several names lead to a field of a field."""

    @refuses
    def __init__(self, monoid: Monoid, *names: str) -> None:
        check_parts(type(self).__name__, monoid)
        check_names(type(self).__name__, *names)
        self.monoid = monoid
        self.names = names
        self.identity, self.join, self.result = monoid.identity, monoid.join, monoid.result

    def lift(self, value: Any) -> Any:
        for name in self.names:
            value = value[name]
        return self.monoid.lift(value)

    def fold(self, column: Column) -> Any:
        return self.monoid.fold(self._field(column))

    def windows(self, column: Column, cuts: Cuts) -> Column:
        return self.monoid.windows(self._field(column), cuts)

    def _field(self, column: Column) -> Column:
        for name in self.names:
            column = field_of(column, name)
        return column


class AllOf:
    """Several monoids over the same values, each with a name: the state is a tuple, the result a record."""

    @refuses
    def __init__(self, **monoids: Monoid) -> None:
        check_parts(type(self).__name__, *monoids.values())
        self.monoids = monoids
        self._parts = tuple(monoids.values())

    def identity(self) -> States:
        return tuple(part.identity() for part in self._parts)

    def lift(self, value: Any) -> States:
        return tuple(part.lift(value) for part in self._parts)

    def join(self, left: States, right: States) -> States:
        return tuple(part.join(a, b) for part, a, b in zip(self._parts, left, right, strict=True))

    def fold(self, column: Column) -> States:
        return tuple(part.fold(column) for part in self._parts)

    def windows(self, column: Column, cuts: Cuts) -> list[States]:
        parts = [window_states(part.windows(column, cuts)) for part in self._parts]
        return list(zip(*parts, strict=True)) if parts else [()] * (len(cuts) + 1)

    def result(self, state: States) -> dict[str, Any]:
        results = zip(self.monoids.items(), state, strict=True)
        return {name: part.result(inner) for (name, part), inner in results}
