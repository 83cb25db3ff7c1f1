"""Standing queries: asked once, their answers kept up to date. `Query` keeps an answer in Python; `explanation` says what that costs.

>>> query = Query("select carrier, count(*) n, sum(delay) s from flights group by carrier")
>>> query.extend(flights=[{"carrier": "UA", "delay": 5}, {"carrier": "AA", "delay": 1}])
[{'carrier': 'AA', 'n': 1, 's': 1}, {'carrier': 'UA', 'n': 1, 's': 5}]
>>> query.extend(flights=[{"carrier": "UA", "delay": None}])
[{'carrier': 'AA', 'n': 1, 's': 1}, {'carrier': 'UA', 'n': 2, 's': 5}]
>>> query.explain().split.klass
'A'
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from dgs.model.events import EventBatch
from dgs.model.tags import Tag
from dgs.query.compact import Compact
from dgs.query.compact.arrow_rows import fitted, schema_of
from dgs.query.errors import QueryError
from dgs.query.fronts import needed, read
from dgs.query.program import QueryProgram, State
from dgs.query.relation import Script, Source
from dgs.query.rewrite import rewritten
from dgs.query.standing.explanation import Explanation, explained
from dgs.query.types import Schema

Batch = Any
"""Rows of a table: an Arrow table, a dictionary of columns, or records."""


class Query:
    """A query whose answer is kept. `schemas`: the columns of its tables, by default those of their first batches.

    `exact`: sums of floats are rounded once.

    Law: `answer(merge(h(a), h(b)))` is the answer over the rows of both, for any batches, in any order.
    """

    def __init__(
        self,
        text: str,
        lang: str = "sql",
        *,
        schemas: Mapping[str, Schema] | None = None,
        params: Mapping[str, Any] | None = None,
        require: Literal["A", "B", "C"] | None = None,
        exact: bool = False,
    ) -> None:
        needed("duckdb", "a query")
        self.text, self.lang, self.params = text, lang, dict(params or {})
        self.require, self.exact = require, exact
        self.schemas: dict[str, Schema] = dict(schemas or {})
        self._state: State | None = None

    @cached_property
    def script(self) -> Script:
        """The query as a script of the algebra. Raises QueryError, Q201 for a table whose columns are not known yet."""
        sources = {name: Source(name, schema) for name, schema in self.schemas.items()}
        return read(self.text, sources, lang=self.lang, params=self.params)

    @cached_property
    def program(self) -> QueryProgram:
        """The query as a program for `dgs.run`: its kinds are the names of the tables, and `answer`."""
        return QueryProgram(rewritten(self.script).script, require=self.require, exact=self.exact)

    @property
    def state(self) -> State:
        """The state: the compacted rows so far."""
        return self.program.identity() if self._state is None else self._state

    def h(self, **batches: Batch) -> State:
        """Return the state of batches, given by the names of their tables. Raises QueryError Q201, Q701, Q703, Q704."""
        tables = {
            name: batch if isinstance(batch, pa.Table) else _table(batch) for name, batch in batches.items()
        }
        if "script" not in vars(self):
            self.schemas |= {
                name: schema_of(one.schema) for name, one in tables.items() if name not in self.schemas
            }
        state = self.program.identity()
        for name, table in tables.items():
            state = self.program.join(state, self._of_table(name, table))
        return state

    def _of_table(self, name: str, table: pa.Table) -> State:
        known = [str(one) for one in self.program.accumulates]
        if name not in known:
            raise QueryError.of(
                "Q201", f"no table {name!r} in the query; it has {', '.join(known)}", name=name
            )
        rows = fitted(table, self.schemas[name])
        payload = {column: rows[column].combine_chunks() for column in rows.column_names}
        batch = EventBatch.of(name, rank=0, tags=[Tag(name)], ts=range(len(rows)), payload=payload)
        return self.program.fold(batch)

    def merge(self, left: State, right: State) -> State:
        """Return the state of the rows of both; both may be used again."""
        return self.program.join(_copied(left), _copied(right))

    def answer(self, state: State) -> list[Any]:
        """Return the rows of the answer over a state: records, with `output` if the script has several outputs."""
        found: list[Any] = []
        (closes,) = self.program.closes
        batch = EventBatch.of("answer", rank=0, tags=[Tag(str(closes))], ts=[0])
        self.program.close(state, next(iter(batch.events())), found.append)
        return found

    def extend(self, **batches: Batch) -> list[Any]:
        """Add batches to the rows so far; return the answer over all. Raises QueryError."""
        added = self.h(**batches)
        self._state = self.program.join(self.state, added)
        return self.answer(self._state)

    def explain(self) -> Explanation:
        """Return the cost of keeping the query's answer."""
        return explained(self.script, require=self.require, exact=self.exact)


def _copied(state: State) -> State:
    """Return a copy of a state, which a program may change when joining."""
    return tuple(Compact(one.layout, dict(one.few), list(one.runs)) for one in state)


def _table(batch: Batch) -> pa.Table:
    """Return columns, or records, as a table."""
    if isinstance(batch, Mapping):
        return pa.table(dict(batch))
    return pa.Table.from_pylist(list(batch))
