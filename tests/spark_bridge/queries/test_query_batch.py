"""Queries on Spark have the answers of the reference interpreter."""

from __future__ import annotations

import datetime as dt
import random

import pytest

pytest.importorskip("sqlglot")

import pyarrow as pa

from dgs.check.queries.small_tables import SmallTables
from dgs.check.scenarios.equality import close
from dgs.job.schema import SparkConfig
from dgs.query.aggregates import Aggregate, UserAggregation
from dgs.query.errors import QueryError
from dgs.query.evaluate import answers, zbag
from dgs.query.fronts import read
from dgs.query.relation import Group, Map, Repeat, Script, Source, Where, column
from dgs.query.scalar import ITEMS, Nested, call, field, literal, struct
from dgs.query.spark.spark_text import spark_text
from dgs.query.types import FLOAT, INT, TEXT, TIME, Schema, order_key
from dgs.spark_bridge.queries.query_batch import CASE_SENSITIVE, answered
from tests.dgs.query.random_scripts import RandomScripts

TYPES = {"int64": pa.int64(), "float64": pa.float64(), "text": pa.string(), "time": pa.timestamp("us")}
STREAM = Source("s", Schema.of(k=TEXT, n=INT, x=FLOAT))
ROWS = [("a", 1, 1.5), ("a", 1, 1.5), ("it's \\ `b`", None, 0.0), (None, -7, None), ("a", 3, -2.0)]


def on_spark(script, tables, tmp_path):
    columns = {name: source.columns for name, source in script.sources().items()}
    given = {
        name: pa.table(
            [
                pa.array([row[place] for row in rows], TYPES[of.kind])
                for place, of in enumerate(columns[name].types)
            ],
            names=list(columns[name].names),
        )
        for name, rows in tables.items()
    }
    return answered(script, given, config=SparkConfig(), work_dir=tmp_path)


def assert_agrees(script, tables, tmp_path):
    expected = answers(script, {name: zbag(rows) for name, rows in tables.items()})
    found = on_spark(script, tables, tmp_path)
    for name, node in script.outputs:
        rows = found[name] if node.is_ordered else sorted(found[name], key=order_key)
        assert close(1e-9)(expected[name], rows), f"{name}: {expected[name]} and {rows}"


@pytest.mark.parametrize(
    "seeds", [(3, 11, 18), pytest.param(range(20, 100), marks=pytest.mark.slow)], ids=len
)
def test_random_scripts_agree(spark, tmp_path, seeds):
    for seed in seeds:
        script = RandomScripts(seed).script()
        assert_agrees(script, SmallTables(script).draw(random.Random(seed), 4), tmp_path)


def test_names_division_bags_and_texts_agree(spark, tmp_path):
    """Quotes, division by 0, nulls in bags, and queries over bags."""
    bag = Group(
        STREAM,
        (("k", column("k")),),
        (("bag", Aggregate("collect", (struct(n=column("n"), x=column("x")),))),),
    )
    items = Source(ITEMS, Schema.of(n=INT, x=FLOAT), changes=False)
    some = Nested(this=column("bag"), query=Where(items, call("gt", column("x"), literal(0.0))))
    sums = Group(
        items,
        (),
        (("s", Aggregate("sum", (column("n"),), empty="zero")), ("m", Aggregate("avg", (column("x"),)))),
    )
    total = call("list_extract", Nested(this=some, query=sums), literal(1))
    nested = Map(
        bag, (("k", column("k")), ("bag", column("bag")), ("s", field(total, "s")), ("m", field(total, "m")))
    )
    scalars = (
        ("zero", call("div", column("n"), literal(0))),
        ("whole", call("intdiv", column("n"), literal(2))),
        ("rest", call("mod", column("n"), literal(3))),
        ("text", call("concat_strict", column("k"), literal("\\'`"))),
        ("nulls", call("array", column("n"), literal(None))),
    )
    extremes = Group(
        STREAM,
        (),
        (
            ("n", Aggregate("count", (column("k"),), distinct=True)),
            ("no", Aggregate("some", (call("isnull", column("n")),))),
        ),
    )
    script = Script((("nested", nested), ("scalars", Map(STREAM, scalars)), ("extremes", extremes)))
    assert_agrees(script, {"s": ROWS}, tmp_path)
    assert spark.conf.get(CASE_SENSITIVE) == "false"
    assert not spark.catalog.listTables()


TIMES = (
    None,
    *map(
        dt.datetime.fromisoformat,
        ("1969-12-31 23:59:59.5", "2020-02-29 00:00:00", "2024-12-30 12:34:56.789", "0099-03-01 01:02:03"),
    ),
)
OF_TIMES = (
    "select t, date_trunc('week', t) a, date_trunc('quarter', t) b, date_trunc('year', t) c, date_trunc('hour', t) d from e",
    "select t, extract(week from t) a, extract(dow from t) b, extract(doy from t) c, extract(isodow from t) d, quarter(t) e from e",
    "select t, t + interval '1 month 2 days' a, t - interval '90 minutes' b, cast(t as date) c, second(t) d from e",
    "select t, date_diff('day', timestamp '2000-01-31', t) a, date_diff('month', timestamp '2000-01-31', t) b from e",
    "select t, date_diff('hour', t, timestamp '2000-01-31 00:30:00') a, epoch(t) b, strftime(t, '%Y/%m-%d %H:%M:%S %j') c from e",
    "select n from s intersect select day(t) from e",
    "select n from s except select day(t) from e",
    "select k, n from s intersect all select k, n from s where x > 0",
    "select k, n from s except all select k, n from s where x > 1",
    "select concat_ws('-', k, 'z') a, concat_ws(k, 'y', 'z') b from s",
    "select n, string_agg(k, '/') a, string_agg(distinct k) b, string_agg(k, '') filter (where x > 1) c from s group by n",
    "select arg_min(k, n) a, arg_max(n, x) b, arg_max(k, n) filter (where x < 1) c, any_value(k) d, list(distinct n) e from s",
    "select list(k)[1] a, list(n)[2] b, list_position(list(x), 0.0) c, string_agg(k, '/') d, list_concat(list(n), list(distinct n)) e from s",
    "select substring(k, 2, -1) a, substring(k, 0, n) b, substring(k, -1, -n) c, round(x + 0.675, 2) d, round(x / 3, n) e, round(n, -1) f from s",
    "select cast(x + 0.675 as decimal(9, 2)) a, round(n, n) b from s",
)


def test_times_sets_and_ties_agree(spark, tmp_path):
    sources = {"e": Source("e", Schema.of(t=TIME)), "s": STREAM}
    nodes = [node for text in OF_TIMES for _, node in read(text, sources).outputs]
    script = Script.of({f"q{number}": node for number, node in enumerate(nodes)})
    ties = [("c", 3, 1.5), (None, 3, 1.5), ("a", -7, None), ("z", 1, 1.5)]
    assert_agrees(script, {"e": [(one,) for one in TIMES], "s": [*ROWS, *ties]}, tmp_path)


def test_loops_agree(spark, tmp_path):
    start = Map(STREAM, (("n", column("n")),))
    now = Source("now", Schema.of(n=INT), changes=False)
    step = Map(now, (("n", call("add", column("n"), literal(1))),))
    until = Map(
        Group(now, (), (("m", Aggregate("max", (column("n"),))),)),
        (("done", call("gte", column("m"), literal(6))),),
    )
    loops = {
        "limited": Repeat(("now",), (start,), (step,), limit=2),
        "until": Repeat(("now",), (start,), (step,), until=until),
    }
    assert_agrees(Script.of(loops), {"s": ROWS}, tmp_path)


@pytest.mark.parametrize(
    ("scalar", "code"),
    [(call("intdiv", column("n"), literal(0)), "Q704"), (call("mul", column("n"), literal(2**62)), "Q701")],
)
def test_mistakes_in_data_have_our_codes(spark, tmp_path, scalar, code):
    with pytest.raises(QueryError) as caught:
        on_spark(Script.of(Map(STREAM, (("n", scalar),))), {"s": ROWS}, tmp_path)
    assert (caught.value.code, caught.value.exit_code) == (code, 5)


def test_an_aggregation_of_a_script_is_refused():
    own = Aggregate("user", (column("n"),), user=UserAggregation("longest", column("left"), literal(0)))
    with pytest.raises(QueryError) as caught:
        spark_text(Group(STREAM, (), (("n", own),)))
    assert str(caught.value).splitlines() == [
        "Q501: Spark does not know the aggregation 'longest'",
        "    Ask it on local or on dgs.",
    ]


def test_a_group_in_a_query_over_a_bag_is_refused():
    items = Source(ITEMS, Schema.of(item=INT), changes=False)
    grouped = Group(items, (("item", column("item")),), (("n", Aggregate("count")),))
    with pytest.raises(QueryError) as caught:
        spark_text(Map(STREAM, (("b", Nested(this=call("array", column("n")), query=grouped)),)))
    assert str(caught.value).splitlines()[0] == "Q501: Spark cannot say a Group over the items of a bag"
