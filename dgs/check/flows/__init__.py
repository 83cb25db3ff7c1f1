"""`dgs check` of a flow: the laws of each step, on small inputs, by the meaning of the step.

- `inputs`: small inputs of a flow, from the rows of a plan file or from the types of its streams.
- `kept_outside`: what functions keep outside of the state, which is reset between two runs of a step.
- `trials`: an input with the blocks that it gives each step.
- `step_laws`: the laws, each under the code of the mistake: F21 (order of independent items), F23 (skip), F24 (emit), F25 (columns).
- `monoid_laws`: F22. `flow_elsewhere`: F21 in another process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from dgs.check.flows.flow_elsewhere import ElsewhereLaw, Home
from dgs.check.flows.inputs import inputs_of
from dgs.check.flows.kept_outside import KeptOutside
from dgs.check.flows.step_laws import LAWS, forms_for_columns
from dgs.check.flows.trials import Trial, equal_within
from dgs.check.laws import Finding
from dgs.check.options import Options
from dgs.check.report import LawResult
from dgs.errors import DgsError
from dgs.errors.raised import RAISED, is_ours, summary
from dgs.flow.definition import Flow
from dgs.flow.mistakes import Mistake

RAISES = "user code raises nothing on items that it can get"

Rows = Mapping[str, Sequence[tuple[int, Any]]]


def flow_results(
    flow: Flow, options: Options, rows: Rows | None = None, home: Home | None = None
) -> list[LawResult]:
    """Return the results of the laws of a flow's steps. `rows`: the first rows of its streams, (ts, value), if they are known.

    `home`: where another process finds the flow; None: in the module of its function.

    Raises FlowError, UsageError.
    """
    equal = equal_within(options.tolerance)
    found: list[Mistake] = []
    tried = 0
    kept = KeptOutside(node.step for node in flow.graph.nodes)
    with closing(ElsewhereLaw(flow, home)) as elsewhere:
        while not found and tried < options.max_examples:
            trial = Trial(flow, inputs_of(flow, options, rows, tried), options.seed + tried, equal, kept)
            found, tried = _mistakes(flow, trial, elsewhere), tried + 1
    words = {"F21": "outputs do not depend on the order of independent items", "F22": "the laws of monoids",
             "F23": "the law of skipping", "F24": "emit is called in time, and with a value",
             "F25": "columns= does what the function does"}  # fmt: skip
    if not found:
        results = [LawResult(code, words[code], "holds", tried) for code in words]
        alone = LawResult("elsewhere", "another process does the same", "no need", reason=elsewhere.missing)
        return [*results, *([alone] if elsewhere.missing else [])]
    first = found[0]
    others = [
        LawResult(code, words[code], "skipped", reason=f"until {first.code} holds")
        for code in words
        if code != first.code
    ]
    return [_broken(words.get(first.code, RAISES), first, tried), *others]


def _mistakes(flow: Flow, trial: Trial, elsewhere: ElsewhereLaw) -> list[Mistake]:
    """Return the mistakes that the first broken law finds, or the one that user code raises."""
    try:
        found = next((found for law in LAWS if (found := list(law(trial)))), [])
        return found or forms_for_columns(flow, trial.inputs) or list(elsewhere(trial))
    except DgsError:
        raise
    except RAISED as error:
        if is_ours(error):
            raise
        fix = "Every function must accept every item that it can get"
        return [Mistake("R06", f"flow {flow.name!r}", summary(error), fix=fix)]


def _broken(words: str, mistake: Mistake, examples: int) -> LawResult:
    what = f"{mistake.where}: {mistake.problem}" + (f"    {mistake.place}" if mistake.place else "")
    sides = [(name, text) for name, text in (("one", mistake.expected), ("other", mistake.found)) if text]
    expected, got = (*sides, None, None)[:2]
    return LawResult(
        mistake.code, words, "BROKEN", examples, finding=Finding(what, expected, got, hint=mistake.fix)
    )
