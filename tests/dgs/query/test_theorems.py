"""The theorems behind kept answers, on random queries and histories, each with the mutants that it must find.

A case is a seed: `Case(seed)` draws a history of a query; `HISTORIES` seeds share a query, since making its program takes longer than
answering it. Each property is tried on 2,000 seeds, on 100,000 in the slow variants. The tests at the end check that the mutants are found.

Mutants: partial answers joined instead of inputs; runs compared as they are; weights of other sides forgotten; support 0 kept; a sum
of only nulls is 0; a group dropped when its sum is 0; a key of weight 0 dropped from a partial state; `left` as `inner`;
a quotient of integers that is an integer; a bag without nulls.

The other theorems have their mutants beside them: loops in `test_repeat`, windows in `windowing/test_window_panes`, rules in
`tests/dgs/check/queries/test_rule_results`.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from random import Random
from unittest.mock import patch

import pytest

pytest.importorskip("duckdb")

from dgs import codec
from dgs.query import compact, duck
from dgs.query.aggregates import AGGREGATES
from dgs.query.compact import answering, arrow_rows, runs
from dgs.query.errors import QueryError
from dgs.query.evaluate import answer
from dgs.query.functions import FUNCTIONS
from dgs.query.program import QueryProgram
from dgs.query.relation import Aggregate, Group, Join, Map, Source, column
from dgs.query.scalar import call, literal
from dgs.query.split import weighing
from dgs.query.sql_text import text_of
from dgs.query.types import FLOAT, INT, Schema, order_key
from tests.dgs.query.drawn import Drawing, total
from tests.selection import seeds

QUICK = 1000
HISTORIES = 16
"""The number of cases that share a query."""


@lru_cache(maxsize=1)
def drawn(number, *, deletes):
    """A random query over its streams, and its program: None for a product of two streams, the only refused query."""
    drawing = Drawing(Random(number), deletes=deletes)
    query = drawing.query()
    try:
        return drawing, query, QueryProgram(query)
    except QueryError as error:
        assert error.code == "Q302"  # noqa: PT017 - it says which query was refused
        return None


@pytest.fixture(autouse=True)
def nothing_drawn_before():
    """Clear the cache of programs: a mutant changes how they are made."""
    drawn.cache_clear()
    yield
    drawn.cache_clear()


class Case:
    """One random query as a program, with a history cut into batches on leaves."""

    def __init__(self, seed, shared):
        self.drawing, self.query, self.program = shared
        self.random = self.drawing.random = Random(seed)
        self.history = self.drawing.history()

    def h(self, stream, rows):
        """The state of weighted rows of a stream, by the interpreter, by Arrow or by a statement."""
        weighted = {}
        for row, weight in rows:
            key = (*row, weight)
            weighted[key] = weighted.get(key, 0) + 1
        source = self.drawing.streams[stream]
        if stream not in self.program._schemas:
            return self.program.identity()
        way = self.random.random()
        if way < 0.94:
            return self.program._of_rows(stream, weighted)
        schema = Schema((*source.columns.fields, ("$w", INT)))
        table = arrow_rows.to_arrow([row for row, count in weighted.items() for _ in range(count)], schema)
        if way < 0.985:
            return self.program._of_each(stream, lambda held: held.of_table(stream, table))
        return self.program._of_each(stream, lambda held: held.by_statement(stream, table))

    def states(self):
        """The state of each batch."""
        return [self.h(stream, rows) for stream, rows in self.drawing.batches(self.history)]

    def joined(self, states):
        """Join states in random order, some of them encoded and decoded."""
        waiting = [self.program.identity(), *states]
        while len(waiting) > 1:
            self.random.shuffle(waiting)
            left, right = waiting.pop(), waiting.pop()
            made = self.program.join(left, right)
            waiting.append(codec.decode(codec.encode(made)) if self.random.random() < 0.1 else made)
        return waiting[0]

    def answer(self, state):
        """The answer over a state, from the interpreter, Arrow or a statement: see `cases`."""
        answering = self.program.answering
        (name,) = answering._outputs
        return answering.rows(name, answering.tables(state)[name])

    def expected(self):
        """The interpreter's answer over all rows."""
        return answer(self.query, total(self.drawing.streams, self.history))


def cases(seeds, *, deletes=None):
    """Yield the cases of seeds; with and without deletions in turn, unless `deletes` says.

    One case of twelve is computed like large ones, for a third of the queries as if Arrow did not support them.
    """
    for seed in seeds:
        number = seed // HISTORIES
        with ExitStack() as stack:
            if seed % 12 == 11:
                stack.enter_context(patch.object(answering, "FEW", -1))
                stack.enter_context(patch.object(compact, "SMALL", 0))
            if number % 3 == 2:
                stack.enter_context(patch.object(answering, "planned", lambda *_: None))
            shared = drawn(number, deletes=number % 4 < 2 if deletes is None else deletes)
            if shared is not None:
                yield seed, Case(seed, shared)


def same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@seeds(QUICK)
def test_h_is_a_homomorphism(seeds):
    for seed, case in cases(seeds):
        stream = case.random.choice([*case.drawing.streams])
        rows = [(row, weight) for name, row, weight in case.history if name == stream]
        cut = case.random.randint(0, len(rows))
        parts = case.program.join(case.h(stream, rows[:cut]), case.h(stream, rows[cut:]))
        assert same_states(parts, case.h(stream, rows)), seed


def same_states(one, other):
    """Whether states are equal, floats up to the rounding of their sums."""
    pairs = [
        (sorted(dict(a.parts()).items(), key=order_key), sorted(dict(b.parts()).items(), key=order_key))
        for a, b in zip(one, other, strict=True)
    ]
    return all(same(a, b) for a, b in pairs)


@seeds(QUICK)
def test_merge_is_a_commutative_monoid(seeds):
    for seed, case in cases(seeds):
        if any(of.kind == "float64" for one in case.program.held for of in one.layout.schema.types):
            continue  # sums of floats are equal up to rounding
        encoded = {codec.encode(case.joined(case.states())) for _ in range(2)}
        assert len(encoded) == 1, seed


@seeds(QUICK)
def test_answer_is_the_query(seeds):
    for seed, case in cases(seeds):
        assert same(case.answer(case.joined(case.states())), case.expected()), seed


@seeds(QUICK)
def test_deletion_undoes_insertion(seeds):
    for seed, case in cases(seeds, deletes=True):
        noise = [(name, case.drawing.row(source)) for name, source in case.drawing.streams.items()]
        more = [*case.history, *((name, row, sign) for name, row in noise for sign in (1, -1))]
        case.random.shuffle(more)
        case.history = more
        assert same(case.answer(case.joined(case.states())), case.expected()), seed


@seeds(QUICK)
def test_support_decides(seeds):
    """A group exists iff it has rows, whatever its sums are: its rows are +x and -x of a key that stays, or come and go.

    A key may for some time have as many deletions as insertions, of other rows: its sums are kept until the rest comes.
    """
    source = Source("r", Schema.of(k=INT, x=INT), deletes=True)
    query = Group(source, (("k", column("k")),), (("s", Aggregate("sum", (column("x"),))),))
    program = QueryProgram(query)
    for seed in seeds:
        random = Random(seed)
        stays = {random.randrange(6) for _ in range(2)}
        changes = [((key, x, 1), 1) for key in stays for x in (1, -1)]
        changes += [((key, 5, weight), 1) for key in stays for weight in (1, -1)]
        changes += [((9, random.randrange(3), 1), 1), ((8, None, 1), 1)]
        changes += [((9, row[1], -1), 1) for row, _ in changes if row[0] == 9]
        random.shuffle(changes)
        state = program.identity()
        for row, count in changes:
            state = program.join(state, program._of_rows("r", {row: count}))
        found = program.answering.rows("answer", program.answering.tables(state)["answer"])
        assert found == [*((key, 0) for key in sorted(stays)), (8, None)], seed


@seeds(QUICK)
def test_places_agree(seeds):
    """DuckDB's planning takes the most time, so most queries have few nodes."""
    for seed in seeds:
        drawing = Drawing(Random(seed), deletes=seed % 2 == 0)
        query = drawing.query(depth=(4, 1, 1, 2, 2, 3, 1, 2, 1)[seed % 9])
        rows = total(drawing.streams, drawing.history())
        tables = {
            name: arrow_rows.to_arrow(
                [row for row, count in rows[name].items() for _ in range(count)], one.columns
            )
            for name, one in drawing.streams.items()
        }
        found = arrow_rows.from_arrow(duck.run(text_of(query), tables, query.schema), query.schema)
        found = found if query.is_ordered else sorted(found, key=order_key)
        assert same(found, answer(query, rows)), seed


def test_the_cases_reach_every_shape():
    """A generator without these shapes would not find mistakes in them."""
    shapes, found = Counter(), Counter()
    for seed in range(300):
        drawing = Drawing(Random(seed))
        drawing.query()
        shapes.update(dict.fromkeys(drawing.shapes, 1))
        history = drawing.history()
        seen = Counter()
        for name, row, weight in history:
            found["deletion first"] += weight < 0 and seen[name, row] <= 0
            seen[name, row] += weight
        for _, rows in drawing.batches(history):
            found["a row and its deletion in one batch"] += any(
                (row, -1) in rows for row, weight in rows if weight > 0
            )
        found["two occurrences of one stream"] += any(
            drawing.shapes[f"read {name}"] > 1 for name in drawing.streams
        )
        for name, rows in total(drawing.streams, history).items():
            groups = {}
            for row in rows:
                groups.setdefault(row[0], set()).add(row[1])
            found["a group of nulls only"] += {None} in groups.values()
            others = {
                row[0]
                for other, more in total(drawing.streams, history).items()
                if other != name
                for row in more
            }
            found["dangling keys"] += bool(set(groups) - others)
    assert all(count >= 20 for count in found.values()), found
    assert len(found) == 5
    wanted = {
        "inner",
        "left",
        "full",
        "semi",
        "anti",
        "union",
        "window",
        "expand",
        "collect",
        "median",
        "count distinct",
    }
    assert min(shapes[one] for one in wanted) >= 20, shapes


# Mutants: each is a mistake that one of the properties must find.


def dies(theorem, seeds=range(400)):
    """Whether a property finds a difference on some seed. Any other failure is an error in the mutant."""
    try:
        theorem(seeds)
    except AssertionError:
        return True
    return False


def test_mutant_partial_answers_are_joined_instead_of_inputs():
    left, right = Source("r", Schema.of(k=INT, a=INT)), Source("s", Schema.of(j=INT, d=INT))
    join = Join(left, right, ((column("k"), column("j")),))
    query = Group(join, (("a", column("a")),), (("t", Aggregate("sum", (column("d"),))),))
    wrong = right_ones = 0
    for seed in range(100):
        random = Random(seed)
        rows = {
            "r": [(key, random.randrange(3)) for key in random.sample(range(4), random.randrange(1, 5))],
            "s": [(random.randrange(4), random.randrange(1, 5)) for _ in range(random.randrange(1, 9))],
        }
        history = [(name, row, 1) for name in rows for row in rows[name]]
        halves = [], []
        for change in history:
            random.choice(halves).append(change)
        expected = dict(answer(query, total(rows, history)))
        partial = Counter()
        program = QueryProgram(query)
        state = program.identity()
        for half in halves:
            partial.update(dict(answer(query, total(rows, half))))
            for name, row, weight in half:
                state = program.join(state, program._of_rows(name, {(*row, weight): 1}))
        found = dict(program.answering.rows("answer", program.answering.tables(state)["answer"]))
        wrong += dict(partial) != expected
        right_ones += found == expected
    assert wrong > 50
    assert right_ones == 100


def test_mutant_runs_are_compared_as_they_are(monkeypatch):
    monkeypatch.setattr("dgs.query.compact.in_order", lambda table, layout: table)
    assert dies(test_merge_is_a_commutative_monoid)


def test_mutant_the_weights_of_the_other_sides_are_forgotten(monkeypatch):
    def only_first(self, without=()):
        leaves = [leaf for leaf in self.block.streams if leaf.counts and leaf not in without]
        return leaves[0].weight if leaves and not without else literal(1)

    monkeypatch.setattr(weighing.Reducing, "multiplicity", only_first)
    assert dies(test_answer_is_the_query)


def test_mutant_support_0_is_kept(monkeypatch):
    def keeping(into, key, parts, layout):
        before = into.get(key)
        into[key] = parts if before is None else tuple(map(runs._one, before, parts, layout.merges))

    for module in ("compact", "program"):
        monkeypatch.setattr(f"dgs.query.{module}.add_parts", keeping)
    monkeypatch.setattr("dgs.query.compact.runs.without_zeros", lambda table, layout: table)
    monkeypatch.setattr("dgs.query.compact.answering.check_support", lambda table, *_, **__: table)
    assert dies(test_support_decides)
    assert dies(test_deletion_undoes_insertion)


def test_a_group_goes_with_its_last_row_though_its_float_sum_does_not_cancel():
    source = Source("r", Schema.of(k=INT, x=FLOAT), deletes=True)
    query = Group(source, (("k", column("k")),), (("s", Aggregate("sum", (column("x"),))),))
    program = QueryProgram(query)
    state = program.identity()
    for x, sign in [(0.1, 1), (0.2, 1), (0.3, 1), (0.1, -1), (0.2, -1), (0.3, -1)]:
        state = program.join(state, program._of_rows("r", {(1, x, sign): 1}))
    assert len(state[0]) == 1  # the rest of the sum
    assert not len(program.answering.tables(state)["answer"])


def test_mutant_a_sum_of_only_nulls_is_0(monkeypatch):
    def total_without_count(self, argument, clause, one):
        return self._weighted("s", argument, clause, one.span)

    monkeypatch.setitem(weighing.Weighing._KINDS, "sum", total_without_count)
    assert dies(test_support_decides)
    assert dies(test_answer_is_the_query, range(0, 2000, 5))  # it needs one query and one history


def test_mutant_a_group_is_dropped_when_its_sum_is_0(monkeypatch):
    def dropping(into, key, parts, layout):
        runs.add_parts(into, key, parts, layout)
        if key in into and not all(into[key]):
            del into[key]

    monkeypatch.setattr("dgs.query.compact.add_parts", dropping)
    assert dies(test_support_decides)


def test_mutant_a_key_of_weight_0_is_dropped_from_a_partial_state(monkeypatch):
    def dropping(into, key, parts, layout):
        runs.add_parts(into, key, parts, layout)
        if key in into and not into[key][0]:
            del into[key]

    monkeypatch.setattr("dgs.query.compact.add_parts", dropping)
    assert dies(test_support_decides)


def test_mutant_a_left_join_is_an_inner_one(monkeypatch):
    class Joins(type):
        def __instancecheck__(cls, node):
            return isinstance(node, Join)

    class NeverLeft(metaclass=Joins):
        def __new__(cls, left, right, pairs, residual, how, *, span=None):
            return Join(left, right, pairs, residual, "inner" if how == "left" else how, span=span)

    monkeypatch.setattr("dgs.query.split.Join", NeverLeft)
    assert dies(test_answer_is_the_query)


@pytest.mark.parametrize(
    ("table", "name", "wrong"),
    [
        (FUNCTIONS, "div", "({0} // {1})"),
        (AGGREGATES, "collect", "list_sort(list({0}) FILTER (WHERE {0} IS NOT NULL))"),
    ],
    ids=["a quotient of integers", "no nulls in a bag"],
)
def test_mutant_a_text_means_something_else(monkeypatch, table, name, wrong):
    monkeypatch.setitem(table, name, replace(table[name], duckdb=wrong))
    assert dies(test_places_agree)


def test_a_product_of_two_streams_is_refused():
    left, right = Source("r", Schema.of(k=INT)), Source("s", Schema.of(j=INT))
    with pytest.raises(QueryError, match="Q302") as caught:
        QueryProgram(Map(Join(left, right), (("x", call("add", column("k"), column("j"))),)))
    assert "'r'" in str(caught.value)
    assert "'s'" in str(caught.value)
