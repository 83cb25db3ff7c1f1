"""Drawings of plans: as a text tree, in Mermaid and DOT, and as SVG.

>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.model.tags import kind
>>> from dgs.model.tag_sets import TagSet
>>> from dgs.planner.plan import PlanNode
>>> VALUE, BARRIER = kind("value"), kind("barrier")
>>> leaves = [PlanNode(f"w{i}", ImplTagSet.of({f"values/{i}": TagSet.of(VALUE)})) for i in (1, 2)]
>>> plan = Plan(PlanNode("w0", ImplTagSet.of(barriers=TagSet.of(BARRIER)), children=tuple(leaves)))
>>> print(as_text(plan))
w0: barrier from barriers
├── w1: value from values/1
└── w2: value from values/2
>>> print(as_mermaid(plan))
flowchart TD
  n0["w0<br/>barrier from barriers"]
  n1["w1<br/>value from values/1"]
  n2["w2<br/>value from values/2"]
  n0 --- n1
  n0 --- n2
"""

from __future__ import annotations

from collections.abc import Iterable

from dgs.planner.drawing.labels import lines
from dgs.planner.drawing.svg import as_svg
from dgs.planner.plan import Plan

__all__ = ["as_dot", "as_mermaid", "as_svg", "as_text", "dot_text", "mermaid_text"]


def as_text(plan: Plan) -> str:
    """Return the plan as an indented tree, one line per worker."""
    rows = []
    stack = [(plan.root, "", "")]
    while stack:
        node, lead, under = stack.pop()
        head, *owned = lines(node, plan)
        rows.append(f"{lead}{head}: {'; '.join(owned)}")
        last = len(node.children) - 1
        for i, child in reversed(list(enumerate(node.children))):
            branch, rail = ("└── ", "    ") if i == last else ("├── ", "│   ")
            stack.append((child, under + branch, under + rail))
    return "\n".join(rows)


def as_mermaid(plan: Plan) -> str:
    """Return the plan as a Mermaid flowchart."""
    numbers = _numbers(plan)
    rows = ["flowchart TD"]
    rows += [f'  n{numbers[id(node)]}["{mermaid_text(lines(node, plan))}"]' for node in plan.nodes()]
    rows += [f"  n{a} --- n{b}" for a, b in _edges(plan, numbers)]
    return "\n".join(rows)


def as_dot(plan: Plan) -> str:
    """Return the plan in Graphviz's language."""
    numbers = _numbers(plan)
    rows = ["graph plan {", "  node [shape=box, fontname=sans];"]
    rows += [f'  n{numbers[id(node)]} [label="{dot_text(lines(node, plan))}"];' for node in plan.nodes()]
    rows += [f"  n{a} -- n{b};" for a, b in _edges(plan, numbers)]
    return "\n".join([*rows, "}"])


def mermaid_text(label: Iterable[str]) -> str:
    """Return the lines of a label, escaped for Mermaid: special characters become numbered entities."""
    return "<br/>".join(
        "".join(c if c.isalnum() or c in " .,:_-/" else f"#{ord(c)};" for c in line) for line in label
    )


def dot_text(label: Iterable[str]) -> str:
    """Return the lines of a label, escaped for Graphviz."""
    return "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in label)


def _numbers(plan: Plan) -> dict[int, int]:
    return {id(node): i for i, node in enumerate(plan.nodes())}


def _edges(plan: Plan, numbers: dict[int, int]) -> list[tuple[int, int]]:
    return [(numbers[id(node)], numbers[id(child)]) for node in plan.nodes() for child in node.children]
