"""Answers over compactions: one statement of DuckDB for each output, or the interpreter for few rows and for loops.

Rows come in the order of the query, or of all columns, so that an output has the same number under every plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dgs.query import duck
from dgs.query.compact import Compact, check_support
from dgs.query.compact.arrow_rows import from_arrow, to_arrow
from dgs.query.evaluate import Evaluation, zbag
from dgs.query.relation import Group, Order, Relation, Repeat, walk
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
        self._texts = {name: text_of(one) for name, one in self._outputs.items() if has_statement(one)}
        self._arrow = {name: to_arrow(self._given[name], one.columns) for name, one in split.tables.items()}

    def tables(self, states: Sequence[Compact]) -> dict[str, pa.Table]:
        """Return the answer of each output as a table. Raises QueryError Q701, Q702, Q704."""
        compacted = {}
        for one, state in zip(self._split.compactions, states, strict=True):
            name = " and ".join(map(repr, one.streams))
            compacted[one.name] = check_support(state.table(), state.layout, name, drops=self._drops)
        is_small = sum(map(len, compacted.values())) + sum(map(len, self._given.values())) <= FEW
        evaluation: Evaluation | None = None
        found = {}
        for name, output in self._outputs.items():
            if name in self._texts and not is_small:
                found[name] = duck.run(self._texts[name], compacted | self._arrow, output.schema)
                continue
            if evaluation is None:
                evaluation = self._evaluation(compacted)
            found[name] = to_arrow(evaluation.rows(output), output.schema)
        return found

    def _evaluation(self, compacted: Mapping[str, pa.Table]) -> Evaluation:
        bags = {
            one.name: zbag(from_arrow(compacted[one.name], one.schema)) for one in self._split.compactions
        }
        return Evaluation(bags | {name: zbag(rows) for name, rows in self._given.items()})

    def rows(self, name: str, table: pa.Table) -> list[Row]:
        """Return the rows of an output in canonical form."""
        return from_arrow(table, self._outputs[name].schema)

    def record(self, name: str, row: Row) -> dict[str, Any]:
        """Return a row of an output as users see it."""
        fields = self._outputs[name].schema.fields
        return {column: plain(value, of) for value, (column, of) in zip(row, fields, strict=True)}

    def outputs(self, name: str, table: pa.Table) -> list[dict[str, Any]]:
        """Return the rows of an output as users see them."""
        return [self.record(name, row) for row in self.rows(name, table)]


def has_statement(relation: Relation) -> bool:
    """Whether DuckDB can answer: a loop and an aggregation of the user's own go through the interpreter."""
    users = (
        one for node in walk(relation) if isinstance(node, Group) for _, one in node.aggregates if one.user
    )
    return next(users, None) is None and not any(isinstance(one, Repeat) for one in walk(relation))
