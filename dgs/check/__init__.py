"""`dgs check`: finds mistakes in a program before it runs in parallel.

A program is consistent if its results do not depend on the plan or the schedule (Section 2.3). `check` looks for counterexamples
with Hypothesis, on states that the program can reach, and makes them small. Read in this order.

- `checking`: goes through the `laws` for the program of a `scenarios.world`. `options`: of the user. `report`: the results.
- `search`: looks for counterexamples among the scenarios of `drawing`. `counterexamples`: saves them and runs them again.
- `elsewhere`: another interpreter. `relation`: checks the dependence relation. `plan_files`: checks a program with its plan file.

>>> import dgs
>>> INC, READ = dgs.kind("inc", key=int), dgs.kind("read", key=int)
>>> class Counters(dgs.Program):
...     depends = dgs.Dependence((INC, READ, dgs.SAME_KEY), (READ, READ, dgs.SAME_KEY))
...     def init(self): return {}
...     def update(self, state, event, emit):
...         key = event.tag.key
...         if event.tag.kind == INC: state[key] = state.get(key, 0) + 1
...         else: emit((key, state.pop(key, 0)))
...         return state
...     def fork(self, state, left, right): return dict(state), dict(state)
...     def join(self, left, right):
...         return {key: left.get(key, 0) + right.get(key, 0) for key in left | right}
>>> report = check(Counters, max_examples=50)
>>> bool(report), [broken.law for broken in report.broken], report.broken[0].scenario.event_count
(False, ['C2'], 1)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from dgs.errors import MissingPackageError
from dgs.model.program import Program

if TYPE_CHECKING:
    from dgs.check.options import Options
    from dgs.check.report import CheckReport, LawResult
    from dgs.flow import Flow
    from dgs.pico.pipelines import Pipeline

__all__ = ["check", "replay", "save"]

Target: TypeAlias = "str | os.PathLike[str] | Program | type[Program] | Flow | Pipeline"
Equal = Callable[[Any, Any], bool]


def check(
    target: Target,
    *,
    strategies: Mapping[Any, Any] | None = None,
    keys: Mapping[Any, Iterable[Any]] | None = None,
    streams: Mapping[str, Any] | None = None,
    states_equal: Equal | None = None,
    outputs_equal: Equal | None = None,
    tolerance: float | None = None,
    max_examples: int = 200,
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
) -> CheckReport:
    """Look for counterexamples to all laws of a program. The report is true if there is none.

    `target`: a program, a flow or a pipeline, "file.py:Name", "package.module:Name", or a plan file, whose plan and input are used, too; or the file of
    a query, whose column types are guessed.
    `strategies`: payloads by kind: a Hypothesis strategy, a type, or a list of samples (default: the type hint of `event`, the
    plan's input, or a guess). `keys`: keys by kind. `streams`: the data of a plan file's `memory` sources. `states_equal`,
    `outputs_equal`: equality of states and outputs. `tolerance`: the relative difference of floats allowed in both; for queries 1e-9 by
    default. The same `seed` finds the same counterexamples. `params`: the values of the parameters of a query.

    Raises MissingPackageError without Hypothesis, UsageError if payloads are unknown, any InvalidError of the target.
    """
    _require_hypothesis()
    from dgs.check.options import made_options

    options = made_options(
        strategies=strategies,
        keys=keys,
        states_equal=states_equal,
        outputs_equal=outputs_equal,
        tolerance=tolerance,
        max_examples=max_examples,
        seed=seed,
    )
    if (plan := plan_of(target)) is not None:
        from dgs.check.plan_files import from_plan

        return _of_file(plan, from_plan(plan, options, streams), seed)
    if (query := path_of(target, ".sql", ".pig", ".mrql")) is not None:
        from dgs.check.queries.query_files import from_query

        return _of_file(query, from_query(query, options, params or {}), seed)
    if (flow := flow_of(target)) is not None:
        from dgs.check.flows import flow_results
        from dgs.check.flows.flow_elsewhere import Home
        from dgs.check.report import CheckReport

        home = Home(os.fspath(target), {}, Path.cwd()) if isinstance(target, (str, os.PathLike)) else None
        return CheckReport(flow.name, tuple(flow_results(flow, options, home=home)), seed)
    from dgs.check.checking import run_checks

    return run_checks(program_of(target), options)


def _of_file(path: str, found: tuple[Program | None, Options, list[LawResult]], seed: int) -> CheckReport:
    """Return the report of a file: of its program, or if it has none of the mistakes that were found instead."""
    from dgs.check.checking import run_checks
    from dgs.check.report import CheckReport

    program, options, before = found
    return CheckReport(path, tuple(before), seed) if program is None else run_checks(program, options, before)


def save(report: CheckReport, target: str, path: str | os.PathLike[str]) -> None:
    """Write the counterexamples of a report to a file for `replay`. Raises OutputUnwritableError, CodecError."""
    from dgs.check import counterexamples

    counterexamples.save(report, target, Path(path))


def replay(
    path: str | os.PathLike[str],
    target: Target | None = None,
    *,
    states_equal: Equal | None = None,
    outputs_equal: Equal | None = None,
    tolerance: float | None = None,
) -> CheckReport:
    """Run saved counterexamples again, on their program or another one. Raises UsageError."""
    _require_hypothesis()
    from dgs.check import counterexamples
    from dgs.check.options import made_options

    options = made_options(states_equal=states_equal, outputs_equal=outputs_equal, tolerance=tolerance)
    return counterexamples.replay(
        Path(path), program_of(target or counterexamples.target_of(Path(path))), options
    )


def plan_of(target: Target) -> str | None:
    """Return the path of a target that is a plan file or a run directory, None for other targets."""
    from dgs.job.run_directory import plan_at

    place = plan_at(Path(target)) if isinstance(target, (str, os.PathLike)) else target
    return path_of(place, ".yaml", ".yml")


def path_of(target: Target, *endings: str) -> str | None:
    """Return the path of a target that is a file with one of some endings, None for other targets."""
    path = os.fspath(target) if isinstance(target, (str, os.PathLike)) else ""
    return path if path.endswith(endings) else None


def flow_of(target: Target) -> Flow | None:
    """Return the flow that a target is or names, or that of a pipeline, None if it is a program. Raises ProgramImportError, FlowError."""
    from dgs.flow.definition import Flow
    from dgs.job.loading import load_made
    from dgs.job.schema import ProgramConfig
    from dgs.pico.pipelines import Pipeline

    found: object = target.flow() if isinstance(target, Pipeline) else target
    if isinstance(target, (str, os.PathLike)) and plan_of(target) is None:
        found = load_made(ProgramConfig(ref=os.fspath(target)), Path.cwd())
    return found if isinstance(found, Flow) else None


def program_of(target: Target) -> Program:
    """Return the program of a target. Raises ProgramImportError, PlanFileError."""
    from dgs.job.loading import load_program
    from dgs.job.schema import ProgramConfig

    if isinstance(target, Program):
        return target
    if isinstance(target, type) and issubclass(target, Program):
        return target()
    plan = plan_of(target)
    if plan is not None:
        from dgs.api.preparing import from_file

        request = from_file(plan, {})
        return load_program(request.settings.config.program, request.base_dir)
    return load_program(ProgramConfig(ref=str(target)), Path.cwd())


def _require_hypothesis() -> None:
    try:
        import hypothesis
    except ImportError:
        raise MissingPackageError(feature="dgs check", package="hypothesis") from None
    del hypothesis


class _Callable(ModuleType):
    """Makes the package `dgs.check` callable, so that `dgs.check(program)` works however it was imported."""

    def __call__(self, *arguments: Any, **options: Any) -> CheckReport:
        return check(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
