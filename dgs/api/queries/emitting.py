"""A query written in another form: as statements of DuckDB, or as a plan file that keeps its answer."""

from __future__ import annotations

from pathlib import Path

from dgs.api.queries.asking import Asked
from dgs.api.queries.query_tables import TableFile
from dgs.errors import UsageError
from dgs.query.fronts import needed


def emitted(asked: Asked, form: str) -> dict[str, str]:
    """Return files by name with their texts. `form`: duckdb or dgs. Raises QueryError, UsageError."""
    return _plan(asked) if form == "dgs" else _statements(asked)


def _statements(asked: Asked) -> dict[str, str]:
    needed("sqlglot", f"a query in {asked.lang}")
    from dgs.query.sql_text import text_of

    return {f"{name}.sql": f"{text_of(output)};\n" for name, output in asked.outputs}


def _plan(asked: Asked) -> dict[str, str]:
    from dgs.job.document import dump

    _ = asked.script
    name = Path(asked.name or "query").stem
    query = {"text": asked.text, "lang": asked.lang} | (
        {"params": dict(asked.params)} if asked.params else {}
    )
    data = {
        "version": 1,
        "name": "".join(one if one.isalnum() else "-" for one in name),
        "program": {"query": query},
        "streams": [_stream(one) for one in asked.given if isinstance(one, TableFile)],
        "runtime": {"kind": "local"},
    }
    return {"plan.yaml": dump(data)}


def _stream(table: TableFile) -> dict[str, object]:
    if table.ts is None:
        problem = (
            f"--from {table.name}={table.path}: a stream has times: write {table.name}={table.path}:ts=COLUMN"
        )
        raise UsageError(message=problem)
    path = str(Path(table.path).absolute())
    return {"id": table.name, "source": {table.format: {"path": path, "ts": table.ts}}}
