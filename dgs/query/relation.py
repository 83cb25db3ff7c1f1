"""The algebra of queries: ten nodes over bags of rows with integer weights, and scripts of named outputs.

Nodes are values: equal by their fields, except for `span`, the place in the text. Every node has a `schema`, which is computed on first
use, with mistakes as QueryError; its columns have different names. Scalars are those of `scalar`. A weight of 1 is an insertion and of -1 a
deletion; `evaluate` gives the meaning.

>>> flights = Source("flights", Schema.of(carrier=TEXT, delay=INT))
>>> by = Group(flights, (("carrier", column("carrier")),), (("n", Aggregate("count")),))
>>> print(by.schema)
carrier text, n int64
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from dgs.query.aggregates import Aggregate
from dgs.query.errors import QueryError, Span
from dgs.query.scalar import Row, Scalar, bound, column, type_of
from dgs.query.types import INT, TEXT, Schema, Type, unified

Fields = tuple[tuple[str, Scalar], ...]
"""Named scalars, in order."""

How = Literal["inner", "left", "full", "semi", "anti"]
__all__ = [
    "INT", "TEXT", "Aggregate", "Expand", "Fields", "Group", "Join", "Key", "Map", "Order", "Relation", "Repeat",
    "Schema", "Script", "Source", "Union", "Where", "Window", "column",
]  # fmt: skip


@dataclass(frozen=True)
class Relation:
    """A node of the algebra: a bag of rows of one schema."""

    span: Span | None = field(default=None, compare=False, kw_only=True, repr=False)

    @cached_property
    def schema(self) -> Schema:
        """The columns. Raises QueryError with the place of the node."""
        try:
            found = self._schema()
        except QueryError as error:
            if error.facts["span"] is not None or self.span is None:
                raise
            raise QueryError(**(error.facts | {"span": self.span, "where": str(self.span)})) from None
        known: dict[str, str] = {}
        for name in found.names:
            first = known.get(name.lower())
            if first is not None:
                both = repr(name) if first == name else f"{first!r} and {name!r}, which are one name in SQL"
                raise QueryError.of("Q202", f"two columns are named {both}", "Rename one of them.", self.span)
            known[name.lower()] = name
        return found

    def _schema(self) -> Schema:
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """The nodes that it reads, in order."""
        one = getattr(self, "input", None)
        return () if one is None else (one,)

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        """Return the node over other inputs, as many as it has."""
        if not inputs:
            return self
        changed: dict[str, Any] = {"input": inputs[0]}  # nodes with other inputs override this
        return replace(self, **changed)

    @property
    def is_ordered(self) -> bool:
        """Whether the result is a list, not a bag."""
        return False


@dataclass(frozen=True)
class Source(Relation):
    """A stream (`changes`), or a table that does not change. `rows`: those of a table that is written in the text itself.

    `deletes`: rows of the stream may come with weight -1. Without that, min and max need not keep all values.
    """

    name: str
    columns: Schema
    changes: bool = True
    deletes: bool = False
    rows: tuple[Row, ...] | None = None

    def _schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class Map(Relation):
    """One row for each row. `fields`: the scalars of the new columns."""

    input: Relation
    fields: Fields

    def _schema(self) -> Schema:
        return Schema(tuple((name, type_of(one, self.input.schema)) for name, one in self.fields))

    @property
    def is_ordered(self) -> bool:
        """Whether the input is: a list may lose columns that only sort it."""
        return self.input.is_ordered


@dataclass(frozen=True)
class Where(Relation):
    """The rows for which a predicate is true; rows for which it is null are left out."""

    input: Relation
    predicate: Scalar

    def _schema(self) -> Schema:
        _check_condition(self.predicate, self.input.schema)
        return self.input.schema


@dataclass(frozen=True)
class Expand(Relation):
    """One row for each item of a bag or list, none for an empty one or null; the item is the new last column `as_`."""

    input: Relation
    items: Scalar
    as_: str

    def _schema(self) -> Schema:
        of = type_of(self.items, self.input.schema)
        if of.of is None:
            raise QueryError.of("Q204", f"{of} where a bag or list is needed")
        return Schema((*self.input.schema.fields, (self.as_, of.of)))


@dataclass(frozen=True)
class Union(Relation):
    """All rows of the inputs, weights added. Columns have the names of the first input, and common types."""

    parts: tuple[Relation, ...]

    def _schema(self) -> Schema:
        schemas = [part.schema for part in self.parts]
        if any(len(one) != len(schemas[0]) for one in schemas):
            raise QueryError.of("Q208", "a union of " + " with ".join(f"({one})" for one in schemas))
        types = [unified(column) for column in zip(*(one.types for one in schemas), strict=True)]
        return Schema(tuple(zip(schemas[0].names, types, strict=True)))

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """The parts."""
        return self.parts

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        """Return the union of other parts."""
        return replace(self, parts=inputs)


@dataclass(frozen=True)
class Join(Relation):
    """Pairs of rows of both sides. `pairs`: equal scalars of left and right, where null never matches; `residual`: a predicate over both.

    `left` and `full` keep rows without a partner, with nulls. `semi` and `anti`: rows of the left that have a partner, or none; a
    partner counts by support > 0, not by its weight. The columns of both sides have different names. Without `pairs` and `residual`: all
    pairs of rows.
    """

    left: Relation
    right: Relation
    pairs: tuple[tuple[Scalar, Scalar], ...] = ()
    residual: Scalar | None = None
    how: How = "inner"

    @cached_property
    def both(self) -> Schema:
        """The columns of both sides, which `residual` may read."""
        return Schema((*self.left.schema.fields, *self.right.schema.fields))

    def _schema(self) -> Schema:
        left, right = self.left.schema, self.right.schema
        for name in left.names:
            if name in right:
                raise QueryError.of(
                    "Q202", f"both sides of a join have a column {name!r}", "Rename one of them."
                )
        for one, other in self.pairs:
            unified((type_of(one, left), type_of(other, right)))
        if self.residual is not None:
            _check_condition(self.residual, self.both)
        if self.how in ("semi", "anti"):
            return left
        left = left.nullable() if self.how == "full" else left
        return Schema((*left.fields, *(right if self.how == "inner" else right.nullable()).fields))

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """Left and right."""
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        """Return the join of other sides."""
        return replace(self, left=inputs[0], right=inputs[1])


@dataclass(frozen=True)
class Group(Relation):
    """One row for each key with support > 0; nulls are one key. Without keys always one row; without aggregates the different keys."""

    input: Relation
    keys: Fields
    aggregates: tuple[tuple[str, Aggregate], ...] = ()

    def _schema(self) -> Schema:
        of = self.input.schema
        keys = [(name, type_of(one, of)) for name, one in self.keys]
        return Schema((*keys, *((name, one.type(of)) for name, one in self.aggregates)))


@dataclass(frozen=True)
class Key:
    """A scalar to sort by."""

    scalar: Scalar
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Order(Relation):
    """The rows as a list. Ties, and a limit without `by`, are decided by all columns, ascending, nulls last, so that every plan gives the same."""

    input: Relation
    by: tuple[Key, ...] = ()
    limit: int | None = None
    offset: int = 0

    def _schema(self) -> Schema:
        for key in self.by:
            type_of(key.scalar, self.input.schema)
        return self.input.schema

    @property
    def is_ordered(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True)
class Window(Relation):
    """Each row once for each window that it is in, with the window's end as the new last column `as_`.

    A window is [end - size, end), its start a multiple of `slide`. `at`: the column, an integer, of the row's time (`unit` "range") or of
    its number in the stream (`unit` "rows"). A row whose `at` is null is in no window.
    """

    input: Relation
    size: int
    slide: int
    unit: Literal["range", "rows"] = "range"
    at: str = "ts"
    as_: str = "window_end"

    def _schema(self) -> Schema:
        of = self.input.schema.type(self.at)
        if of.kind != "int64":
            remedy = "Make milliseconds of it in a derived table: `epoch_ms(t)`." if of.kind == "time" else ""
            raise QueryError.of("Q204", f"windows by {self.at!r}, which is {of} and no integer", remedy)
        return Schema((*self.input.schema.fields, (self.as_, INT)))


@dataclass(frozen=True)
class Repeat(Relation):
    """Iteration: `names` begin as `start` and become `body`, over and over, as long as `until` is not true, at most `limit` times.

    In `body` and `until` a name is `Source(name, schema, changes=False)`. `until` is a relation of one row and one column, over the new
    values; `old(name)` is the name of an old one. The result is the last value of `names[result]`.
    """

    names: tuple[str, ...]
    start: tuple[Relation, ...]
    body: tuple[Relation, ...]
    until: Relation | None = None
    limit: int | None = None
    result: int = 0
    mode: Literal["exact", "warm"] = "exact"

    def _schema(self) -> Schema:
        if self.limit is None and self.until is None:
            raise QueryError.of("Q306", "a loop without a bound", "Give it `limit n`, or `until`.")
        for start, body in zip(self.start, self.body, strict=True):
            if len(start.schema) != len(body.schema):
                raise QueryError.of("Q208", f"a step makes ({body.schema}) of ({start.schema})")
            for one, other in zip(start.schema.types, body.schema.types, strict=True):
                unified((one, other))
        return self.start[self.result].schema

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """The starts, the bodies, and `until` if there is one."""
        return (*self.start, *self.body, *(() if self.until is None else (self.until,)))

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        """Return the loop over other starts, bodies and `until`."""
        count = len(self.names)
        until = inputs[2 * count] if self.until is not None else None
        return replace(self, start=inputs[:count], body=inputs[count : 2 * count], until=until)


UNTIL_LIMIT = 1000
"""The most steps of a loop that has `until` and no limit of its own."""


def old(name: str) -> str:
    """Return the name of the value that a name had before the last step, for `until`."""
    return f"old {name}"


@dataclass(frozen=True)
class Script:
    """Named outputs over a shared graph, in order. A node that several of them read is computed once.

    `refused`: why statements were left out: they are outside of the language's subset (Q110), or need a statement that is.
    """

    outputs: tuple[tuple[str, Relation], ...]
    refused: tuple[QueryError, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, given: Script | Relation | Mapping[str, Relation]) -> Script:
        """Return a script of outputs by name, or of one relation, named `answer`."""
        if isinstance(given, Script):
            return given
        return cls((("answer", given),) if isinstance(given, Relation) else tuple(given.items()))

    def sources(self) -> dict[str, Source]:
        """Return all sources by name, in order of appearance, without the names that loops bind.

        Raises QueryError Q202 if two of one name differ.
        """
        found: dict[str, Source] = {}
        for _, output in self.outputs:
            for one in walk(output):
                if isinstance(one, Source) and found.setdefault(one.name, one) != one:
                    raise QueryError.of(
                        "Q202", f"two different sources are named {one.name!r}", span=one.span
                    )
        bound_names = {
            name
            for _, output in self.outputs
            for one in walk(output)
            if isinstance(one, Repeat)
            for name in one.names
        }
        return {name: one for name, one in found.items() if name.removeprefix("old ") not in bound_names}


def walk(relation: Relation) -> Iterator[Relation]:
    """Yield a relation and all nodes that it reads, each once, inputs after their readers."""
    seen: set[int] = set()
    waiting = [relation]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += reversed(one.inputs)


def rebuilt(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """Return a relation with `change` applied to every node, inputs first. Shared nodes stay shared."""
    done: dict[int, Relation] = {}

    def of(one: Relation) -> Relation:
        if id(one) not in done:
            inputs = tuple(map(of, one.inputs))
            same = all(new is before for new, before in zip(inputs, one.inputs, strict=True))
            done[id(one)] = change(one if same else one.with_inputs(inputs))
        return done[id(one)]

    return of(relation)


def _check_condition(predicate: Scalar, schema: Schema) -> Type:
    found = bound(predicate, schema).type
    if found.kind not in ("bool", "null"):
        raise QueryError.of("Q204", f"{found} where a condition is needed")
    return found
