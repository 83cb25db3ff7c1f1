"""Compactions: for each stream of a block, the sums that its answer needs, by the columns that the rest of the block reads.

A compaction is linear in its streams: that of two batches is the sum of theirs, by key. `Compacting` collects what a leaf must keep
while a block is split, and remembers which clause asked for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from dgs.query.errors import Span
from dgs.query.relation import Aggregate, Fields, Group, Map, Relation, Source, Union, Where, walk
from dgs.query.scalar import Scalar, all_of, call, column, literal, substituted, when
from dgs.query.split.exact_sums import LIMBS
from dgs.query.split.join_tree import WEIGHT, Leaf
from dgs.query.types import INT, Schema

Merge = Literal["sum", "min", "max"]
Class = Literal["A", "B", "C"]
EXACT = "exact sums"
"""The clause that asks for the bins of floats: a group has few of them."""
OWN = "the aggregation"
"""The beginning of the clause for a user's aggregation, which has no inverse, so that all its values are kept."""


@dataclass(frozen=True, slots=True)
class Forced:
    """The reason why a key column is kept: the clause, and its place in the text."""

    key: str
    clause: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Compaction:
    """A reduced form of one or more streams: rows of `keys`, each with its weight `$w` and its parts.

    `query`: from a batch with the column `$w` to such rows, one for each key. `parts`: columns after the keys, `$w` first, and how two of
    a key become one. `klass`: A keeps the groups, B the columns of joins too, C whole rows.
    """

    name: str
    query: Group
    keys: tuple[str, ...]
    parts: tuple[tuple[str, Merge], ...]
    forced: tuple[Forced, ...] = field(compare=False)
    klass: Class

    @property
    def schema(self) -> Schema:
        """The columns: keys, then parts."""
        return self.query.schema

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that it reads, in order of appearance."""
        return tuple(dict.fromkeys(one.name for one in walk(self.query) if isinstance(one, Source)))

    @property
    def source(self) -> Source:
        """The table that the answer reads."""
        return Source(self.name, self.schema, changes=False)


def weighted(relation: Relation) -> Relation:
    """Return a linear relation with the weight of each row as a further column, `$w`."""
    if isinstance(relation, Source):
        columns = Schema((*relation.columns.fields, (WEIGHT, INT.required())))
        return Source(relation.name, columns, deletes=relation.deletes)
    inputs = tuple(map(weighted, relation.inputs))
    if isinstance(relation, Map):
        return Map(inputs[0], (*relation.fields, (WEIGHT, column(WEIGHT))))
    if isinstance(relation, Union):
        names = [(*part.schema.names, WEIGHT) for part in relation.parts]
        sides = zip(inputs, names, strict=True)
        return Union(tuple(Map(one, tuple((name, column(name)) for name in of)) for one, of in sides))
    return relation.with_inputs(inputs)


class Compacting:
    """The columns and parts that one leaf must keep, while its block is split. Scalars are over the block's names (`i.name`)."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self._keys: dict[Scalar, str] = {}
        self.forced: list[Forced] = []
        self._parts: dict[tuple[str, Scalar], str] = {}
        inner = leaf.relation.schema.names
        self._names: dict[str, Scalar] = {f"{leaf.number}.{name}": column(name) for name in inner}
        self._names[f"{leaf.number}.{WEIGHT}"] = literal(1)

    def key(self, scalar: Scalar, clause: str, span: Span | None) -> Scalar:
        """Keep a scalar as a key; return its column."""
        own = substituted(scalar, self._names)
        if own not in self._keys:
            is_plain = isinstance(own, exp.Column)
            name = own.name if is_plain else f"k{len(self._keys)}"
            while name.lower() in map(str.lower, self._keys.values()):
                name += "_"
            self._keys[own] = name
        name = self._keys[own]
        if all((one.key, one.clause) != (name, clause) for one in self.forced):
            self.forced.append(Forced(name, clause, span))
        return column(f"{self.leaf.number}.{name}")

    def part(self, kind: str, scalar: Scalar) -> Scalar:
        """Keep a part: `s` the sum, `n` the number of values that are not null, `q` of squares, `t` of true, `min`, `max`.

        If an outer join finds no row, the part is that of a row of nulls.
        """
        known = (kind, scalar)
        if known not in self._parts:
            self._parts[known] = f"${kind}{len(self._parts)}"
        found = column(f"{self.leaf.number}.{self._parts[known]}")
        if not self.leaf.is_nullable:
            return found
        names = {name: exp.Null() for name in self._names}
        return when(self.leaf.presence(), found, of_row(kind, substituted(scalar, names)))

    def exact_parts(self, scalar: Scalar, span: Span | None) -> tuple[Scalar, ...]:
        """Keep the bin of a float as a key, and the sums of its limbs; return these."""
        place, *limbs = bin_and_limbs(scalar)
        kept = self.key(place, EXACT, span)
        if self.leaf.is_nullable:
            names = {name: exp.Null() for name in self._names}
            kept = when(self.leaf.presence(), kept, substituted(place, names))
        return (kept, *(self.part("s", one) for one in limbs))

    def finished(self, name: str, klass: Class) -> Compaction:
        """Return the compaction."""
        rows: Relation = weighted(self.leaf.relation)
        if self.leaf.filters:
            rows = Where(rows, all_of([substituted(one, self._names) for one in self.leaf.filters]))
        keys: Fields = tuple((key, scalar) for scalar, key in self._keys.items())
        parts: list[tuple[str, Aggregate]] = [(WEIGHT, Aggregate("sum", (column(WEIGHT),), empty="zero"))]
        merges: list[tuple[str, Merge]] = [(WEIGHT, "sum")]
        for (kind, scalar), part in self._parts.items():
            own = substituted(scalar, self._names)
            if kind in ("min", "max"):
                parts.append((part, Aggregate(kind, (own,))))
                merges.append((part, "min" if kind == "min" else "max"))
            else:
                added = call("mul", column(WEIGHT), of_row(kind, own))
                parts.append((part, Aggregate("sum", (added,), empty="zero")))
                merges.append((part, "sum"))
        query = Group(rows, keys, tuple(parts), span=self.leaf.relation.span)
        return Compaction(name, query, tuple(self._keys.values()), tuple(merges), tuple(self.forced), klass)


def bin_and_limbs(scalar: Scalar) -> tuple[Scalar, ...]:
    """Return the bin of a float, and its limbs: 0 of null."""
    names = ("float_bin", *(f"float_limb{number}" for number in range(len(LIMBS))))
    return tuple(call("coalesce", call(name, scalar), literal(0)) for name in names)


def of_row(kind: str, scalar: Scalar) -> Scalar:
    """Return the contribution of a row of weight 1 to a part."""
    if kind == "n":
        return when(call("isnull", scalar), literal(0), literal(1))
    if kind == "t":
        return when(scalar, literal(1), literal(0))
    if kind == "q":
        as_float = exp.Cast(this=scalar.copy(), to=exp.DataType.build("double"))
        return call("mul", as_float, as_float)
    return scalar


def deletes(relation: Relation) -> bool:
    """Return whether any stream of a relation deletes rows."""
    return any(isinstance(one, Source) and one.deletes for one in walk(relation))
