"""The rules of dgs: each keeps the answer on random scripts, any order of rules gives the same form, and examples of each."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("sqlglot")

from dgs.check.options import Options
from dgs.check.queries.rule_results import difference
from dgs.query.aggregates import Aggregate
from dgs.query.relation import Group, Join, Map, Script, Source, Where, Window, column
from dgs.query.rewrite import BUNDLED, Rules, rewritten
from dgs.query.rewrite.graph_text import text_of
from dgs.query.rewrite.rewriting import rewritten_by
from dgs.query.rewrite.shared_graph import Numbering, SharedGraph
from dgs.query.scalar import ITEMS, Nested, call, field, literal, struct
from dgs.query.types import INT, TEXT, Schema
from tests.dgs.query.random_scripts import RandomScripts

QUICK = 50
ALL = [(rules, rule) for rules in BUNDLED for rule in rules]
MOST_SEEDS = 40
"""The most random scripts to try for one to which a rule applies."""
STREAM = Source("s", Schema.of(k=TEXT, a=INT.required()))
SHAPES = {
    "one_filter": ("where", "where"),
    "filter_of_true": ("true",),
    "map_of_nothing": ("same",),
    "one_map": ("map", "map"),
    "union_of_one": ("union",),
    "one_union": ("union", "union"),
    "one_distinct": ("distinct", "distinct"),
    "unseen_order": ("order", "where"),
    "constants_folded": ("where", "where"),
    "filter_below_map": ("map", "where"),
    "filter_below_union": ("union", "where"),
    "filter_below_join": ("join", "where"),
    "condition_below_join": ("join",),
    "pairs_from_filter": ("join",),
    "filter_below_group": ("group", "where"),
    "filter_below_expand": ("expand", "where"),
    "map_below_union": ("union", "map"),
    "columns_below_join": ("join", "map"),
    "unread_aggregates": ("group", "map"),
    "aggregate_of_bag": ("collected",),
    "filter_below_window": ("window", "where"),
    "unread_window": ("window",),
}
"""For each rule the last steps of scripts to which it often applies."""


@pytest.mark.parametrize(
    "graphs", [pytest.param(QUICK, id="quick"), pytest.param(1000, id="long", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("rules", "rule"), ALL, ids=[rule.name for _, rule in ALL])
def test_rules_keep_the_answer(rules, rule, graphs):
    """Each rule alone, wherever it applies, on random graphs."""
    alone = Rules(rules.name, rules.phase, [rule])
    fired, inputs = 0, Options(max_examples=2 if graphs == QUICK else 15)
    for seed in range(MOST_SEEDS * graphs):
        shape = SHAPES[rule.name] if graphs == QUICK or seed % 2 else ()
        steps = rewritten_by(RandomScripts(seed, shape).script(), [alone]).steps
        if steps:
            fired += 1
            found, _ = difference(steps[0].script_before, steps[-1].script_after, inputs)
            assert found is None, (
                f"seed {seed}: {found}\n{text_of(steps[0].before)}\n{text_of(steps[-1].after)}"
            )
        if fired == graphs:
            return
    pytest.fail(f"the rule applied to {fired} of {MOST_SEEDS * graphs} graphs")


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 2000), marks=pytest.mark.slow)], ids=len)
def test_all_rules_together_keep_the_answer(seeds):
    for seed in seeds:
        script = RandomScripts(seed).script()
        found, _ = difference(script, rewritten(script).script, Options(max_examples=5))
        assert found is None, f"seed {seed}: {found}"


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 1500), marks=pytest.mark.slow)], ids=len)
def test_rules_are_confluent(seeds):
    """Any order of the rules of a phase gives the same form."""
    for seed in seeds:
        numbering, forms = Numbering(), set()
        for order in range(4):
            rnd = random.Random(order)
            shuffled = [Rules(one.name, one.phase, rnd.sample(one.all, len(one.all))) for one in BUNDLED]
            found = rewritten_by(RandomScripts(seed).script(), shuffled).script
            forms.add(SharedGraph(found, numbering).key)
        assert len(forms) == 1, f"seed {seed}"


def form(node):
    return text_of(rewritten(node).script.outputs[0][1]).splitlines()


def of_bag(bag, function, *arguments, query=lambda items: items, columns=("k", "a")):
    """An aggregate of a bag's items, as front ends write it."""
    types = {"k": TEXT, "a": INT}
    items = query(Source(ITEMS, Schema(tuple((name, types[name]) for name in columns)), changes=False))
    one = Group(items, (), (("value", Aggregate(function, arguments)),))
    return field(call("list_extract", Nested(this=bag, query=one), literal(1)), "value")


BAG = Group(
    STREAM, (("k", column("k")),), (("bag", Aggregate("collect", (struct(k=column("k"), a=column("a")),))),)
)


def test_aggregates_of_a_bag_build_no_bag():
    node = Map(
        BAG,
        (
            ("k", column("k")),
            ("n", call("array_size", column("bag"))),
            ("s", of_bag(column("bag"), "sum", column("a"))),
        ),
    )
    assert form(node) == [
        "Map k, n = made_1, s = made_2",
        "  Group by k: made_1 = count(), made_2 = sum(a)",
        "    Source s",
    ]


def test_an_aggregate_of_a_filtered_bag_has_a_condition():
    some = of_bag(
        column("bag"), "count", query=lambda items: Where(items, call("gt", column("a"), literal(1)))
    )
    node = Map(BAG, (("k", column("k")), ("n", some)))
    assert form(node) == ["Map k, n = made_1", "  Group by k: made_1 = count() where a > 1", "    Source s"]


def test_an_aggregate_of_different_items_is_distinct():
    different = of_bag(
        column("bag"),
        "count",
        query=lambda items: Group(Map(items, (("a", column("a")),)), (("a", column("a")),)),
    )
    node = Map(BAG, (("k", column("k")), ("n", different)))
    assert form(node) == [
        "Map k, n = made_1",
        "  Group by k: made_1 = count(distinct <a: a>)",
        "    Source s",
    ]


def test_a_bag_is_still_built_where_something_else_reads_it():
    node = Map(BAG, (("k", column("k")), ("n", call("array_size", column("bag"))), ("bag", column("bag"))))
    assert "bag = collect" in form(node)[1]


def test_aggregates_of_bags_on_both_sides_of_a_full_join():
    other = Group(
        Map(STREAM, (("k2", column("k")), ("a2", column("a")))), (("k2", column("k2")),),
        (("bag2", Aggregate("collect", (column("a2"),))),),
    )  # fmt: skip
    joined = Join(BAG, other, ((column("k"), column("k2")),), how="full")
    fields = (
        ("k", column("k")),
        ("n", call("array_size", column("bag"))),
        ("s", call("list_sum", column("bag2"))),
    )
    found = "\n".join(form(Map(joined, fields)))
    assert "collect" not in found
    assert "count()" in found
    assert "sum(a2)" in found


def test_equalities_in_a_filter_become_pairs_and_conditions_go_to_their_sides():
    other = Map(STREAM, (("k2", column("k")), ("a2", column("a"))))
    wanted = call("and", call("eq", column("k2"), column("k")), call("gt", column("a2"), literal(3)))
    assert form(Where(Join(STREAM, other), wanted)) == [
        "Join inner on k = k2",
        "  Source s",
        "  Map k2 = k, a2 = a",
        "    Where a > 3",
        "      Source s",
    ]


def test_a_filter_that_can_fail_sees_no_more_rows():
    joined = Join(STREAM, Map(STREAM, (("k2", column("k")),)), ((column("k"), column("k2")),))
    node = Where(joined, call("gt", call("intdiv", literal(1), column("a")), literal(0)))
    assert form(node)[0].startswith("Where")


def test_windows_that_nothing_reads_are_left_out():
    once = Map(Window(STREAM, 10, 10, at="a"), (("k", column("k")),))
    assert form(once) == ["Map k", "  Where not(a is null)", "    Source s"]
    twice = Map(Window(STREAM, 10, 5, at="a"), (("k", column("k")),))
    assert "Window" in form(twice)[1]


def test_node_of_two_outputs_stays_one_node():
    shared = Group(STREAM, (("k", column("k")),), (("n", Aggregate("count")),))
    made = rewritten(
        Script((("one", Where(shared, call("eq", column("k"), literal("x")))), ("other", shared)))
    ).script
    assert made.outputs[0][1].input is made.outputs[1][1]
