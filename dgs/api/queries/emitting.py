"""A query written in another form: as statements of DuckDB or Spark, or as a plan file that keeps its answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dgs.api.queries.asking import Asked
from dgs.api.queries.query_tables import TableFile
from dgs.errors import UsageError
from dgs.query.errors import QueryError
from dgs.query.fronts import needed

if TYPE_CHECKING:
    from dgs.query.relation import Relation, Script

ON_SPARK = "-- names differ by case: SET spark.sql.caseSensitive = true\n"


def emitted(asked: Asked, form: str) -> dict[str, str]:
    """Return the texts of files, by name. `form`: duckdb, spark or dgs. Raises QueryError, Q501 for a loop in a statement; UsageError."""
    if form == "dgs":
        return _plan(asked)
    needed("sqlglot", f"a query in {asked.lang}")
    from dgs.query.rewrite import rewritten
    from dgs.query.spark.spark_text import spark_text
    from dgs.query.sql_text import text_of

    if form == "duckdb":
        return {f"{name}.sql": f"{text_of(one)};\n" for name, one in _without_loops(asked.script)}
    script = rewritten(asked.script, on_spark=True).script
    return {f"{name}.sql": f"{ON_SPARK}{spark_text(one)};\n" for name, one in _without_loops(script)}


def _without_loops(script: Script) -> tuple[tuple[str, Relation], ...]:
    """Return the outputs. Raises QueryError Q501 for one with a loop."""
    from dgs.query.compact.iterate import is_one_statement

    for name, output in script.outputs:
        if not is_one_statement(output):
            problem = f"the loop of {name!r} is not one statement"
            raise QueryError.of(
                "Q501", problem, "Answer it: `--on local`, `--on spark` and `--on dgs` run its steps."
            )
    return script.outputs


def _plan(asked: Asked) -> dict[str, str]:
    from dgs.job.document import dump

    files = [one.name for one in asked.given if isinstance(one, TableFile)]
    if lacking := [
        name for name, one in asked.script.sources().items() if one.rows is None and name not in files
    ]:
        needs = " ".join(f"--from {name}=PATH:ts=COLUMN" for name in lacking)
        raise UsageError(message=f"--emit dgs: a plan file has streams with times: give {needs}")
    name = Path(asked.name or "query").stem
    query: dict[str, object] = {"text": asked.text, "lang": asked.lang} | (
        {"params": dict(asked.params)} if asked.params else {}
    )
    if asked.exact:
        query["exact"] = True
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
