"""A query answered by Spark: `spark.sql` of its text, over tables that become views.

A loop has no statement: each of its steps is one, over a view of the values so far. A part that a statement would read twice is also a
view: repeated, its text may be too large for Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from dgs.errors import InternalError, SparkQueryError
from dgs.job.schema import SparkConfig
from dgs.query.errors import QueryError
from dgs.query.functions import FUNCTIONS, USER_FUNCTION, null_of_null
from dgs.query.relation import UNTIL_LIMIT, Relation, Repeat, Script, Source, old
from dgs.query.rewrite import rewritten
from dgs.query.rewrite.shared_graph import Numbering, SharedGraph
from dgs.query.scalar import Row
from dgs.query.spark.spark_text import spark_text, spark_type, ticked
from dgs.query.types import Schema, conform, order_key
from dgs.spark_bridge.session.java_errors import first_line
from dgs.spark_bridge.session.session import session

CASE_SENSITIVE = "spark.sql.caseSensitive"
OWN_CODES = {
    "ARITHMETIC_OVERFLOW": "Q701",
    "CAST_INVALID_INPUT": "Q704",
    "DIVIDE_BY_ZERO": "Q704",
    "CAST_OVERFLOW": "Q701",
}
"""Spark's names of mistakes in data, with ours."""


def answered(
    script: Script,
    tables: Mapping[str, pa.Table],
    *,
    config: SparkConfig,
    work_dir: Path,
) -> dict[str, list[Row]]:
    """Return the rows of each output of a script in canonical form, in order if the output is a list.

    Raises QueryError Q501 for what Spark lacks, Q701 and Q704 for data; what `session` raises; SparkQueryError.
    """
    found = rewritten(script, on_spark=True).script
    with session(config, work_dir) as spark, telling_cases_apart(spark):
        views = Views(spark)
        try:
            for name, table in tables.items():
                views.add(name, spark.createDataFrame(table))
            return {name: views.rows(output) for name, output in found.outputs}
        except QueryError:
            raise
        except Exception as error:
            raise _error_of(error) from error
        finally:
            views.drop()


@contextmanager
def telling_cases_apart(spark: Any) -> Iterator[None]:
    """Make Spark's names case-sensitive, as those of queries are."""
    before = spark.conf.get(CASE_SENSITIVE)
    spark.conf.set(CASE_SENSITIVE, "true")
    try:
        yield
    finally:
        spark.conf.set(CASE_SENSITIVE, before)


class Views:
    """The tables of a query as views of Spark, under names of their own."""

    _numbers = count(1)

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._names: dict[str, str] = {}
        self._made: list[str] = []
        self._numbering = Numbering()
        self._shared: dict[int, Source] = {}
        self._turning: set[str] = set()  # the tables that loops change

    def add(self, name: str, frame: Any) -> None:
        """Make a frame the view of a name, in place of the previous one."""
        view = f"dgs_query_{next(self._numbers)}"
        frame.createOrReplaceTempView(view)
        self._names[name] = view
        self._made.append(view)

    def drop(self) -> None:
        """Drop all views."""
        for view in self._made:
            self._spark.catalog.dropTempView(view)

    def rows(self, relation: Relation) -> list[Row]:
        """Return the rows of a relation, sorted unless it is a list."""
        types = relation.schema.types
        columns = [column.to_pylist() for column in self.frame(relation).toArrow().columns]
        found = [tuple(map(conform, row, types)) for row in zip(*columns, strict=True)]
        return found if relation.is_ordered else sorted(found, key=order_key)

    def frame(self, relation: Relation) -> Any:
        """Return a relation as a frame of Spark, after running its loops."""
        ready = self._read_once(self._without_loops(relation))
        return self._asked(ready)

    def _asked(self, relation: Relation) -> Any:
        """Return a relation without loops as a frame. The user's functions that it calls are registered with Spark."""
        text = spark_text(relation, self._names)
        for name in {*USER_FUNCTION.findall(text)}:
            function = FUNCTIONS[name]
            result = spark_type(function.type(function.called_back or ()))
            self._spark.udf.register(name, null_of_null(function.python), result)
        return self._spark.sql(text)

    def _read_once(self, relation: Relation) -> Relation:
        """Return a relation in which each node with several readers is a view, computed now. Views that no loop changes are kept."""
        graph = SharedGraph(Script.of(relation), self._numbering)
        now: dict[int, Relation] = {}

        def changed(node: Relation) -> Relation:
            number = self._numbering.number(node)
            found = self._shared.get(number) or now.get(number)
            if found is None:
                found = node.with_inputs(tuple(map(changed, node.inputs)))
                if node.inputs and not node.is_ordered and len(graph.readers(node)) > 1:
                    found = self._viewed(number, node, found)
                now[number] = found
            return found

        return changed(graph.script.outputs[0][1])

    def _viewed(self, number: int, node: Relation, ready: Relation) -> Source:
        """Return a view of a node. `ready`: the node over views."""
        view = Source(f"shared {next(self._numbers)}", node.schema, changes=False)
        self._keep(view.name, self._asked(ready), node.schema)
        if self._turning.isdisjoint(Script.of(node).sources()):
            self._shared[number] = view
        return view

    def _without_loops(self, relation: Relation) -> Relation:
        """Return a relation in which the last values of loops are read as tables."""
        if isinstance(relation, Repeat):
            return self._looped(relation)
        return relation.with_inputs(tuple(map(self._without_loops, relation.inputs)))

    def _looped(self, node: Repeat) -> Source:
        schemas = [start.schema for start in node.start]
        self._turning |= {*node.names, *map(old, node.names)}
        for name, start, schema in zip(node.names, node.start, schemas, strict=True):
            self._keep(name, self.frame(start), schema)
        for _ in range(UNTIL_LIMIT if node.limit is None else node.limit):
            new = [self.frame(body) for body in node.body]
            self._names |= {old(name): self._names[name] for name in node.names}
            for name, frame, schema in zip(node.names, new, schemas, strict=True):
                self._keep(name, frame, schema)
            if node.until is not None and self.rows(node.until) == [(True,)]:
                break
        last = f"last {node.names[node.result]} {next(self._numbers)}"
        self._names[last] = self._names[node.names[node.result]]
        return Source(last, schemas[node.result], changes=False)

    def _keep(self, name: str, frame: Any, schema: Schema) -> None:
        """Make a frame the view of a name, and compute it now: otherwise each step would compute all earlier steps again."""
        typed = [
            f"CAST({ticked(column)} AS {spark_type(of)}) AS {ticked(column)}" for column, of in schema.fields
        ]
        self.add(name, frame.toDF(*schema.names).selectExpr(*typed).localCheckpoint())


def _error_of(error: Exception) -> Exception:
    """Return our error for one of Spark's: of the data, of our text, or of Spark."""
    from pyspark.errors import AnalysisException, ParseException

    raised = re.search(r"QueryError: (Q\d+): (.+)", str(error))  # raised by a user's function
    if raised is not None:
        return QueryError.of(raised[1], raised[2])
    problem = first_line(error)
    code = next((ours for name, ours in OWN_CODES.items() if name in problem), None)
    if code is not None:
        return QueryError.of(code, f"on Spark: {problem}")
    if isinstance(error, (AnalysisException, ParseException)):
        return InternalError(problem=f"Spark does not take the text of a query: {problem}")
    return SparkQueryError(stream="the tables of a query", problem=problem)
