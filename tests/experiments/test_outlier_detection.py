"""The outlier detection against a separate sequential program: plain Python, from the raw file, without dgs and NumPy."""

import csv
import gzip
import math
from itertools import combinations, combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest

import dgs
from dgs import codec
from dgs.errors import MissingInputError
from dgs.job.loading import load_callable

HOME = Path(__file__).parents[2] / "experiments" / "outlier_detection"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
FILE = DATA / "kddcup99_10pct_head50k" / "kddcup_10pct_rows_0_49999.csv.gz"
EVENTS, EVERY, STREAMS = 1200, 200, 3
MANY = 804  # connections and the first four queries
SUPPORT, TAU, DELTA, FACTOR = 5, 1.96, 0.3, 3.0

needs_data = [
    pytest.mark.data,
    pytest.mark.skipif(not FILE.is_file(), reason="the KDD Cup 1999 data is not beside the checkout"),
]

CATEGORICAL = {1: "protocol_type", 2: "service", 3: "flag", 6: "land", 11: "logged_in"}
CATEGORICAL |= {20: "is_host_login", 21: "is_guest_login"}
RATES = {*range(24, 31), *range(33, 41)}
LABEL = 41
SOME = {
    0: "duration",
    4: "src_bytes",
    5: "dst_bytes",
    9: "hot",
    22: "count",
    23: "srv_count",
    28: "same_srv_rate",
}
SOME |= {31: "dst_host_count", 32: "dst_host_srv_count", 35: "dst_host_same_src_port_rate"}
"""The features here: there are 55 products of two of them, 595 of all."""


def features(row):
    """Return the scaled features of a raw row."""
    numbers = {i: float(row[i]) for i in SOME}
    return [
        round(100 * number) if i in RATES else round(10 * math.log2(1 + number))
        for i, number in numbers.items()
    ]


def itemsets(row):
    single = [frozenset([(name, row[i])]) for i, name in CATEGORICAL.items()]
    return single + [a | b for a, b in combinations(single, 2)]


class Itemset:
    """The record of one itemset."""

    def __init__(self):
        self.n = self.m = 0
        self.sums, self.products, self.squares = {}, {}, {}
        self.centre = self.usual = None

    def add(self, x):
        self.n += 1
        for i, value in enumerate(x):
            self.sums[i] = self.sums.get(i, 0) + value
        if self.centre is not None:
            self.m += 1
            for pair, product in self.about(x):
                self.products[pair] = self.products.get(pair, 0) + product
                self.squares[pair] = self.squares.get(pair, 0) + product**2

    def about(self, x):
        d = [value - self.centre[i] for i, value in enumerate(x)]
        return [((i, j), d[i] * d[j]) for i, j in combinations_with_replacement(range(len(d)), 2)]

    def refresh(self):
        if self.n < SUPPORT:
            return
        self.centre = [(2 * self.sums[i] + self.n) // (2 * self.n) for i in sorted(self.sums)]
        if self.m < SUPPORT:
            return
        self.usual = {}
        for pair, total in self.products.items():
            mean = total / self.m
            width = TAU * math.sqrt(max(self.squares[pair] / self.m - mean * mean, 0))
            self.usual[pair] = mean - width, mean + width

    def is_odd(self, x):
        """Whether the itemset is infrequent, or violated by these features."""
        if self.centre is None:
            return True
        if self.usual is None:
            return False
        beyond = [
            not self.usual[pair][0] <= product <= self.usual[pair][1] for pair, product in self.about(x)
        ]
        return sum(beyond) > DELTA * len(beyond)


def sequential(rows):
    """Return the outputs of the queries, one after every EVERY rows."""
    known, outputs, candidates, limit = {}, [], [], None
    scored = total = 0
    has_model = False

    def score(row):
        x = features(row)
        odd = [one for one in itemsets(row) if one not in known or known[one].is_odd(x)]
        return sum(2 if len(one) == 1 else 1 for one in odd)

    for number, row in enumerate(rows):
        if number and number % EVERY == 0:
            outputs.append(query(known, scored, total, candidates, score))
            has_model, candidates = True, []
            limit = FACTOR * total / scored if scored else None
        if has_model:
            points = score(row)
            scored, total = scored + 1, total + points
            if limit is not None and points > limit:
                candidates.append((number, row))
        for one in itemsets(row):
            known.setdefault(one, Itemset()).add(features(row))
    outputs.append(query(known, scored, total, candidates, score))
    return outputs


def query(known, scored, total, candidates, score):
    for one in known.values():
        one.refresh()
    judged = [(number, row, score(row)) for number, row in candidates]
    outliers = [
        {"ts": number * 1000, "label": row[LABEL], "score": points}
        for number, row, points in judged
        if points > FACTOR * total / scored
    ]
    return {"scored": scored, "candidates": len(candidates), "outliers": outliers}


@pytest.fixture(scope="module")
def expected():
    with gzip.open(FILE, "rt", encoding="utf-8", newline="") as file:
        rows = [row for row, _ in zip(csv.reader(file), range(EVENTS), strict=False)]
    return sequential(rows)


def program():
    made = load_callable("program.py:OutlierDetection", HOME)
    return made(support=SUPPORT, tau=TAU, delta=DELTA, factor=FACTOR)


def streams():
    queries, connections = (
        load_callable(f"connections.py:{name}", HOME) for name in ("queries", "connections")
    )
    made = {"queries": [batch("queries", 0, "query", part) for part in queries(every=EVERY, events=EVENTS)]}
    for number in range(STREAMS):
        name = f"connections-{number}"
        parts = connections(stream=number, of=STREAMS, events=EVENTS, data=str(DATA))
        made[name] = [batch(name, number + 1, "connection", part) for part in parts]
    return made


def batch(name, rank, kind, part):
    if kind == "connection":
        used = {"label", *CATEGORICAL.values(), *SOME.values()}
        part["payload"] = {column: values for column, values in part["payload"].items() if column in used}
    return dgs.EventBatch.of(name, rank=rank, tags=[dgs.Tag(kind)], ts=part["ts"], payload=part["payload"])


PLANS = [
    {"name": "sequential"},
    {"name": "greedy", "max_leaves": 3},
    {"name": "greedy", "max_leaves": 2},
    {"name": "cost"},
    {"name": "exhaustive"},
    *({"name": "random", "seed": seed} for seed in range(4)),
]


class TestRealData:
    pytestmark = needs_data

    @pytest.mark.parametrize("optimizer", PLANS, ids=lambda one: "-".join(map(str, one.values())))
    def test_outputs_are_those_of_the_sequential_program(self, expected, optimizer):
        assert sum(len(one["outliers"]) for one in expected) > 5
        assert sum(len(one["outliers"]) < one["candidates"] for one in expected) > 0
        settings = {f"optimizer.{name}": value for name, value in optimizer.items()}
        run = dgs.run(program(), streams=streams(), runtime="local", settings=settings)
        assert len(run.plan.leaves) == optimizer.get("max_leaves", len(run.plan.leaves))
        assert run.outputs == expected

    def test_one_by_one_is_as_in_batches(self, expected):
        events = sorted(
            (event.ts, rank, event)
            for rank, stream in enumerate(streams().values())
            for one in stream
            for event in one.events()
        )
        made, outputs = program(), []
        state = made.init()
        for _, _, event in events[:MANY]:
            state = made.update(state, event, outputs.append)
        assert outputs == expected[: len(outputs)]
        assert any(one["candidates"] for one in outputs)

    def test_join_undoes_fork(self):
        made = program()
        state = made.init()
        (part,) = streams()["connections-0"]
        query = dgs.Event(dgs.Tag("query"), "queries", 0, 0)
        for start in (0, 60, 120):
            state = made.update_batch(state, part.cut(start, start + 60), None)
            state = made.update(state, query, lambda _: None)
        state = made.update_batch(state, part.cut(180, 200), None)
        before = codec.encode(state)
        sides = dgs.TagSet.of(dgs.Tag("connection"))
        assert codec.encode(made.join(*made.fork(state, sides, sides))) == before

    @pytest.mark.slow
    def test_program_keeps_the_laws(self):
        report = dgs.check(HOME / "plan.yaml", max_examples=10)
        assert report.ok, str(report)


def test_absent_data_is_named(tmp_path):
    source = load_callable("connections.py:connections", HOME)
    with pytest.raises(MissingInputError, match=r"kddcup_10pct_rows"):
        next(source(data=str(tmp_path)))


def test_products_about_a_centre_are_exact():
    """Sums of squared products of the largest features stay integers that a float holds."""
    largest = 10 * math.log2(1 + 2**32)
    rows = load_callable("program.py:ROWS_AT_ONCE", HOME)
    assert largest**4 * rows < 2**53
    assert np.float64(largest**4 * rows) == largest**4 * rows
