"""Columns of an MRQL script: their names, which are unique in the script, their types, and scalars over them."""

from __future__ import annotations

import math

from dgs.query.errors import QueryError
from dgs.query.mrql import mrql_tree as t
from dgs.query.mrql.mrql_blocks import Block
from dgs.query.mrql.mrql_parser import QueryText
from dgs.query.mrql.mrql_terms import Fields, Lifted, Term, Value, reads
from dgs.query.scalar import Scalar, bound, field, literal, struct
from dgs.query.scalar import type_of as scalar_type
from dgs.query.types import Schema, Type


class Columns:
    """The columns of a script. Types are kept by name."""

    def __init__(self, text: QueryText) -> None:
        self.text = text
        self.types: dict[str, Type] = {}
        self._used = {"left", "right"}  # the columns of `plus` in aggregations

    def collected(self, lifted: Lifted, block: Block) -> Term:
        """Return a variable from before `group by`, as a bag in a column."""
        raise NotImplementedError

    def fresh(self, hint: str) -> str:
        """Return a column name that the script has not used, ignoring case as DuckDB does."""
        name, number = hint, 1
        while name.lower() in self._used:
            number += 1
            name = f"{hint}_{number}"
        self._used.add(name.lower())
        self.types[name] = Type("null")
        return name

    def type_of(self, scalar: Scalar) -> Type:
        """Return the type of a scalar over columns that are known by name."""
        return scalar_type(scalar, Schema(tuple((name, self.types[name]) for name in sorted(reads(scalar)))))

    def checked(self, scalar: Scalar, at: t.Place) -> Value:
        """Return a scalar whose types fit; constants are computed. Raises QueryError with the place."""
        try:
            self.type_of(scalar)
            if not reads(scalar) and not scalar.is_leaf():
                scalar = self._computed(scalar)
        except QueryError as error:
            raise self.text.placed(error, at) from None
        scalar.meta["span"] = self.text.span(at)
        return Value(scalar)

    def _computed(self, scalar: Scalar) -> Scalar:
        found = bound(scalar, Schema(()))
        if found.type.kind not in ("int64", "float64", "bool", "text"):
            return scalar
        value = found(())
        is_odd = isinstance(value, float) and not math.isfinite(value)
        return scalar if value is None or is_odd else literal(value)

    def fields_of(self, term: Term, at: t.Place) -> Term:
        """Return a value with its record unpacked: `Fields` of a scalar that is a record."""
        if isinstance(term, Value) and self.type_of(term.scalar).kind == "record":
            of = self.type_of(term.scalar)
            items = tuple((name, self.checked(field(term.scalar, name), at)) for name, _ in of.fields)
            return Fields(items, is_tuple=of.fields[0][0] == "_0")
        return term

    def scalar(self, term: Term, at: t.Place, block: Block) -> Scalar:
        """Return a value as one scalar: tuples and records become records. Raises Q204 for a collection that no column holds."""
        if isinstance(term, Value):
            return term.scalar
        if isinstance(term, Fields):
            return struct(**{name: self.scalar(one, at, block) for name, one in term.items})
        if isinstance(term, Lifted):
            return self.scalar(self.collected(term, block), at, block)
        raise self.text.error(
            "Q204", at, "a collection where a value is needed", "Aggregate it: `count(..)`, `sum(..)`."
        )
