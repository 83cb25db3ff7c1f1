"""Aggregates of MRQL: of the groups of a select, and of nested queries, which become groups that are joined to the rows around.

A `sum(select ..)` whose select reads the rows around it only in equalities is grouped by its side of them; any other is computed for the
different values that it reads. `some`, `all`, `argmin` and elements of lists are aggregates too.
"""

from __future__ import annotations

from collections.abc import Iterator

from dgs.query.aggregates import Aggregate
from dgs.query.errors import QueryError
from dgs.query.mrql import mrql_tree as t
from dgs.query.mrql.mrql_blocks import Block, Grouped, NeedsRows
from dgs.query.mrql.mrql_collections import Collections, Context
from dgs.query.mrql.mrql_monoids import user_aggregation
from dgs.query.mrql.mrql_terms import (
    Fields,
    Later,
    Lifted,
    Names,
    One,
    Rows,
    Term,
    UserAggregation,
    Value,
    leaves,
    reads,
)
from dgs.query.relation import Group, Join, Key, Map, Order, Relation, Where
from dgs.query.scalar import Scalar, call, column, literal, struct
from dgs.query.types import Schema

BUILT_IN = ("count", "sum", "avg", "min", "max", "median", "collect")
SMALL = 64
"""The greatest list whose elements `argmin` compares side by side, in columns."""


class Aggregates(Collections):
    """Reads aggregates."""

    def aggregate(self, tree: t.Call, names: Names, block: Block) -> Term | None:
        """Return the value of an aggregate; None if the call is not an aggregate. Raises QueryError Q204, Q206."""
        user = names.get(tree.name)
        if tree.name in ("exists", "distinct") and len(tree.arguments) == 1:
            return self._shorthand(tree, names, block)
        if not isinstance(user, UserAggregation) and (tree.name not in BUILT_IN or names.get(tree.name)):
            return None
        if len(tree.arguments) != 1:
            raise self.text.error("Q206", tree.at, f"{tree.name} takes 1 argument, not {len(tree.arguments)}")
        found = self._of_group(tree, names)
        return found if found is not None else self._of_query(tree, names, block)

    def _shorthand(self, tree: t.Call, names: Names, block: Block) -> Term:
        (of,) = tree.arguments
        if tree.name == "exists":
            count = t.Call("count", (of,), at=tree.at)
            return self.term(t.Binary(">", count, t.Constant(0, at=tree.at), at=tree.at), names, block)
        each = t.Name(" each", at=tree.at)
        generator = (t.NamePattern(" each", at=tree.at), of)
        return Later(t.Select(True, each, (generator,), None, None, None, (), at=tree.at), names)

    # -- of the groups of a select ---------------------------------------------------------------

    def _of_group(self, tree: t.Call, names: Names) -> Term | None:
        """Return the aggregate of variables from before `group by`; None if the argument is something else."""
        (of,) = tree.arguments
        is_distinct = False
        while isinstance(of, t.Call) and of.name == "distinct" and len(of.arguments) == 1:
            (of,), is_distinct = of.arguments, True
        lifted = {name: term for name in free_names(of) if isinstance(term := names.get(name), Lifted)}
        groups = {id(one.group): one.group for one in lifted.values()}
        if len(groups) != 1:
            return None
        (group,) = groups.values()
        if not isinstance(of, t.Select):
            inside = names.with_({name: one.term for name, one in lifted.items()})
            made = self.term(of, inside, group.before)
            if isinstance(made, Rows | Later):  # the argument is a bag of the bags, not a value of each row
                return None
            return self._grown(tree, made, None, names, group, is_distinct=is_distinct)
        simple = len(of.generators) == 1 and not of.group and not of.order and not of.having
        source = self.term(of.generators[0][1], names, group.before) if simple else None
        if not isinstance(source, Lifted) or self.is_collection(source.term):
            return None
        inside = names.with_(self.bind(of.generators[0][0], self.fields_of(source.term, of.at)))
        if any(
            isinstance(inside.get(name), Lifted)
            for part in (of.head, of.where)
            if part
            for name in free_names(part)
        ):
            return None
        where = None if of.where is None else self.value(of.where, inside, group.before)
        is_distinct |= of.is_distinct
        return self._grown(
            tree, self.term(of.head, inside, group.before), where, names, group, is_distinct=is_distinct
        )

    def _grown(
        self, tree: t.Call, of: Term, where: Scalar | None, names: Names, group: Grouped, *, is_distinct: bool
    ) -> Term:
        is_count = tree.name == "count" and not is_distinct
        argument = None if is_count else self.scalar(of, tree.at, group.before)
        if argument is not None and tree.name == "count":
            argument = struct(each=argument)  # a null is an element, too
        aggregate = self._aggregate(tree, names, argument, where, is_distinct=is_distinct)
        return self._column(group, aggregate, tree.name)

    def _column(self, group: Grouped, aggregate: Aggregate, hint: str) -> Value:
        name = group.aggregate(aggregate, lambda: self.fresh(hint))
        self.types[name] = aggregate.type(self._schema())
        return Value(column(name))

    def _schema(self) -> Schema:
        return Schema(tuple(self.types.items()))

    def collected(self, lifted: Lifted, block: Block) -> Term:
        """Return a variable from before `group by`, as a bag in a column."""
        scalar = self.scalar(lifted.term, (1, 1), block)
        return self._column(lifted.group, Aggregate("collect", (scalar,)), "bag")

    def _aggregate(
        self,
        tree: t.Call,
        names: Names,
        argument: Scalar | None,
        where: Scalar | None = None,
        *,
        is_distinct: bool = False,
    ) -> Aggregate:
        span = self.text.span(tree.at)
        user = names.get(tree.name)
        if isinstance(user, UserAggregation) and argument is not None:
            made = user_aggregation(self, user, argument)
            return Aggregate("user", (argument,), is_distinct, where, user=made, span=span)
        arguments = () if argument is None else (argument,)
        found = Aggregate(
            tree.name, arguments, is_distinct, where, "zero" if tree.name == "sum" else "null", span=span
        )
        try:
            found.type(self._schema())
        except QueryError as error:
            raise self.text.placed(error, tree.arguments[0].at) from None
        return found

    # -- of nested queries -----------------------------------------------------------------------

    def _of_query(self, tree: t.Call, names: Names, block: Block) -> Term:
        (of,) = tree.arguments

        def attempt(context: Context | None) -> tuple[tuple[Relation, str], list[tuple[Scalar, Scalar]]]:
            inner = Block(*context) if context else Block()
            element = self._elements(of, names, inner)
            pairs = [] if context else inner.correlations()
            inner.require(*leaves(element), *inner.conditions)
            block.require(*(mine for mine, _ in pairs))
            if context is None:
                keys = {self.fresh("key"): own for _, own in pairs}
                around = [(mine, column(key)) for (mine, _), key in zip(pairs, keys, strict=True)]
            else:
                new = {name: self.fresh(name) for name in context[1]}
                keys, around = {key: column(name) for name, key in new.items()}, self.same_rows(new)
            return self._grouped_query(tree, names, inner, element, keys), around

        (found, around), _ = self.in_context(block, attempt)
        return self._beside(tree, names, found, around, block)

    def _elements(self, of: t.Tree, names: Names, inner: Block) -> Term:
        if isinstance(of, t.Select) and not (of.is_distinct or of.group or of.order):
            inside = self.generators(of, names, inner)
            return self.term(of.head, inside, inner)
        return self.generate(self.term(of, names, inner), of.at, inner)

    def _grouped_query(
        self, tree: t.Call, names: Names, inner: Block, element: Term, keys: dict[str, Scalar]
    ) -> tuple[Relation, str]:
        argument = None if tree.name == "count" else self.scalar(element, tree.at, inner)
        for name, own in keys.items():
            self.types[name] = self.type_of(own)
        aggregate = self._aggregate(tree, names, argument)
        result = self.fresh(tree.name)
        node = Group(inner.build(), tuple(keys.items()), ((result, aggregate),), span=self.text.span(tree.at))
        self.types[result] = aggregate.type(self._schema())
        return node, result

    def _beside(
        self,
        tree: t.Call,
        names: Names,
        found: tuple[Relation, str],
        around: list[tuple[Scalar, Scalar]],
        block: Block,
    ) -> Term:
        node, result = found
        if not around:
            block.join(node, [result])
            return Value(column(result))
        block.attach(node, node.schema.names, around)
        user = names.get(tree.name)
        if isinstance(user, UserAggregation):
            zero = self.value(user.definition.zero, user.names, Block())
            return self.checked(call("coalesce", column(result), zero), tree.at)
        if tree.name in ("count", "sum"):
            return self.checked(call("coalesce", column(result), literal(0)), tree.at)
        return Value(column(result))

    def nested(self, term: Term, at: t.Place, block: Block) -> Term:
        """Return a collection as a bag in a column, empty if there is no element."""
        rows, context = self.in_context(block, lambda context: self.rows(term, at, context))
        if context is not None:
            return Value(column(self._nested_rows(rows, context, at, block)))
        node, element = self.renamed(rows.node, rows.element)
        result = self.fresh("bag")
        aggregate = Aggregate("collect", (self.scalar(element, at, block),))
        group: Relation = Group(node, (), ((result, aggregate),))
        self.types[result] = aggregate.type(self._schema())
        block.join(group, [result])
        return Value(column(result))

    def _nested_rows(self, rows: Rows, context: Context, at: t.Place, block: Block) -> str:
        around, kept = context
        new = {name: self.fresh(name) for name in kept}
        node, element = self.renamed(rows.node, rows.element, new)
        there = self.fresh("there")
        marked = Map(
            node, (*((name, column(name)) for name in node.schema.names), (there, literal(value=True)))
        )
        self.types |= dict(marked.schema.fields)
        joined = Join(around, marked, tuple(self.same_rows(new)), how="left")
        again = {name: self.fresh(name) for name in kept}
        aggregate = Aggregate(
            "collect", (self.scalar(element, at, block),), where=call("not", call("isnull", column(there)))
        )
        result = self.fresh("bag")
        group = Group(
            joined, tuple((key, column(name)) for name, key in again.items()), ((result, aggregate),)
        )
        self.types |= dict(group.schema.fields)
        block.attach(group, group.schema.names, self.same_rows(again))
        return result

    # -- quantifiers, ordinals and elements ------------------------------------------------------

    def quantified(self, tree: t.Quantified, names: Names, block: Block) -> Term:
        """Return whether some element fulfils a condition, or all do (if there is none for which it is not true)."""
        condition = tree.condition
        if not tree.is_some:
            known = t.Call("coalesce", (condition, t.Constant(False, at=tree.at)), at=tree.at)
            condition = t.Unary("not", known, at=tree.at)
        one, zero = t.Constant(1, at=tree.at), t.Constant(0, at=tree.at)
        elements = t.Select(False, one, ((tree.pattern, tree.source),), condition, None, None, (), at=tree.at)
        count = t.Call("count", (elements,), at=tree.at)
        return self.term(t.Binary(">" if tree.is_some else "=", count, zero, at=tree.at), names, block)

    def argument_of(self, tree: t.ArgumentOf, names: Names, block: Block) -> Term:
        """Return the ordinal, from 0, of the list's first element with the least value."""
        source = self.term(tree.source, names, block)
        rows = self.rows(source, tree.source.at) if self.is_collection(source) else None
        if rows is None or len(rows.order) != 1:
            problem = "an ordinal needs a list, whose elements have one"
            raise self.text.error(
                "Q204", tree.source.at, problem, "Write the elements in [ ], or repeat over such a list."
            )
        if rows.size is None or rows.size > SMALL:
            problem = f"`argmin` over a list of {rows.size or 'unknown'} elements"
            raise self.text.error(
                "Q110", tree.at, problem, f"It takes a list of at most {SMALL}, written in [ ] or repeated."
            )
        values = []
        pivot, elements = self._side_by_side(rows)
        block.join(pivot, pivot.schema.names)
        for element in elements:
            inside = names.with_(self.bind(tree.pattern, element))
            values.append(self.value(tree.value, inside, block))
        array = call("array", *values)
        place = call("list_position", array, call("list_min" if tree.is_least else "list_max", array))
        return self.checked(call("sub", place, literal(1)), tree.at)

    def _side_by_side(self, rows: Rows) -> tuple[Relation, list[Term]]:
        """Return a short list as one row, which has the columns of all elements."""
        aggregates, elements = [], []

        def move(term: Term, test: Scalar, hint: str) -> Term:
            if isinstance(term, Fields):
                return Fields(tuple((name, move(one, test, name)) for name, one in term.items), term.is_tuple)
            name = self.fresh(hint)
            (of,) = leaves(term)
            aggregates.append((name, Aggregate("max", (of,), where=test)))
            return Value(column(name))

        for place in range(rows.size or 0):
            test = call("eq", column(rows.order[0]), literal(place))
            elements.append(move(rows.element, test, "value"))
        node = Group(rows.node, (), tuple(aggregates))
        self.types |= dict(node.schema.fields)
        return node, elements

    def element_at(self, tree: t.ElementAt, names: Names, block: Block) -> Term:
        """Element i of a list, from 0, or the value of a key in a bag of pairs; null if it is not there."""
        source = self.term(tree.of, names, block)
        if not self.is_collection(source):
            raise self.text.error("Q204", tree.at, "an index of a value that is no collection")
        try:
            rows = self.rows(source, tree.at)
        except NeedsRows:
            problem = "an element of a collection that depends on the row around"
            raise self.text.error("Q110", tree.at, problem, "Use `argmin`, `min` or `max`.") from None
        index = self.value(tree.index, names, block)
        if rows.order:
            return self._at_place(tree, rows, index, block)
        return self._of_key(rows, index, tree, block)

    def _at_place(self, tree: t.ElementAt, rows: Rows, index: Scalar, block: Block) -> Term:
        if not index.is_int:
            raise self.text.error("Q204", tree.index.at, "the index of a list is a whole number of the text")
        by = rows.node.by if isinstance(rows.node, Order) else tuple(Key(column(name)) for name in rows.order)
        node = Order(rows.node.input if isinstance(rows.node, Order) else rows.node, by, 1, int(index.this))
        return self.beside(self._only(node, rows.element), block)

    def _of_key(self, rows: Rows, index: Scalar, tree: t.ElementAt, block: Block) -> Term:
        """Return the second items of the pairs whose first is a key."""
        if reads(index):
            raise self.text.error(
                "Q110", tree.index.at, "a key that depends on the row around", "Join the two collections."
            )
        node, pair = self.renamed(rows.node, rows.element)
        if not isinstance(pair, Fields) or len(pair.items) != 2:  # noqa: PLR2004 - a key and its value
            raise self.text.error("Q204", tree.at, "an index of a bag whose elements are no pairs")
        (_, key), (_, value) = pair.items
        wanted = self.operation("=", key, Value(index), tree.at, block)
        return self.beside(self._only(Where(node, self.scalar(wanted, tree.at, block)), value), block)

    def _only(self, node: Relation, element: Term) -> One:
        """Return the only row of a relation, or a row of nulls if there is none."""
        aggregates: list[tuple[str, Aggregate]] = []

        def move(term: Term, hint: str) -> Term:
            if isinstance(term, Fields):
                return Fields(tuple((name, move(one, name)) for name, one in term.items), term.is_tuple)
            (of,) = leaves(term)
            aggregates.append((f"{hint}_{len(aggregates)}", Aggregate("max", (of,))))
            return Value(column(aggregates[-1][0]))

        moved = move(element, "only")
        return One(Group(node, (), tuple(aggregates)), moved)


def free_names(tree: t.Tree) -> Iterator[str]:
    """Return the free names of an expression, perhaps several times."""
    match tree:
        case t.Name(name=name):
            yield name
        case t.Select():
            bound: set[str] = set()
            for pattern, source in tree.generators:
                yield from (name for name in free_names(source) if name not in bound)
                bound |= set(bound_names(pattern))
            rest = [tree.head, tree.where, tree.having, *(key for key, _ in tree.order)]
            if tree.group is not None:
                rest.append(tree.group[1])
                bound |= set(bound_names(tree.group[0])) if tree.group[0] else set()
            yield from (name for one in rest if one for name in free_names(one) if name not in bound)
        case t.Let(pattern=pattern, value=value, body=body):
            yield from free_names(value)
            yield from (name for name in free_names(body) if name not in set(bound_names(pattern)))
        case t.Quantified() | t.ArgumentOf():
            yield from free_names(tree.source)
            inside = tree.condition if isinstance(tree, t.Quantified) else tree.value
            yield from (name for name in free_names(inside) if name not in set(bound_names(tree.pattern)))
        case t.RepeatOf():
            yield from free_names(tree.start)
            yield from (name for name in free_names(tree.body) if name not in set(bound_names(tree.pattern)))
        case _:
            for part in tree.parts():
                yield from free_names(part)


def bound_names(pattern: t.Pattern) -> Iterator[str]:
    """Return the names that a pattern binds."""
    if isinstance(pattern, t.NamePattern):
        yield pattern.name
        return
    for one in pattern.items:
        yield from bound_names(one[1] if isinstance(one, tuple) else one)
