"""Telling a running job, from another process, to stop or to move to another plan, and waiting until it has."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.api.runs import KnownRun, run_at, runs_in
from dgs.errors import InvalidPlanError, NoAnswerError, NoSuchRunError, OutputUnwritableError

if TYPE_CHECKING:
    from dgs.program import Program
    from dgs.settings import Given

LOOK_EVERY = 0.05
"""Seconds between two looks at what the run has done."""


def stop_run(run: KnownRun, *, timeout: float = 60.0) -> dict[str, Any]:
    """Let a run stop at a checkpoint; return its results once it has ended, at once if it had.

    Raises NoAnswerError if it has not ended in time: it still does when it can; OutputUnwritableError if it cannot be told.
    """
    from workers.control import Wish, leave_wish

    advice = "It stops at its next checkpoint: wait longer with `--timeout`, or end its process"
    if _is_listening(run, timeout):
        leave_wish(run.directory.control, Wish("stop"))
        _wait(run, lambda: not run.is_alive, timeout, "ended", advice)
    return run.directory.results()


def move_run(
    run: KnownRun, given: Mapping[str, Given], *, program: Program | None = None, timeout: float = 60.0
) -> str:
    """Let a run move to another plan: that which is given, or that of an optimizer; return the path of its `plan:` section.

    The plan is checked first. Raises any InvalidError, the run then goes on as it is; NoSuchRunError if it is not running;
    NoAnswerError if it has not moved in time: it still does when it comes to a checkpoint.
    """
    from dgs.api.moving import answer_to
    from workers.control import Wish, leave_wish

    if not _is_listening(run, timeout):
        raise _not_alive(run)
    path = _written(run, given, program)
    leave_wish(run.directory.control, Wish("replan", "dgs replan", str(path)))
    advice = "It moves at its next checkpoint: look at its messages, or wait longer with `--timeout`"
    _wait(run, lambda: answer_to(path) is not None or not run.is_alive, timeout, "moved", advice)
    answer = answer_to(path)
    if answer is None:
        raise _not_alive(run)
    if answer["problem"] is not None:
        raise InvalidPlanError(program=run.name, violations=(), listing=answer["problem"])
    return str(path)


def running(base_dir: Path, target: str | os.PathLike[str] | None) -> KnownRun:
    """Return the run that is meant: the one named, or the only one that is running in a directory. Raises NoSuchRunError."""
    if target is not None:
        return run_at(target)
    alive = [run for run in runs_in(base_dir) if run.is_alive]
    if len(alive) == 1:
        return alive[0]
    names = ", ".join(str(run.directory.path) for run in alive)
    problem = f"several runs are alive here: {names}" if alive else "no run is alive here"
    raise NoSuchRunError(problem=problem, advice="Name the directory of a run, or a plan.yaml")


def _written(run: KnownRun, given: Mapping[str, Given], program: Program | None) -> Path:
    """Make and check the plan; write it where the run will read it."""
    from dgs.api.preparing import prepare
    from dgs.api.resuming import requested_again
    from dgs.plan_file import dump

    prepared = prepare(replace(requested_again(run, given), program=program))
    path = run.directory.control.absolute() / f"plan-{time.time_ns()}-{os.getpid()}.yaml"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dump({"plan": prepared.plan_data}), encoding="utf-8")
    except OSError as error:
        raise OutputUnwritableError(path=path, problem=error.strerror or str(error)) from None
    return path


def _is_listening(run: KnownRun, timeout: float) -> bool:
    """Return whether a run takes wishes; one that has only begun to be is waited for."""
    deadline = time.monotonic() + timeout
    while run.is_alive and not run.is_listening and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY)
    if run.is_alive and not run.is_listening:
        advice = "Its process has the directory and has not begun: try again, or end the process"
        raise NoAnswerError(path=run.directory.path, what="begun", seconds=f"{timeout:g}", advice=advice)
    return run.is_listening


def _not_alive(run: KnownRun) -> NoSuchRunError:
    problem = f"the run in {run.directory.path} is not alive"
    advice = f"Go on with it under another plan: `dgs resume {run.directory.path} --plan FILE`"
    return NoSuchRunError(problem=problem, advice=advice)


def _wait(run: KnownRun, is_over: Callable[[], bool], timeout: float, what: str, advice: str) -> None:
    deadline = time.monotonic() + timeout
    while not is_over():
        if time.monotonic() > deadline:
            raise NoAnswerError(path=run.directory.path, what=what, seconds=f"{timeout:g}", advice=advice)
        time.sleep(LOOK_EVERY)
