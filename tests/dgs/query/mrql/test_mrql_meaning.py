"""MRQL by its parts, on the interpreter: each text with its value in Python."""

import pytest

pytest.importorskip("lark")

from dgs.query.errors import QueryError
from dgs.query.evaluate import answers, zbag
from dgs.query.mrql import readings, script
from dgs.query.mrql.mrql_parser import QueryText
from dgs.query.relation import Source
from dgs.query.split import split
from dgs.query.types import FLOAT, INT, TEXT, Schema

PAIRS = [(1, 10), (1, 20), (2, 30), (3, 5)]
NAMES = [(1, "one"), (2, "two"), (4, "four")]
SOURCES = {
    "pairs": Source("pairs", Schema.of(k=INT, x=INT)),
    "names": Source("names", Schema.of(k=INT, name=TEXT)),
}
TABLES = {"pairs": zbag(PAIRS), "names": zbag(NAMES)}


def value(text, **params):
    """Return the rows of a script's only output; items instead of rows of one column."""
    (rows,) = answers(script(text, SOURCES, params=params), TABLES).values()
    return [row[0] if len(row) == 1 else row for row in rows]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3;", [7]),
        ("-7 / 2;", [-3]),  # integers truncate
        ("-7 % 3;", [-1]),
        ("7 / 2.0;", [3.5]),
        ('"a" + "b";', ["ab"]),
        ("if 1 < 2 then 10 else 20;", [10]),
        ("let x = 3, (y, z) = (4, 5) in x * y + z;", [17]),
        ("(1, (2, 3))#1#0;", [2]),
        ("<A: 1, B: <C: 2>>.B.C;", [2]),
        ("(1, 2) = (1, 2);", [True]),
        ("count({});", None),
        ("sum(select x from x in {1} where x > 1);", [0]),
        ("avg(select x from x in {1} where x > 1);", [None]),
        ("some x in {1, 2}: x > 1;", [True]),
        ("all x in {1, 2}: x > 1;", [False]),
        ("all x in (select x from x in {1} where x > 1): x > 5;", [True]),
        ("exists(select p from p in pairs where p.x > 25);", [True]),
        ("[3, 1, 2][1];", [1]),
        ("(select p.x from p in pairs order by p.x desc)[0];", [30]),
        ("count(distinct(select p.k from p in pairs));", [3]),
        ("macro twice(e) { e + e }; twice(4);", [8]),
        ("function far(a, b) { (a.X - b.X) * (a.X - b.X) }; far(<X: 1>, <X: 4>);", [9]),
        ("aggregation times(*, 1); times({2, 3, 4});", [24]),
        ("aggregation every(\\(a, b) -> a and b, true); every(select p.x > 5 from p in pairs);", [False]),
        ("select x from x in {limit_of, 9} where x < 5;", None),
    ],
)
def test_value(text, expected):
    if expected is None:
        with pytest.raises(QueryError, match=r"Q110|Q201"):
            value(text)
    else:
        assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "select (p.k, n.name) from p in pairs, n in names where p.k = n.k;",
            [(p, n) for p, _ in PAIRS for k, n in NAMES if p == k],
        ),
        (
            "select (p.x, q.x) from p in pairs, q in pairs where p.x < q.x;",
            [(a, b) for _, a in PAIRS for _, b in PAIRS if a < b],
        ),
        (
            'select (k, count(p)) from p in pairs group by k: if p.x > 9 then "high" else "low";',
            [("high", 3), ("low", 1)],
        ),
        ("select p.x from p in pairs where if p.k = 1 then p.x > 10 else p.x > 5;", [20, 30]),
        ("select p.x + y from p in pairs, y in {p.k, 100};", [x + y for k, x in PAIRS for y in (k, 100)]),
        ("select y from p in pairs, y = p.k * p.x where y > 20;", [k * x for k, x in PAIRS if k * x > 20]),
        ("select x from (k, x) in (select (p.k, p.x) from p in pairs) where k = 1;", [10, 20]),
        ("select distinct p.k from p in pairs;", [1, 2, 3]),
        ("select (p.k, p.x) from p in pairs order by p.x desc;", sorted(PAIRS, key=lambda row: -row[1])),
        # a nested query correlated by an equality, and one without
        (
            "select (n.k, count(select p from p in pairs where p.k = n.k)) from n in names;",
            [(k, sum(k == p for p, _ in PAIRS)) for k, _ in NAMES],
        ),
        (
            "select (n.k, sum(select p.x from p in pairs where p.k >= n.k)) from n in names;",
            [(k, sum(x for p, x in PAIRS if p >= k)) for k, _ in NAMES],
        ),
        (
            "select n.name from n in names where all p in pairs: p.k <> n.k;",
            [n for k, n in NAMES if all(p != k for p, _ in PAIRS)],
        ),
        (
            "select n.name from n in names where some p in pairs: p.k = n.k and p.x > 15;",
            [n for k, n in NAMES if any(p == k and x > 15 for p, x in PAIRS)],
        ),
        # two levels: the inner one reads the outermost rows
        (
            "select (n.k, count(select p from p in pairs where some q in pairs: q.x > p.x and q.k = n.k)) from n in names;",
            [(k, sum(any(y > x and q == k for q, y in PAIRS) for _, x in PAIRS)) for k, _ in NAMES],
        ),
        (
            "select (n.k, (select p.x from p in pairs where p.k = n.k)) from n in names;",
            [(k, tuple(sorted(x for p, x in PAIRS if p == k))) for k, _ in NAMES],
        ),
    ],
)
def test_select(text, expected):
    found = value(text)
    assert found == expected if "order by" in text else sorted(found) == sorted(expected)


GROUPS = {k: [x for p, x in PAIRS if p == k] for k in (1, 2, 3)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "select (k, sum(p.x), count(p), max(p.x)) from p in pairs group by k: p.k;",
            [(k, sum(v), len(v), max(v)) for k, v in GROUPS.items()],
        ),
        ("select (p.k, sum(p.x)) from p in pairs group by p.k;", [(k, sum(v)) for k, v in GROUPS.items()]),
        ("select (k, x) from (k, x) in pairs2 group by k: k;", [(k, tuple(v)) for k, v in GROUPS.items()]),
        ("select k from p in pairs group by k: p.k having count(p) > 1;", [1]),
        (
            "select (k, sum(select y from y in x where y > 15)) from (k, x) in pairs2 group by k: k;",
            [(k, sum(y for y in v if y > 15)) for k, v in GROUPS.items()],
        ),
        (
            "select (k, count(select distinct p.k from p in p)) from p in pairs group by k: p.k % 2;",
            [(0, 1), (1, 2)],
        ),
        (
            "select (k, count(distinct(p.k)), sum(distinct(p.k + 0 * p.x)), count(p)) from p in pairs group by k: p.k % 2;",
            [(0, 1, 2, 1), (1, 2, 4, 3)],
        ),
        (
            "function most(b) { select x from x in b where x > 10 }; select (k, count(most(p.x)), sum(most(p.x)), count(let b = p.x in distinct(most(b)))) from p in pairs group by k: 1;",
            [(1, 2, 50, 2)],
        ),
        (
            "select (k, count(distinct(select x / 10 from x in p.x where x < 30))) from p in pairs group by k: p.k % 2;",
            [(0, 0), (1, 3)],
        ),
        (
            "select (k, n) from (k, x) in pairs2, n = count(names) group by (k, n): (k, n);",
            [(k, 3) for k in GROUPS],
        ),
        (
            "select (k, max(select y - z from y in x, z in x)) from (k, x) in pairs2 group by k: k;",
            [(k, max(v) - min(v)) for k, v in GROUPS.items()],
        ),
        ("select (k, y) from (k, v) in (select (k, x) from (k, x) in pairs2 group by k: k), y in v;", PAIRS),
        ("select (j, k) from (j, k) in {(1, 2), (1, 2)} group by (j, k): (j, k);", [(1, 2)]),
    ],
)
def test_group(text, expected):
    assert sorted(value("pairs2 = select (p.k, p.x) from p in pairs; " + text)) == sorted(expected)


def test_a_null_is_an_element_of_different_ones():
    text = "select (k, count(distinct(p.x)), count(select distinct x from x in p.x)) from p in pairs group by k: p.k;"
    rows = {"pairs": zbag([(1, None), (1, 2), (1, None), (2, None)])}
    assert answers(script(text, SOURCES), rows) == {"answer": [(1, 2, 2), (2, 1, 1)]}


def test_loops_over_bags_lists_and_several_names():
    assert value("repeat x = {1} step select y * 2 from y in x limit 5;") == [32]
    assert value("repeat x = {1} step select y * 2 from y in x until (some y in x: y > 20);") == [32]
    assert value("repeat x = {1} step select (y * 2, y < 8) from y in x;") == [16]
    assert value(
        "repeat x = {1.0} step select (y + 2) / 2 from y in x until (all y in x: some z in old_x: abs(y - z) < 0.01);"
    ) == [pytest.approx(2, abs=0.01)]
    both = script("repeat (a, b) = ({1}, {1}) step (b, select x + y from x in a, y in b) limit 5;", {})
    assert answers(both, {}) == {"answer_0": [(8,)], "answer_1": [(13,)]}


def test_argmin_takes_the_smaller_ordinal_and_a_centroid_without_points_stays():
    assert value("select (p.x, argmin(c in [15, 25]: (c - p.x) * (c - p.x))) from p in pairs;") == [
        (5, 0),
        (10, 0),
        (20, 0),
        (30, 1),
    ]
    text = """repeat C = [0.0, 100.0, 1000.0]
        step select avg(p.x) from p in pairs group by k: argmin(c in C: (c - p.x) * (c - p.x)) limit 3;"""
    assert value(text) == [16.25, 100.0, 1000.0]


def test_parameters_are_values():
    assert value("select p.x from p in pairs where p.k = wanted;", wanted=1) == [10, 20]


def test_a_name_may_be_used_again():
    assert value("x = 1; x = x + 1; x;") == [2]
    assert value("select p.x from p in (select p from p in pairs where p.k = 1);") == [10, 20]


def test_outputs_are_named():
    found = script('a = {1}; a; 2; store "dir/b.bin" from a; 3;', {})
    assert [name for name, _ in found.outputs] == ["a", "answer", "b", "answer_2"]


def test_readings_name_files_and_types():
    text = QueryText(
        "q.mrql",
        'x = stream(csv, "d/a.csv.gz", " ", type(<i: int, f: float>)); y = source(json, "b.json"); select 1 frm;',
    )
    assert [
        (one.name, one.format, one.path, one.delimiter, one.changes, one.schema) for one in readings(text)
    ] == [
        ("a", "csv", "d/a.csv.gz", " ", True, Schema.of(i=INT, f=FLOAT)),
        ("b", "json", "b.json", None, False, None),
    ]


@pytest.mark.parametrize(("aggregation", "code"), [("times", "Q304"), ("median", "Q301")])
def test_an_aggregation_without_inverse_is_kept_unless_a_better_class_is_required(aggregation, code):
    text = f"aggregation times(*, 1); select (k, {aggregation}(p.x)) from p in pairs group by k: p.k;"
    query = script(text, SOURCES)
    assert split(query).klass == "C"
    with pytest.raises(QueryError, match=rf"{code}.*{aggregation}.*keeps 'x'"):
        split(query, require="B")
