"""Drawings show every worker, escape what users name, and do not overlap."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.errors import UsageError
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.impl_tags import ImplTagSet
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag, kind
from dgs.planner.drawing.dependence_graph import dependence_dot, dependence_mermaid
from dgs.planner.drawing.explain import as_explanation, explain
from dgs.planner.drawing.svg import tidy
from dgs.planner.drawing.text import as_dot, as_mermaid, as_svg, as_text
from dgs.planner.optimizers.atoms import Atom
from dgs.planner.optimizers.by_name import plan
from dgs.planner.plan import Plan, PlanNode
from dgs.planner.topology import Stream, Topology
from tests.planner.instances import instances

VALUE, BARRIER, VIEW = kind("value"), kind("barrier"), kind("view", key=str)
SVG = "{http://www.w3.org/2000/svg}"


class Window(Program):
    depends = Dependence((BARRIER, VALUE, ALWAYS), (BARRIER, BARRIER, ALWAYS), (VIEW, VIEW, SAME_KEY))
    accumulates = (VALUE,)

    def identity(self):
        return 0

    def join(self, left, right):
        return left + right


def nasty(name='<b>"x"&\\'):
    leaves = [
        PlanNode(f"w{i}", ImplTagSet.of({f"v{i}": TagSet.of(Tag("view", name))}), node="m<1>")
        for i in range(2)
    ]
    return Plan(PlanNode("w\x00", ImplTagSet(), children=tuple(leaves)))


def test_text_tree_draws_branches():
    deep = PlanNode("b", ImplTagSet(), children=(PlanNode("c", ImplTagSet()), PlanNode("d", ImplTagSet())))
    drawn = as_text(Plan(PlanNode("a", ImplTagSet(), children=(deep, PlanNode("e", ImplTagSet())))))
    leads = [line.split(":")[0] for line in drawn.splitlines()]
    assert leads == ["a", "├── b", "│   ├── c", "│   └── d", "└── e"]


def test_state_types_are_shown_only_where_there_are_several():
    one, two = PlanNode("x", ImplTagSet(), "sum"), PlanNode("y", ImplTagSet(), "sum")
    assert "sum" not in as_text(Plan(PlanNode("a", ImplTagSet(), "sum", children=(one, two))))
    assert "x : sum" in as_text(Plan(PlanNode("a", ImplTagSet(), "home", children=(one, two))))


def test_many_tags_are_counted_rather_than_listed():
    node = PlanNode("w0", ImplTagSet.of(s=TagSet.of(*(VIEW(str(i)) for i in range(500)))))
    assert "and 495 more" in as_text(Plan(node))
    assert len(as_text(Plan(node))) < 200


@settings(max_examples=20, deadline=None)
@given(instances(), st.integers(0, 10**6))
def test_every_drawing_has_every_worker_and_edge(instance, seed):
    program, topology = instance
    made = plan(program, topology, name="random", seed=seed)
    edges = len(made) - 1
    assert len(as_text(made).splitlines()) == len(made)
    assert as_mermaid(made).count("[") == len(made)
    assert as_mermaid(made).count(" --- ") == edges
    assert as_dot(made).count("[label=") == len(made)
    assert as_dot(made).count(" -- ") == edges
    drawn = ET.fromstring(as_svg(made))
    assert len(drawn.findall(f".//{SVG}rect")) == len(made)
    assert len(drawn.findall(f".//{SVG}path")) == edges


def test_svg_escapes_names_of_users():
    texts = [element.text for element in ET.fromstring(as_svg(nasty())).iter(f"{SVG}text")]
    assert any('view(\'<b>"x"&' in text for text in texts)
    assert "w\N{REPLACEMENT CHARACTER}" in texts


def test_mermaid_and_dot_escape_names_of_users():
    labels = re.findall(r'\["(.*)"\]', as_mermaid(nasty()))
    assert len(labels) == 3
    assert not any(c in label.replace("<br/>", "") for label in labels for c in "<>\"'&\\[]()")
    for label in re.findall(r'\[label="(.*)"\];', as_dot(nasty())):
        assert re.fullmatch(r'([^"\\]|\\["\\n])*', label)


@settings(max_examples=50, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_tidy_layout_has_no_overlaps_and_centres_parents(rnd, size):
    parents = [None, *(rnd.randrange(i) for i in range(1, size))]
    children = [[j for j in range(size) if parents[j] == i] for i in range(size)]
    widths = [float(rnd.randint(1, 9)) for _ in range(size)]
    centres = tidy(widths, children, gap=1.0)
    assert min(x - w / 2 for x, w in zip(centres, widths, strict=True)) == pytest.approx(0.0)
    level = [0]
    while level:
        for a, b in pairwise(level):
            assert centres[a] + widths[a] / 2 + 1.0 <= centres[b] - widths[b] / 2 + 1e-9
        for i in level:
            if children[i]:
                middle = (centres[children[i][0]] + centres[children[i][-1]]) / 2
                assert centres[i] == pytest.approx(middle)
        level = [j for i in level for j in children[i]]


def test_dependence_graph_is_drawn_with_loops():
    atoms = [Atom("b", "barrier"), Atom("v", "value")]
    assert dependence_mermaid(Window(), atoms).splitlines()[-2:] == ["  t0 --- t0", "  t0 --- t1"]
    assert dependence_dot(Window(), atoms).splitlines()[-3:] == ["  t0 -- t0;", "  t0 -- t1;", "}"]


def test_dependence_graph_of_a_topology_is_drawn():
    streams = [Stream("b", TagSet.of(BARRIER)), Stream("v", TagSet.of(VALUE))]
    assert "barrier from b" in dependence_mermaid(Window(), Topology(streams))


def test_unreadably_large_dependence_graphs_are_refused():
    with pytest.raises(UsageError, match="500 implementation tags"):
        dependence_dot(Window(), [Atom(f"s{i}", "value") for i in range(500)])


def example():
    streams = [
        Stream("b", TagSet.of(BARRIER), other_rate=1.0),
        Stream("odd", TagSet.of(VIEW("x")), other_rate=4.0),
    ]
    streams += [Stream(f"v{i}", TagSet.of(VALUE), other_rate=50.0) for i in range(2)]
    leaves = [PlanNode(f"w{i + 1}", ImplTagSet.of({f"v{i}": TagSet.of(VALUE)})) for i in range(2)]
    own = ImplTagSet.of(b=TagSet.of(BARRIER), odd=TagSet.of(VIEW("x")))
    return Plan(PlanNode("w0", own, children=tuple(leaves))), Topology(streams)


def test_explanations_say_what_each_tag_joins_and_waits_for():
    made, topology = example()
    barrier, view, *values = explain(made, Window(), topology)
    assert (barrier.node, barrier.rate, barrier.joins) == ("w0", 1.0, ("w1", "w2"))
    assert dict(barrier.because) == {"w1": "value", "w2": "value"}
    assert dict(view.because) == {}
    assert [(one.node, dict(one.waits_for), one.beside, one.accumulates) for one in values] == [
        ("w1", {"w0": "barrier"}, ("w2",), True),
        ("w2", {"w0": "barrier"}, ("w1",), True),
    ]
    assert sum(one.share for one in explain(made, Window(), topology)) == pytest.approx(1.0)


def test_explanations_point_out_tags_that_need_not_be_above():
    made, topology = example()
    assert "nothing below depends on it" in as_explanation(explain(made, Window(), topology))
