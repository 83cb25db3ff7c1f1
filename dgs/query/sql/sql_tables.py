"""The names that a SQL query may read: the tables by name, the values of its parameters, and the queries that `with` names.

If columns are not given, they are guessed: names from the text, with types that fit anything. That is enough to explain a query.

>>> text = "select c.nation, count(*) n from customer c join orders o on o.custkey = c.custkey group by c.nation"
>>> {name: source.schema.names for name, source in guessed(text, "q.sql").items()}
{'customer': ('nation', 'custkey'), 'orders': ('custkey',)}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlglot import exp

from dgs.errors.nearest import did_you_mean
from dgs.query.relation import Relation, Source
from dgs.query.sql.sql_joins import names_in
from dgs.query.sql.sql_syntax import SqlText
from dgs.query.types import NULL, Schema


@dataclass(frozen=True, slots=True)
class Catalog:
    """The text of a query with the meanings of its names. `named`: the relations of `with`, by names in lower case."""

    text: SqlText
    sources: Mapping[str, Source]
    params: Mapping[str, Any] = field(default_factory=dict)
    named: Mapping[str, Relation] = field(default_factory=dict)

    def with_named(self, name: str, relation: Relation) -> Catalog:
        """Return the catalog with one more named query, which hides a table of that name."""
        return replace(self, named={**self.named, name.lower(): relation})

    def parameter(self, tree: exp.Expr) -> Any:
        """Return the value of a parameter. Raises QueryError Q120."""
        return parameter(tree, self.text, self.params)

    def relation(self, table: exp.Table) -> Relation:
        """Return the relation of a table. Raises QueryError Q201 with the nearest name, Q110 for table functions."""
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


def parameter(tree: exp.Expr, text: SqlText, params: Mapping[str, Any]) -> Any:
    """Return the value of a parameter. Raises QueryError Q120."""
    name = tree.name
    if name in ("", "?"):
        raise text.error("Q120", tree, "a parameter without a name", "Write `$name`, and give it a value.")
    if name not in params:
        problem = f"no value for the parameter {name!r}{did_you_mean(name, params)}"
        raise text.error("Q120", tree, problem, f"Give one: `params: {{{name}: ...}}`, or `-p {name}=...`.")
    return params[name]


class QueryMaker(Protocol):
    """Makes relations of the queries in a text."""

    catalog: Catalog

    def query(self, tree: exp.Expr, outer: Any = None) -> Relation:
        """Return the relation of a query."""

    def table(self, tree: exp.Expr) -> Relation:
        """Return the relation of an item of a FROM."""


def guessed(text: str, name: str) -> dict[str, Source]:
    """Return the tables that a text names. Raises QueryError Q202 for a column that several tables may have, Q110 for `*`."""
    sql = SqlText(name, text)
    tree = sql.tree()
    own = {one.alias.lower() for one in tree.find_all(exp.CTE)}
    found: dict[str, dict[str, None]] = {}
    for select in tree.find_all(exp.Select):
        tables = _tables(select)
        for table in tables.values():
            if table is not None and table.lower() not in own:
                found.setdefault(table, {})
        for column in names_in_select(select):
            table = _table_of(column, tables, sql)
            if table is not None and table in found and not isinstance(column.this, exp.Star):
                found[table][column.name] = None
    return {
        name: Source(name, Schema(tuple((one, NULL) for one in columns))) for name, columns in found.items()
    }


def names_in_select(select: exp.Select) -> list[exp.Column]:
    """Return the columns that a `select` names, without those in its nested queries and derived tables."""
    parts = [
        value
        for values in select.args.values()
        for value in (values if isinstance(values, list) else [values])
    ]
    aliases = {one.alias.lower() for one in select.expressions if isinstance(one, exp.Alias)}
    found = [column for part in parts if isinstance(part, exp.Expr) for column in names_in(part)]
    return [one for one in found if one.table or one.name.lower() not in aliases]


def _tables(select: exp.Select) -> dict[str, str | None]:
    """Return the tables of a FROM by their names there; None for anything but a plain table."""
    given = [select.args.get("from_"), *(select.args.get("joins") or [])]
    items = [one.this for one in given if one is not None]
    return {one.alias_or_name.lower(): one.name if isinstance(one, exp.Table) else None for one in items}


def _table_of(column: exp.Column, tables: dict[str, str | None], text: SqlText) -> str | None:
    if column.table:
        return tables.get(column.table.lower())
    if len(tables) > 1:
        remedy = "Put the name of the table before it, or say where the tables are: `--from NAME=PATH`."
        raise text.error("Q202", column, f"{column.name!r} may be of {' or '.join(tables)}", remedy)
    return next(iter(tables.values()), None)
