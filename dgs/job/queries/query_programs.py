"""The program of a query, made from plain data in each process that needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dgs.job.loading import load_rules
from dgs.query.fronts import language_of, needed, read

if TYPE_CHECKING:
    from dgs.query.program import QueryProgram
    from dgs.query.relation import Script
    from dgs.query.standing.explanation import Explanation

REF = "dgs.job.queries.query_programs:query_program"
"""The program that a plan file with a query names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryData:
    """A query as plain data. `columns`: the types of the columns of each stream, by name; `name`: the file of the text.

    `asking`: the kind of the events that ask for an answer. `weights`: the column of a stream that says which rows are deletions.
    `deletes`: streams whose rows delete rows of another. `rules`: the user's rewriting rules, in files relative to `base_dir`. `exact`: sums
    of floats are rounded once.
    """

    text: str
    columns: Mapping[str, Mapping[str, Any]]
    name: str | None = None
    lang: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    asking: str = "answer"
    weights: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    deletes: Mapping[str, str] = field(default_factory=dict)
    output: Literal["snapshot", "changes"] = "snapshot"
    on_negative: Literal["error", "drop"] = "error"
    require: Literal["A", "B", "C"] | None = None
    rules: tuple[str, ...] = ()
    exact: bool = False
    base_dir: str = "."

    def script(self) -> Script:
        """Return the query as a script of the algebra. Raises QueryError."""
        language = language_of(self.name, self.lang)
        needed("sqlglot", f"a query in {language}")
        from dgs.query.compact.arrow_rows import of_data
        from dgs.query.relation import Source
        from dgs.query.types import Schema

        sources = {
            name: Source(
                name,
                Schema(tuple((column, of_data(of)) for column, of in columns.items())),
                deletes=name in self.weights or name in self.deletes.values(),
            )
            for name, columns in self.columns.items()
            if name not in self.deletes
        }
        return read(self.text, sources, lang=language, name=self.name, params=self.params)

    def explanation(self) -> Explanation:
        """Return the cost of keeping the query's answer. Raises QueryError."""
        script = self.script()
        from dgs.query.standing.explanation import explained

        rules = load_rules(self.rules, Path(self.base_dir))
        return explained(script, rules, require=self.require, exact=self.exact)


def query_program(**data: Any) -> QueryProgram:
    """Return the program of a query, from the fields of its QueryData. Raises QueryError, and ProgramImportError for rules."""
    given = QueryData(**data)
    script = given.script()
    needed("duckdb", "a query as a program")
    from dgs.query.compact.payloads import Weight
    from dgs.query.rewrite import rewritten
    from dgs.query.windowing.windowed_program import program_of_query

    found = rewritten(script, load_rules(given.rules, Path(given.base_dir)))
    program = program_of_query(
        found.script,
        closes=given.asking,
        weights={name: Weight(**dict(one)) for name, one in given.weights.items()},
        deletes=dict(given.deletes),
        output=given.output,
        on_negative=given.on_negative,
        require=given.require,
        exact=given.exact,
    )
    program.made_by = (REF, data)
    return program
