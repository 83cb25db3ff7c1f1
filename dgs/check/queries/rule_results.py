"""Q605: each rule that fired keeps the answer. The interpreter runs the script before and after its step, on small inputs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dgs.check.laws import Finding
from dgs.check.options import Options
from dgs.check.queries.small_tables import SmallTables, Tables
from dgs.check.report import LawResult
from dgs.check.scenarios.equality import Equal, close
from dgs.query.errors import QueryError
from dgs.query.evaluate import answers, zbag
from dgs.query.relation import Script
from dgs.query.rewrite.graph_text import text_of
from dgs.query.rewrite.rewriting import Step
from dgs.query.types import order_key, plain, record

LAW = "Q605"
TOLERANCE = 1e-9
"""The relative difference of floats that another order of sums makes."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An input on which two scripts answer differently: the output and its rows, or an error in their place."""

    tables: Tables
    output: str
    before: Any
    after: Any

    @property
    def rows(self) -> int:
        """The number of rows of the input."""
        return sum(map(len, self.tables.values()))


def rule_results(steps: Sequence[Step], options: Options) -> list[LawResult]:
    """Return a result for each rule that fired in the rewriting of a script."""
    return [
        _result(rule, [step for step in steps if step.rule == rule], options)
        for rule in dict.fromkeys(one.rule for one in steps)
    ]


def _result(rule: str, steps: Sequence[Step], options: Options) -> LawResult:
    law, tried = f"{LAW} {rule}", 0
    words = f"{law}: the rule keeps the answer"
    for step in steps:
        found, count = difference(step.script_before, step.script_after, options)
        tried += count
        if found is not None:
            story = tuple((name, str(row)) for name, rows in found.tables.items() for row in rows)
            finding = _finding(step, found)
            return LawResult(law, words, "BROKEN", tried, finding=finding, story=story)
    return LawResult(law, words, "holds", tried)


def _finding(step: Step, found: Difference) -> Finding:
    what = f"rule {step.rule}, at {step.place}, changes {found.output!r} of {found.rows} row{'s' * (found.rows != 1)}"
    graphs = [
        line
        for name, graph in (("before", step.before), ("after", step.after))
        for line in (f"{name}:", *(f"  {one}" for one in text_of(graph).splitlines()))
    ]
    hint = "\n".join(["a rule must keep the answer for every input", *graphs])
    return Finding(what, ("before", str(found.before)), ("after", str(found.after)), hint=hint)


def difference(before: Script, after: Script, options: Options) -> tuple[Difference | None, int]:
    """Return a smallest input on which two scripts answer differently, if one is found, and the number of inputs tried."""
    small, equal = (
        SmallTables(before, after),
        close(TOLERANCE if options.tolerance is None else options.tolerance),
    )
    for number in range(options.max_examples):
        rnd = random.Random(f"{options.seed}:{number}")  # noqa: S311 - the same every time
        found = _difference(before, after, small.draw(rnd, number), equal)
        if found is not None:
            return _smallest(before, after, found, small, equal), number + 1
    return None, options.max_examples


def _smallest(
    before: Script, after: Script, found: Difference, small: SmallTables, equal: Equal
) -> Difference:
    while True:
        for tables in small.simpler(found.tables):
            better = _difference(before, after, tables, equal)
            if better is not None:
                found = better
                break
        else:
            return found


def _difference(before: Script, after: Script, tables: Tables, equal: Equal) -> Difference | None:
    """Return the difference of two scripts on an input; None if the first script fails on it."""
    given = {name: zbag(rows) for name, rows in tables.items()}
    try:
        expected = answers(before, given)
    except QueryError:
        return None
    try:
        found = answers(after, given)
    except QueryError as error:
        return Difference(
            tables, before.outputs[0][0], "an answer", f"{error.code}: {error.facts['problem']}"
        )
    for name, node in before.outputs:
        if not node.is_ordered:
            found[name].sort(key=order_key)
        if not equal(expected[name], found[name]):
            row = record(*node.schema.fields)
            return Difference(
                tables, name, *([plain(one, row) for one in rows[name]] for rows in (expected, found))
            )
    return None
