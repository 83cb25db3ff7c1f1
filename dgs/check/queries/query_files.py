"""A query without a plan file: its program over tables whose columns have guessed types, and small rows of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, islice, product
from typing import Any

from dgs.check.options import Options
from dgs.check.queries.rule_results import rule_results
from dgs.check.queries.small_tables import SmallTables
from dgs.check.report import LawResult
from dgs.check.scenarios.equality import ROUNDING, close, same
from dgs.errors import UsageError
from dgs.job.queries.query_programs import QueryData, query_program
from dgs.model.program import Program
from dgs.query.compact.arrow_rows import data_of
from dgs.query.errors import QueryError
from dgs.query.fronts import language_of, needed, text_in
from dgs.query.types import BOOL, INT, TEXT, TIME, plain

MOST_GUESSES = 400
INPUTS = 20
"""The number of small inputs whose rows become the payloads of the check."""


def from_query(
    path: str, options: Options, params: Mapping[str, Any]
) -> tuple[Program | None, Options, list[LawResult]]:
    """Return the program of a query, the options with small rows of its streams, and the results for its rules.

    There is no program if a rule changes the answer. Raises QueryError, UsageError if the file is missing or no guess of types fits, and
    what reading the files of a script raises. `params`: the values of its parameters.
    """
    text, options = text_in(path), with_rounding(options)
    data: dict[str, Any] = {
        "text": text,
        "name": path,
        "params": params,
        "columns": _columns(text, path, params),
    }
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


def _columns(text: str, path: str, params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables of a query with the types of their columns: for Pig and MRQL those of the files, for SQL types that fit.

    Raises UsageError if no guess fits, and what reading the files raises.
    """
    lang = language_of(path)
    if lang != "sql":
        from dgs.api.queries.asking import Asked

        asked = Asked(text, (), lang=lang, name=path, params=params)
        return {
            name: {column: data_of(of) for column, of in schema.fields}
            for name, schema in asked.schemas.items()
        }
    needed("sqlglot", "a query in sql")
    first: QueryError | None = None
    for columns in islice(_guesses(text, path), MOST_GUESSES):
        try:
            for _, output in QueryData(text=text, name=path, params=params, columns=columns).script().outputs:
                output.schema  # noqa: B018 - it is computed, and may not fit
        except QueryError as error:
            if error.code not in ("Q204", "Q208"):
                raise
            first = first or error
        else:
            return columns
    message = f"{path}: no types of its columns are found that fit; check a plan file with the query, which has rows ({first})"
    raise UsageError(message=message)


def _guesses(text: str, path: str) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield guesses of types for the columns that a query in SQL names: first all integers, then more and more other types."""
    from dgs.query.sql.sql_tables import guessed

    names = [(table, name) for table, source in guessed(text, path).items() for name in source.columns.names]
    for count in range(len(names) + 1):
        for some in combinations(names, count):
            for types in product((TEXT, BOOL, TIME), repeat=count):
                others = dict(zip(some, types, strict=True))
                columns: dict[str, dict[str, Any]] = {table: {} for table, _ in names}
                for table, name in names:
                    columns[table][name] = data_of(others.get((table, name), INT))
                yield columns


def with_rounding(options: Options) -> Options:
    """Return options whose states and outputs are equal up to rounding, unless the user's options say otherwise."""
    tolerance = ROUNDING if options.tolerance is None else options.tolerance
    are_close = close(tolerance)

    def states_equal(left: Any, right: Any) -> bool:
        return same(left, right) or are_close(_as_rows(left), _as_rows(right))

    return replace(options, tolerance=tolerance, states_equal=options.states_equal or states_equal)


def _as_rows(state: Any) -> Any:
    """Return a state of a query with each compaction as its rows, in order."""
    from dgs.query.compact import Compact
    from dgs.query.types import order_key

    if isinstance(state, Compact):
        return sorted(((*key, *parts) for key, parts in state.parts()), key=order_key)
    if isinstance(state, tuple):
        return tuple(map(_as_rows, state))
    return {key: _as_rows(one) for key, one in state.items()} if isinstance(state, dict) else state
