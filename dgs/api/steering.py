"""Steering a run from another process: a stop, or a move to another plan. Also the run's own side of a move.

`dgs stop` and `dgs replan` leave a request in the control directory of the run, and wait until the run has met it. A new plan is checked
first. The run takes it up (`Moves`), and writes an answer beside it, which says what was wrong, if anything.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.api.known_runs import KILLED, KnownRun, run_at, runs_in
from dgs.errors import DgsError, InvalidPlanError, NoAnswerError, NoSuchRunError, OutputUnwritableError
from dgs.job import private_files

if TYPE_CHECKING:
    from dgs.api.preparing import Launch, Prepared
    from dgs.job.settings import Given
    from dgs.model.program import Program
    from dgs.planner.moving import Counts
    from dgs.planner.prediction.costs import Costs
    from dgs.workers.runtime.job import Comparison, Job

ANSWER = ".answer"
"""The ending of the name of an answer to a plan."""


LOOK_EVERY = 0.05
"""Seconds between two looks at the run."""


def stop_run(run: KnownRun, *, timeout: float = 60.0) -> dict[str, Any]:
    """Stop a run at a checkpoint; return its results once it has ended.

    If its process was killed, the results have `status: killed` and the command that resumes it.

    Raises NoAnswerError if it has not ended in time (it still will), OutputUnwritableError if the request cannot be written.
    """
    from dgs.workers.recovery.coordinator import ControlRequest
    from dgs.workers.runtime.control import post

    advice = "It stops at its next checkpoint: wait longer with `--timeout`, or end its process"
    if _is_listening(run, timeout):
        post(run.directory.control, ControlRequest("stop"))
        _wait(run, lambda: not run.is_alive, timeout, "ended", advice)
    results = run.directory.results()
    if not results and run.status == KILLED:
        return {
            "status": KILLED,
            "run_dir": str(run.directory.path),
            "resume": f"dgs resume {run.directory.path}",
        }
    return results


def move_run(
    run: KnownRun, given: Mapping[str, Given], *, program: Program | None = None, timeout: float = 60.0
) -> str:
    """Move a run to another plan, a given one or that of an optimizer; return the path of its `plan:` section.

    The plan is checked first. Raises any InvalidError (the run then keeps its plan), NoSuchRunError if the run is not running,
    NoAnswerError if it has not moved in time (it still moves at its next checkpoint).
    """
    from dgs.workers.recovery.coordinator import ControlRequest
    from dgs.workers.runtime.control import post

    if not _is_listening(run, timeout):
        raise _not_alive(run)
    path = _written(run, given, program)
    post(run.directory.control, ControlRequest("replan", "dgs replan", str(path)))
    advice = "It moves at its next checkpoint: look at its messages, or wait longer with `--timeout`"
    _wait(run, lambda: answer_to(path) is not None or not run.is_alive, timeout, "moved", advice)
    answer = answer_to(path)
    if answer is None:
        raise _not_alive(run)
    if answer["problem"] is not None:
        raise InvalidPlanError(program=run.name, violations=(), listing=answer["problem"])
    return str(path)


def running(base_dir: Path, target: str | os.PathLike[str] | None) -> KnownRun:
    """Return the named run, or the only one that is running in a directory. Raises NoSuchRunError."""
    if target is not None:
        return run_at(target)
    alive = [run for run in runs_in(base_dir) if run.is_alive]
    if len(alive) == 1:
        return alive[0]
    names = ", ".join(str(run.directory.path) for run in alive)
    problem = f"several runs are alive here: {names}" if alive else "no run is alive here"
    raise NoSuchRunError(problem=problem, advice="Name the directory of a run, or a plan.yaml")


def _written(run: KnownRun, given: Mapping[str, Given], program: Program | None) -> Path:
    """Make and check the plan, and write it into the control directory."""
    from dgs.api.preparing import prepare
    from dgs.api.resuming import requested_again
    from dgs.job.document import dump

    prepared = prepare(replace(requested_again(run, given), program=program))
    path = run.directory.control.absolute() / f"plan-{time.time_ns()}-{os.getpid()}.yaml"
    try:
        private_files.make_directory(path.parent)
        private_files.write(path, dump({"plan": prepared.plan_data}))
    except OSError as error:
        raise OutputUnwritableError(path=path, problem=error.strerror or str(error)) from None
    return path


def _is_listening(run: KnownRun, timeout: float) -> bool:
    """Return whether a run checks for requests. Waits for a run that has just begun."""
    deadline = time.monotonic() + timeout
    while run.is_alive and not run.is_listening and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY)
    if run.is_alive and not run.is_listening:
        advice = "Its process has the directory but has not begun: try again, or end the process"
        raise NoAnswerError(path=run.directory.path, what="begun", seconds=f"{timeout:g}", advice=advice)
    return run.is_listening


def _not_alive(run: KnownRun) -> NoSuchRunError:
    problem = f"the run in {run.directory.path} is not alive{run.ending}"
    advice = f"Go on with it under another plan: `dgs resume {run.directory.path} --plan FILE`"
    return NoSuchRunError(problem=problem, advice=advice)


def _wait(run: KnownRun, is_over: Callable[[], bool], timeout: float, what: str, advice: str) -> None:
    deadline = time.monotonic() + timeout
    while not is_over():
        if time.monotonic() > deadline:
            raise NoAnswerError(path=run.directory.path, what=what, seconds=f"{timeout:g}", advice=advice)
        time.sleep(LOOK_EVERY)


@dataclass
class Moves:
    """Takes up the plans to which a run moves. `launch`: the run with its current plan. `costs`: to compare plans by."""

    launch: Launch
    costs: Costs | None = None

    def compared(self, home: Mapping[str, int], rates: Counts) -> Comparison:
        """Compare the current plan with the best one at some rates. Raises DgsError."""
        from dgs.api.comparing import compared, costs_while_running

        prepared = self.launch.prepared
        self.costs = self.costs or costs_while_running(prepared)
        return compared(prepared, self.costs, home, rates)

    def replanned(self, job: Job, path: str) -> Job:
        """Return the job under the plan in a file, and note it in the run directory. Raises InvalidError."""
        try:
            moved = self._under(path)
        except DgsError as error:
            self._answer(path, str(error))
            raise
        self.launch = replace(self.launch, prepared=moved)
        if self.launch.directory is not None:
            self.launch.directory.write_plan(moved.request.settings, moved.plan_data, moved.request.base_dir)
        self._answer(path, None)
        return replace(job, plan=moved.plan)

    def _under(self, path: str) -> Prepared:
        from dgs.job.document import read_plan_section
        from dgs.planner.plan_data import from_data
        from dgs.planner.validity import check

        prepared = self.launch.prepared
        everything = prepared.topology.impl_tags()
        plan = from_data(read_plan_section(path), prepared.program, everything)
        check(plan, prepared.program, everything)
        return replace(prepared, plan=plan)

    def _answer(self, path: str, problem: str | None) -> None:
        if self.launch.directory is not None:
            answer = Path(path).with_suffix(ANSWER)
            with suppress(OSError):  # the directory has been removed; the run goes on
                private_files.write(answer, json.dumps({"problem": problem}))


def answer_to(path: Path) -> dict[str, Any] | None:
    """Return the answer of a run to the plan at `path`, None if it has not answered yet."""
    try:
        found: dict[str, Any] = json.loads(private_files.read_text(path.with_suffix(ANSWER)))
    except (OSError, ValueError):
        return None
    return found
