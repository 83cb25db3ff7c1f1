"""One `select` of SQL as a relation, in the order of SQL: from, where, group by with aggregates, having, select, distinct, order by."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dgs.query.aggregates import Aggregate
from dgs.query.relation import Relation, Source, Where, Window
from dgs.query.scalar import Scalar, column
from dgs.query.sql.sql_aggregates import AggregateCall, aggregate_call
from dgs.query.sql.sql_joins import Joins, is_plain, names_in, parts_of
from dgs.query.sql.sql_nesting import Rows, nested_value, semi_join
from dgs.query.sql.sql_scalars import Lowering, is_aggregate
from dgs.query.sql.sql_scopes import Scope
from dgs.query.sql.sql_subqueries import Item, NestedQueries
from dgs.query.sql.sql_tables import QueryMaker
from dgs.query.sql.sql_windows import window_of
from dgs.query.types import INT, Schema

ONE_ROW = Source("one row", Schema.of(one=INT), changes=False, rows=((1,),))
"""The single row that a `select` without FROM reads."""


class Block:
    """A `select` that is being made a relation. `outer`: the block in which it is nested.

    `links`: pairs of an expression of the outer block and one of this block that must be equal. `loose`: other conditions on
    columns of the outer block, as in the text.
    """

    def __init__(self, queries: QueryMaker, tree: exp.Select, outer: Block | None = None) -> None:
        self.queries, self.outer = queries, outer
        self.tree: exp.Expr = tree
        self.text, self.params = queries.catalog.text, queries.catalog.params
        self.links: list[tuple[Scalar, Scalar]] = []
        self.loose: list[exp.Expr] = []
        self.nested = NestedQueries()
        self.scope = Scope()
        self.aliases = {one.alias.lower(): one.this for one in tree.expressions if isinstance(one, exp.Alias)}
        joins = Joins(self.text, self._lower_plain, queries.table, tree)
        self.node: Relation = joins.node or ONE_ROW
        self.scope = joins.scope
        self._windows: dict[tuple[str, int, int], str] = {}
        for one in joins.waiting if joins.are_inner else []:
            self._where(one)
        for one in parts_of(tree.args.get("where")):
            if not joins.are_inner or not is_plain(one):
                self._where(one)

    # --- expressions ---

    def lower(self, tree: exp.Expr, *, aggregates: bool = False) -> Scalar:
        """Return the scalar of an expression; nested queries are not yet joined, aggregates not yet collected."""
        return self._lowering(aggregates=aggregates).of(tree)

    def _lowering(self, *, aggregates: bool = False) -> Lowering:
        def nested(tree: exp.Expr) -> Scalar | None:
            if aggregates and is_aggregate(tree):
                return aggregate_call(tree, self.lower, self.text)
            return self._special(tree)

        def named(one: exp.Column) -> Scalar:
            return self.field(one, aggregates=aggregates)

        return Lowering(self.text, self.params, named, nested)

    def _lower_plain(self, tree: exp.Expr, scope: Scope) -> Scalar:
        def named(one: exp.Column) -> Scalar:
            return column(scope.field(one, self.text))

        return Lowering(self.text, self.params, named).of(tree)

    def field(self, one: exp.Column, *, aggregates: bool = False) -> Scalar:
        """Return the scalar of a name: a column of the FROM, else an expression of the `select` under that name."""
        if not self.scope.has(one) and not one.table and one.name.lower() in self.aliases:
            meant = self.aliases.pop(one.name.lower())
            try:
                return self.lower(meant, aggregates=aggregates)
            finally:
                self.aliases[one.name.lower()] = meant
        if not self.scope.has(one) and self.outer is not None and self.outer.scope.has(one):
            remedy = "A nested query names the outer one in conditions of its `where` alone."
            raise self.text.error("Q110", one, f"not supported: {one.sql()} of the outer query here", remedy)
        if not self.scope.has(one) and one.table and (found := self._part_of_record(one)) is not None:
            return found
        return column(self.scope.field(one, self.text))

    def _part_of_record(self, one: exp.Column) -> Scalar | None:
        """Return `a.b` as the field b of the record a, None if there is no column a."""
        record = exp.column(one.args["table"].copy())
        if not self.scope.has(record):
            return None
        return exp.Dot(this=column(self.scope.field(record, self.text)), expression=one.this.copy())

    def attach(self, scalar: Scalar) -> Scalar:
        """Join the nested queries of a scalar to the rows; return the scalar over the joined rows."""
        found, self.node = self.nested.attached(scalar, self.node)
        return found

    def attach_inside(self, scalar: Scalar) -> Scalar:
        """Join the nested queries in the aggregates of a scalar to the rows; others are joined to the groups."""
        found = scalar.copy()
        for one in list(found.find_all(AggregateCall)):
            aggregate: Aggregate = one.this
            arguments = tuple(map(self.attach, aggregate.arguments))
            where = None if aggregate.where is None else self.attach(aggregate.where)
            one.set("this", replace(aggregate, arguments=arguments, where=where))
        return found

    # --- where ---

    def _where(self, tree: exp.Expr) -> None:
        if self._is_of_outer(tree):
            self._link(tree)
        elif not semi_join(self, tree):
            scalar = self.attach(self.lower(tree))
            self.node = Where(self.node, scalar, span=self.text.span(tree))

    def _is_of_outer(self, tree: exp.Expr) -> bool:
        if self.outer is None:
            return False
        return any(not self.scope.has(one) and self.outer.scope.has(one) for one in names_in(tree))

    def _link(self, tree: exp.Expr) -> None:
        """Keep a condition that ties a nested query to the outer one."""
        if isinstance(tree, exp.EQ) and self.outer is not None:
            for own, other in ((tree.left, tree.right), (tree.right, tree.left)):
                is_own = names_in(own) and all(map(self.scope.has, names_in(own)))
                if is_own and not any(map(self.scope.has, names_in(other))):
                    self.links.append((self.outer.lower(other), self.attach(self.lower(own))))
                    return
        self.loose.append(tree)

    # --- what only some expressions have ---

    def inside(self, tree: exp.Expr, *, is_plain: bool) -> Rows:
        """Return a nested query. If it is not plain, it is a separate relation."""
        if is_plain and isinstance(tree, exp.Select):
            return Block(self.queries, tree, self)
        return Done(self.queries, tree, self)

    def _special(self, tree: exp.Expr) -> Scalar | None:
        """Return the value of a nested query, or the end of a window; None for anything else."""
        if isinstance(tree, exp.Anonymous) and tree.name.lower() in ("tumble", "hop"):
            return column(self._window(tree))
        return nested_value(self, tree)

    def _window(self, tree: exp.Anonymous) -> str:
        """Add the ends of the windows of a row; return the name of the new column."""
        window = window_of(tree, self.lower, self.text)
        if window not in self._windows:
            name = "window_end" if not self._windows else f"window_end_{len(self._windows)}"
            at, size, slide = window
            self.node = Window(self.node, size, slide, "range", at, name, span=self.text.span(tree))
            self._windows[window] = name
        return self._windows[window]

    # --- select ---

    def items(self) -> list[Item]:
        """Return the columns of the `select`, over the rows of the FROM. Each may use the names of earlier ones. Raises QueryError Q201."""
        found: list[Item] = []
        names, self.aliases = self.aliases, {}
        for one in self.tree.expressions:
            star = one.this if isinstance(one, exp.Column) and isinstance(one.this, exp.Star) else one
            if isinstance(star, exp.Star):
                table = one.table if isinstance(one, exp.Column) else ""
                found += self._star(star, table)
                continue
            inner = one.this if isinstance(one, exp.Alias) else one
            is_list = isinstance(inner, (exp.Explode, exp.Unnest))
            tree = (inner.expressions or [inner.this])[0] if is_list else inner
            found.append(Item(_name(one), self.lower(tree, aggregates=True), is_list))
            if isinstance(one, exp.Alias):
                self.aliases[one.alias.lower()] = inner
        self.aliases = names
        return _named_apart(found)

    def _star(self, star: exp.Star, table: str) -> list[Item]:
        if not self.scope.ranges:
            raise self.text.error("Q201", star, "`*` without a `from`")
        if table and not any(one.name.lower() == table.lower() for one in self.scope.ranges):
            self.scope.field(exp.column("*", table=table), self.text)
        left_out = {one.name.lower() for one in star.args.get("except_") or []}
        others = {one.alias.lower(): one.this for one in star.args.get("replace") or []}
        found = []
        for name, field in self.scope.star(table):
            if name.lower() in left_out:
                continue
            scalar = self.lower(others[name.lower()]) if name.lower() in others else column(field)
            scalar.meta.setdefault("span", self.text.span(star))
            found.append(Item(name, scalar))
        return found


class Done(Block):
    """A nested query that is a separate relation, not tied to the outer one."""

    def __init__(self, queries: QueryMaker, tree: exp.Expr, outer: Block) -> None:
        whole = tree if isinstance(tree, exp.Select) else exp.select()
        super().__init__(queries, exp.select(), outer)
        self.tree = whole
        self.node = queries.query(tree, outer)

    def items(self) -> list[Item]:
        """Return the columns of the query."""
        return [Item(name, column(name)) for name in self.node.schema.names]


def _name(tree: exp.Expr) -> str:
    """Return the name of a column of a `select`: its alias, the name of the column, or the text in lower case."""
    if isinstance(tree, exp.Alias):
        return tree.alias
    if isinstance(tree, exp.Column):
        return tree.name
    if isinstance(tree, exp.Dot):
        return str(tree.expression.name)
    return str(tree.sql("duckdb")).replace('"', "").lower()


def _named_apart(items: list[Item]) -> list[Item]:
    """Return items with different names, also if SQL allows two of one name: the second `a`, or `A`, is `a_1`."""
    taken: set[str] = set()
    found = []
    for one in items:
        name, number = one.name, 0
        while name.lower() in taken:
            number += 1
            name = f"{one.name}_{number}"
        taken.add(name.lower())
        found.append(Item(name, one.scalar, one.is_list))
    return found
