"""The files that a text of Pig Latin or MRQL names itself, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dgs.api.queries.query_tables import Table, TableFile
from dgs.query.fronts import needed

LINE_END = "\x01"
"""A delimiter that no text has: each line is one column."""


def loaded(text: str, lang: str, name: str | None, params: Mapping[str, Any]) -> dict[str, Table]:
    """Return the tables of the files that a text names, by the names under which it reads them. Raises what reading them raises."""
    needed("sqlglot", f"a query in {lang}")
    needed("lark", f"a query in {lang}")
    return _of_pig(text, name, params) if lang == "pig" else _of_mrql(text, name)


def _of_pig(text: str, name: str | None, params: Mapping[str, Any]) -> dict[str, Table]:
    from dgs.query.compact.arrow_rows import to_arrow
    from dgs.query.evaluate import rows_of
    from dgs.query.pig import program_of

    program = program_of(text, None, name=name or "query.pig", params=params, base_dir=Path())
    found = {}
    for stream, load in program.loads.items():
        schema = load.source(stream).columns
        rows = to_arrow(rows_of(load.table(Path()), schema), schema)
        found[stream] = Table(stream, rows, np.arange(len(rows)), schema)
    return found


def _of_mrql(text: str, name: str | None) -> dict[str, Table]:
    from dgs.query.mrql import readings
    from dgs.query.mrql.mrql_parser import QueryText

    found = {}
    for one in readings(QueryText(name or "query.mrql", text)):
        names = None if one.schema is None else one.schema.names
        kind, delimiter = {"line": ("csv", LINE_END), "json": ("jsonl", None)}.get(
            one.format, (one.format, one.delimiter)
        )
        table = TableFile(one.name, one.path, None, kind, delimiter, names).read(Path())
        found[one.name] = Table(one.name, table.rows, table.ts, one.schema)
    return found
