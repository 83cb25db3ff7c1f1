"""A whole query of SQL as a relation: `with`, `union`, derived tables, and the steps after the rows of a `select`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from dgs.query.errors import Span
from dgs.query.relation import (
    Aggregate,
    Expand,
    Fields,
    Group,
    Key,
    Map,
    Order,
    Relation,
    Schema,
    Union,
    Where,
)
from dgs.query.scalar import Scalar, call, column, literal
from dgs.query.sql.sql_aggregates import AggregateCall, Grouping
from dgs.query.sql.sql_blocks import Block
from dgs.query.sql.sql_joins import parts_of
from dgs.query.sql.sql_scalars import Lowering
from dgs.query.sql.sql_scopes import Range, Scope
from dgs.query.sql.sql_subqueries import Item
from dgs.query.sql.sql_tables import Catalog


class Queries:
    """Makes relations of queries over the tables of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def query(self, tree: exp.Expr, outer: Block | None = None) -> Relation:
        """Return the relation of a query. Raises QueryError."""
        catalog = self._with(tree)
        return Queries(catalog).without_names(tree, outer)

    def without_names(self, tree: exp.Expr, outer: Block | None) -> Relation:
        """Return the relation of a query whose names of `with` are known."""
        if isinstance(tree, (exp.Subquery, exp.Paren)):
            inner = self.query(tree.this, outer)
            return self._ordered(tree, inner)
        if isinstance(tree, exp.SetOperation):
            return self._set_operation(tree)
        if not isinstance(tree, exp.Select):
            raise self.catalog.text.error("Q110", tree, f"not supported: `{tree.key}` as a query")
        return self._select(tree, outer)

    def table(self, tree: exp.Expr) -> Relation:
        """Return the relation of an item of a FROM."""
        if isinstance(tree, exp.Table):
            return self.catalog.relation(tree)
        if isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Table):
            raise self.catalog.text.error(
                "Q110", tree, "not supported: a join in parentheses", "Write it as a derived table."
            )
        return self.query(tree.this if isinstance(tree, exp.Subquery) else tree)

    def _with(self, tree: exp.Expr) -> Catalog:
        """Return the catalog in which the names of `with` are known."""
        catalog = self.catalog
        for one in (tree.args.get("with_") or exp.With(expressions=[])).expressions:
            relation = Queries(catalog).query(one.this)
            names = [column.name for column in one.args["alias"].columns]
            if names:
                before = relation.schema.names
                renamed: Fields = tuple(
                    (new, column(old))
                    for new, old in zip([*names, *before[len(names) :]], before, strict=True)
                )
                relation = Map(relation, renamed, span=relation.span)
            catalog = catalog.with_named(one.alias, relation)
        return catalog

    def _set_operation(self, tree: exp.SetOperation) -> Relation:
        """Return the rows of `union`, `intersect` or `except`, each with `all` or without."""
        text = self.catalog.text
        parts = tuple(self.query(one) for one in (tree.left, tree.right))
        if tree.args.get("by_name"):
            raise text.error(
                "Q110", tree.right, f"not supported: `{tree.key} by name`", "Name the columns in one order."
            )
        is_distinct = bool(tree.args.get("distinct"))
        found: Relation = Union(parts, span=text.span(tree.right))
        if not isinstance(tree, exp.Union):
            found = _counted(parts, found.schema, tree, is_distinct=is_distinct, span=found.span)
        elif is_distinct:
            found = _different(found)
        return self._ordered(tree, found)

    def _select(self, tree: exp.Select, outer: Block | None) -> Relation:
        block = Block(self, tree, outer)
        if block.links or block.loose:
            place = block.loose[0] if block.loose else tree
            remedy = "A nested query with groups, `distinct` or `limit`, or in FROM, stands alone."
            raise block.text.error(
                "Q110", place, "not supported: a condition on the outer query here", remedy
            )
        return Selected(block).relation()

    def _ordered(self, tree: exp.Expr, relation: Relation) -> Relation:
        """Return the rows of a union in their order, cut to the limit."""
        order = tree.args.get("order")
        scope = Scope((Range("", tuple((name, name) for name in relation.schema.names)),))
        keys = tuple(self._key(one, relation, scope) for one in (order.expressions if order else []))
        limit, offset = bounds(tree, self.catalog)
        return ordered(relation, keys, limit, offset, self.catalog.text.span(order or tree))

    def _key(self, tree: exp.Ordered, relation: Relation, scope: Scope) -> Key:
        text = self.catalog.text
        lowering = Lowering(text, self.catalog.params, lambda one: column(scope.field(one, text)))
        place = position(tree.this, len(relation.schema), text)
        scalar = lowering.of(tree.this) if place is None else column(relation.schema.names[place])
        return Key(scalar, bool(tree.args.get("desc")), bool(tree.args.get("nulls_first")))


class Selected:
    """The steps after the rows of a block: groups, columns, an order."""

    def __init__(self, block: Block) -> None:
        self._block, self._tree, self._text = block, block.tree, block.text
        self._items = block.items()
        self._having = [block.lower(one, aggregates=True) for one in parts_of(self._tree.args.get("having"))]
        self._keys = [
            key for one in _expressions(self._tree.args.get("order")) for key in self._order_keys(one)
        ]

    def relation(self) -> Relation:
        """Return the relation of the `select`. Raises QueryError."""
        block, tree = self._block, self._tree
        self._group()
        for one in self._having:
            condition = block.attach(one)  # this may join a nested query to the groups
            block.node = Where(block.node, condition, span=one.meta.get("span"))
        self._items = [Item(one.name, block.attach(one.scalar), one.is_list) for one in self._items]
        self._expand()
        fields: Fields = tuple((one.name, one.scalar) for one in self._items)
        limit, offset = bounds(tree, block.queries.catalog)
        by, hidden = self._order(fields)
        node = mapped(block.node, (*fields, *hidden), self._text.span(tree))
        if tree.args.get("distinct"):
            if hidden:
                problem = "`order by` of a `select distinct` names something that is not selected"
                raise self._text.error("Q207", tree.args["order"], problem, "Add it to the `select`.")
            node = _different(node)
        node = ordered(node, by, limit, offset, self._text.span(tree.args.get("order") or tree))
        return Map(node, tuple((name, column(name)) for name, _ in fields)) if hidden else node

    def _order_keys(self, tree: exp.Ordered) -> list[tuple[Scalar, exp.Ordered]]:
        """Return the scalars to order by, over the rows of the FROM or their groups; all columns for `order by all`."""
        if isinstance(tree.this, exp.Var) and tree.this.name.lower() == "all":
            return [(one.scalar, tree) for one in self._items]
        return [self._key(tree)]

    def _key(self, tree: exp.Ordered) -> tuple[Scalar, exp.Ordered]:
        """Return one scalar to order by: a column by its number or name, else an expression."""
        named = tree.this.name if isinstance(tree.this, exp.Column) and not tree.this.table else None
        place = position(tree.this, len(self._items), self._text)
        by_name = [one for one in self._items if named is not None and one.name.lower() == named.lower()]
        if place is not None:
            return self._items[place].scalar, tree
        if by_name:
            return by_name[0].scalar, tree
        return self._block.lower(tree.this, aggregates=True), tree

    def _order(self, fields: Fields) -> tuple[tuple[Key, ...], Fields]:
        """Return the keys of ORDER BY over the columns, with hidden columns for those that are not selected."""
        names = {scalar: name for name, scalar in reversed(fields)}
        hidden: dict[Scalar, str] = {}
        by = []
        for given, tree in self._keys:
            scalar = self._block.attach(given)
            name = names.get(scalar) or hidden.setdefault(scalar, f"order {len(hidden) + 1}")
            by.append(Key(column(name), bool(tree.args.get("desc")), bool(tree.args.get("nulls_first"))))
        return tuple(by), tuple((name, scalar) for scalar, name in hidden.items())

    # --- groups ---

    def _group(self) -> None:
        """Group the rows, if there is GROUP BY or an aggregate."""
        block, group = self._block, self._tree.args.get("group")
        parts = [*(one.scalar for one in self._items), *self._having, *(one for one, _ in self._keys)]
        if group is None and not any(one.find(AggregateCall) for one in parts):
            if self._having:
                raise self._text.error(
                    "Q207", self._tree.args["having"], "`having` without groups or aggregates", "Use `where`."
                )
            return
        given = [block.attach(one) for one in self._group_keys(group)]
        titles = {one.scalar: one.name for one in reversed(self._items)}
        keys: dict[Scalar, str] = {}
        for scalar in given:
            keys.setdefault(
                scalar,
                _apart(titles.get(scalar) or scalar.sql("duckdb").replace('"', "").lower(), keys.values()),
            )
        grouping = Grouping(self._text, keys, titles)
        with_joins = [block.attach_inside(one) for one in parts]
        over = [grouping.over(one) for one in with_joins]
        count = len(self._items)
        self._items = [
            Item(one.name, scalar, one.is_list) for one, scalar in zip(self._items, over, strict=False)
        ]
        self._having = over[count : count + len(self._having)]
        self._keys = [
            (scalar, tree)
            for scalar, (_, tree) in zip(over[len(over) - len(self._keys) :], self._keys, strict=True)
        ]
        fields: Fields = tuple((name, scalar) for scalar, name in keys.items())
        span = self._text.span(group) if group is not None else self._text.span(self._tree)
        block.node = Group(block.node, fields, tuple(grouping.aggregates), span=span)
        block.nested.forget()

    def _group_keys(self, group: exp.Group | None) -> list[Scalar]:
        if group is None:
            return []
        if group.args.get("all"):
            return [one.scalar for one in self._items if not one.scalar.find(AggregateCall)]
        return [self._group_key(one) for one in group.expressions]

    def _group_key(self, tree: exp.Expr) -> Scalar:
        place = position(tree, len(self._items), self._text)
        if place is None:
            return self._block.lower(tree)
        scalar = self._items[place].scalar
        if scalar.find(AggregateCall):
            raise self._text.error("Q207", tree, f"column {place + 1} is an aggregate, and no key of a group")
        return scalar

    def _expand(self) -> None:
        """Add a row for each item of a list that the `select` unnests."""
        lists = [one for one in self._items if one.is_list]
        if len(lists) > 1:
            raise self._text.error(
                "Q110",
                self._tree,
                "not supported: two `unnest` in one `select`",
                "Unnest one in a derived table.",
            )
        for one in lists:
            name = _apart(one.name, self._block.node.schema.names)
            self._block.node = Expand(self._block.node, one.scalar, name, span=one.scalar.meta.get("span"))
            self._items = [Item(i.name, column(name)) if i.is_list else i for i in self._items]


def position(tree: exp.Expr, count: int, text: Any) -> int | None:
    """Return the place that a number in GROUP BY or ORDER BY names, from 0; None for anything else. Raises QueryError Q203."""
    if not isinstance(tree, exp.Literal) or not tree.this.isdigit() or tree.is_string:
        return None
    if 1 <= int(tree.this) <= count:
        return int(tree.this) - 1
    raise text.error("Q203", tree, f"there is no column {tree.this}: the `select` has {count}")


def bounds(tree: exp.Expr, catalog: Catalog) -> tuple[int | None, int]:
    """Return the limit, None without one, and the offset of a query. Raises QueryError Q110 unless they are numbers."""
    found: list[int | None] = []
    for name in ("limit", "offset"):
        given = tree.args.get(name)
        if given is None:
            found.append(None)
            continue
        if isinstance(given, exp.Fetch):
            given = exp.Limit(expression=given.args.get("count") or exp.Literal.number(1))
        found.append(_number(given.expression, name, catalog))
    return found[0], found[1] or 0


def _number(tree: exp.Expr, name: str, catalog: Catalog) -> int:
    value = tree.this if isinstance(tree, exp.Literal) and not tree.is_string else None
    if isinstance(tree, (exp.Placeholder, exp.Parameter)):
        value = str(catalog.parameter(tree))
    if value is None or not str(value).isdigit():
        raise catalog.text.error("Q110", tree, f"not supported: a {name} that is no whole number")
    return int(value)


def mapped(node: Relation, fields: Fields, span: Any) -> Relation:
    """Return a relation of these columns; the relation itself if it has exactly these."""
    same = all(scalar == column(name) for name, scalar in fields)
    return (
        node
        if same and node.schema.names == tuple(name for name, _ in fields)
        else Map(node, fields, span=span)
    )


def ordered(node: Relation, by: tuple[Key, ...], limit: int | None, offset: int, span: Any) -> Relation:
    """Return a relation in order; the relation itself without an order or limit."""
    return Order(node, by, limit, offset, span=span) if by or limit is not None or offset else node


def _different(node: Relation) -> Relation:
    return Group(node, tuple((name, column(name)) for name in node.schema.names), span=node.span)


def _counted(
    parts: Sequence[Relation], schema: Schema, tree: exp.SetOperation, *, is_distinct: bool, span: Span | None
) -> Relation:
    """Return the rows of `intersect` or `except`, by how often each side has them. Nulls count as equal."""
    one, other = (_apart(f"in {side}", schema.names) for side in ("left", "right"))
    sides = []
    for place, part in enumerate(parts):
        fields = tuple((new, column(old)) for new, old in zip(schema.names, part.schema.names, strict=True))
        sides.append(Map(part, (*fields, (one, literal(1 - place)), (other, literal(place))), span=span))
    kept: Fields = tuple((name, column(name)) for name in schema.names)
    sums = tuple((name, Aggregate("sum", (column(name),))) for name in (one, other))
    counted = Group(Union(tuple(sides), span=span), kept, sums, span=span)
    wanted = 1 if isinstance(tree, exp.Intersect) else 0
    if is_distinct:
        there = call(
            "and",
            call("gt", column(one), literal(0)),
            call("eq", call("sign", column(other)), literal(wanted)),
        )
        return Map(Where(counted, there, span=span), kept, span=span)
    times = call("least", column(one), column(other)) if wanted else call("sub", column(one), column(other))
    number = _apart("number", schema.names)
    return Map(Expand(counted, call("range", times), number, span=span), kept, span=span)


def _apart(name: str, taken: Any) -> str:
    found, number = name, 0
    while found.lower() in map(str.lower, taken):
        number += 1
        found = f"{name}_{number}"
    return found


def _expressions(tree: Any) -> list[Any]:
    return [] if tree is None else list(tree.expressions)
