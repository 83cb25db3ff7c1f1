"""Arrow's answers equal the interpreter's, to the bit, on values where the two might differ; other queries fall back to DuckDB.

The sums of groups are equal up to rounding. The mutants at the end are found.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from random import Random

import numpy as np
import pyarrow.compute as pc
import pytest

pytest.importorskip("sqlglot")

from dgs.query.compact import arrow_joins, arrow_plans, arrow_scalars
from dgs.query.compact.arrow_plans import planned
from dgs.query.compact.arrow_rows import to_arrow
from dgs.query.errors import QueryError
from dgs.query.evaluate import Evaluation, rows_of, zbag
from dgs.query.relation import Aggregate, Group, Join, Key, Map, Order, Source, Where, column, walk
from dgs.query.scalar import call, literal, substituted, when
from dgs.query.types import BOOL, FLOAT, INT, TEXT, TIME, Schema, order_key
from tests.selection import seeds

SCHEMA = Schema.of(i=INT, j=INT, f=FLOAT, g=FLOAT, t=TEXT, u=TEXT, b=BOOL, c=BOOL, at=TIME)
NOON = dt.datetime(2024, 2, 29, 12, 30, 15, 7)  # noqa: DTZ001 - times of queries have no zone
LEAST, GREATEST = -(2**63), 2**63 - 1
DOMAINS = {
    "int64": [(0, 1, -1, 2, 3, 7), (0, 1, -7, 2**53 + 1, 2**62, LEAST, GREATEST)],
    "float64": [(0.0, 0.5, -1.5, 2.0), (0.0, -0.0, 1.0, -1.5, math.inf, math.nan, math.nan)],
    "text": [("a", "b", ""), ("a", "ä", "", "z", "B", "\U0001f600", "\uffff")],
    "bool": [(True, False)] * 2,
    "time": [(NOON, dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2024, 3, 1))] * 2,  # noqa: DTZ001
}  # fmt: skip


class Draw:
    """Random rows and relations over them."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.source = Source("s", SCHEMA)
        hard = self.random.random() < 0.5
        rows = [
            tuple(
                None if self.random.random() < 0.15 else self.random.choice(DOMAINS[of.kind][hard])
                for of in SCHEMA.types
            )
            for _ in range(self.random.randrange(12))
        ]
        self.rows = rows_of(rows, SCHEMA)
        self.others = [row for row in self.rows if self.random.random() < 0.6]

    def pick(self, *options):
        return self.random.choice(options)

    def scalar(self, kind, depth=2):
        names = [name for name, of in SCHEMA.fields if of.kind == kind]
        if depth == 0 or self.random.random() < 0.25:
            return column(self.random.choice(names)) if self.random.random() < 0.8 else self.constant(kind)
        if self.random.random() < 0.2:
            then, otherwise = self.scalar(kind, depth - 1), self.scalar(kind, depth - 1)
            return when(self.scalar("bool", depth - 1), then, self.pick(otherwise, None))
        if self.random.random() < 0.15:
            return call("coalesce", self.scalar(kind, depth - 1), self.scalar(kind, depth - 1))
        return getattr(self, f"_{kind}")(depth - 1)

    def constant(self, kind):
        value = self.random.choice(DOMAINS[kind][0])
        return literal(value) if kind != "time" else column("at")

    def _int64(self, depth):
        if self.random.random() < 0.2:
            name, of = self.pick(
                ("length", "text"), ("year", "time"), ("hour", "time"), ("neg", "int64"), ("abs", "int64")
            )
            return call(name, self.scalar(of, depth))
        name = self.pick("add", "sub", "mul", "intdiv", "mod", "greatest", "least")
        return call(name, self.scalar("int64", depth), self.scalar("int64", depth))

    def _float64(self, depth):
        if self.random.random() < 0.2:
            return call(self.pick("neg", "abs", "sqrt"), self.scalar("float64", depth))
        name = self.pick("add", "sub", "mul", "div", "greatest", "least")
        return call(name, self.scalar("float64", depth), self.scalar(self.pick("float64", "int64"), depth))

    def _text(self, depth):
        return column(self.pick("t", "u"))

    def _time(self, depth):
        return column("at")

    def _bool(self, depth):
        shape = self.random.random()
        if shape < 0.2:
            return call("isnull", self.scalar(self.pick("int64", "float64", "text"), depth))
        if shape < 0.3:
            return call("not", self.scalar("bool", depth))
        if shape < 0.5:
            return call(self.pick("and", "or"), self.scalar("bool", depth), self.scalar("bool", depth))
        kind = self.pick("int64", "float64", "text", "time")
        other = self.pick("int64", "float64") if kind == "float64" else kind
        name = self.pick("eq", "neq", "lt", "lte", "gt", "gte")
        return call(name, self.scalar(kind, depth), self.scalar(other, depth))

    def fields(self, prefix, kinds, *, depth=2):
        return tuple((f"{prefix}{place}", self.scalar(kind, depth)) for place, kind in enumerate(kinds))

    def relation(self):
        made = self.source
        if self.random.random() < 0.4:
            made = Where(made, self.scalar("bool"))
        if self.random.random() < 0.3:
            made = self.join(made)
        shape = self.random.random()
        if shape < 0.4:
            return Map(
                made, self.fields("m", self.random.choices(list(DOMAINS), k=self.random.randint(1, 3)))
            )
        if shape < 0.6:
            key = Key(self.scalar(self.pick(*DOMAINS), 1), self.pick(True, False), self.pick(True, False))
            return Order(made, self.pick((), (key,)), self.pick(None, 0, 3), self.pick(0, 0, 2))
        keys = self.fields("k", self.random.choices(list(DOMAINS), k=self.random.randint(0, 2)), depth=1)
        return Group(made, keys, tuple((f"a{place}", self.aggregate()) for place in range(2)))

    def join(self, left):
        """A join with some of the same rows, under new column names."""
        kinds = self.random.choices(
            ("int64", "text", "bool", "time", "float64"), (5, 3, 2, 1, 0.2), k=self.random.randint(1, 2)
        )
        right = Map(Source("o", SCHEMA), tuple((f"o{name}", column(name)) for name in SCHEMA.names))
        names = {name: column(f"o{name}") for name in SCHEMA.names}
        pairs = [(self.scalar(kind, 1), substituted(self.scalar(kind, 1), names)) for kind in kinds]
        residual = call("neq", column("i"), column("oj")) if self.random.random() < 0.3 else None
        return Join(left, right, tuple(pairs), residual, self.pick("inner", "inner", "semi", "anti"))

    def aggregate(self):
        function = self.pick("sum", "sum", "min", "max", "count", "rows")
        if function == "rows":
            return Aggregate("count")
        kinds = ("int64", "float64") if function == "sum" else DOMAINS
        argument = self.scalar(self.pick(*kinds), 1)
        return Aggregate(
            function, (argument,), empty=self.pick("null", "zero") if function == "sum" else "null"
        )


def expected(relation, draw):
    """The interpreter's rows, or the code of its error."""
    try:
        return Evaluation({"s": zbag(draw.rows), "o": zbag(draw.others)}).rows(relation)
    except QueryError as error:
        return error.code


def rounded(rows):
    """Rows with floats in 12 digits: sums of fractions depend on their order."""
    return repr([[f"{one:.12g}" if isinstance(one, float) else one for one in row] for row in rows])


def differs(seeds):
    """Whether Arrow's rows differ from the interpreter's on some seed, and how often Arrow answers."""
    done = Counter()
    for seed in seeds:
        draw = Draw(seed)
        relation = draw.relation()
        plan = planned(relation)
        found = (
            None
            if plan is None
            else plan({"s": to_arrow(draw.rows, SCHEMA), "o": to_arrow(draw.others, SCHEMA)})
        )
        kinds = {type(one).__name__ for one in walk(relation)} - {"Source", "Where"}
        done.update((kind, found is not None) for kind in kinds)
        if found is not None:
            rows = [tuple(row.values()) for row in found.to_pylist()]
            rows = rows if relation.is_ordered else sorted(rows, key=order_key)
            wanted = expected(relation, draw)
            if repr(rows) != repr(wanted) and not (kinds & {"Group"} and rounded(rows) == rounded(wanted)):
                return f"{seed}: {relation} of {draw.rows}: {rows}, not {wanted}", done
    return None, done


@seeds(500)
def test_arrow_equals_the_interpreter(seeds):
    difference, done = differs(seeds)
    assert difference is None
    for kind in ("Map", "Order", "Group", "Join"):
        assert done[kind, True] > len(seeds) / 12, done  # Arrow answers most queries
        assert done[kind, False], done


def test_a_sum_beyond_64_bits_is_left_to_duckdb():
    table = to_arrow([(2**62,), (2**61,), (1,)], Schema.of(i=INT))
    total = Group(Source("s", Schema.of(i=INT)), (), (("t", Aggregate("sum", (column("i"),))),))
    assert planned(total)({"s": table}) is None
    assert planned(total)({"s": table.slice(1)}).to_pydict() == {"t": [2**61 + 1]}


def test_rows_that_are_in_order_are_not_sorted(monkeypatch):
    monkeypatch.setattr(arrow_plans, "_sorted", lambda *_: pytest.fail("sorted"))
    source = Source("s", Schema.of(k=INT, j=TEXT, n=INT))
    table = {"s": to_arrow([(1, "b", 0), (1, "c", 5), (2, "a", 1)], source.columns)}
    renamed = Map(
        Where(source, call("gt", column("n"), literal(0))),
        (("x", column("k")), ("y", column("j")), ("z", column("n"))),
    )
    assert planned(Order(renamed, limit=1), {"s": ("k", "j")})(table).to_pylist() == [
        {"x": 1, "y": "c", "z": 5}
    ]


def test_rows_that_are_in_another_order_are_sorted():
    source = Source("s", Schema.of(k=INT, n=INT))
    table = {"s": to_arrow([(1, 9), (2, 3)], source.columns)}
    turned = Map(source, (("n", column("n")), ("k", column("k"))))
    without = Map(source, (("n", column("n")),))
    assert planned(Order(turned), {"s": ("k",)})(table).to_pydict() == {"n": [3, 9], "k": [2, 1]}
    assert planned(Order(without), {"s": ("k",)})(table).to_pydict() == {"n": [3, 9]}


@pytest.mark.parametrize("limit", ["MOST_JOINED", "MOST_PAIRS"])
def test_a_large_join_is_left_to_duckdb(limit, monkeypatch):
    rows = {"s": to_arrow([(1,), (1,)], Schema.of(k=INT)), "o": to_arrow([(1,), (1,)], Schema.of(j=INT))}
    join = Join(Source("s", Schema.of(k=INT)), Source("o", Schema.of(j=INT)), ((column("k"), column("j")),))
    assert len(planned(join)(rows)) == 4
    monkeypatch.setattr(arrow_plans, limit, 3)
    assert planned(join)(rows) is None


def unchanged(values, *_):
    return values


@pytest.mark.parametrize(
    ("module", "name", "mistake"),
    [
        (arrow_scalars, "refuse_nan", unchanged),
        (arrow_plans, "refuse_nan", unchanged),
        (arrow_scalars, "_is_true", unchanged),
        (arrow_scalars, "without_negative_zero", unchanged),
        (arrow_plans, "_summed", unchanged),
        (arrow_joins, "_present", lambda keys: np.arange(len(keys[0]))),
        (arrow_joins, "codes_of", lambda keys: keys[0]),
        (arrow_scalars, "_is_null", lambda values: pc.is_null(values, nan_is_null=True)),
    ],
)  # fmt: skip
def test_a_mistake_is_found(module, name, mistake, monkeypatch):
    monkeypatch.setattr(module, name, mistake)
    assert differs(range(1_500))[0] is not None


@pytest.mark.parametrize(
    ("function", "mistake"),
    [(("add", "int64"), pc.add), (("mul", "int64"), pc.multiply), (("div", "float64"), pc.divide)],
)  # fmt: skip
def test_a_wrong_function_is_found(function, mistake, monkeypatch):
    monkeypatch.setitem(arrow_scalars._MEANINGS, function, mistake)
    assert differs(range(1_500))[0] is not None
