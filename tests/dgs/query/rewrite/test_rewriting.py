"""The engine of rewriting: its order, its guards with their texts, and its trace."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("sqlglot")

from dgs.job.loading import load_rules
from dgs.query.errors import QueryError
from dgs.query.relation import Group, Join, Key, Map, Order, Script, Source, Union, Where, column
from dgs.query.rewrite import Distinct, Rules, rewritten
from dgs.query.rewrite.rewriting import rewritten_by
from dgs.query.scalar import call, literal
from dgs.query.types import INT, Schema

STREAM = Source("s", Schema.of(a=INT))
MORE = call("gt", column("a"), literal(1))


def refused(rules, node=None, **options):
    """The error of rules on a script."""
    outputs = Script((("one", Where(STREAM, MORE) if node is None else node), ("other", STREAM)))
    with pytest.raises(QueryError) as caught:
        rewritten_by(outputs, rules, **options)
    assert caught.value.exit_code == 3
    return str(caught.value)


def rules_of(function, kind=Where, name="mine"):
    rules = Rules(name)
    rules.to_replace(kind).apply_pattern(function)
    return rules


def test_nodes_are_tried_from_the_outputs_down_and_rules_in_their_order():
    tried = []
    rules = Rules("mine")

    @rules.to_replace((Where, Map, Source))
    def first(node):
        tried.append(("first", type(node).__name__))

    @rules.to_replace((Where, Map, Source))
    def second(node):
        tried.append(("second", type(node).__name__))

    rewritten_by(Script.of(Where(Map(STREAM, (("a", column("a")),)), MORE)), [rules])
    assert tried == [(name, kind) for kind in ("Where", "Map", "Source") for name in ("first", "second")]


def test_rules_of_a_user_come_after_those_of_dgs_unless_they_name_another_phase():
    twice = Where(Where(STREAM, MORE), call("lt", column("a"), literal(9)))
    late, early = rules_of(lambda node: node.input, name="late"), Rules("early", "normal")
    early.to_replace(Source).unless(lambda node: node.deletes).apply_pattern(
        lambda node: Source(node.name, node.columns, deletes=True)
    )
    found = rewritten(twice, [late, early])
    assert [(step.phase, step.rule.partition(".")[0]) for step in found.steps] == [
        ("normal", "normal"), ("normal", "early"), ("user", "late"),
    ]  # fmt: skip


def test_rules_for_spark_are_tried_on_spark_only():
    rules = Rules("mine", "spark")
    rules.to_replace(Where).apply_pattern(lambda node: node.input)
    assert rewritten(Where(STREAM, MORE), [rules]).steps == ()
    assert len(rewritten(Where(STREAM, MORE), [rules], on_spark=True).steps) == 1


def test_a_rule_that_raises_is_named():
    def broken(node):
        return node.parts

    assert refused([rules_of(broken)]).splitlines() == [
        "Q601: rule mine.broken raised AttributeError: 'Where' object has no attribute 'parts' at one",
        "    Mend the rule, or leave it out.",
    ]


def test_a_rule_that_returns_no_node_is_named():
    def broken(_node):
        return "a filter"

    assert refused([rules_of(broken)]).splitlines()[0] == (
        "Q601: rule mine.broken returned 'a filter' at one, where a Relation or None is due"
    )


def test_a_rule_that_changes_columns_is_named_with_its_place():
    def renamed(node):
        return Map(node.input, (("b", column("a")),))

    node = Union((STREAM, Where(STREAM, MORE)))
    assert refused([rules_of(renamed)], node).splitlines() == [
        "Q602: rule mine.renamed makes a node with columns (b int64) of one with (a int64), at one / part 1",
        "    A rule keeps the columns of a node, and all outputs.",
    ]


def test_a_rule_that_makes_a_wrong_node_is_named():
    def wrong(node):
        return Where(node.input, call("gt", column("c"), literal(1)))

    assert (
        refused([rules_of(wrong)])
        .splitlines()[0]
        .startswith("Q602: rule mine.wrong makes a node that is wrong: no column 'c'")
    )


def test_a_rule_that_drops_an_output_is_named():
    def first_only(given):
        return Script(given.outputs[:1])

    assert refused([rules_of(first_only, Script)]).splitlines()[0] == (
        "Q602: rule mine.first_only drops the output 'other', at the script"
    )


def test_a_rule_that_reads_a_stream_of_its_own_is_named():
    def other_stream(node):
        return Where(Source("t", STREAM.columns), node.predicate)

    assert refused([rules_of(other_stream)]).splitlines()[0] == (
        "Q602: rule mine.other_stream reads 't', which the script does not, at one"
    )


def test_two_rules_that_undo_each_other_are_both_named():
    rules = Rules("mine")

    @rules.to_merge(Where, Distinct)
    def filter_below_distinct(parent, child):
        return Group(Where(child.input, parent.predicate), child.keys)

    @rules.to_merge(Distinct, Where)
    def filter_above_distinct(parent, child):
        return Where(Group(child.input, parent.keys), child.predicate)

    assert refused([rules], Order(Where(Distinct(STREAM), MORE))).splitlines() == [
        "Q603: rules undo each other: mine.filter_below_distinct -> mine.filter_above_distinct -> mine.filter_below_distinct, at one / input",
        "    Leave one of them out, or let a condition say which form is the better one.",
    ]


def test_a_circle_names_only_its_own_rules():
    rules = Rules("mine")
    rules.to_replace(Where).when(lambda node: node.predicate != MORE).apply_pattern(
        lambda node: Where(node.input, MORE)
    )

    @rules.to_replace(Order)
    def turned(node):
        return Order(node.input, (), 3 - node.limit)

    node = Order(Where(STREAM, call("lt", column("a"), literal(0))), (), 1)
    text = refused([rules], node)
    assert "mine.turned -> mine.turned -> mine.turned" in text
    assert "lambda" not in text


def test_a_rule_without_end_is_named():
    def filter_again(node):
        return Where(node, call("gt", column("a"), literal(0)))

    assert refused([rules_of(filter_again)], most_steps=50).splitlines() == [
        "Q604: rules come to no end: after 50 steps rule mine.filter_again still applies, at one",
        "    A rule must make something that it does not apply to again, in the end.",
    ]


def test_a_node_is_replaced_wherever_it_is_read():
    shared = Where(STREAM, MORE)
    renamed = Map(shared, (("b", column("a")),))
    node = Join(shared, renamed, ((column("a"), column("b")),))
    found = rewritten_by(Script.of(node), [rules_of(lambda one: one.input)])
    assert len(found.steps) == 1
    assert found.script == Script.of(
        Join(STREAM, Map(STREAM, (("b", column("a")),)), ((column("a"), column("b")),))
    )


def test_the_trace_has_each_step_as_text_and_as_data():
    (step,) = rewritten(Where(Union((STREAM,)), MORE)).steps
    assert str(step).splitlines() == [
        "1. normal: normal.union_of_one at answer / input",
        "  before",
        "    Union",
        "      Source s",
        "  after",
        "    Source s",
    ]
    assert json.loads(json.dumps(step.to_json())) == {
        "number": 1,
        "phase": "normal",
        "rule": "normal.union_of_one",
        "place": "answer / input",
        "before": "Union\n  Source s",
        "after": "Source s",
    }


def test_rules_are_loaded_from_a_file(tmp_path):
    (tmp_path / "rules.py").write_text(
        'from dgs.query.rewrite import Rules\nmine, late, one = Rules("mine"), Rules("late", "last"), 1\n'
    )
    assert [rules.name for rules in load_rules(["rules.py:mine"], tmp_path)] == ["mine"]
    for name, problem in (
        ("one", "Q601: rules.py:one is an int, not Rules"),
        ("late", "Q601: rules.py:late has the phase 'last'"),
    ):
        with pytest.raises(QueryError) as caught:
            load_rules([f"rules.py:{name}"], tmp_path)
        assert str(caught.value).splitlines()[0] == problem


def test_a_map_keeps_the_order_that_it_hides():
    by = Order(STREAM, (Key(column("a"), descending=True),))
    hidden = Map(by, (("b", call("neg", column("a"))),))
    assert rewritten(hidden).script.outputs[0][1] == hidden
