"""A query without a plan file: its program over tables whose columns have guessed types, and small rows of them."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any

from dgs.check.options import Options
from dgs.check.queries.rule_results import rule_results
from dgs.check.queries.small_tables import SmallTables
from dgs.check.report import LawResult
from dgs.errors import UsageError
from dgs.job.queries.query_programs import QueryData, query_program
from dgs.model.program import Program
from dgs.query.compact.arrow_types import data_of
from dgs.query.errors import QueryError
from dgs.query.fronts import language_of, needed
from dgs.query.types import INT, TEXT, plain

MOST_GUESSES = 200
INPUTS = 20
"""The number of small inputs whose rows become the payloads of the check."""


def from_query(path: str, options: Options) -> tuple[Program | None, Options, list[LawResult]]:
    """Return the program of a query, the options with small rows of its streams, and the results for its rules.

    There is no program if a rule changes the answer. Raises QueryError; UsageError without the file, or if no guess of types fits.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(message=f"{path} cannot be read: {error.strerror}") from None
    data: dict[str, Any] = {"text": text, "name": path, "columns": _columns(text, path)}
    explanation = QueryData(**data).explanation()
    results = rule_results(explanation.rewritten.steps, options)
    if any(one.is_broken for one in results):
        return None, options, results
    small = SmallTables(explanation.rewritten.script)
    rows: dict[str, list[Any]] = {}
    for number in range(INPUTS):
        for name, drawn in small.draw(random.Random(f"{options.seed}:{number}"), number).items():  # noqa: S311
            fields = explanation.rewritten.script.sources()[name].columns.fields
            rows.setdefault(name, []).extend(
                {column: plain(value, of) for value, (column, of) in zip(row, fields, strict=True)}
                for row in drawn
            )
    given = {name: some for name, some in rows.items() if some} | {"answer": [None]}
    return query_program(**data), replace(options, strategies=given | dict(options.strategies)), results


def _columns(text: str, path: str) -> dict[str, dict[str, Any]]:
    """Return the tables of a query in SQL with types of their columns that fit: integers, and as few texts as there must be.

    The other languages say the types themselves.
    """
    if language_of(path) != "sql":
        return {}
    needed("sqlglot", "a query in sql")
    from dgs.query.sql.sql_guesses import guessed

    names = [(table, name) for table, source in guessed(text, path).items() for name in source.columns.names]
    some = (texts for count in range(len(names) + 1) for texts in combinations(names, count))
    first: QueryError | None = None
    for texts in islice(some, MOST_GUESSES):
        columns: dict[str, dict[str, Any]] = {table: {} for table, _ in names}
        for table, name in names:
            columns[table][name] = data_of(TEXT if (table, name) in texts else INT)
        try:
            for _, output in QueryData(text=text, name=path, columns=columns).script().outputs:
                output.schema  # noqa: B018 - it is computed, and may not fit
        except QueryError as error:
            if error.code not in ("Q204", "Q208"):
                raise
            first = first or error
        else:
            return columns
    message = f"{path}: no types of its columns are found that fit; check a plan file with the query, which has rows ({first})"
    raise UsageError(message=message)
