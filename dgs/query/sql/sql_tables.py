"""The names that a SQL query may read: the tables by name, the values of its parameters, and the queries that `with` names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlglot import exp

from dgs.errors.nearest import did_you_mean
from dgs.query.relation import Relation, Source
from dgs.query.sql.sql_syntax import SqlText


@dataclass(frozen=True, slots=True)
class Catalog:
    """The text of a query with what its names stand for. `named`: the relations of `with`, by names in lower case."""

    text: SqlText
    sources: Mapping[str, Source]
    params: Mapping[str, Any] = field(default_factory=dict)
    named: Mapping[str, Relation] = field(default_factory=dict)

    def with_named(self, name: str, relation: Relation) -> Catalog:
        """Return the catalog with one more named query, which hides a table of that name."""
        return replace(self, named={**self.named, name.lower(): relation})

    def relation(self, table: exp.Table) -> Relation:
        """Return what a table stands for. Raises QueryError Q201 with the nearest name, Q110 for functions of tables."""
        if not isinstance(table.this, exp.Identifier):
            raise self.text.error(
                "Q110",
                table,
                "not supported: a function as a table",
                "Give the rows as a table of their own.",
            )
        if table.args.get("db") is not None:
            raise self.text.error(
                "Q110", table, f"not supported: the schema {table.db!r}", "Tables have one name."
            )
        name = table.name
        if name.lower() in self.named:
            return self.named[name.lower()]
        found = {known.lower(): source for known, source in self.sources.items()}.get(name.lower())
        if found is None:
            known = [*self.sources, *self.named]
            hint = did_you_mean(name, known) or (f"; there are {', '.join(known)}" if known else "")
            remedy = "Name its file with `--from NAME=PATH`, or add a stream of that id to `streams:`."
            raise self.text.error("Q201", table, f"no table {name!r}{hint}", remedy, name=name)
        return replace(found, span=self.text.span(table))


class QueryMaker(Protocol):
    """Makes relations of the queries in a text."""

    catalog: Catalog

    def query(self, tree: exp.Expr, outer: Any = None) -> Relation:
        """Return the relation of a query."""

    def table(self, tree: exp.Expr) -> Relation:
        """Return the relation of an item of a FROM."""
