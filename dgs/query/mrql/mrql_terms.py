"""An MRQL expression during translation: a value of each row, a collection, or something to be read where it is used.

A value is a `Value` (a tree over columns) or `Fields` (a tuple or record, which becomes a single value only if it must). Column
names are unique in a script, so the columns of a scalar tell which rows it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dgs.query import scalar as scalars
from dgs.query.mrql import mrql_tree as t
from dgs.query.relation import Relation
from dgs.query.scalar import Scalar


@dataclass(frozen=True)
class Value:
    """One value for each row."""

    scalar: Scalar


@dataclass(frozen=True)
class Fields:
    """A tuple (names `_0`, `_1`, ..) or a record."""

    items: tuple[tuple[str, Term], ...]
    is_tuple: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(name for name, _ in self.items)

    def get(self, name: str) -> Term | None:
        """Return the field of a name, or None."""
        return dict(self.items).get(name)


@dataclass(frozen=True)
class Rows:
    """A collection that does not depend on enclosing rows: a relation with its element over the relation's columns.

    `order`: the columns that sort a list. `size`: the number of elements, if the text fixes it.
    """

    node: Relation
    element: Term
    order: tuple[str, ...] = ()
    size: int | None = None


@dataclass(frozen=True)
class One:
    """A value that does not depend on rows: a relation of one row."""

    node: Relation
    value: Term


@dataclass(frozen=True)
class Later:
    """A collection that is read where it is used: its tree, with the names that it sees."""

    tree: t.Tree
    names: Names


@dataclass(frozen=True)
class Lifted:
    """A variable from before `group by`, which is the bag of its values in the group: a `Grouped`, whose module needs this one."""

    term: Term
    group: Any


@dataclass(frozen=True)
class Routine:
    """A function or macro."""

    definition: t.Function
    names: Names


@dataclass(frozen=True)
class UserAggregation:
    """An `aggregation`, whose plus and zero make a commutative monoid."""

    definition: t.Aggregation
    names: Names


Term = Value | Fields | Rows | One | Later | Lifted | Routine | UserAggregation


@dataclass(frozen=True)
class Names:
    """The names in scope, inner before outer."""

    own: Mapping[str, Term] = field(default_factory=dict)
    outer: Names | None = None

    def get(self, name: str) -> Term | None:
        """Return the meaning of a name, or None."""
        scope: Names | None = self
        while scope is not None:
            if name in scope.own:
                return scope.own[name]
            scope = scope.outer
        return None

    def known(self) -> Iterator[str]:
        """All names in scope."""
        yield from self.own
        if self.outer is not None:
            yield from self.outer.known()

    def with_(self, more: Mapping[str, Term]) -> Names:
        """Return these names, hidden by others."""
        return Names(dict(more), self)


def leaves(term: Term) -> Iterator[Scalar]:
    """Return the scalars of a value, in order."""
    if isinstance(term, Value):
        yield term.scalar
    elif isinstance(term, Fields):
        for _, one in term.items:
            yield from leaves(one)


def shape(term: Term) -> object:
    """Return the shape of a value: the names of its parts, all the way down."""
    return tuple((name, shape(one)) for name, one in term.items) if isinstance(term, Fields) else None


def reads(*given: Scalar) -> frozenset[str]:
    """Return the names of the columns that scalars read."""
    return frozenset(name for one in given for name in scalars.columns_of(one))
