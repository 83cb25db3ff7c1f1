"""Compact states: how often rows are touched, canonical bytes, sums beyond 64 bits, and every type of key."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("sqlglot")

from dgs import codec
from dgs.query.compact import Compact, Layout, arrow_joins, number_runs, runs
from dgs.query.compact.arrow_rows import to_arrow
from dgs.query.errors import QueryError
from dgs.query.standing import Query
from dgs.query.types import FLOAT, INT, TEXT, Schema, bag, order_key

NUMBERS = Layout(Schema.of(k=INT, w=INT, s=INT), 1, ("sum", "sum"))
TEXTS = Layout(Schema.of(k=TEXT, f=FLOAT, w=INT, m=INT), 2, ("sum", "min"))
BAGS = Layout(Schema.of(k=bag(INT), w=INT), 1, ("sum",))


def run_of(keys):
    keys = np.asarray(keys, dtype=np.int64)
    return pa.table({"k": keys, "w": np.ones(len(keys), np.int64), "s": keys})


def test_joins_of_small_states_leave_a_large_one_alone():
    state = Compact.of_run(NUMBERS, run_of(range(200_000)))
    random = np.random.default_rng(1)
    for _ in range(20):
        state = state.joined(Compact.of_run(NUMBERS, run_of(np.unique(random.integers(0, 400_000, 1_000)))))
    # a row is rewritten for each doubling of the rows after the large run
    assert state.touched < 20 * 1_000 * 6


def test_a_state_in_order_may_lose_all_its_rows():
    def signed(sign):
        return Compact.of_run(NUMBERS, pa.table({"k": range(300), "w": [sign] * 300, "s": [0] * 300}))

    state = signed(1)
    state.table()
    for sign in (-1, 1, -1):
        state = state.joined(signed(sign))
    assert len(state) == 0
    assert state == Compact.empty(NUMBERS)


def draw(random, layout):
    made = {}
    for _ in range(random.randint(1, 30)):
        if layout is NUMBERS:
            key, parts = (random.randint(0, 40),), (random.choice((-1, 1)), random.randint(-3, 3))
        elif layout is TEXTS:
            key = (random.choice(("a", "ä", "", None)), random.choice((0.5, math.nan, None, 2.0, -1.0)))
            parts = (1, random.choice((None, 3, 5)))
        else:
            key, parts = (random.choice(((), (1, 2), (1, None), None)),), (random.choice((-1, 1)),)
        key = tuple(runs.from_arrow(to_arrow([key + parts], layout.schema), layout.schema)[0][: layout.keys])
        runs.add_parts(made, key, parts, layout)
    return made


@pytest.mark.parametrize("layout", [NUMBERS, TEXTS, BAGS], ids=["numbers", "texts", "bags"])
@pytest.mark.parametrize("small", [0, 3, 200])
def test_any_order_of_joins_gives_the_same_bytes(layout, small, monkeypatch):
    monkeypatch.setattr("dgs.query.compact.SMALL", small)
    for seed in range(20):
        random = Random(seed)
        given = [draw(random, layout) for _ in range(6)]
        expected = {}
        for one in given:
            for key, parts in one.items():
                runs.add_parts(expected, key, parts, layout)
        encoded = set()
        for _ in range(3):
            random.shuffle(given)
            state = Compact.empty(layout)
            for one in given:
                state = state.joined(Compact.of_parts(layout, dict(one)))
                if random.random() < 0.3:
                    state = codec.decode(codec.encode(state))
            assert sorted(state.parts(), key=order_key) == sorted(expected.items(), key=order_key)
            encoded.add(codec.encode(state))
        assert len(encoded) == 1


@pytest.mark.parametrize("keys", [1, 2])
def test_a_small_run_is_searched_for_in_a_large_one_as_it_is_grouped(keys):
    schema = Schema((*(("k", INT), ("j", INT))[:keys], ("w", INT)))
    layout = Layout(schema, keys, ("sum",))
    for seed in range(30):
        random = np.random.default_rng(seed)

        def table(count, weights, random=random):
            rows = np.unique(random.integers(0, 30 if keys == 2 else 900, (count, keys)), axis=0)
            columns = [rows[:, place] for place in range(keys)]
            return pa.table([*columns, random.choice(weights, len(rows))], names=list(layout.schema.names))

        base = runs.in_order(table(600, [1, 2]), layout)
        new = table(20, [-2, -1, 1])
        found, expected = runs.inserted(base, new, layout), runs.merged([base, new], layout)
        assert found is not None
        assert found.equals(runs.in_order(expected, layout))


def drawn_runs(random, keys, far):
    """Some runs of numbers, as parts by key. With extremes no weight is negative: a deleted key loses its extremes."""
    has_extremes = random.random() < 0.5
    named = [(f"k{place}", INT if place < 2 else FLOAT) for place in range(keys)]
    parts = [
        ("w", INT, "sum"),
        ("f", FLOAT, "sum"),
        *([("m", INT, "min"), ("x", FLOAT, "max")] if has_extremes else []),
    ]
    schema = Schema((*named, *((name, of) for name, of, _ in parts)))
    domain = (-(2**62), -1, 0, 5, 2**62) if far else range(-3, 9)

    def row():
        key = tuple(random.choice(domain if of == INT else (0.0, -1.5, 2.0)) for _, of in named)
        values = (random.choice((1, 2) if has_extremes else (-1, 0, 1)), random.choice((0.0, 0.5, -0.5)), random.randint(-3, 3), random.choice((1.0, -2.5)))  # fmt: skip
        return key, values[: len(parts)]

    drawn = [dict(row() for _ in range(random.randint(0, 12))) for _ in range(random.randint(1, 5))]
    kept = [{key: values for key, values in one.items() if values[0] or values[1]} for one in drawn]
    return Layout(schema, keys, tuple(merge for _, _, merge in parts)), kept


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("keys", [1, 2, 3])
def test_runs_of_numbers_are_merged_by_key(keys, far):
    for seed in range(60):
        layout, given = drawn_runs(Random(seed), keys, far)
        expected = {}
        for one in given:
            for key, parts in one.items():
                runs.add_parts(expected, key, parts, layout)
        made = runs.in_order(runs.merged([runs.of_parts(one, layout) for one in given], layout), layout)
        assert list(runs.rows_in(made, layout)) == sorted(expected.items()), seed


def test_runs_of_numbers_are_merged_without_grouping(monkeypatch):
    monkeypatch.setattr(runs.pa, "TableGroupBy", lambda *_, **__: pytest.fail("grouped"))
    made = runs.merged([run_of([3, 1]), run_of([2, 3])], NUMBERS)
    assert made.to_pydict() == {"k": [1, 2, 3], "w": [1, 1, 2], "s": [1, 2, 6]}


def test_a_mistake_in_merging_numbers_is_found(monkeypatch):
    for name in ("sum", "min", "max"):
        with monkeypatch.context() as patch:
            patch.setitem(number_runs._MERGES, name, np.subtract)
            with pytest.raises(AssertionError):
                test_runs_of_numbers_are_merged_by_key(1, far=False)
    monkeypatch.setattr(number_runs, "_MOST_CODES", 2**200)  # codes wrap around
    with pytest.raises((AssertionError, OverflowError)):
        test_runs_of_numbers_are_merged_by_key(2, far=True)


def test_a_sum_beyond_64_bits_is_an_error_and_no_wrong_number():
    large = pa.table({"k": [1, 2], "w": [1, 1], "s": [2**62, 5]})
    with pytest.raises(QueryError, match="Q701"):
        runs.merged([large, large], NUMBERS)
    negative = pa.table({"k": [1], "w": [-1], "s": [-(2**62)]})
    assert runs.merged([large, negative], NUMBERS).to_pydict() == {"k": [2], "w": [1], "s": [5]}


def test_a_key_of_weight_0_with_another_sum_stays():
    state = Compact.of_parts(NUMBERS, {(1,): (1, 5)}).joined(Compact.of_parts(NUMBERS, {(1,): (-1, -7)}))
    assert dict(state.parts()) == {(1,): (0, -2)}
    state = state.joined(Compact.of_parts(NUMBERS, {(1,): (0, 2)}))
    assert not len(state.table())


@pytest.mark.parametrize("far", [3, 300, 2**40])
def test_groups_at_places_are_those_of_arrow(far):
    for seed in range(30):
        random = np.random.default_rng(seed)
        rows = int(random.integers(1, 50))
        given = {name: pa.array(random.integers(-5, 5, rows)) for name in ("k", "j", "v")}
        given["k"] = pa.array(given["k"].to_numpy() * (far // 3))
        if seed % 2:
            given = pa.table(given).sort_by([("k", "ascending"), ("j", "ascending")]).to_pydict()
            given = {name: pa.array(values) for name, values in given.items()}
        asked = [([], "count_all"), ("v", "sum", None)]
        keys = ["k", "j"][: int(random.integers(1, 3))]
        found = number_runs.grouped(given, keys, asked)
        if far == 2**40 and found is None:
            continue
        grouped = pa.TableGroupBy(pa.table(given), keys, use_threads=False).aggregate(asked)
        wanted = grouped.sort_by([(key, "ascending") for key in keys])
        assert found.to_pydict() == wanted.select(found.column_names).to_pydict(), seed


def test_sums_that_floats_cannot_hold_are_not_taken_by_places():
    given = {"k": pa.array([1, 0, 1]), "v": pa.array([2**53, 0, 1])}
    assert number_runs.grouped(given, ["k"], [("v", "sum", None)]) is None
    assert number_runs.grouped(given | {"v": pa.array([1, 2, None])}, ["k"], [("v", "sum", None)]) is None
    in_order = {"k": pa.array([0, 1, 1]), "v": pa.array([0, 2**53, 1])}
    in_runs = number_runs.grouped(in_order, ["k"], [("v", "sum", None)])
    assert in_runs.to_pydict() == {"k": [0, 1], "v_sum": [0, 2**53 + 1]}


def test_known_partners_are_those_of_the_same_keys(monkeypatch):
    known, (left, right) = arrow_joins.Known(100), (pa.array([1, 2, 1]), pa.array([1, 2]))
    first = known.partners([(left, right)])
    with monkeypatch.context() as patch:
        patch.setattr(arrow_joins, "partners", lambda *_: pytest.fail("searched again"))
        assert known.partners([(left, right)]) is first
    for others in ((left, right.slice(1)), (pa.array([2, 2, 2]), right), (right, left)):
        found, wanted = known.partners([others]), arrow_joins.partners([others], 100)
        assert [found.left.tolist(), found.right.tolist()] == [side.tolist() for side in wanted]


@pytest.mark.parametrize("far", [1, 2**50, -(2**61)])
def test_partners_among_keys_that_are_there_once(far):
    for seed in range(30):
        random = np.random.default_rng(seed)
        left = [None if one == 3 else int(one) * far for one in random.integers(-3, 4, 12)]
        right = sorted({int(one) * far for one in random.integers(-3, 4, 6)})
        right = right if seed % 2 else [None, *right]
        found = arrow_joins.partners([(pa.array(left, pa.int64()), pa.array(right, pa.int64()))], 100)
        wanted = [
            (a, b) for a, one in enumerate(left) for b, other in enumerate(right) if None is not one == other
        ]
        assert sorted(zip(*(side.tolist() for side in found), strict=True)) == wanted, seed


@pytest.mark.parametrize("first", [0, -5, -(2**63), 2**63 - 9])
def test_places_among_all_numbers_of_a_range(first):
    base = np.arange(8) + np.int64(first)
    wanted = np.array([-(2**63), *base.tolist(), 2**63 - 1, 0])
    wanted = np.unique(wanted)
    found = number_runs.inserted([base, base * 0 + 1], [wanted, wanted * 0 + 10], 1)
    expected = dict.fromkeys(base.tolist(), 1)
    for key in wanted.tolist():
        expected[key] = expected.get(key, 0) + 10
    assert dict(zip(*map(np.ndarray.tolist, found), strict=True)) == expected
    assert found[0].tolist() == sorted(expected)


def test_columns_that_are_one_are_computed_once(monkeypatch):
    taken = []
    monkeypatch.setattr(
        arrow_joins.pc, "take", lambda *given, take=pc.take, **more: taken.append(1) or take(*given, **more)
    )
    query = Query(
        "select f.c, count(*) n, sum(w.v) s from f join w on f.k = w.k group by f.c",
        schemas={"f": Schema.of(k=INT, c=INT), "w": Schema.of(k=INT, v=INT)},
    )
    keys = np.arange(500)
    state = query.h(f={"k": keys, "c": keys % 3}, w={"k": keys[::-1] + 1, "v": keys})
    assert query.answer(state)[0] == {"c": 0, "n": 166, "s": sum(499 - k + 1 for k in range(3, 500, 3))}
    assert len(taken) <= 2  # the values, and the key of the left rows
