"""Wrong rules are found by the answers that they change, with at most three rows."""

from __future__ import annotations

import pytest

pytest.importorskip("sqlglot")

from dgs.check.options import Options
from dgs.check.queries import rule_results
from dgs.query.aggregates import Aggregate
from dgs.query.relation import Expand, Group, Join, Key, Map, Order, Script, Source, Union, Where, column
from dgs.query.rewrite import Distinct, Rules, rewritten
from dgs.query.scalar import call, conjuncts, literal, substituted
from dgs.query.types import INT, TEXT, TIME, Schema

ORDERS = Source("orders", Schema.of(id=INT, customer=INT, price=INT))
VISITS = Source("visits", Schema.of(at=TIME))
CUSTOMERS = Source("customers", Schema.of(name=TEXT, number=INT))
PAIR = ((column("customer"), column("number")),)
DEAR = call("gt", column("price"), literal(1))
BY_CUSTOMER = Group(
    ORDERS,
    (("customer", column("customer")),),
    (("total", Aggregate("sum", (column("price"),))), ("n", Aggregate("count"))),
)

WRONG = {}


def wrong(node):
    """Note a wrong rule, and a script to which it applies."""

    def add(write):
        rules = Rules("mine")
        write(rules)
        WRONG[write.__name__] = (rules, node)
        return write

    return add


@wrong(Where(BY_CUSTOMER, call("gt", column("total"), literal(2))))
def filter_through_an_aggregate(rules):
    @rules.to_merge(Where, Group)
    def rule(parent, child):
        given = {name: one.arguments[0] for name, one in child.aggregates if one.arguments}
        return Group(Where(child.input, substituted(parent.predicate, given)), child.keys, child.aggregates)


@wrong(Order(Union((ORDERS, Where(ORDERS, DEAR))), (Key(column("price")),), 2))
def limit_below_union(rules):
    @rules.to_merge(Order, Union)
    def rule(parent, child):
        return Union(tuple(Order(part, parent.by, parent.limit) for part in child.parts))


@wrong(Script((("dear", Where(BY_CUSTOMER, call("gt", column("n"), literal(1)))), ("all", BY_CUSTOMER))))
def swap_across_a_fan_out(rules):
    @rules.to_replace(Script)
    def rule(given):
        (dear, node), (every, shared) = given.outputs
        return Script(((dear, node), (every, node))) if node is not shared else None


@wrong(Distinct(Union((ORDERS, Where(ORDERS, DEAR)))))
def distinct_below_union(rules):
    @rules.to_merge(Distinct, Union)
    def rule(_parent, child):
        return Union(tuple(Distinct(part) for part in child.parts))


@wrong(Where(Join(ORDERS, CUSTOMERS, PAIR, how="left"), call("eq", column("name"), literal("a"))))
def filter_of_the_optional_side_below_a_left_join(rules):
    @rules.to_merge(Where, Join)
    def rule(parent, child):
        return Join(child.left, Where(child.right, parent.predicate), child.pairs, how="left")


@wrong(Join(ORDERS, CUSTOMERS, PAIR, call("gt", column("price"), literal(1)), "left"))
def condition_on_the_kept_side_below_a_left_join(rules):
    @rules.to_replace(Join).when(lambda node: node.residual is not None)
    def rule(node):
        return Join(Where(node.left, node.residual), node.right, node.pairs, how="left")


@wrong(Join(ORDERS, CUSTOMERS, PAIR, how="semi"))
def semi_join_as_a_join(rules):
    @rules.to_replace(Join).when(lambda node: node.how == "semi")
    def rule(node):
        joined = Join(node.left, node.right, node.pairs)
        return Map(joined, tuple((name, column(name)) for name in node.schema.names))


@wrong(Group(ORDERS, (), (("n", Aggregate("count", (column("price"),))),)))
def count_of_a_column_as_count_of_rows(rules):
    @rules.to_replace(Group).when(lambda node: node.aggregates[0][1].arguments)
    def rule(node):
        return Group(node.input, node.keys, (("n", Aggregate("count")),))


@wrong(Where(ORDERS, call("not", DEAR)))
def negation_without_null(rules):
    @rules.to_replace(Where).when(lambda node: node.predicate.this == "not")
    def rule(node):
        kept = call("coalesce", node.predicate, literal(True))
        return Where(node.input, kept)


@wrong(Where(Group(ORDERS, (), (("n", Aggregate("count")),)), call("gt", column("n"), literal(0))))
def group_without_keys_as_one_that_may_be_empty(rules):
    @rules.to_merge(Where, Group)
    def rule(_parent, child):
        return child


@wrong(Group(Order(ORDERS, (Key(column("price")),), 1), (), (("s", Aggregate("sum", (column("price"),))),)))
def limit_left_out_below_a_group(rules):
    @rules.to_merge(Group, Order)
    def rule(parent, child):
        return Group(child.input, parent.keys, parent.aggregates)


@wrong(
    Distinct(
        Map(
            Expand(CUSTOMERS, call("split", column("name"), literal("a")), "part"),
            (("part", column("part")),),
        )
    )
)
def distinct_left_out_where_items_repeat(rules):
    @rules.to_replace(Distinct)
    def rule(node):
        return node.input


@wrong(Map(VISITS, (("since", call("trunc_month", column("at"))),)))
def the_year_for_the_month(rules):
    @rules.to_replace(Map).when(lambda node: node.fields[0][1].this == "trunc_month")
    def rule(node):
        return Map(node.input, (("since", call("trunc_year", column("at"))),))


MAY = call("to_time", literal("2023-05-01"))


@wrong(Where(VISITS, call("gte", column("at"), MAY)))
def a_time_that_is_no_longer_in_it(rules):
    @rules.to_replace(Where).when(lambda node: node.predicate == call("gte", column("at"), MAY))
    def rule(node):
        return Where(node.input, call("gt", column("at"), MAY))


@wrong(Join(ORDERS, CUSTOMERS, PAIR, how="anti"))
def anti_join_as_a_join_without_partner(rules):
    @rules.to_replace(Join).when(lambda node: node.how == "anti")
    def rule(node):
        joined = Where(Join(node.left, node.right, node.pairs, how="left"), call("isnull", column("name")))
        return Map(joined, tuple((name, column(name)) for name in node.schema.names))


@wrong(
    Group(
        Group(ORDERS, (("id", column("id")),), (("a", Aggregate("avg", (column("price"),))),)),
        (),
        (("m", Aggregate("avg", (column("a"),))),),
    )
)
def average_of_averages(rules):
    @rules.to_merge(Group, Group)
    def rule(parent, child):
        return Group(child.input, (), (("m", child.aggregates[0][1]),))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found_with_at_most_three_rows(name):
    rules, node = WRONG[name]
    steps = [step for step in rewritten(node, [rules]).steps if step.phase == "user"]
    assert steps
    (found,) = rule_results(steps, Options())
    assert found.is_broken, name
    assert found.law == "Q605 mine.rule"
    assert len(found.story) <= 3
    text = str(found)
    assert "before:" in text
    assert "after:" in text


def test_ten_wrong_rules_are_tried():
    assert len(WRONG) >= 10


def test_the_report_of_a_wrong_rule_shows_input_answers_and_both_graphs():
    rules, node = WRONG["distinct_below_union"]
    (found,) = rule_results(rewritten(node, [rules]).steps, Options())
    assert str(found).splitlines() == [
        "  BROKEN    Q605 mine.rule: the rule keeps the answer",
        "",
        "    rule mine.rule, at answer, changes 'answer' of 1 row",
        "      orders  (0, 0, 2)",
        "    before = [{'id': 0, 'customer': 0, 'price': 2}]",
        "    after  = [{'id': 0, 'customer': 0, 'price': 2}, {'id': 0, 'customer': 0, 'price': 2}]",
        "    hint: a rule must keep the answer for every input",
        "      before:",
        "        Group by id, customer, price",
        "          Union",
        "            Source orders",
        "            Where price > 1",
        "              Source orders",
        "      after:",
        "        Union",
        "          Group by id, customer, price",
        "            Source orders",
        "          Group by id, customer, price",
        "            Where price > 1",
        "              Source orders",
    ]


def test_a_rule_that_keeps_the_answer_holds():
    steps = rewritten(Where(Where(ORDERS, DEAR), call("lt", column("id"), literal(2)))).steps
    assert [(one.law, one.status, one.examples) for one in rule_results(steps, Options(max_examples=30))] == [
        ("Q605 normal.one_filter", "holds", 30)
    ]


def test_a_rule_that_makes_a_query_fail_is_found():
    rules = Rules("mine")

    @rules.to_replace(Where).when(lambda node: len(conjuncts(node.predicate)) == 1)
    def divided(node):
        return Where(
            node.input,
            call("and", node.predicate, call("gte", call("intdiv", literal(4), column("id")), literal(-4))),
        )

    (found,) = rule_results(
        rewritten(Where(ORDERS, call("gte", column("id"), literal(-9))), [rules]).steps, Options()
    )
    assert found.is_broken
    assert "Q704" in str(found)
