"""`dgs check`: is the program consistent? Counterexamples before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dgs.cli.options import Tolerance
from dgs.cli.query import Params, values_of
from dgs.cli.reporting import Ending, print_json, say, show, verb

if TYPE_CHECKING:
    from dgs.check.report import CheckReport

# fmt: off
Target = Annotated[str | None, typer.Argument(metavar="TARGET",
    help="A program (file.py:Name or package.module:Name), a plan.yaml, or a query (.sql, .pig, .mrql).",
    show_default=False)]
MaxExamples = Annotated[int, typer.Option("--max-examples", min=1, help="Scenarios to try for each law.")]
Seed = Annotated[int, typer.Option("--seed", help="Where to start looking; the same seed finds the same.")]
Save = Annotated[Path | None, typer.Option("--save-counterexample", metavar="FILE",
    help="Write what was found there.")]
Replay = Annotated[Path | None, typer.Option("--replay", metavar="FILE",
    help="Only run the counterexamples in this file again.")]
With = Annotated[str | None, typer.Option("--with", metavar="FILE.py:NAME",
    help="A dict of options of dgs.check: strategies, keys, states_equal, outputs_equal.")]
# fmt: on


@verb
def check(
    ending: Ending,
    target: Target = None,
    *,
    max_examples: MaxExamples = 200,
    seed: Seed = 0,
    tolerance: Tolerance = None,
    options_from: With = None,
    params: Params = None,
    save_counterexample: Save = None,
    replay: Replay = None,
) -> None:
    """Look for counterexamples to the laws of a program: C1, C2, C3 and all others that parallel runs rely on."""
    import dgs.check as checks
    from dgs.errors import UsageError

    if save_counterexample is not None:
        from dgs.check.counterexamples import BY, MARK
        from dgs.named_files import check_writable

        check_writable(save_counterexample, BY, mark=MARK)
    options: dict[str, Any] = {"tolerance": tolerance, **_options(options_from)}
    if replay is not None:
        equals = {name: options.get(name) for name in ("tolerance", "states_equal", "outputs_equal")}
        report = checks.replay(replay, target, **equals)
    elif target is None:
        raise UsageError(message="say what to check: a program (file.py:Name), or a plan.yaml")
    else:
        given: dict[str, Any] = {"max_examples": max_examples, "seed": seed} | options
        report = checks.check(target, params=values_of(params), **given)
    _tell(report, as_json=ending.as_json)
    if save_counterexample is not None and target is not None:
        _save(report, target, save_counterexample)
    if not report:
        raise typer.Exit(1)


def _save(report: CheckReport, target: str, path: Path) -> None:
    import dgs.check as checks
    from dgs.errors import CodecError

    if not any(one.scenario is not None for one in report.broken):
        return
    try:
        checks.save(report, target, path)
    except CodecError as error:  # the finding counts even if it cannot be saved
        say(f"dgs: the counterexample is not saved: {error}")
    else:
        say(f"dgs: repeat with: dgs check --replay {path}")


def _options(ref: str | None) -> dict[str, Any]:
    """Return the options from the user's Python file."""
    from dgs.errors import UsageError
    from dgs.job.loading import load_callable

    if ref is None:
        return {}
    found = load_callable(ref, Path.cwd())
    known = ("strategies", "keys", "states_equal", "outputs_equal", "tolerance")
    if not isinstance(found, dict) or not found.keys() <= set(known):
        raise UsageError(message=f"--with {ref} must be a dict of {', '.join(known)}")
    return found


def _tell(report: CheckReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
    else:
        show(report)
