"""Violations of a plan as values: the rule, the nodes, the tags, and a fix.

>>> print(Violation("V1", ("w1",), (), "node w1 has state type 'sum', which the program does not have", "Use one of: state"))
V1 at w1: node w1 has state type 'sum', which the program does not have. Use one of: state
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

SHOWN = 50
"""Most violations that a listing spells out."""

RuleName = Literal["V1", "V2", "coverage", "structure"]


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a plan breaks: of Definition 3.2 (`V1`, `V2`), coverage or structure."""

    rule: RuleName
    nodes: tuple[str, ...]
    tags: tuple[str, ...]
    message: str
    fix: str

    def __str__(self) -> str:
        where = f" at {', '.join(self.nodes)}" if self.nodes else ""
        return f"{self.rule}{where}: {self.message}. {self.fix}"


def listing(violations: Sequence[Violation]) -> str:
    """Return the violations, one per line; of very many the first ones and the number of the rest."""
    lines = [f"  {violation}" for violation in violations[:SHOWN]]
    if len(violations) > SHOWN:
        lines.append(f"  ... and {len(violations) - SHOWN} more")
    return "\n".join(lines)
