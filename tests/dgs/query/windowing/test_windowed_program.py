"""Queries over windows as programs: each window is answered once, and equals the recomputed window, under any plan."""

from collections import Counter
from typing import Any

import pytest

import dgs
from dgs.query.evaluate import evaluate, zbag
from dgs.query.pig import program_of
from dgs.query.program import QueryProgram
from dgs.query.relation import Aggregate, Group, How, Join, Map, Source, Window, column
from dgs.query.scalar import call
from dgs.query.types import INT, Schema
from dgs.query.windowing.windowed_program import WindowedQuery, program_of_query

S = Source("s", Schema.of(k=INT, v=INT, ts=INT))
T = Source("t", Schema.of(tk=INT, tts=INT))
ROWS = [(number % 3, number * 7 % 5, number) for number in range(40)]
OTHERS = [(number % 2, number) for number in range(0, 40, 3)]
ANSWER = dgs.kind("answer")


def ran(program: QueryProgram, ticks: list[int], **options: Any) -> list[Any]:
    streams: dict[str, Any] = {"ticks": [(ANSWER(), ts, None) for ts in ticks]}
    if "s" in program.all_kinds():
        streams["s"] = [(dgs.kind("s")(), ts, {"k": k, "v": v, "ts": ts}) for k, v, ts in ROWS]
    if "t" in program.all_kinds():
        streams["t"] = [(dgs.kind("t")(), ts, {"tk": k, "tts": ts}) for k, ts in OTHERS]
    run = dgs.run(program, streams=streams, runtime="local", verify=True, **options)
    assert run.verified
    return list(run.outputs)


def sums(size: int, slide: int) -> Group:
    keys = (("end", column("window_end")), ("k", column("k")))
    return Group(Window(S, size, slide), keys, (("sum", Aggregate("sum", (column("v"),))),))


def expected(query: Any, tables: dict[str, list[Any]], until: int) -> list[Any]:
    rows = evaluate(query, {name: zbag(some) for name, some in tables.items()})
    found = [dict(zip(query.schema.names, row, strict=True)) for row in rows for _ in range(rows[row])]
    return [one for one in found if one["end"] <= until]


def in_order(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: sorted(row.items()))


def test_sliding_windows_are_answered_once_under_any_plan() -> None:
    query = sums(10, 4)
    program = program_of_query(query)
    assert isinstance(program, WindowedQuery)
    wanted = in_order(expected(query, {"s": ROWS}, 50))
    for optimizer in ("sequential", {"name": "random", "seed": 3}):
        assert in_order(ran(program, [7, 10, 20, 21, 38, 50], optimizer=optimizer)) == wanted


def test_a_windowed_join_has_both_sides_in_the_same_panes() -> None:
    left = Window(S, 6, 3)
    right = Map(
        Window(T, 6, 3, at="tts", as_="other end"),
        (("tk", column("tk")), ("other end", column("other end"))),
    )
    pairs = ((column("k"), column("tk")), (column("window_end"), column("other end")))
    query = Group(
        Join(left, right, pairs),
        (("end", column("window_end")),),
        (("n", Aggregate("count")), ("sum", Aggregate("sum", (column("v"),)))),
    )
    program = program_of_query(query)
    assert isinstance(program, WindowedQuery)
    wanted = in_order(expected(query, {"s": ROWS, "t": OTHERS}, 60))
    assert in_order(ran(program, list(range(0, 60, 3)))) == wanted


@pytest.mark.parametrize("how", ["left", "full"])
@pytest.mark.parametrize("has_lists", [False, True])
def test_a_side_without_a_partner_has_no_end(how: How, has_lists: bool) -> None:
    right = Map(
        Window(T, 6, 3, at="tts", as_="there"),
        (("tk", column("tk")), ("other", column("there")), ("tts", column("tts"))),
    )
    join = Join(
        Window(S, 6, 3),
        right,
        ((column("k"), column("tk")), (column("window_end"), column("other"))),
        how=how,
    )
    lists = (("l", call("array", column("v"))),) if has_lists else ()
    fields = (
        ("end", column("window_end")),
        ("k", column("k")),
        ("v", column("v")),
        ("other", column("other")),
    )
    query = Map(join, (*fields, *lists))
    program = program_of_query(query)
    assert isinstance(program, WindowedQuery)
    rows = evaluate(query, {"s": zbag(ROWS), "t": zbag(OTHERS)})
    wanted = Counter({row[:4]: count for row, count in rows.items()})
    assert any(row[3] is None for row in wanted)
    assert Counter(tuple(row.values())[:4] for row in ran(program, list(range(0, 60, 3)))) == wanted


def test_a_query_that_reads_a_stream_beside_its_windows_is_an_ordinary_one() -> None:
    both = {"in windows": sums(4, 4), "all": Group(S, (), (("n", Aggregate("count")),))}
    assert type(program_of_query(both)) is QueryProgram


def test_a_script_of_pig_with_windows_is_answered_by_window() -> None:
    text = (
        "s = LOAD 's' AS (k: int, v: int, ts: long); w = WINDOW s RANGE 10 MS SLIDE RANGE 5 MS;"
        "g = GROUP w BY k; c = FOREACH g GENERATE group, SUM(w.v); DUMP c;"
    )
    program = program_of_query(program_of(text, {"s": S}).script)
    assert isinstance(program, WindowedQuery)
    windows = sums(10, 5)
    got = [tuple(row.values()) for row in ran(program, [5, 10, 15, 20])]
    wanted = [(one["k"], one["sum"]) for one in expected(windows, {"s": ROWS}, 20)]
    assert sorted(got) == sorted(wanted)
