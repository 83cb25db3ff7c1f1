"""SQL as a front end: a text in DuckDB's dialect becomes a relation of the algebra.

>>> from dgs.query.relation import Source
>>> from dgs.query.types import INT, TEXT, Schema
>>> flights = Source("flights", Schema.of(carrier=TEXT, delay=INT))
>>> print(relation("select carrier, count(*) n from flights group by carrier", {"flights": flights}).schema)
carrier text, n int64
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dgs.query.relation import Relation, Script, Source
from dgs.query.sql.sql_queries import Queries
from dgs.query.sql.sql_syntax import SqlText
from dgs.query.sql.sql_tables import Catalog


def relation(
    text: str,
    sources: Mapping[str, Source],
    *,
    name: str = "query.sql",
    params: Mapping[str, Any] | None = None,
) -> Relation:
    """Return the relation of a query. `sources`: the tables by name; `name`: of the file, for errors. Raises QueryError."""
    sql = SqlText(name, text)
    found = Queries(Catalog(sql, sources, params or {})).query(sql.tree())
    _ = found.schema  # types are checked here, with the places of the text
    return found


def script(text: str, sources: Mapping[str, Source], *, name: str, params: Mapping[str, Any]) -> Script:
    """Return the script of a query, whose only output is `answer`. Raises QueryError."""
    return Script.of(relation(text, sources, name=name, params=params))
