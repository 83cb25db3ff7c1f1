"""`repeat` of MRQL as the algebra's Repeat: names that begin with a value and get another at every step.

A step that groups by `argmin` over the repeated list itself gives the list's next elements: group k replaces element k, and an element
without a group stays. Elements of a step may be pairs with a truth value: the loop ends when none is true.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from dgs.query.aggregates import Aggregate
from dgs.query.mrql import mrql_tree as t
from dgs.query.mrql.mrql_aggregates import Aggregates
from dgs.query.mrql.mrql_blocks import Block
from dgs.query.mrql.mrql_parser import QueryText
from dgs.query.mrql.mrql_terms import Fields, Names, Rows, Term, Value, leaves, shape
from dgs.query.relation import Group, Join, Map, Relation, Repeat, Source, Where, old
from dgs.query.scalar import Scalar, call, column, literal, when
from dgs.query.types import BOOL, FLOAT, Schema

AGAIN = "again"
"""The column of a loop whose elements say whether to go on."""


@dataclass(frozen=True)
class _Variable:
    """A name that a loop binds: its start, and its relation inside the step."""

    name: str
    start: Rows
    body: t.Tree
    source: Source
    is_list: bool

    @property
    def inside(self) -> Rows:
        """The variable in the step."""
        return Rows(
            self.source, self.start.element, self.start.order if self.is_list else (), self.start.size
        )


class Loops(Aggregates):
    """Reads loops."""

    def __init__(self, text: QueryText) -> None:
        super().__init__(text)
        self.loop_names: set[str] = set()

    def loop(self, tree: t.RepeatOf, names: Names) -> list[Rows]:
        """Return the relations of the names of `repeat`, in order. Raises QueryError Q306 without a bound."""
        starts, bodies, patterns = self._parts(tree)
        variables = [
            self._begin(one, start, body, names)
            for one, start, body in zip(patterns, starts, bodies, strict=True)
        ]
        inside = names.with_({one.name: one.inside for one in variables})
        steps = [self._step(one, inside) for one in variables]
        widened = [self._widened(one, step) for one, step in zip(variables, steps, strict=True)]
        if any(one is not other for one, other in zip(variables, widened, strict=True)):
            variables = widened
            inside = names.with_({one.name: one.inside for one in variables})
            steps = [self._step(one, inside) for one in variables]
        until = self._until(tree, names, variables)
        if tree.limit is None and until is None:
            raise self.text.error(
                "Q306", tree.at, "a loop without a bound", "Give it `limit n`, or `until` a condition."
            )
        return [self._result(tree, variables, steps, until, place) for place in range(len(variables))]

    def _parts(self, tree: t.RepeatOf) -> tuple[list[t.Tree], list[t.Tree], list[t.NamePattern]]:
        if isinstance(tree.pattern, t.NamePattern):
            return [tree.start], [tree.body], [tree.pattern]
        patterns = [one for one in tree.pattern.items if isinstance(one, t.NamePattern)]
        parts = []
        for one in (tree.start, tree.body):
            if not isinstance(one, t.TupleOf) or len(one.items) != len(patterns):
                raise self.text.error(
                    "Q204", one.at, f"a loop of {len(patterns)} names takes a tuple of as many collections"
                )
            parts.append(list(one.items))
        return parts[0], parts[1], patterns

    def _begin(self, pattern: t.NamePattern, start: t.Tree, body: t.Tree, names: Names) -> _Variable:
        rows = self.rows(self.term(start, names, Block()), start.at)
        is_list = len(rows.order) == 1 and rows.size is not None and _is_assignment(body, pattern.name)
        order = rows.order if is_list else ()
        kept = dict.fromkeys([one.name for one in leaves(rows.element)] + list(order))
        node = Map(rows.node, tuple((name, column(name)) for name in kept))
        flag = self._has_flag(rows.element, body, pattern, names, node)
        if flag:
            node = Map(node, (*node.fields, (AGAIN, literal(value=True))))
        return _Variable(
            pattern.name,
            Rows(node, rows.element, order, rows.size),
            body,
            self._source(pattern.name, node),
            is_list,
        )

    def _source(self, name: str, node: Relation) -> Source:
        unique, number = name, 1
        while unique in self.loop_names:
            number += 1
            unique = f"{name}_{number}"
        self.loop_names.add(unique)
        return Source(unique, node.schema, changes=False)

    def _has_flag(
        self, element: Term, body: t.Tree, pattern: t.NamePattern, names: Names, node: Relation
    ) -> bool:
        """Return whether a step makes pairs of an element and a truth value."""
        if (
            not isinstance(body, t.Select)
            or not isinstance(body.head, t.TupleOf)
            or len(body.head.items) != 2  # noqa: PLR2004 - an element and a truth value
        ):
            return False
        probe = _Variable(
            pattern.name,
            Rows(node, element),
            body,
            Source(pattern.name, node.schema, changes=False),
            is_list=False,
        )
        found = self.rows(self.term(body, names.with_({pattern.name: probe.inside}), Block()), body.at)
        if not isinstance(found.element, Fields):
            return False
        (_, first), (_, second) = found.element.items
        is_truth = isinstance(second, Value) and found.node.schema.type(second.scalar.name) == BOOL
        return is_truth and shape(first) == shape(element)

    def _step(self, variable: _Variable, names: Names) -> Relation:
        """Return the relation of a step, with the columns of the variable."""
        if variable.is_list and isinstance(variable.body, t.Select):
            return self._assignment(variable, variable.body, names)
        rows = self.rows(self.term(variable.body, names, Block()), variable.body.at)
        element: Term = rows.element
        again: list[tuple[str, Scalar]] = []
        if AGAIN in variable.source.schema and isinstance(element, Fields):
            (_, element), (_, flag) = element.items
            again = [(AGAIN, one) for one in leaves(flag)]
        if shape(element) != shape(variable.start.element):
            raise self.text.error(
                "Q204", variable.body.at, f"a step of {variable.name!r} makes elements of another shape"
            )
        wanted = [one.name for one in leaves(variable.start.element)]
        return Map(rows.node, (*zip(wanted, leaves(element), strict=True), *again))

    def _assignment(self, variable: _Variable, tree: t.Select, names: Names) -> Relation:
        """Return the next elements of a list whose step is grouped by `argmin` over it."""
        pattern, of = tree.group or (None, tree.head)
        key = t.Name(pattern.name, at=tree.at) if isinstance(pattern, t.NamePattern) else of
        keyed = replace(tree, head=t.TupleOf((key, tree.head), at=tree.head.at))
        rows = self.rows(self.term(keyed, names, Block()), tree.at)
        node, element = self.renamed(rows.node, rows.element)
        if not isinstance(element, Fields) or shape(element.items[1][1]) != shape(variable.start.element):
            raise self.text.error(
                "Q204", tree.head.at, f"a step of {variable.name!r} makes elements of another shape"
            )
        (place,), new = leaves(element.items[0][1]), leaves(element.items[1][1])
        (ordinal,) = variable.start.order
        joined = Join(variable.source, node, ((column(ordinal), place),), how="left")
        fields: list[tuple[str, Scalar]] = [
            (before.name, when(call("isnull", place), before, after))
            for before, after in zip(leaves(variable.start.element), new, strict=True)
        ]
        return Map(joined, (*fields, (ordinal, column(ordinal))))

    def _widened(self, variable: _Variable, step: Relation) -> _Variable:
        """Return the variable with floats in columns of which a step makes floats."""
        before, after = variable.source.schema, step.schema
        floats = {
            name for name, one in before.fields if one.kind == "int64" and after.type(name).kind == "float64"
        }
        if not floats:
            return variable
        fields = tuple((name, _as_float(name) if name in floats else column(name)) for name in before.names)
        node = Map(variable.start.node, fields)
        schema = Schema(tuple((name, FLOAT if name in floats else one) for name, one in before.fields))
        return replace(
            variable,
            start=replace(variable.start, node=node),
            source=replace(variable.source, columns=schema),
        )

    def _until(self, tree: t.RepeatOf, names: Names, variables: list[_Variable]) -> Relation | None:
        conditions: list[Relation] = []
        for one in variables:
            if AGAIN in one.source.schema:
                going = Where(one.source, column(AGAIN))
                count = Group(going, (), (("n", Aggregate("count")),))
                conditions.append(Map(count, (("done", call("eq", column("n"), literal(0))),)))
        if tree.until is not None:
            before = {
                f"old_{one.name}": replace(one.inside, node=replace(one.source, name=old(one.source.name)))
                for one in variables
            }
            inside = names.with_(before | {one.name: one.inside for one in variables})
            block = Block()
            scalar = self.value(tree.until, inside, block)
            if conditions:
                problem = "`until` beside elements that say whether to go on"
                raise self.text.error("Q110", tree.at, problem, "Use one of them.")
            conditions.append(Map(block.build(), (("done", scalar),)))
        return conditions[0] if conditions else None

    def _result(
        self,
        tree: t.RepeatOf,
        variables: list[_Variable],
        steps: list[Relation],
        until: Relation | None,
        place: int,
    ) -> Rows:
        names = tuple(one.source.name for one in variables)
        starts = tuple(one.start.node for one in variables)
        mode: Literal["exact", "warm"] = "warm" if tree.is_warm else "exact"
        node = Repeat(
            names, starts, tuple(steps), until, tree.limit, place, mode, span=self.text.span(tree.at)
        )
        one = variables[place]
        return replace(one.inside, node=node)


def _as_float(name: str) -> Scalar:
    return exp.Cast(this=column(name), to=exp.DataType.build("double"))


def _is_assignment(body: t.Tree, name: str) -> bool:
    """Return whether a step is a select that is grouped by `argmin` over the repeated name."""
    if not isinstance(body, t.Select) or body.group is None or body.is_distinct or body.order:
        return False
    key = body.group[1]
    return isinstance(key, t.ArgumentOf) and isinstance(key.source, t.Name) and key.source.name == name
