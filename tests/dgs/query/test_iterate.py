"""Loops by DuckDB: equal to the interpreter; a warm loop begins where the previous one ended."""

from random import Random

import pytest

pytest.importorskip("duckdb")

import dgs
from dgs import codec
from dgs.query import duck
from dgs.query.compact.arrow_rows import from_arrow, to_arrow
from dgs.query.compact.iterate import Iteration
from dgs.query.evaluate import answers, sum_of, zbag
from dgs.query.mrql import script
from dgs.query.program import QueryProgram
from dgs.query.types import order_key
from tests.dgs.query.mrql.test_mrql_by_loops import SOURCES as TABLES
from tests.dgs.query.mrql.test_mrql_by_loops import by_loops, case
from tests.dgs.query.mrql.test_upstream_mrql import check
from tests.dgs.query.mrql.upstream_mrql import TEXTS, cases, tables
from tests.dgs.query.test_repeat import LOOPS, SOURCES, close, history


def by_duckdb(found, bags, last=None):
    """Return the rows of each output, and the iteration."""
    sources = found.sources()
    given = {
        name: to_arrow([row for row, weight in bag.items() for _ in range(weight)], sources[name].columns)
        for name, bag in bags.items()
        if name in sources
    }
    iteration = Iteration(given, last)
    return {name: from_arrow(iteration.table(one), one.schema) for name, one in found.outputs}, iteration


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("seed", range(3))
def test_a_loop_is_the_interpreters(name, seed):
    batches = history(Random(seed))
    bags = {one: sum_of(*(batch[one] for batch in batches)) for one in SOURCES}
    found = script(LOOPS[name], SOURCES)
    rows, _ = by_duckdb(found, bags)
    for output, expected in answers(found, bags).items():
        assert close(sorted(rows[output], key=order_key), sorted(expected, key=order_key))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["case"])
def test_upstream_case_by_duckdb(case):
    text = TEXTS[case["case"]]
    rows, _ = by_duckdb(script(text, {}), tables(text))
    check(case, list(rows.values()))


def test_nested_selects_by_duckdb():
    for seed in range(40):
        text, rows = case(seed)
        (found,) = by_duckdb(script(text, TABLES), {name: zbag(one) for name, one in rows.items()})[
            0
        ].values()
        assert sorted(found, key=order_key) == by_loops(text, rows), (seed, text, rows)


def test_a_warm_loop_begins_where_the_last_ended():
    text = "n = sum(select p.x from p in P); repeat v = {0.0} step select (y + n) / 2 from y in v limit 4 %s;"
    exact, warm = script(text % "", SOURCES), script(text % "warm", SOURCES)
    bags = {"P": zbag([(16,)])}
    first, before = by_duckdb(warm, bags)
    assert first == by_duckdb(exact, bags)[0] == {"answer": [(15.0,)]}
    again, _ = by_duckdb(warm, bags, before.results)
    assert again == {"answer": [(15.9375,)]}  # nearer to the fixpoint, 16
    assert by_duckdb(exact, bags, before.results)[0] == first


def test_a_loop_without_a_limit_of_its_own_ends(monkeypatch):
    monkeypatch.setattr("dgs.query.compact.iterate.UNTIL_LIMIT", 7)
    rows, _ = by_duckdb(
        script("repeat x = {0} step select y + 1 from y in x until (some y in x: y < 0);", {}), {}
    )
    assert rows == {"answer": [(7,)]}


def test_names_that_differ_in_their_letters_size_alone_stay_apart():
    text = "select (X, x, p.x) from p in P, X in {p.x + 1}, x in {p.x + 2};"
    rows, _ = by_duckdb(script(text, SOURCES), {"P": zbag([(1,)])})
    assert rows == {"answer": [(2, 3, 1)]}


def test_shared_nodes_are_computed_once(monkeypatch):
    statements = []
    run = duck.run
    monkeypatch.setattr(duck, "run", lambda text, *more: statements.append(text) or run(text, *more))
    doubled = (
        "x0 = select p.x from p in P;"
        + "".join(f"x{i + 1} = x{i} + x{i};" for i in range(12))
        + "count(x12);"
    )
    rows, _ = by_duckdb(script(doubled, SOURCES), {"P": zbag([(1,)])})
    assert rows == {"answer": [(4096,)]}
    assert max(map(len, statements)) < 4000


ROW, ASK = dgs.kind("P"), dgs.kind("answer")


def kept(text, *batches):
    """Return the answers of a program after each batch of values of `P`."""
    rows = [(ROW(), 2 * ts, {"x": x}) for ts, batch in enumerate(batches) for x in batch]
    asked = [(ASK(), 2 * ts + 1, None) for ts in range(len(batches))]
    return dgs.run(
        QueryProgram(script(text, SOURCES)), streams={"P": rows, "ask": asked}, runtime="local"
    ).outputs


def test_a_program_keeps_where_a_warm_loop_ended():
    text = "n = sum(select p.x from p in P); repeat v = {0.0} step select (y + n) / 2 from y in v limit 4 %s;"
    assert kept(text % "", [16], []) == [{"value": 15.0}, {"value": 15.0}]
    assert kept(text % "warm", [16], [], [16]) == [
        {"value": 15.0},
        {"value": 15.9375},
        {"value": 30.99609375},
    ]


def test_the_codec_takes_where_a_warm_loop_ended():
    program = QueryProgram(
        script("repeat v = {0.0} step select y + count(P) from y in v limit 2 warm;", SOURCES)
    )
    state = program.update(program.identity(), dgs.Event(ROW(), "P", 1, {"x": 1}), [].append)
    answered = program.update(state, dgs.Event(ASK(), "ask", 2, None), [].append)
    again = codec.decode(codec.encode(answered))
    found = []
    program.update(again, dgs.Event(ASK(), "ask", 3, None), found.append)
    assert found == [{"value": 4.0}]


@pytest.mark.parametrize("rows", [2, 400])
def test_a_user_aggregation_is_the_same_for_few_rows_and_many(rows):
    text = "aggregation every(\\(a, b) -> a * b % 1009, 1); every(select p.x from p in P where p.x > 0);"
    expected = 1
    for x in range(1, rows):
        expected = expected * x % 1009
    assert kept(text, range(rows)) == [{"value": expected}]
