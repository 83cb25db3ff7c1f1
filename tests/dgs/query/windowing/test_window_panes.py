"""Windows by panes equal recomputed windows, whatever the batches and their order."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dgs.query.errors import QueryError
from dgs.query.evaluate import ZBag, answers, evaluate, sum_of, zbag
from dgs.query.pig import program_of
from dgs.query.relation import Aggregate, Group, Map, Relation, Script, Source, Where, Window, column
from dgs.query.scalar import call
from dgs.query.types import INT, Schema
from dgs.query.windowing.window_panes import Joined, Paned, Windowed, WindowPanes, windowed
from tests.selection import seeds

STREAM = Source("s", Schema.of(k=INT, v=INT, ts=INT))


def by_key(size: int, slide: int) -> Relation:
    window = Window(STREAM, size, slide)
    aggregates = (("n", Aggregate("count")), ("s", Aggregate("sum", (column("v"),))))
    return Group(window, (("window_end", column("window_end")), ("k", column("k"))), aggregates)


def joined(states: list[ZBag]) -> ZBag:
    return sum_of(*states)


def differs(seed: int) -> bool:
    """Whether panes on three leaves, closed by some ticks, differ from recomputed windows.

    Keys repeat; times have gaps, and may be negative.
    """
    random = Random(seed)
    size, slide = random.randint(1, 8), random.randint(1, 8)
    query, whole = paned(size, slide)
    leaves: list[list[tuple[int, int, int]]] = [[], [], []]
    for _ in range(random.randint(0, 20)):
        random.choice(leaves).append((random.randint(0, 2), random.randint(-3, 3), random.randint(-9, 30)))
    state: dict[int, ZBag] = {}
    for batch in leaves:
        part = whole.panes.added({}, [row[2] for row in batch], [zbag([row]) for row in batch], joined)
        state = whole.panes.joined(*random.sample([state, part], 2), joined)
    got = []
    since: int | None = None
    for until in [*sorted(random.randint(-9, 40) for _ in range(random.randint(0, 3))), 100]:
        closed, state = whole.panes.closed(state, until, joined, since)
        since = until
        assert all(end <= until for end, _ in closed)
        got += [
            (end, *row[1:])
            for end, inside in closed
            for row in answers(whole.script, {"s": inside})["answer"]
        ]
    rows = zbag([row for batch in leaves for row in batch])
    return got != sorted(evaluate(query, {"s": rows})) or bool(state)


@cache
def paned(size: int, slide: int) -> tuple[Relation, Windowed]:
    query = by_key(size, slide)
    whole = windowed(Script.of(query))
    assert whole is not None
    return query, whole


@seeds(2000)
def test_panes_are_windows(seeds: range) -> None:
    assert not [seed for seed in seeds if differs(seed)]


def a_pane_more(self: WindowPanes, state: Paned, until: int, joined: Joined, since: int | None = None) -> Any:
    """Close windows with the first pane of the next one."""
    closed, later = CLOSED(self, state, until, joined, since)
    return [(end, joined([inside, state[end]]) if end in state else inside) for end, inside in closed], later


def no_pane_kept(
    self: WindowPanes, state: Paned, until: int, joined: Joined, since: int | None = None
) -> Any:
    """Keep only the panes after the tick, as tumbling windows do."""
    closed, later = CLOSED(self, state, until, joined, since)
    return closed, {start: one for start, one in later.items() if start >= until}


CLOSED = WindowPanes.closed


@pytest.mark.parametrize("mutant", [a_pane_more, no_pane_kept])
def test_wrong_panes_are_seen(mutant: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowPanes, "closed", mutant)
    assert any(differs(seed) for seed in range(200))


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
