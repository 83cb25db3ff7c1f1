"""Going on with a run: its resolved plan.yaml, with what is given now, from the newest good checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.api.known_runs import KnownRun, holds_checkpoints, runs_in
from dgs.api.preparing import Launch, Options, Request, from_file, prepare
from dgs.errors import NoSuchRunError, UsageError

if TYPE_CHECKING:
    from dgs.job.settings import Given
    from dgs.model.program import Program
    from dgs.planner.plan import Plan

SHAPES = ("streams", "nodes", "runtime.hosts")
"""What a plan is made for: given anew, a plan that was made before is made again. One that was written by hand is not."""


def resumable(base_dir: Path) -> KnownRun:
    """Return the newest run, of any plan file in a directory, that has not come to its end. Raises NoSuchRunError."""
    for run in runs_in(base_dir):
        if not run.is_done and not run.is_alive:
            return run
    raise NoSuchRunError(
        problem="there is no run here that has not come to its end",
        advice="Name the directory of a run, or a plan.yaml",
    )


def has_nothing_left(run: KnownRun) -> bool:
    """Return whether a run came to its end and left no checkpoint to go on from, should its streams have grown."""
    return run.is_done and not holds_checkpoints(run.directory.checkpoints)


def launch_again(
    run: KnownRun,
    given: Mapping[str, Given],
    options: Options,
    *,
    memory: Mapping[str, Iterable[Any]] | None = None,
    program: Program | None = None,
    plan: Plan | None = None,
) -> Launch:
    """Return a run ready to go on, in its directory. `program`: if it was started from Python with one; `memory`: its streams.

    Raises CheckpointBusyError if it is alive, and any InvalidError; nothing has been touched then.
    """
    run.check_not_alive()
    request = replace(requested_again(run, given, memory=memory), program=program)
    is_elsewhere = request.checkpoint_dir != run.directory.checkpoints
    if is_elsewhere and any(name.startswith("checkpoint.dir") for name in given):
        raise UsageError(
            message="a run that goes on has its checkpoints where they are: leave checkpoint.dir out"
        )
    was_made = bool(run.about.get("plan_is_made"))
    prepared = prepare(request, plan=plan, max_events=run.about.get("max_events"))
    is_kept = plan is None and "plan" not in given
    prepared = replace(prepared, is_made=prepared.is_made or (was_made and is_kept))
    return Launch(prepared, run.directory, replace(options, resumes=True))


def requested_again(
    run: KnownRun, given: Mapping[str, Given], *, memory: Mapping[str, Iterable[Any]] | None = None
) -> Request:
    """Return the request of a run: its resolved plan.yaml with other values, paths as its plan file had them.

    Raises PlanFileError, UsageError.
    """
    directory = run.directory
    request = from_file(directory.plan_file, given, memory=memory, base_dir=directory.base_dir)
    is_reshaped = any(name == shape or name.startswith(f"{shape}.") for name in given for shape in SHAPES)
    if is_reshaped and "plan" not in given and run.about.get("plan_is_made"):
        request = replace(request, keeps_plan=False)
    return replace(request, plan_file=directory.of)
