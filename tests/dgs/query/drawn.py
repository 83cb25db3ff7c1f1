"""Random queries over random streams, and histories of insertions and deletions, from a seed.

Domains are tiny, so that keys repeat and dangle, and every column holds nulls. A batch may hold a row and its deletion.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from dgs.query.evaluate import ZBag, zbag
from dgs.query.relation import (
    Aggregate,
    Expand,
    Group,
    Join,
    Key,
    Map,
    Order,
    Relation,
    Source,
    Union,
    Where,
    Window,
    column,
)
from dgs.query.scalar import call, literal, when
from dgs.query.types import FLOAT, INT, TEXT, Schema

DOMAINS = {
    "int64": (0, 1, 2, 3, -1),
    "float64": (0.5, 1.0, -1.5, 2.0),
    "text": ("a", "b", ""),
}
WEIGHED = (
    "sum",
    "avg",
    "count",
    "min",
    "max",
    "var_pop",
    "some",
    "all",
    "count distinct",
    "collect",
    "median",
    "arg_max",
)


@dataclass
class Drawing:
    """One random query with its streams. `shapes` counts its parts."""

    random: Random
    deletes: bool = True
    shapes: Counter[str] = field(default_factory=Counter)
    number: int = 0

    def __post_init__(self) -> None:
        names = ("r", "s", "t")[: self.random.randint(1, 3)]
        self.streams = {name: self._stream(name) for name in names}

    def _stream(self, name: str) -> Source:
        types = [INT, *self.random.choices((INT, INT, FLOAT, TEXT), k=self.random.randint(1, 3))]
        columns = tuple((f"{name}{place}", one) for place, one in enumerate(types))
        return Source(name, Schema(columns), deletes=self.deletes)

    def query(self, depth: int = 4) -> Relation:
        """Return a query; an order or a limit only at the top."""
        made = self.relation(depth)
        if self.random.random() < 0.15:
            self.shapes["order"] += 1
            by = tuple(
                Key(column(name), self.random.random() < 0.5, self.random.random() < 0.5)
                for name in self.random.sample(made.schema.names, 1)
            )
            return Order(made, by, self.random.choice((None, 1, 3)), self.random.choice((0, 0, 1)))
        return made

    def relation(self, depth: int) -> Relation:
        """Return a relation of at most a depth."""
        if depth <= 0:
            return self._read()
        kinds = ["group"] * 4 + ["join"] * 4 + ["where", "map", "expand", "union", "window", "read"]
        kind = self.random.choice(kinds)
        self.shapes[kind] += 1
        return getattr(self, f"_{kind}")(depth)

    def _read(self, depth: int = 0) -> Relation:
        source = self.random.choice(list(self.streams.values()))
        self.shapes[f"read {source.name}"] += 1
        return self._renamed(source)

    def _renamed(self, relation: Relation) -> Relation:
        self.number += 1
        return Map(
            relation,
            tuple(
                (f"{self.number}_{place}", column(name)) for place, name in enumerate(relation.schema.names)
            ),
        )

    def _where(self, depth: int) -> Relation:
        made = self.relation(depth - 1)
        return Where(made, self.condition(made.schema))

    def _map(self, depth: int) -> Relation:
        made = self.relation(depth - 1)
        self.number += 1
        kept = self.random.sample(made.schema.names, self.random.randint(1, min(2, len(made.schema))))
        fields = [(f"m{self.number}_{place}", column(name)) for place, name in enumerate(kept)]
        return Map(made, (*fields, (f"m{self.number}_x", self.number_of(made.schema))))

    def _expand(self, depth: int) -> Relation:
        made = self.relation(depth - 1)
        self.number += 1
        items = call("array", self.number_of(made.schema), self.number_of(made.schema))
        return Expand(made, items, f"e{self.number}")

    def _union(self, depth: int) -> Relation:
        parts = tuple(self.relation(depth - 1) for _ in range(2))
        self.number += 1
        name = f"u{self.number}"
        return Union(
            tuple(
                Map(one, ((f"{name}x", self.number_of(one.schema)), (f"{name}y", self.integer(one.schema))))
                for one in parts
            )
        )

    def _window(self, depth: int) -> Relation:
        made = self.relation(depth - 1)
        self.number += 1
        with_at = Map(
            made,
            (
                *((name, column(name)) for name in made.schema.names),
                (f"at{self.number}", self.integer(made.schema)),
            ),
        )
        return Window(
            with_at,
            self.random.choice((2, 3)),
            self.random.choice((1, 2)),
            "range",
            f"at{self.number}",
            f"w{self.number}",
        )

    def _join(self, depth: int) -> Relation:
        left, right = self.relation(depth - 1), self.relation(self.random.randint(0, depth - 1))
        left, right = self._renamed(left), self._renamed(right)
        how = self.random.choice(("inner", "inner", "inner", "left", "full", "semi", "anti"))
        self.shapes[how] += 1
        pairs = [(self.integer(left.schema), self.integer(right.schema))]
        if self.random.random() < 0.2:
            pairs.append((self.integer(left.schema), self.integer(right.schema)))
        both = Schema((*left.schema.fields, *right.schema.fields))
        residual = self.condition(both) if self.random.random() < 0.4 else None
        return Join(left, right, tuple(pairs), residual, how)

    def _group(self, depth: int) -> Relation:
        made = self.relation(depth - 1)
        self.number += 1
        schema, name = made.schema, f"g{self.number}"
        keys = tuple(
            (f"{name}k{place}", self.key(schema)) for place in range(self.random.choice((0, 1, 1, 2)))
        )
        count = self.random.randint(0 if keys else 1, 3)
        aggregates = tuple((f"{name}a{place}", self.aggregate(schema)) for place in range(count))
        return Group(made, keys, aggregates)

    def aggregate(self, schema: Schema) -> Aggregate:
        """Return an aggregate over a schema."""
        kind = self.random.choice((*WEIGHED, "count rows", "sum", "product"))
        self.shapes[kind] += 1
        where = self.condition(schema) if self.random.random() < 0.15 else None
        empty = self.random.choice(("null", "null", "zero"))
        if kind == "count rows":
            return Aggregate("count", where=where)
        if kind == "count distinct":
            return Aggregate("count", (self.key(schema),), distinct=True, where=where)
        if kind == "product":
            factors = call("mul", self.number_of(schema), self.number_of(schema))
            return Aggregate("sum", (factors,), where=where, empty=empty)
        if kind in ("some", "all"):
            return Aggregate(kind, (self.condition(schema),), where=where, empty=empty)
        if kind == "arg_max":
            return Aggregate(kind, (self.key(schema), self.key(schema)), where=where)
        argument = self.key(schema) if kind in ("min", "max", "collect") else self.number_of(schema)
        is_distinct = kind in ("sum", "collect", "median") and self.random.random() < 0.1
        return Aggregate(kind, (argument,), is_distinct, where, empty if kind == "sum" else "null")

    def key(self, schema: Schema):
        """Return any flat scalar over a schema, mostly a column."""
        flat = [name for name, one in schema.fields if one.kind in ("int64", "float64", "text")]
        return (
            column(self.random.choice(flat))
            if flat and self.random.random() < 0.8
            else self.number_of(schema)
        )

    def integer(self, schema: Schema):
        """Return an integer over a schema."""
        names = [name for name, one in schema.fields if one.kind == "int64"]
        return column(self.random.choice(names)) if names else literal(self.random.choice(DOMAINS["int64"]))

    def number_of(self, schema: Schema):
        """Return a number over a schema."""
        names = [name for name, one in schema.fields if one.is_number]
        if not names:
            return literal(self.random.choice((1, 2)))
        one = column(self.random.choice(names))
        shape = self.random.random()
        if shape < 0.5:
            return one
        if shape < 0.65:
            return call("coalesce", one, literal(1))
        other = column(self.random.choice(names))
        if shape < 0.75:
            return when(self.condition(schema), one, other)
        function = self.random.choice(("add", "sub", "mul", "div"))
        return call(function, one, other if function != "div" else literal(2))

    def condition(self, schema: Schema):
        """Return a condition over a schema."""
        shape = self.random.random()
        if shape < 0.15:
            return call("isnull", self.key(schema))
        if shape < 0.25:
            return call("not", call("isnull", self.key(schema)))
        if shape < 0.35:
            return call(self.random.choice(("and", "or")), self.condition(schema), self.condition(schema))
        names = [name for name, one in schema.fields if one.is_number]
        left = column(self.random.choice(names)) if names else literal(1)
        right = (
            column(self.random.choice(names))
            if names and self.random.random() < 0.3
            else literal(self.random.choice((0, 1, 2)))
        )
        return call(self.random.choice(("eq", "lt", "gte", "neq")), left, right)

    def row(self, source: Source):
        """Return a row of a stream."""
        return tuple(
            None if self.random.random() < 0.15 else self.random.choice(DOMAINS[one.kind])
            for one in source.columns.types
        )

    def history(self, most: int = 8) -> list[tuple[str, tuple, int]]:
        """Return changes of the streams in random order: no row is deleted more often than inserted in the end."""
        changes = []
        for name, source in self.streams.items():
            rows = [self.row(source) for _ in range(self.random.randint(0, most))]
            changes += [(name, row, 1) for row in rows]
            if self.deletes:
                gone = [row for row in rows if self.random.random() < 0.4]
                changes += [(name, row, -1) for row in gone]
        self.random.shuffle(changes)
        return changes

    def batches(self, history) -> list[tuple[str, list[tuple[tuple, int]]]]:
        """Cut a history into batches of 1 to 5 rows of one stream."""
        found = []
        for name in self.streams:
            rows = [(row, weight) for stream, row, weight in history if stream == name]
            while rows:
                count = self.random.randint(1, 5)
                found.append((name, rows[:count]))
                rows = rows[count:]
        self.random.shuffle(found)
        return found


def total(streams, history) -> dict[str, ZBag]:
    """Return the Z-bag of each stream after a history."""
    found: dict[str, ZBag] = {name: {} for name in streams}
    for name, row, weight in history:
        bag = found[name]
        bag[row] = bag.get(row, 0) + weight
        if not bag[row]:
            del bag[row]
    return found


__all__ = ["Drawing", "total", "zbag"]
