"""Answering a query over whole tables, by DuckDB or by the reference interpreter, and comparing the two.

>>> import pyarrow as pa
>>> table = Table("t", pa.table({"a": [3, 1, None]}), None)
>>> asked = Asked("select count(a) n, sum(a) s from t", (table,))
>>> asked.interpreted(), asked.local()
({'answer': [(2, 4)]}, {'answer': [(2, 4)]})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from dgs.api.queries.query_tables import Table, TableFile
from dgs.query.fronts import needed, read

if TYPE_CHECKING:
    from dgs.query.relation import Relation, Script
    from dgs.query.standing.explanation import Explanation
    from dgs.query.types import Schema

Rows = list[tuple[Any, ...]]
Answers = dict[str, Rows]
"""The rows of each output of a script, by its name."""


TOLERANCE = 1e-9
"""The relative difference of floats between two engines, which add in different orders."""


@dataclass(frozen=True)
class Asked:
    """A query with the tables that it reads. `name`: of its file, for errors. `require`: the worst class of state to accept.

    `rules`: the user's own, as `file.py:name`; the interpreter answers without them. `exact`: sums of floats are rounded once.
    """

    text: str
    given: tuple[Table | TableFile, ...]
    lang: str = "sql"
    name: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    require: Literal["A", "B", "C"] | None = None
    rules: tuple[str, ...] = ()
    exact: bool = False

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The tables by name, read on first use, with those of files that the text names. Raises what reading raises."""
        found = {one.name: one if isinstance(one, Table) else one.read(Path()) for one in self.given}
        named: list[Table] = []
        if self.lang == "pig":
            from dgs.api.queries.script_files import loaded_tables, pig_program

            named = loaded_tables(pig_program(self.text, self.name, self.params))
        elif self.lang == "mrql":
            from dgs.api.queries.script_files import named_tables

            named = named_tables(self.text, self.name, list(found))
        return found | {one.name: one for one in named if one.name not in found}

    @cached_property
    def schemas(self) -> dict[str, Schema]:
        """The columns of the tables, by name. Raises QueryError Q503 if a package is missing."""
        needed("sqlglot", f"a query in {self.lang}")
        from dgs.query.compact.arrow_rows import schema_of

        return {name: one.schema or schema_of(one.rows.schema) for name, one in self.tables.items()}

    @cached_property
    def written(self) -> Script:
        """The query as it is written, as a script of the algebra. Raises QueryError."""
        schemas = self.schemas  # it names the missing package
        from dgs.query.relation import Source

        sources = {name: Source(name, schema) for name, schema in schemas.items()}
        return read(self.text, sources, lang=self.lang, name=self.name, params=self.params)

    @cached_property
    def script(self) -> Script:
        """The query after the user's rules. Raises QueryError, Q301 if its state is of a worse class than required."""
        found = self.written
        if self.rules:
            from dgs.job.loading import load_rules
            from dgs.query.rewrite import rewritten

            found = rewritten(found, load_rules(self.rules, Path())).script
        if self.require is not None:
            from dgs.query.split import split

            split(found, require=self.require)
        return found

    def explained(self) -> Explanation:
        """Return the cost of keeping the query's answer. Tables of SQL that are not given have the columns that the text names."""
        needed("sqlglot", f"a query in {self.lang}")
        from dgs.query.standing.explanation import explained

        if self.given or self.lang != "sql":
            found = explained(self.script, require=self.require, exact=self.exact)
            return replace(found, kept=self._kept(found))
        from dgs.query.sql.sql_tables import guessed

        sources = guessed(self.text, self.name or "query.sql")
        script = read(self.text, sources, lang=self.lang, name=self.name, params=self.params)
        return explained(script, require=self.require, exact=self.exact)

    def _kept(self, explanation: Explanation) -> dict[str, tuple[int, int]]:
        """Return for each compaction how many of how many rows it keeps; nothing without DuckDB, or if a function fails on a row."""
        if find_spec("duckdb") is None:
            return {}
        from dgs.query.compact import Compact
        from dgs.query.errors import QueryError
        from dgs.query.program import Held

        found = {}
        for one in explanation.split.compactions:
            held, tables = Held(one), {name: self.rows[name] for name in one.streams}
            weights = {name: np.ones(len(rows), dtype=np.int64) for name, rows in tables.items()}
            weighted = {
                name: rows.append_column("$w", pa.array(weights[name])) for name, rows in tables.items()
            }
            try:
                kept = reduce(Compact.joined, [held.of_table(name, rows) for name, rows in weighted.items()])
            except QueryError:
                return {}
            found[one.name] = len(kept), sum(map(len, tables.values()))
        return found

    @property
    def outputs(self) -> tuple[tuple[str, Relation], ...]:
        """The outputs of the script, by name, in order."""
        return self.script.outputs

    @cached_property
    def rows(self) -> dict[str, pa.Table]:
        """The tables that the query reads, with the types that their columns have in queries."""
        from dgs.query.compact.arrow_rows import fitted

        return {
            name: fitted(self.tables[name].rows, schema)
            for name, schema in self.schemas.items()
            if name in self.script.sources()
        }

    def local(self) -> Answers:
        """Return the rows of each output, from DuckDB. Raises QueryError Q503 if it is not installed, Q701, Q704."""
        outputs = self.outputs
        needed("duckdb", "a query on local")
        if self.exact:
            from dgs.query.split.exact_sums import exactly

            outputs = tuple((name, exactly(output)) for name, output in outputs)
        from dgs.query.compact.arrow_rows import from_arrow
        from dgs.query.compact.iterate import Iteration, is_one_statement
        from dgs.query.duck import run
        from dgs.query.sql_text import text_of
        from dgs.query.types import order_key

        iteration, found = Iteration(self.rows, {}), {}
        for name, output in outputs:
            whole = is_one_statement(output)
            table = run(text_of(output), self.rows, output.schema) if whole else iteration.table(output)
            rows = from_arrow(table, output.schema)
            found[name] = rows if output.is_ordered else sorted(rows, key=order_key)
        return found

    def on_spark(self) -> Answers:
        """Return the rows of each output, from Spark. Raises QueryError Q501 for what Spark lacks, and what a session raises."""
        if self.exact:
            from dgs.query.errors import QueryError

            problem = "Spark adds floats as they come"
            raise QueryError.of("Q501", problem, "Leave `--exact` out, or take `--on local` or `--on dgs`.")
        from dgs.job.schema import SparkConfig
        from dgs.spark_bridge.queries.query_batch import answered

        with TemporaryDirectory(prefix="dgs-query-") as place:
            return answered(self.script, self.rows, config=SparkConfig(), work_dir=Path(place))

    def interpreted(self) -> Answers:
        """Return the rows of each output, from the reference interpreter."""
        from dgs.query.compact.arrow_rows import from_arrow
        from dgs.query.evaluate import answers, zbag

        tables = {name: zbag(from_arrow(rows, self.schemas[name])) for name, rows in self.rows.items()}
        return answers(self.written, tables)
