"""The language of rules: where a rule applies, by its class, its conditions and the readers of a node."""

from __future__ import annotations

import pytest

pytest.importorskip("sqlglot")

from dgs.query.relation import Group, Map, Order, Script, Source, Union, Where, column
from dgs.query.rewrite import Distinct, Rules, calls, foreach_calls, pred, succ
from dgs.query.rewrite.graph_text import text_of
from dgs.query.rewrite.rewriting import rewritten_by
from dgs.query.scalar import call, literal
from dgs.query.types import INT, TEXT, Schema

STREAM = Source("s", Schema.of(a=INT, t=TEXT))
MORE = call("gt", column("a"), literal(1))
LESS = call("lt", column("a"), literal(1))


def script(**outputs):
    return Script(tuple(outputs.items()))


def made(rules, node):
    """Return a node after the rules."""
    return rewritten_by(script(out=node), [rules]).script.outputs[0][1]


def without(node):
    """The function of a rule that leaves a node out."""
    return node.input


def test_a_rule_that_merges_gets_a_node_and_its_input():
    rules = Rules("mine")

    @rules.to_merge(Where, Union)
    def filter_below_union(parent, child):
        return Union(tuple(Where(part, parent.predicate) for part in child.parts))

    found = made(rules, Where(Union((STREAM, STREAM)), MORE))
    assert found == Union((Where(STREAM, MORE), Where(STREAM, MORE)))


def test_a_rule_that_merges_finds_any_of_several_inputs():
    rules = Rules("mine")
    inner = Where(STREAM, MORE)
    rules.to_merge(Union, Where).apply_pattern(lambda parent, child: Union((parent.parts[0], child.input)))
    assert made(rules, Union((STREAM, inner))) == Union((STREAM, STREAM))


def test_a_rule_that_merges_leaves_a_node_alone_that_others_read():
    rules = Rules("mine")
    rules.to_merge(Where, Map).apply_pattern(lambda parent, child: child)
    shared = Map(STREAM, (("a", column("a")),))
    both = script(one=Where(shared, MORE), other=Where(shared, LESS))
    assert rewritten_by(both, [rules]).steps == ()
    twice = script(one=Union((Where(shared, MORE), Map(STREAM, (("a", column("a")),)))))
    assert rewritten_by(twice, [rules]).steps == (), "an equal node is the same node"
    alone = script(one=Where(shared, MORE), other=STREAM)
    assert len(rewritten_by(alone, [rules]).steps) == 1


def test_an_output_is_a_reader():
    rules = Rules("mine")
    rules.to_merge(Where, Map).apply_pattern(lambda parent, child: child)
    shared = Map(STREAM, (("a", column("a")),))
    assert rewritten_by(script(one=Where(shared, MORE), other=shared), [rules]).steps == ()


@pytest.mark.parametrize(
    ("draft", "applies_to"),
    [
        (lambda rules: rules.to_replace(Where), [MORE, LESS]),
        (lambda rules: rules.to_replace(Where).when(lambda node: node.predicate == MORE), [MORE]),
        (lambda rules: rules.to_replace(Where).unless(lambda node: node.predicate == MORE), [LESS]),
        (lambda rules: rules.to_replace(Where).when_matches(lambda node: () if node.predicate == MORE else None), [MORE]),
        (lambda rules: rules.to_replace(Where).unless_matches(lambda node: node.predicate == MORE), [LESS]),
        (lambda rules: rules.to_replace(Where).when(lambda _: True).and_(lambda node: node.predicate == LESS), [LESS]),
        (lambda rules: rules.to_replace(Where).when(lambda _: False).or_(lambda node: node.predicate == LESS), [LESS]),
        (lambda rules: rules.to_replace(Where).when(lambda _: False).or_(lambda _: True).and_(lambda _: False), []),
        (lambda rules: rules.to_replace(Where).when(lambda _: False).and_(lambda _: False).or_(lambda _: True), [MORE, LESS]),
        (lambda rules: rules.when(lambda node: isinstance(node, Where)), [MORE, LESS]),
        (lambda rules: rules.unless(lambda node: not isinstance(node, Where)), [MORE, LESS]),
        (lambda rules: rules.when_matches(lambda node: isinstance(node, Where) or None), [MORE, LESS]),
        (lambda rules: rules.unless_matches(lambda node: not isinstance(node, Where)), [MORE, LESS]),
    ],
)  # fmt: skip
def test_conditions_are_put_together_from_left_to_right(draft, applies_to):
    rules = Rules("mine")
    draft(rules).apply_pattern(without)
    assert [one for one in (MORE, LESS) if made(rules, Where(STREAM, one)) == STREAM] == applies_to


def test_conditions_of_a_rule_that_merges_get_both_nodes():
    rules = Rules("mine")

    @rules.to_merge(Where, Where).when(lambda parent, child: parent.predicate == child.predicate)
    def filtered_twice(_parent, child):
        return child

    assert made(rules, Where(Where(STREAM, MORE), MORE)) == Where(STREAM, MORE)
    assert made(rules, Where(Where(STREAM, LESS), MORE)) == Where(Where(STREAM, LESS), MORE)


def test_succ_and_pred_are_the_neighbours_of_a_node():
    seen = {}
    rules = Rules("mine")

    @rules.to_replace(Map)
    def look(node):
        seen["succ"], seen["pred"] = [type(one) for one in succ(node)], pred(node)

    node = Map(STREAM, (("a", column("a")),))
    made(rules, Union((Where(node, MORE), Order(node))))
    assert seen == {"succ": [Where, Order], "pred": (STREAM,)}


def test_a_map_that_calls_a_function_is_found_by_its_name():
    call_of_lower = Map(STREAM, (("a", column("a")), ("low", call("lower", column("t")))))
    assert foreach_calls("lower")(call_of_lower) == ["low"]
    assert foreach_calls("upper")(call_of_lower) is None
    assert foreach_calls("lower")(Where(STREAM, MORE)) is None
    assert calls(call("not", call("like", column("t"), literal("a%"))), "like")


def test_distinct_is_a_group_without_aggregates():
    node = Distinct(STREAM)
    assert node == Group(STREAM, (("a", column("a")), ("t", column("t"))))
    assert isinstance(node, Distinct)
    assert not isinstance(Group(STREAM, ()), Distinct)


def test_a_rule_of_scripts_gets_all_outputs():
    rules = Rules("mine")

    @rules.to_replace(Script)
    def without_filters(given):
        return Script(
            tuple((name, node.input if isinstance(node, Where) else node) for name, node in given.outputs)
        )

    found = rewritten_by(script(one=Where(STREAM, MORE), other=STREAM), [rules])
    assert found.script == script(one=STREAM, other=STREAM)
    assert [step.place for step in found.steps] == ["the script"]


def test_a_graph_is_drawn_with_shared_nodes():
    shared = Where(STREAM, MORE)
    assert text_of(script(one=Order(shared, limit=2), other=Distinct(shared))).splitlines() == [
        "one:",
        "  Order limit 2",
        "    Where a > 1",
        "      Source s",
        "other:",
        "  Group by a, t",
        "    Where a > 1",
        "      Source s",
    ]
