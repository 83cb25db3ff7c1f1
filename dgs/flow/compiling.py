"""The compiler: from a checked flow to one DGS program."""

from __future__ import annotations

from dgs.flow.flow_checks import Checked
from dgs.flow.mistakes import FlowError, Mistake
from dgs.model.program import Program


def program_of(checked: Checked, classes: int) -> Program:  # noqa: ARG001 - shapes with classes come later
    """Return the program of a flow. Raises FlowError for a flow that cannot be compiled yet."""
    name = checked.graph.name
    raise FlowError.of(name, [Mistake("F00", f"flow {name!r}", "cannot be compiled yet: use denote")])
