"""The rewriter: it applies rules from the outputs down, phase by phase, until none applies, and notes each step.

After each step the script must have the same outputs, and the new node the columns of the old one. If a script comes back in its phase, the
rewriting ends with an error that names the rules of the circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dgs.errors.raised import RAISED, is_ours, summary
from dgs.query.errors import QueryError
from dgs.query.relation import Relation, Script, Source, walk
from dgs.query.rewrite.graph_text import text_of
from dgs.query.rewrite.rule_language import PHASES, Rule, Rules, looking_at
from dgs.query.rewrite.shared_graph import SharedGraph

MOST_STEPS = 10_000
"""The steps after which rules count as endless."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: a rule, where it applied, and what it made. `before` and `after`: the node there, or the script for a rule of scripts.

    `place` is an output and the path down from it, such as `report / input / left`. `script_before` and `script_after`: all
    outputs.
    """

    number: int
    phase: str
    rule: str
    place: str
    before: Relation | Script
    after: Relation | Script
    script_before: Script
    script_after: Script

    def to_json(self) -> dict[str, Any]:
        """Return the step as data, with graphs as text."""
        named = {name: getattr(self, name) for name in ("number", "phase", "rule", "place")}
        return {**named, "before": text_of(self.before), "after": text_of(self.after)}

    def __str__(self) -> str:
        lines = [f"{self.number}. {self.phase}: {self.rule} at {self.place}"]
        for name, graph in (("before", self.before), ("after", self.after)):
            lines += [f"  {name}", *(f"    {line}" for line in text_of(graph).splitlines())]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A script after all rules, and the steps that led there."""

    script: Script
    steps: tuple[Step, ...]


def rewritten_by(
    script: Script, rules: Iterable[Rules], *, phases: Iterable[str] = PHASES, most_steps: int = MOST_STEPS
) -> Rewritten:
    """Return a script rewritten by rules.

    Raises QueryError: Q601 for a rule that raises or returns no node, Q602 for one that changes columns or outputs, Q603 for
    rules that undo each other, Q604 for rules without end.
    """
    rules = list(rules)
    graph, steps = SharedGraph(script), list[Step]()
    for phase in phases:
        tried = [rule for one in rules if one.phase in _tried_in(phase) for rule in one]
        seen = {graph.key: len(steps)}
        while (found := _first(graph, tried)) is not None:
            rule, place, before, after = found
            changed = _changed(graph, rule, place, before, after)
            steps.append(
                Step(len(steps) + 1, phase, rule.title, place, before, after, graph.script, changed.script)
            )
            graph = changed
            if graph.key in seen:
                raise _circle(steps[seen[graph.key] :])
            if len(steps) >= most_steps:
                raise _endless(steps)
            seen[graph.key] = len(steps)
    return Rewritten(graph.script, tuple(steps))


def _tried_in(phase: str) -> tuple[str, ...]:
    """Return the phases whose rules are tried in a phase: those of dgs also rewrite the results of later phases."""
    place = PHASES.index(phase)
    return PHASES[: place + 1] if place < PHASES.index("user") else (phase,)


Found = tuple[Rule, str, Any, Any]


def _first(graph: SharedGraph, rules: list[Rule]) -> Found | None:
    """Return the first rule that applies at the highest place: the rule, the place, before, after."""
    if not rules:
        return None
    with looking_at(graph):
        for place, node in _places(graph):
            for rule in rules:
                after = _applied(rule, place, node, graph)
                if after is not None and not _is_same(graph, node, after):
                    return rule, place, node, after
    return None


def _places(graph: SharedGraph) -> Iterator[tuple[str, Any]]:
    """Yield the script as a whole, and then its nodes."""
    yield "the script", graph.script
    yield from graph.top_down()


def _is_same(graph: SharedGraph, before: Any, after: Any) -> bool:
    if isinstance(before, Script):
        return SharedGraph(after, graph.numbering).key == graph.key
    return graph.numbering.number(before) == graph.numbering.number(after)


def _applied(rule: Rule, place: str, node: Any, graph: SharedGraph) -> Any:
    """Return the result of a rule for a node. Raises QueryError Q601 if it raises, or returns anything but a node."""
    try:
        found = rule.applied(node, graph)
    except RAISED as error:
        if is_ours(error):
            raise
        problem = f"rule {rule.title} raised {summary(error)} at {place}"
        raise QueryError.of(
            "Q601", problem, "Mend the rule, or leave it out.", rule=rule.title, place=place
        ) from error
    expected = Script if isinstance(node, Script) else Relation
    if found is None or isinstance(found, expected):
        return found
    problem = f"rule {rule.title} returned {found!r} at {place}, where a {expected.__name__} or None is due"
    raise QueryError.of("Q601", problem, "Mend the rule, or leave it out.", rule=rule.title, place=place)


def _changed(graph: SharedGraph, rule: Rule, place: str, before: Any, after: Any) -> SharedGraph:
    """Return the graph after a step. Raises QueryError Q602 if it changes outputs, columns or sources."""
    if isinstance(before, Script):
        was, now = ([name for name, _ in one.outputs] for one in (before, after))
        if was != now:
            lost = [name for name in was if name not in now]
            said = (
                f"drops the output {lost[0]!r}"
                if lost
                else f"makes the outputs {', '.join(now)} of {', '.join(was)}"
            )
            raise _broken(rule, place, said)
        pairs = [(one, other) for (_, one), (_, other) in zip(before.outputs, after.outputs, strict=True)]
        changed = SharedGraph(after, graph.numbering)
    else:
        pairs = [(before, after)]
        changed = graph.replaced(before, after)
    known = {one.name for _, one in graph.top_down() if isinstance(one, Source)}
    for one, other in pairs:
        _check_node(rule, place, one, other, known)
    return changed


def _check_node(rule: Rule, place: str, before: Relation, after: Relation, known: set[str]) -> None:
    try:
        found = after.schema
    except QueryError as error:
        raise _broken(rule, place, f"makes a node that is wrong: {error.facts['problem']}") from error
    if found.fields != before.schema.fields:
        raise _broken(rule, place, f"makes a node with columns ({found}) of one with ({before.schema})")
    more = [one.name for one in walk(after) if isinstance(one, Source) and one.name not in known]
    if more:
        raise _broken(rule, place, f"reads {more[0]!r}, which the script does not")


def _broken(rule: Rule, place: str, said: str) -> QueryError:
    problem, fix = (
        f"rule {rule.title} {said}, at {place}",
        "A rule keeps the columns of a node, and all outputs.",
    )
    return QueryError.of("Q602", problem, fix, rule=rule.title, place=place)


def _circle(steps: list[Step]) -> QueryError:
    names = [step.rule for step in steps]
    problem = f"rules undo each other: {' -> '.join([*names, names[0]])}, at {steps[0].place}"
    fix = "Leave one of them out, or let a condition say which form is the better one."
    return QueryError.of("Q603", problem, fix, rules=names, place=steps[0].place)


def _endless(steps: list[Step]) -> QueryError:
    last = steps[-1]
    problem = (
        f"rules come to no end: after {len(steps):,} steps rule {last.rule} still applies, at {last.place}"
    )
    fix = "A rule must make something that it does not apply to again, in the end."
    return QueryError.of("Q604", problem, fix, rule=last.rule, place=last.place)
