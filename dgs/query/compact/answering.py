"""Answers over compactions: by Arrow, or by a statement of DuckDB for each output and each step of a loop, or by the interpreter for few rows.

Rows come in the order of the query, or of all columns, so that an output has the same number under every plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dgs.query import duck
from dgs.query.compact import Compact, check_support
from dgs.query.compact.arrow_plans import planned
from dgs.query.compact.arrow_rows import from_arrow, to_arrow
from dgs.query.compact.iterate import Iteration, Values, is_one_statement
from dgs.query.evaluate import Evaluation, zbag
from dgs.query.relation import Order, Repeat, walk
from dgs.query.scalar import Row
from dgs.query.split import Split
from dgs.query.sql_text import text_of
from dgs.query.types import order_key, plain

FEW = 200
"""The most rows in all compactions for which the interpreter answers."""


class Answering:
    """The answer of a split query over states of its compactions. `given`: the rows of the tables that do not change."""

    order = staticmethod(order_key)

    def __init__(self, split: Split, given: Mapping[str, Sequence[Row]], *, drops: bool) -> None:
        self._split, self._drops = split, drops
        self._given = {name: list(rows) for name, rows in given.items()}
        self._outputs = {name: one if one.is_ordered else Order(one) for name, one in split.answer.outputs}
        orders = {one.name: one.keys for one in split.compactions}
        self._plans = {name: planned(one, orders) for name, one in self._outputs.items()}
        self._texts = {name: text_of(one) for name, one in self._outputs.items() if is_one_statement(one)}
        self._is_warm = any(
            isinstance(one, Repeat) and one.mode == "warm"
            for output in self._outputs.values()
            for one in walk(output)
        )
        self._arrow = {name: to_arrow(self._given[name], one.columns) for name, one in split.tables.items()}

    def tables(self, states: Sequence[Compact]) -> dict[str, pa.Table]:
        """Return the answer of each output as a table. Raises QueryError Q701, Q702, Q704."""
        return self.tables_after(states, {})[0]

    def tables_after(
        self, states: Sequence[Compact], last: Mapping[str, Values]
    ) -> tuple[dict[str, pa.Table], dict[str, Values]]:
        """Return the answers, and the last values of loops by their names. `last`: the values with which warm loops begin."""
        compacted = {}
        for one, state in zip(self._split.compactions, states, strict=True):
            name = " and ".join(map(repr, one.streams))
            compacted[one.name] = check_support(state.table(), state.layout, name, drops=self._drops)
        is_small = (
            sum(map(len, compacted.values())) + sum(map(len, self._given.values())) <= FEW
            and not self._is_warm
        )
        evaluation: Evaluation | None = None
        iteration = Iteration(compacted | self._arrow, last)
        found = {}
        for name, output in self._outputs.items():
            if not is_small:
                found[name] = self._computed(name, compacted | self._arrow, iteration)
                continue
            if evaluation is None:
                evaluation = self._evaluation(compacted)
            found[name] = to_arrow(evaluation.rows(output), output.schema)
        return found, iteration.results

    def _computed(self, name: str, tables: Mapping[str, pa.Table], iteration: Iteration) -> pa.Table:
        plan, text = self._plans[name], self._texts.get(name)
        found = None if plan is None else plan(tables)
        if found is not None:
            return found
        output = self._outputs[name]
        return iteration.table(output) if text is None else duck.run(text, tables, output.schema)

    def _evaluation(self, compacted: Mapping[str, pa.Table]) -> Evaluation:
        bags = {
            one.name: zbag(from_arrow(compacted[one.name], one.schema)) for one in self._split.compactions
        }
        return Evaluation(bags | {name: zbag(rows) for name, rows in self._given.items()})

    def rows(self, name: str, table: pa.Table) -> list[Row]:
        """Return the rows of an output in canonical form."""
        return from_arrow(table, self._outputs[name].schema)

    def record(self, name: str, row: Row) -> dict[str, Any]:
        """Return a row of an output in the form for users."""
        fields = self._outputs[name].schema.fields
        return {column: plain(value, of) for value, (column, of) in zip(row, fields, strict=True)}

    def outputs(self, name: str, table: pa.Table) -> list[dict[str, Any]]:
        """Return the rows of an output in the form for users."""
        return [self.record(name, row) for row in self.rows(name, table)]
