"""Rewriting of queries by rules: those of dgs, phase by phase, and those of users.

- `rule_language`: `Rules`, conditions and extractors; `user_rules`: rules from a user's file.
- `shared_graph`, `rewriting`: the graph with its sharing, the engine, its guards and the trace; `graph_text`: graphs as text.
- `normal_rules`, `push_rules`, `combine_rules`: the rules of dgs, phase by phase; `scalar_questions`.
"""

from __future__ import annotations

from collections.abc import Iterable

from dgs.query.relation import Relation, Script
from dgs.query.rewrite.combine_rules import COMBINE
from dgs.query.rewrite.normal_rules import NORMAL
from dgs.query.rewrite.push_rules import PUSH, WINDOWS
from dgs.query.rewrite.rewriting import Rewritten, Step, rewritten_by
from dgs.query.rewrite.rule_language import PHASES, Distinct, Rules, calls, foreach_calls, pred, succ

BUNDLED = (NORMAL, PUSH, COMBINE, WINDOWS)
"""The rules of dgs."""

__all__ = [
    "BUNDLED", "PHASES", "Distinct", "Rewritten", "Rules", "Step", "calls", "foreach_calls", "pred", "rewritten", "succ",
]  # fmt: skip


def rewritten(script: Script | Relation, rules: Iterable[Rules] = (), *, on_spark: bool = False) -> Rewritten:
    """Return a script after the rules of dgs and of the user, with each step. Raises QueryError Q601 to Q604."""
    phases = PHASES if on_spark else PHASES[:-1]
    return rewritten_by(Script.of(script), [*BUNDLED, *rules], phases=phases)
