"""Answers with loops, by DuckDB: one statement for each step, over tables that are computed once if the loop does not change them.

`Repeat` runs in the answer, over the compacted state. An exact loop begins with the start each time, and is equal to a run over all rows. A
`warm` loop begins with the last result, and is equal only if the loop has a single fixpoint. Both end: a loop without a bound is Q306. A
relation that several others read is also computed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from dgs.query import duck
from dgs.query.compact.arrow_rows import arrow_schema
from dgs.query.evaluate import Varying
from dgs.query.relation import UNTIL_LIMIT, Relation, Repeat, Source, old, walk
from dgs.query.sql_text import text_of
from dgs.query.types import Schema

Values = tuple[pa.Table, ...]
"""The values of a loop's names, in order."""


class Iteration:
    """Relations over fixed tables. `last`: the values with which warm loops begin; `results`: the last values of loops, by the loop's first name."""

    def __init__(self, tables: Mapping[str, pa.Table], last: Mapping[str, Values] | None = None) -> None:
        self._tables = dict(tables)
        self._last = dict(last or {})
        self._made: dict[int, tuple[Relation, Relation]] = {}
        self._shared: set[int] = set()
        self.results: dict[str, Values] = {}

    def table(self, relation: Relation) -> pa.Table:
        """Return the rows of a relation, in its order if it has one. Raises QueryError Q306, Q701, Q704."""
        self._shared |= _read_twice(relation)
        found = self._flat(relation)
        names = {one.name for one in walk(found) if isinstance(one, Source) and one.rows is None}
        tables = {name: self._tables[name] for name in sorted(names)}
        return duck.run(text_of(found), tables, relation.schema)

    def _flat(self, relation: Relation) -> Relation:
        """Return a relation over tables in place of its loops and of nodes that are read twice."""
        known = self._made.get(id(relation))
        if known is None:
            known = self._made[id(relation)] = (relation, self._made_flat(relation))
        return known[1]

    def _made_flat(self, relation: Relation) -> Relation:
        if isinstance(relation, Repeat):
            return self._as_source(self._loop(relation)[relation.result], relation.schema)
        flat = relation.with_inputs(tuple(map(self._flat, relation.inputs)))
        if id(relation) not in self._shared or isinstance(relation, Source):
            return flat
        return self._as_source(Iteration(self._tables).table(flat), flat.schema)

    def _as_source(self, table: pa.Table, schema: Schema) -> Source:
        name = f"$made{len(self._tables)}"
        self._tables[name] = table
        return Source(name, schema, changes=False)

    def _loop(self, node: Repeat) -> Values:
        key = node.names[0]
        if key in self.results:
            return self.results[key]  # another result of the same loop
        node.schema  # noqa: B018 - says what is wrong with the loop, before a step is taken
        schemas = [start.schema for start in node.start]
        values: Values = tuple(map(self.table, node.start))
        if node.mode == "warm":
            values = self._last.get(key, values)
        varying = Varying(frozenset((*node.names, *map(old, node.names))))
        bodies = [self._fixed(body, varying) for body in node.body]
        until = None if node.until is None else self._fixed(node.until, varying)
        for _ in range(UNTIL_LIMIT if node.limit is None else node.limit):
            step = Iteration(self._tables | dict(zip(node.names, values, strict=True)))
            before = values
            values = tuple(
                step.table(body).cast(arrow_schema(schema))
                for body, schema in zip(bodies, schemas, strict=True)
            )
            if until is not None and self._is_done(node, until, before, values):
                break
        self.results[key] = values
        return values

    def _fixed(self, relation: Relation, varying: Varying) -> Relation:
        """Return a part of a loop with tables in place of the relations that the loop does not change. Shared nodes stay shared."""
        done: dict[int, Relation] = {}

        def of(one: Relation) -> Relation:
            if id(one) not in done:
                if varying.is_read_by(one):
                    done[id(one)] = one.with_inputs(tuple(map(of, one.inputs)))
                else:
                    done[id(one)] = one if isinstance(one, Source) else self._once(one)
            return done[id(one)]

        return of(relation)

    def _once(self, relation: Relation) -> Relation:
        known = self._made.get(id(relation))
        if known is None or not isinstance(known[1], Source):
            known = self._made[id(relation)] = (
                relation,
                self._as_source(self.table(relation), relation.schema),
            )
        return known[1]

    def _is_done(self, node: Repeat, until: Relation, before: Values, after: Values) -> bool:
        given = dict(zip(node.names, after, strict=True)) | dict(
            zip(map(old, node.names), before, strict=True)
        )
        found: list[bool | None] = Iteration(self._tables | given).table(until).column(0).to_pylist()
        return found == [True]


def is_one_statement(relation: Relation) -> bool:
    """Return whether a relation has no loop, and no node that several others read."""
    has_loop = any(isinstance(one, Repeat) for one in walk(relation))
    return not has_loop and not _computed(_read_twice(relation), relation)


def _computed(nodes: set[int], relation: Relation) -> bool:
    return any(id(one) in nodes and not isinstance(one, Source) for one in walk(relation))


def _read_twice(relation: Relation) -> set[int]:
    """Return the nodes that several nodes read, outside of the steps of loops."""
    readers: dict[int, int] = {}
    for one in walk(relation):
        for below in _outside(one):
            readers[id(below)] = readers.get(id(below), 0) + 1
    return {node for node, count in readers.items() if count > 1}


def _outside(relation: Relation) -> Iterator[Relation]:
    yield from relation.start if isinstance(relation, Repeat) else relation.inputs
