"""What can be wrong with a plan, as values: the rule, where, which tags, and what would fix it.

>>> print(Violation("V1", ("w1",), (), "node w1 has state type 'sum', which the program does not have", "Use one of: state"))
V1 at w1: node w1 has state type 'sum', which the program does not have. Use one of: state
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

SHOWN = 50
"""How many violations a listing spells out."""

RuleName = Literal["V1", "V2", "coverage", "structure"]


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule of Definition 3.2 (`V1`, `V2`), of coverage or of structure that a plan breaks."""

    rule: RuleName
    nodes: tuple[str, ...]
    tags: tuple[str, ...]
    message: str
    fix: str

    def __str__(self) -> str:
        where = f" at {', '.join(self.nodes)}" if self.nodes else ""
        return f"{self.rule}{where}: {self.message}. {self.fix}"


def listing(violations: Sequence[Violation]) -> str:
    """Return the violations one per line; of very many the first, and how many more there are."""
    lines = [f"  {violation}" for violation in violations[:SHOWN]]
    if len(violations) > SHOWN:
        lines.append(f"  ... and {len(violations) - SHOWN} more")
    return "\n".join(lines)
