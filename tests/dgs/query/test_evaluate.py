"""The reference interpreter: each node by hand-made examples, against Python's own counting."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("sqlglot")

from dgs.query.errors import QueryError
from dgs.query.evaluate import answer, evaluate, window_ends, zbag
from dgs.query.relation import (
    Aggregate,
    Expand,
    Group,
    Join,
    Key,
    Map,
    Order,
    Repeat,
    Source,
    Union,
    Where,
    Window,
    column,
)
from dgs.query.scalar import ITEMS, Nested, bound, call, field, literal, struct, when
from dgs.query.types import BOOL, FLOAT, INT, NULL, TEXT, Schema, bag, conform, record

PEOPLE = Source("people", Schema.of(name=TEXT, town=TEXT, age=INT))
TOWNS = Source("towns", Schema.of(place=TEXT, mayor=TEXT))
TABLES = {
    "people": zbag([("ann", "ulm", 30), ("bob", "ulm", None), ("cyd", None, 50), ("dee", "bonn", 20)]),
    "towns": zbag([("ulm", "max"), ("köln", "eva"), (None, "tom")]),
}


def value(scalar, **columns):
    types = {bool: BOOL, int: INT, float: FLOAT, str: TEXT, type(None): NULL}
    schema = Schema(tuple((name, types[type(one)]) for name, one in columns.items()))
    return bound(scalar, schema)(tuple(columns.values()))


def test_where_leaves_out_rows_for_which_the_predicate_is_null():
    grown = Where(PEOPLE, call("gt", column("age"), literal(25)))
    assert [row[0] for row in answer(grown, TABLES)] == ["ann", "cyd"]


def test_group_counts_nulls_as_one_key_and_skips_null_values():
    by = Group(
        PEOPLE,
        (("town", column("town")),),
        (("n", Aggregate("count")), ("known", Aggregate("count", (column("age"),)))),
    )
    assert answer(by, TABLES) == [("bonn", 1, 1), ("ulm", 2, 1), (None, 1, 1)]


def test_group_without_keys_has_a_row_for_an_empty_input():
    whole = Group(PEOPLE, (), (("n", Aggregate("count")), ("s", Aggregate("sum", (column("age"),)))))
    assert answer(whole, {"people": {}}) == [(0, None)]


def test_a_group_is_there_iff_its_support_is_positive():
    by = Group(PEOPLE, (("town", column("town")),), (("s", Aggregate("sum", (column("age"),))),))
    people = {("a", "ulm", 5): 1, ("b", "ulm", -5): 1, ("c", "bonn", 1): 1, ("d", "bonn", 2): -1}
    assert evaluate(by, {"people": people}) == {("ulm", 0): 1}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [("ann", "max"), ("bob", "max")]),
        ("left", [("ann", "max"), ("bob", "max"), ("cyd", None), ("dee", None)]),
        (
            "full",
            [
                ("ann", "max"),
                ("bob", "max"),
                ("cyd", None),
                ("dee", None),
                (None, "eva"),
                (None, "tom"),
            ],
        ),
    ],
)
def test_null_never_matches_in_a_join(how, expected):
    join = Join(PEOPLE, TOWNS, ((column("town"), column("place")),), how=how)
    rows = Map(join, (("name", column("name")), ("mayor", column("mayor"))))
    assert answer(rows, TABLES) == expected


@pytest.mark.parametrize(("how", "expected"), [("semi", ["ann", "bob"]), ("anti", ["cyd", "dee"])])
def test_semi_and_anti_count_partners_by_support(how, expected):
    join = Join(PEOPLE, TOWNS, ((column("town"), column("place")),), how=how)
    twice = TABLES | {"towns": dict.fromkeys(TABLES["towns"], 2)}
    assert [row[0] for row in answer(join, twice)] == expected


def test_the_weights_of_an_inner_join_multiply():
    join = Join(PEOPLE, TOWNS, ((column("town"), column("place")),))
    people, towns = {("ann", "ulm", 1): 2}, {("ulm", "max"): -3}
    assert evaluate(join, {"people": people, "towns": towns}) == {("ann", "ulm", 1, "ulm", "max"): -6}


def test_order_puts_nulls_last_and_breaks_ties_by_all_columns():
    by = Order(PEOPLE, (Key(column("town"), descending=True),), limit=3)
    assert [row[0] for row in answer(by, TABLES)] == ["ann", "bob", "dee"]
    first = Order(PEOPLE, (Key(column("age"), nulls_first=True),), limit=2)
    assert [row[0] for row in answer(first, TABLES)] == ["bob", "dee"]


def test_a_limit_without_order_takes_the_first_by_all_columns():
    assert answer(Order(PEOPLE, limit=1, offset=1), TABLES) == [("bob", "ulm", None)]


def test_union_adds_weights_and_widens_integers():
    floats = Source("floats", Schema.of(x=FLOAT))
    ages = Map(PEOPLE, (("age", column("age")),))
    tables = TABLES | {"floats": zbag([(20.0,)])}
    assert evaluate(Union((ages, floats)), tables)[20.0,] == 2


def test_expand_gives_a_row_for_each_item_and_none_for_an_empty_bag():
    words = Expand(
        PEOPLE, call("tokenize", call("concat", column("name"), literal(" "), column("town"))), "word"
    )
    counted = Group(words, (("word", column("word")),), (("n", Aggregate("count")),))
    assert dict(answer(counted, TABLES))["ulm"] == 2


def test_a_window_has_a_row_for_each_window_that_holds_it():
    rows = Window(PEOPLE, size=20, slide=10, at="age")
    assert [(row[0], row[3]) for row in answer(rows, TABLES)] == [
        ("ann", 40),
        ("ann", 50),
        ("cyd", 60),
        ("cyd", 70),
        ("dee", 30),
        ("dee", 40),
    ]


@pytest.mark.parametrize("at", range(-12, 13))
def test_windows_hold_their_start_and_not_their_end(at):
    held = [end for end in range(-40, 40) if (end - 6) % 4 == 0 and end - 6 <= at < end]
    assert window_ends(at, 6, 4) == held


def test_repeat_runs_to_its_limit_and_stops_at_until():
    start = Source("start", Schema.of(x=INT), changes=False, rows=((1,),))
    state = Source("R", Schema.of(x=INT), changes=False)
    doubled = Map(state, (("x", call("mul", column("x"), literal(2))),))
    assert answer(Repeat(("R",), (start,), (doubled,), limit=5), {}) == [(32,)]
    until = Map(state, (("done", call("gt", column("x"), literal(100))),))
    assert answer(Repeat(("R",), (start,), (doubled,), until), {}) == [(128,)]


def test_a_loop_without_a_bound_is_refused():
    start = Source("start", Schema.of(x=INT), changes=False)
    with pytest.raises(QueryError, match="Q306"):
        _ = Repeat(("R",), (start,), (start,)).schema


def test_a_nested_query_reads_the_items_of_a_bag():
    item = record(("x", INT), ("y", TEXT))
    bags = Source("bags", Schema.of(k=INT, xs=bag(item)))
    items = Source(ITEMS, Schema(item.fields), changes=False)
    inner = Where(items, call("gt", column("x"), literal(1)))
    counted = Map(
        bags, (("k", column("k")), ("n", call("array_size", Nested(this=column("xs"), query=inner))))
    )
    assert answer(counted, {"bags": zbag([(7, ((1, "a"), (2, "b"), (3, "c")))])}) == [(7, 2)]


def test_a_row_with_more_deletions_than_insertions_is_refused():
    with pytest.raises(QueryError, match="Q702") as caught:
        answer(PEOPLE, {"people": {("ann", "ulm", 1): -1}})
    assert caught.value.row == ("ann", "ulm", 1)


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        ("intdiv", (-7, 2), -3),
        ("mod", (-7, 3), -1),
        ("div", (7, 2), 3.5),
        ("div", (1, 0), math.inf),
        ("round", (2.5,), 3.0),
        ("substring", ("hello", 2, 3), "ell"),
        ("concat", ("a", None, "b"), "ab"),
        ("concat_strict", ("a", None), None),
        ("coalesce", (None, 3), 3),
        ("same_value", (None, None), True),
        ("eq", (None, 1), None),
    ],
)
def test_functions_equal_those_of_the_table(function, arguments, expected):
    assert value(call(function, *map(literal, arguments))) == expected


@pytest.mark.parametrize(("function", "code"), [("add", "Q701"), ("intdiv", "Q704")])
def test_a_function_that_fails_says_so(function, code):
    left, right = (2**63 - 1, 1) if function == "add" else (1, 0)
    with pytest.raises(QueryError, match=code):
        value(call(function, literal(left), literal(right)))


@pytest.mark.parametrize("a", [True, False, None])
@pytest.mark.parametrize("b", [True, False, None])
def test_and_and_or_know_three_values(a, b):
    least = min(({True: 2, None: 1, False: 0}[one] for one in (a, b)), default=2)
    most = max({True: 2, None: 1, False: 0}[one] for one in (a, b))
    back = {2: True, 1: None, 0: False}
    assert value(call("and", literal(a), literal(b))) is back[least]
    assert value(call("or", literal(a), literal(b))) is back[most]


def test_when_takes_the_first_branch_that_is_true():
    chosen = when(call("gt", column("x"), literal(2)), literal("big"), literal("small"))
    assert [value(chosen, x=x) for x in (3, 1)] == ["big", "small"]


def test_records_have_fields():
    assert value(field(struct(a=literal(1), b=literal("x")), "b")) == "x"


def test_equal_bags_are_equal_values():
    assert conform([2, None, 1], bag(INT)) == conform([1, 2, None], bag(INT))


def test_an_unknown_column_is_named_with_the_nearest_one():
    with pytest.raises(QueryError, match="did you mean 'name'") as caught:
        _ = Map(PEOPLE, (("n", column("nme")),)).schema
    assert caught.value.code == "Q201"


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (Aggregate("sum", (column("x"),)), 6),
        (Aggregate("avg", (column("x"),)), 2.0),
        (Aggregate("median", (column("x"),)), 1.0),
        (Aggregate("var_pop", (column("x"),)), 2.0),
        (Aggregate("collect", (column("x"),)), (1, 1, 4, None)),
        (Aggregate("count", (column("x"),), distinct=True), 2),
        (Aggregate("sum", (column("x"),), where=call("gt", column("x"), literal(9)), empty="zero"), 0),
        (Aggregate("max", (column("x"),)), 4),
    ],
)
def test_aggregates_count_a_row_by_its_weight(aggregate, expected):
    numbers = Source("numbers", Schema.of(x=INT))
    whole = Group(numbers, (), (("found", aggregate),))
    assert answer(whole, {"numbers": {(1,): 2, (4,): 1, (None,): 1}}) == [(expected,)]


def test_a_list_keeps_its_order_without_the_column_that_sorts_it():
    by = Order(PEOPLE, (Key(column("age"), nulls_first=True),))
    assert answer(Map(by, (("name", column("name")),)), TABLES) == [(row[0],) for row in answer(by, TABLES)]
