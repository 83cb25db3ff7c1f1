"""Random scripts for tests of rules: every node, over three streams of few columns, in the shapes to which rules apply."""

from __future__ import annotations

import random

from dgs.query.aggregates import Aggregate
from dgs.query.relation import (
    Expand,
    Group,
    Join,
    Key,
    Map,
    Order,
    Relation,
    Script,
    Source,
    Union,
    Where,
    Window,
)
from dgs.query.scalar import (
    ITEMS,
    Nested,
    Scalar,
    call,
    column,
    field,
    items_schema,
    literal,
    struct,
    when,
)
from dgs.query.types import FLOAT, INT, TEXT, Schema

STREAMS = (
    Source("orders", Schema.of(order=INT.required(), customer=INT, day=INT)),
    Source("items", Schema.of(of=INT, price=FLOAT, word=TEXT)),
    Source("customers", Schema.of(id=INT.required(), nation=TEXT), changes=False),
)


STEPS = (
    "where", "where", "map", "map", "same", "expand", "union", "join", "join", "group", "distinct", "collected", "order", "window",
)  # fmt: skip


class RandomScripts:
    """Makes scripts from a seed: of any form, or small ones that end in the steps of a `shape`."""

    def __init__(self, seed: int, shape: tuple[str, ...] = ()) -> None:
        self.rnd, self.shape = random.Random(seed), shape
        self._count = 0

    def script(self) -> Script:
        if self.shape:
            node = self.relation(self.rnd.randint(0, 1))
            for step in self.shape:
                node = getattr(self, step)(node)
            return Script.of(node)
        shared = self.relation(self.rnd.randint(1, 3))
        outputs = [("one", self.above(shared, self.rnd.randint(1, 3)))]
        if self.rnd.random() < 1 / 4:
            outputs.append(("other", self.above(shared, 1)))
        return Script(tuple(outputs))

    def relation(self, depth: int) -> Relation:
        return self.above(self.renamed(self.rnd.choice(STREAMS)), depth)

    def renamed(self, node: Relation) -> Relation:
        """Give every column a unique name, by a Map. A stream whose names are unique does not change."""
        self._count += 1
        return Map(node, tuple((f"{name}_{self._count}", column(name)) for name in node.schema.names))

    def above(self, node: Relation, depth: int) -> Relation:
        for _ in range(depth):
            node = getattr(self, self.rnd.choice(STEPS))(node)
        return node

    def name(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def named(self, node: Relation, *kinds: str) -> list[str]:
        return [name for name, one in node.schema.fields if one.kind in kinds]

    def scalar(self, node: Relation) -> Scalar:
        """A number, or a text if there is no number."""
        numbers, texts = self.named(node, "int64", "float64"), self.named(node, "text")
        if not numbers or (texts and self.rnd.random() < 1 / 4):
            return column(self.rnd.choice(texts)) if texts else literal(self.rnd.randint(0, 2))
        one = column(self.rnd.choice(numbers))
        other = (
            column(self.rnd.choice(numbers)) if self.rnd.random() < 1 / 2 else literal(self.rnd.randint(0, 2))
        )
        made = call(self.rnd.choice(("add", "sub", "mul", "div")), one, other)
        return self.rnd.choice(
            (one, made, when(call("gt", one, literal(0)), one, literal(0)), call("coalesce", one, literal(1)))
        )

    def predicate(self, node: Relation) -> Scalar:
        one = self.scalar(node)
        is_text = one.name in self.named(node, "text")
        other = literal(self.rnd.choice("ab")) if is_text else literal(self.rnd.randint(-1, 2))
        made = call(self.rnd.choice(("eq", "lt", "gte", "neq")), one, other)
        draw = self.rnd.random()
        if draw < 1 / 6:
            return call("isnull", one)
        if draw < 1 / 3:
            return call(self.rnd.choice(("and", "or")), made, self.predicate(node))
        if draw < 1 / 2:
            return call("and", made, call("eq", literal(1), literal(self.rnd.choice((1, 1, 2)))))
        return call("not", made) if draw < 3 / 5 else made

    def where(self, node: Relation) -> Relation:
        return Where(node, self.predicate(node))

    def true(self, node: Relation) -> Relation:
        return Where(node, literal(True))

    def map(self, node: Relation) -> Relation:
        names = self.rnd.sample(node.schema.names, self.rnd.randint(1, len(node.schema)))
        fields = [(name, column(name)) for name in names]
        if self.rnd.random() < 2 / 3:
            fields.append((self.name("v"), self.scalar(node)))
        return Map(node, tuple(fields))

    def same(self, node: Relation) -> Relation:
        return Map(node, tuple((name, column(name)) for name in node.schema.names))

    def expand(self, node: Relation) -> Relation:
        texts = self.named(node, "text")
        items = (
            call("split", column(texts[0]), literal("a"))
            if texts
            else call("array", self.scalar(node), literal(None))
        )
        return Expand(node, items, self.name("item"))

    def union(self, node: Relation) -> Relation:
        other = self.where(node) if self.rnd.random() < 1 / 2 else self.same(node)
        return Union(tuple(self.rnd.sample((node, other, Union((other,))), self.rnd.randint(1, 3))))

    def join(self, node: Relation) -> Relation:
        other = self.relation(self.rnd.randint(0, 1))
        pairs = []
        mine, yours = self.named(node, "int64"), self.named(other, "int64")
        if mine and yours and self.rnd.random() < 4 / 5:
            pairs = [(column(self.rnd.choice(mine)), column(self.rnd.choice(yours)))]
        how = self.rnd.choice(("inner", "inner", "left", "full", "semi", "anti"))
        joined = Join(node, other, tuple(pairs), None, how)
        if self.rnd.random() < 1 / 2:
            joined = Join(node, other, tuple(pairs), self.predicate(self.rnd.choice((node, other))), how)
        if how == "inner" and not pairs and mine and yours:
            return Where(joined, call("eq", column(mine[0]), column(yours[0])))
        return joined

    def group(self, node: Relation) -> Relation:
        keys = [
            (self.name("k"), column(name))
            for name in self.rnd.sample(node.schema.names, self.rnd.randint(0, min(2, len(node.schema))))
        ]
        made: list[tuple[str, Aggregate]] = [(self.name("n"), Aggregate("count"))]
        numbers = self.named(node, "int64", "float64")
        if numbers:
            function = self.rnd.choice(("sum", "avg", "min", "max", "count"))
            where = self.predicate(node) if self.rnd.random() < 1 / 3 else None
            made.append(
                (self.name("s"), Aggregate(function, (column(self.rnd.choice(numbers)),), where=where))
            )
        return Group(node, tuple(keys), tuple(made if not keys or self.rnd.random() < 4 / 5 else ()))

    def distinct(self, node: Relation) -> Relation:
        return Group(node, tuple((name, column(name)) for name in node.schema.names))

    def collected(self, node: Relation) -> Relation:
        """A Map, and sometimes a filter or a join, over a Group that collects its rows, with aggregates over the bag."""
        keys = tuple((self.name("k"), column(name)) for name in node.schema.names[:1])
        flat = [name for name, one in node.schema.fields if one.of is None and one.kind != "record"]
        is_record = self.rnd.random() < 3 / 4 or not flat
        row = (
            struct(**{name: column(name) for name in flat[:3]})
            if is_record and flat
            else column(flat[0])
            if flat
            else literal(1)
        )
        bag = self.name("bag")
        group: Relation = Group(
            node, keys if self.rnd.random() < 4 / 5 else (), ((bag, Aggregate("collect", (row,))),)
        )
        of = group.schema.type(bag)
        if self.rnd.random() < 1 / 3:
            group = Where(group, call("gt", call("array_size", column(bag)), literal(1)))
        if self.rnd.random() < 1 / 4:
            group = Join(group, self.relation(0), (), None, self.rnd.choice(("left", "full", "inner")))
        source: Relation = Source(ITEMS, items_schema(of), changes=False)
        outer = column(bag)
        if self.rnd.random() < 1 / 2:
            outer = Nested(this=outer, query=self.rnd.choice((self.where, self.distinct, self.map))(source))
            source = Source(ITEMS, outer.args["query"].schema, changes=False)
        inner = source if self.rnd.random() < 1 / 2 else self.rnd.choice((self.where, self.distinct))(source)
        argument = column(inner.schema.names[0])
        function = self.rnd.choice(("count", "min", "max"))
        query = Group(inner, (), (("value", Aggregate(function, (argument,))), ("n", Aggregate("count"))))
        row_of = call("list_extract", Nested(this=outer, query=query), literal(1))
        fields = [(name, column(name)) for name in group.schema.names if name != bag]
        fields += [(self.name("c"), call("array_size", outer)), (self.name("v"), field(row_of, "value"))]
        return Map(group, tuple(fields))

    def order(self, node: Relation) -> Relation:
        by = (Key(self.scalar(node), self.rnd.random() < 1 / 2),) if self.rnd.random() < 2 / 3 else ()
        limit = self.rnd.randint(0, 3) if self.rnd.random() < 1 / 3 else None
        return Order(node, by, limit, self.rnd.choice((0, 0, 1)) if limit is not None else 0)

    def window(self, node: Relation) -> Relation:
        times = self.named(node, "int64")
        if not times:
            return self.where(node)
        size, slide = self.rnd.choice(((2, 2), (3, 1), (4, 2)))
        windows = Window(node, size, slide, "range", self.rnd.choice(times), self.name("end"))
        return self.rnd.choice(
            (windows, self.same(windows), Map(windows, tuple((name, column(name)) for name in times)))
        )
