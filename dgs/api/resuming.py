"""Resuming a run from its newest good checkpoint, with its resolved plan.yaml and the values given now.

A lost directory of checkpoints is first restored from the run's table of checkpoints, if the user asks for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.api.known_runs import KnownRun, has_committed, holds_checkpoints, runs_in
from dgs.api.preparing import Launch, Options, Prepared, Request, from_file, prepare
from dgs.errors import CodeChangedError, NoSuchRunError, UsageError
from dgs.job.program_code import changes

if TYPE_CHECKING:
    from dgs.job.settings import Given
    from dgs.model.program import Program
    from dgs.planner.plan import Plan

SHAPES = ("streams", "nodes", "runtime.hosts")
"""The sections that a plan depends on. If a new value is given for one of them, an optimizer's plan is made again; a plan by hand is kept."""

RUN = "run"
"""The key in run.json of the id that rows of the table have."""


def resumable(base_dir: Path) -> KnownRun:
    """Return the newest unfinished run of any plan file in a directory. Raises NoSuchRunError."""
    for run in runs_in(base_dir):
        if not run.is_done and not run.is_alive:
            return run
    raise NoSuchRunError(
        problem="there is no unfinished run here", advice="Name the directory of a run, or a plan.yaml"
    )


def has_nothing_left(run: KnownRun) -> bool:
    """Return whether a run ended without a checkpoint. Then it cannot resume, even if its streams have grown."""
    return run.is_done and not holds_checkpoints(run.directory.checkpoints)


def launch_again(
    run: KnownRun,
    given: Mapping[str, Given],
    options: Options,
    *,
    memory: Mapping[str, Any] | Iterable[Any] | None = None,
    program: Program | None = None,
    plan: Plan | None = None,
) -> Launch:
    """Return the launch that resumes a run in its directory. `program`, `memory`: the program and the streams of a run from Python.

    Raises CheckpointBusyError if the run is alive, CodeChangedError, and any InvalidError, before anything is touched.
    """
    run.check_not_alive()
    request = replace(requested_again(run, given, memory=memory), program=program)
    is_elsewhere = request.checkpoint_dir != run.directory.checkpoints
    if is_elsewhere and any(name.startswith("checkpoint.dir") for name in given):
        raise UsageError(message="a resumed run keeps its directory of checkpoints: leave checkpoint.dir out")
    was_made = bool(run.about.get("plan_is_made"))
    prepared = prepare(request, plan=plan, max_events=run.about.get("max_events"))
    if not options.accepts_code_change:
        _check_code(run, prepared)
    is_kept = plan is None and "plan" not in given
    prepared = replace(prepared, is_made=prepared.is_made or (was_made and is_kept))
    return Launch(prepared, run.directory, replace(options, resumes=True))


def _check_code(run: KnownRun, prepared: Prepared) -> None:
    """Raise CodeChangedError if other code of the same version of the program made the state that a run resumes from."""
    noted = run.about.get("code")
    if noted is None or prepared.program.version > noted["version"]:
        return
    found = changes(noted["digests"], prepared.code)
    if found and has_committed(run.directory.checkpoints):
        raise CodeChangedError(
            program=prepared.program.name, path=run.directory.path, listing="\n  ".join(found), changes=found
        )


def requested_again(
    run: KnownRun, given: Mapping[str, Given], *, memory: Mapping[str, Any] | Iterable[Any] | None = None
) -> Request:
    """Return the request of a run: its resolved plan.yaml with the given values. Paths are relative to the original plan file.

    Raises PlanFileError, UsageError, CorruptFileError.
    """
    directory = run.directory
    directory.check_whole()
    request = from_file(directory.plan_file, given, memory=memory, base_dir=directory.base_dir)
    is_reshaped = any(name == shape or name.startswith(f"{shape}.") for name in given for shape in SHAPES)
    if is_reshaped and "plan" not in given and run.about.get("plan_is_made"):
        request = replace(request, keeps_plan=False)
    return replace(request, plan_file=directory.of)


def restore_from_table(run: KnownRun, given: Mapping[str, Given], notify: Callable[[str], None]) -> int:
    """Write the newest checkpoint of a run's table into the run's directory of checkpoints; return its epoch.

    Raises UsageError if nothing is lost or the run has no table, CheckpointBusyError if it is alive, CheckpointTableError.
    """
    from dgs.job.schema import FileSink, SinkConfig

    run.check_not_alive()
    request = requested_again(run, given)
    config, place = request.settings.config, run.directory.checkpoints
    if holds_checkpoints(place):
        raise UsageError(message=f"{place} has the checkpoints of the run: resume it without --from-table")
    if config.checkpoint is None or config.checkpoint.spark is None or RUN not in run.about:
        message = f"run {run.directory.path.name} has no table of checkpoints: `checkpoint: {{spark: ...}}` makes one"
        raise UsageError(message=message)
    from dgs.spark_bridge.tables.lost_checkpoints import LostCheckpoints

    own = [SinkConfig(jsonl=FileSink(path=str(run.directory.outputs.absolute())))]
    lost = LostCheckpoints(
        run=str(run.about[RUN]),
        name=run.directory.path.name,
        directory=place,
        sinks=config.sinks or own,
        base_dir=request.base_dir,
        output_dir=run.directory.path,
    )
    return lost.restore(config.checkpoint.spark, config.spark, notify=notify)
