"""Panes are windows: what panes add up to is what recomputing each window gives, whatever the batches and their order."""

from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from dgs.query.errors import QueryError
from dgs.query.evaluate import ZBag, answers, evaluate, sum_of, zbag
from dgs.query.pig import program_of
from dgs.query.relation import Aggregate, Group, Map, Relation, Script, Source, Where, Window, column
from dgs.query.scalar import call
from dgs.query.types import INT, Schema
from dgs.query.windowing.window_panes import WindowPanes, windowed

STREAM = Source("s", Schema.of(k=INT, v=INT, ts=INT))


def by_key(size: int, slide: int) -> Relation:
    window = Window(STREAM, size, slide)
    aggregates = (("n", Aggregate("count")), ("s", Aggregate("sum", (column("v"),))))
    return Group(window, (("window_end", column("window_end")), ("k", column("k"))), aggregates)


def joined(states: list[ZBag]) -> ZBag:
    return sum_of(*states)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Draw rows (k, v, ts); keys repeat, times leave gaps and are negative too."""
    row = st.tuples(st.integers(0, 2), st.integers(-3, 3), st.integers(-9, 30))
    return draw(st.lists(row, max_size=20))


@given(histories(), st.integers(1, 8), st.integers(1, 8), st.data())
@settings(max_examples=100, deadline=None)
def test_panes_are_windows(
    rows: list[tuple[int, int, int]], size: int, slide: int, data: st.DataObject
) -> None:
    query = by_key(size, slide)
    whole = windowed(Script.of(query))
    assert whole is not None
    ends = [end for *_, end in evaluate(Window(STREAM, size, slide), {"s": zbag(rows)})]
    event(f"rows of {len({*ends})} windows")
    leaf_of = [data.draw(st.integers(0, 2)) for _ in rows]
    batches = [[row for row, leaf in zip(rows, leaf_of, strict=True) if leaf == one] for one in range(3)]
    state: dict[int, ZBag] = {}
    for batch in data.draw(st.permutations(batches)):
        part = whole.panes.added({}, [row[2] for row in batch], [zbag([row]) for row in batch], joined)
        state = whole.panes.joined(state, part, joined)
    got = []
    ticks = sorted(data.draw(st.lists(st.integers(-9, 40), max_size=3)))
    since: int | None = None
    for until in [*ticks, 100]:
        closed, state = whole.panes.closed(state, until, joined, since)
        since = until
        for end, inside in closed:
            assert end <= until
            found = answers(whole.script, {"s": inside})["answer"]
            got += [(end, *row[1:]) for row in found]
    assert got == sorted(got, key=lambda row: row[0])
    assert sorted(got) == sorted(evaluate(query, {"s": zbag(rows)}))
    assert not state


def test_a_row_adds_up_once_however_many_windows_it_is_in() -> None:
    panes = WindowPanes(size=60, slide=1)
    state = panes.added({}, [5], [1], sum)
    assert state == {5: 1}
    assert panes.closed(state, 70, sum) == ([(end, 1) for end in range(6, 66)], {})


def test_panes_that_no_later_window_needs_are_dropped() -> None:
    panes = WindowPanes(size=4, slide=2)
    _, state = panes.closed({0: 1, 2: 10, 4: 100}, 6, sum)
    assert state == {4: 100}


def test_a_script_of_pig_over_one_window() -> None:
    text = (
        "a = LOAD 'a' AS (k: int, ts: long); b = LOAD 'b' AS (k: int, ts: long);"
        "v = WINDOW a RANGE 4 SECONDS SLIDE RANGE 2 SECONDS; w = WINDOW b RANGE 4 SECONDS SLIDE RANGE 2 SECONDS;"
        "j = JOIN v BY k, w BY k; STORE j INTO 'j';"
    )
    found = windowed(program_of(text, base_dir=Path()).script)
    assert found is not None
    assert found.panes == WindowPanes(4000, 2000)
    assert dict(found.at) == {"a": "ts", "b": "ts"}


def test_a_stream_that_is_read_beside_its_windows_has_no_panes() -> None:
    both = {"windowed": by_key(4, 2), "all": Group(STREAM, (), (("n", Aggregate("count")),))}
    assert windowed(Script.of(both)) is None
    assert windowed(Script.of(STREAM)) is None


def test_windows_that_differ_are_a_mistake() -> None:
    with pytest.raises(QueryError, match="two windows that differ: range 4 by 2, range 8 by 2") as raised:
        windowed(Script.of({"a": by_key(4, 2), "b": by_key(8, 2)}))
    assert raised.value.code == "Q402"


def test_an_end_that_is_computed_with_has_no_panes() -> None:
    window = Window(STREAM, 4, 2)
    fields = (("late", call("add", column("window_end"), column("v"))),)
    assert windowed(Script.of(Map(window, fields))) is None
    assert windowed(Script.of(Where(window, call("gt", column("window_end"), column("v"))))) is None


def test_an_end_that_is_a_column_of_the_answer_is_known_by_its_name_there() -> None:
    renamed = Map(by_key(4, 2), (("end", column("window_end")), ("n", column("n"))))
    found = windowed(Script.of(renamed))
    assert found is not None
    assert dict(found.ends) == {"answer": ("end",)}
