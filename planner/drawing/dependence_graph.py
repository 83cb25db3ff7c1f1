"""Drawings of the dependence graph, for `dgs explain`: an edge joins tags whose events must stay in order.

>>> from dgs.model.dependence import ALWAYS, Dependence
>>> from dgs.model.tags import kind
>>> VALUE, BARRIER = kind("value"), kind("barrier")
>>> class Sum(Program):
...     depends = Dependence((BARRIER, VALUE, ALWAYS), (BARRIER, BARRIER, ALWAYS))
>>> print(dependence_mermaid(Sum(), [Atom("b", "barrier"), Atom("v1", "value"), Atom("v2", "value")]))
graph LR
  t0["barrier from b"]
  t1["value from v1"]
  t2["value from v2"]
  t0 --- t0
  t0 --- t1
  t0 --- t2
"""

from __future__ import annotations

from collections.abc import Sequence

from dgs.errors import UsageError
from dgs.model.program import Program
from dgs.planner.drawing.text import dot_text, mermaid_text
from dgs.planner.optimizers.atoms import Atom, atoms
from dgs.planner.optimizers.graph import DependenceGraph
from dgs.planner.topology import Topology

MAX_VERTICES = 400
"""The most vertices of a readable drawing."""


def dependence_mermaid(program: Program, tags: Sequence[Atom] | Topology) -> str:
    """Return the dependence graph of atoms (given, or made of a topology) in Mermaid. A loop: the tag depends on itself.

    Raises UsageError if there are too many atoms to draw.
    """
    tags = _atoms(program, tags)
    rows = [f'  t{i}["{mermaid_text([_name(atom)])}"]' for i, atom in enumerate(tags)]
    rows += [f"  t{a} --- t{b}" for a, b in _edges(program, tags)]
    return "\n".join(["graph LR", *rows])


def dependence_dot(program: Program, tags: Sequence[Atom] | Topology) -> str:
    """Return the dependence graph as above, in Graphviz's language. Raises UsageError if there are too many atoms to draw."""
    tags = _atoms(program, tags)
    rows = ["graph dependence {", "  node [shape=box, style=rounded, fontname=sans];"]
    rows += [f'  t{i} [label="{dot_text([_name(atom)])}"];' for i, atom in enumerate(tags)]
    rows += [f"  t{a} -- t{b};" for a, b in _edges(program, tags)]
    return "\n".join([*rows, "}"])


def _atoms(program: Program, tags: Sequence[Atom] | Topology) -> Sequence[Atom]:
    return atoms(tags, program) if isinstance(tags, Topology) else tags


def _edges(program: Program, tags: Sequence[Atom]) -> list[tuple[int, int]]:
    """Return the edges in order, with a loop for each atom that depends on itself."""
    if len(tags) > MAX_VERTICES:
        message = f"the dependence graph of {len(tags)} implementation tags cannot be drawn readably (at most {MAX_VERTICES})"
        raise UsageError(message=message)
    loops = [(i, i) for i, atom in enumerate(tags) if program.dependence.between(atom.tags, atom.tags)]
    return sorted([*DependenceGraph(tags, program.dependence).edges(), *loops])


def _name(atom: Atom) -> str:
    return str(atom).rpartition("@")[0] + f" from {atom.stream}"
