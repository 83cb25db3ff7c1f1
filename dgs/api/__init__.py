"""Running programs from Python: everything the command line does. Read in this order.

- `preparing`: a request, then a prepared job, then a launch. `beginning`, `resuming`: whether a run begins or goes on.
- `running`: executes a launch on one of the `runtimes`. `verifying`, `reports`, `outcome`, `state_files`: its results.
- `known_runs`: finds runs by their directories. `steering`: stops and moves runs. `predicting`: the speed of a job on more hosts.

>>> from dgs import Program
>>> class Total(Program):
...     def init(self): return 0
...     def update(self, state, event, emit):
...         emit(state + event.payload)
...         return state + event.payload
>>> finished = run(Total, streams={"early": [("n", 1, 10)], "late": [("n", 1, 5), ("n", 2, 1)]}, verify=True)
>>> finished.outputs, finished.state, finished.verified
([10, 15, 16], 16, True)
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dgs.api.in_scripts import folded, say_how_to_go_on
from dgs.api.outcome import Run
from dgs.errors import NoSuchRunError, UsageError
from dgs.model.program import OwnOutput, OwnState, Program

if TYPE_CHECKING:
    from dgs.api.known_runs import KnownRun
    from dgs.api.preparing import Launch, Options, Request
    from dgs.flow import Flow
    from dgs.frames.frame_stream import Items, Stream
    from dgs.job.settings import Given
    from dgs.planner.plan import Plan

__all__ = ["Run", "replan", "resume", "run", "stop"]


@folded
def run(
    job: str | os.PathLike[str] | Program[OwnState, OwnOutput] | type[Program[OwnState, OwnOutput]] | Flow,
    *,
    streams: Mapping[str, Items] | list[Stream] | tuple[Stream, ...] | None = None,
    runtime: str | Mapping[str, Any] | None = None,
    optimizer: str | Mapping[str, Any] | None = None,
    plan: Plan | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    compile: Literal["auto", "require", "off"] | None = None,  # noqa: A002 - as in the plan file
    settings: Mapping[str, Any] | None = None,
    max_events: int | None = None,
    verify: bool = False,
    tolerance: float | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    resume: bool = False,
    fresh: bool = False,
    accept_code_change: bool = False,
) -> Run[OwnState, OwnOutput]:
    """Run a plan file, or a program or a flow over streams from Python; return its outputs, report, plan and final state.

    `streams`: items by stream: `(tag, ts, payload)`, Event, Heartbeat or EventBatch; the order of the streams breaks ties.
    For a flow: the elements of each stream, `(ts, value)`. A stream may also be a data frame: `dgs.stream(frame, ...)` says what its
    columns are, and a list of such streams uses their `id`s. With a plan file: the data of its `memory` sources. `runtime`, `optimizer`: a
    name, or a section of the plan file.
    `plan`: a plan to use instead of making one. `compile`: as under `runtime`. `settings`: other values by path, such as {"runtime.linger": "10ms"}.
    `max_events`: take only the first events, in the total order. `verify`: compare with the sequential program
    (`tolerance` for floats). `run_dir`: the run directory; by default `.dgs/runs/<id>` beside a plan file, and none for a
    program over streams from Python.

    `resume`, `fresh`: if the plan file has an unfinished run, resume it, or start anew. `accept_code_change`: as in `resume`.

    Ctrl-C, SIGTERM and `dgs.stop` end a run with a directory at a checkpoint: see `resume`. After a signal this function raises what the
    signal normally raises (KeyboardInterrupt).

    Raises any DgsError; UnfinishedRunError if there is an unfinished run and neither `resume` nor `fresh` is given.
    """
    from dgs.api import beginning, preparing
    from dgs.job.settings import Given

    given = overrides(runtime=runtime, optimizer=optimizer, plan=plan, settings=settings)
    if compile is not None:
        given["runtime.compile"] = Given(compile, "compile=")
    request, items = _requested(job, streams, given)
    place = None if run_dir is None else Path(run_dir)
    options = preparing.Options(
        collect=True, verify=verify, tolerance=tolerance, accepts_code_change=accept_code_change
    )
    begun = beginning.begun(request, place, resume=resume, fresh=fresh)
    if begun is not None:
        return _resumed(begun, given, options, streams=items, program=request.program, plan=_tree(plan))
    prepared = preparing.prepare(request, plan=_tree(plan), max_events=max_events)
    return _executed(beginning.launch(prepared, place, options, resume=resume, fresh=fresh))


@folded
def resume(
    run: str | os.PathLike[str],
    *,
    program: Program[OwnState, OwnOutput] | type[Program[OwnState, OwnOutput]] | Flow | None = None,
    streams: Mapping[str, Items] | list[Stream] | tuple[Stream, ...] | None = None,
    runtime: str | Mapping[str, Any] | None = None,
    optimizer: str | Mapping[str, Any] | None = None,
    plan: Plan | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    accept_duplicates: bool = False,
    accept_code_change: bool = False,
    from_table: bool = False,
    verify: bool = False,
    tolerance: float | None = None,
) -> Run[OwnState, OwnOutput]:
    """Resume a run that was stopped, failed or was killed, from its newest good checkpoint, under any plan and runtime.

    `run`: its directory, or a plan file for its newest run. `program`, `streams`: the program or flow and its streams, as for `run`,
    if it was started from Python with them. The result has only outputs made from now on; the sinks have all outputs.
    `accept_duplicates`: resume even if the record of committed outputs is lost. `accept_code_change`: resume even if the program's
    code has changed and its `version` has not. `from_table`: the directory of checkpoints is lost: restore it from the run's table of
    checkpoints. `verify`: compare all committed files with the sequential program.

    Raises any DgsError; CheckpointBusyError if the run is alive, CodeChangedError or CheckpointRefusedError if it cannot be resumed.
    """
    from dgs.api.known_runs import run_at
    from dgs.api.preparing import Options

    given = overrides(runtime=runtime, optimizer=optimizer, plan=plan, settings=settings)
    options = Options(
        collect=True,
        verify=verify,
        tolerance=tolerance,
        accepts_duplicates=accept_duplicates,
        accepts_code_change=accept_code_change,
    )
    known = run_at(run)
    if from_table:
        from dgs.api.resuming import restore_from_table

        restore_from_table(known, given, lambda _: None)
    made, items = None, streams
    if program is not None:
        from dgs.job.python_streams import of_python

        found = of_python(program, streams, "dgs.resume(program=) takes a program or a flow")
        made, items = found.program, found.streams
    return _resumed(known, given, options, streams=items, program=made, plan=_tree(plan))


@folded
def stop(run: str | os.PathLike[str], *, timeout: float = 60.0) -> dict[str, Any]:
    """Stop a run of another process or thread at a checkpoint; return its results when it has ended.

    `run`: its directory, or its plan file. `timeout`: seconds. The results are those of `results.json`, or
    `{"status": "killed", "resume": "dgs resume ..."}` if its process was killed. Raises NoSuchRunError, NoAnswerError.
    """
    from dgs.api import known_runs, steering

    return steering.stop_run(known_runs.run_at(run), timeout=timeout)


@folded
def replan(
    run: str | os.PathLike[str],
    *,
    plan: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    optimizer: str | Mapping[str, Any] | None = None,
    program: Program | type[Program] | Flow | None = None,
    timeout: float = 60.0,
) -> None:
    """Move a run of another process or thread to another plan, at a checkpoint, without losing its place.

    Give a plan (its data, or a file with a `plan:` section) or an optimizer to make one. `timeout`: seconds. Raises
    InvalidPlanError if the plan does not fit the program (the run then keeps its plan), NoSuchRunError, NoAnswerError, UsageError
    if neither is given.
    """
    from dgs.api import known_runs, steering

    given = overrides(runtime=None, optimizer=optimizer, plan=plan, settings=None)
    if not given:
        raise UsageError(message="dgs.replan needs a plan or an optimizer")
    made = None
    if program is not None:
        from dgs.job.python_streams import of_python

        made = of_python(program, None, "dgs.replan(program=) takes a program or a flow").program
    steering.move_run(known_runs.run_at(run), given, program=made, timeout=timeout)


def _requested(
    job: str | os.PathLike[str] | Program | type[Program] | Flow,
    streams: Mapping[str, Items] | list[Stream] | tuple[Stream, ...] | None,
    given: Mapping[str, Given],
) -> tuple[Request, Mapping[str, Any] | Iterable[Any] | None]:
    """Return the job to run, and the streams in the form that the program takes."""
    from dgs.api import preparing
    from dgs.job.python_streams import of_python

    if isinstance(job, (str, os.PathLike)):
        return preparing.from_file(job, given, memory=streams), streams
    if streams is None:
        raise UsageError(message="dgs.run(program) needs streams={...}")
    found = of_python(job, streams, "dgs.run takes a plan file, a program or a flow")
    made = found.streams or {}
    return preparing.from_program(found.program, made, given, kinds=found.kinds), made


def _resumed(
    run: KnownRun,
    given: Mapping[str, Given],
    options: Options,
    *,
    streams: Mapping[str, Any] | Iterable[Any] | None,
    program: Program | None,
    plan: Plan | None,
) -> Run:
    from dgs.api import resuming

    if resuming.has_nothing_left(run):
        raise NoSuchRunError(
            problem=f"the run in {run.directory.path} came to its end, and kept no checkpoint",
            advice="Run the plan file again",
        )
    launch = resuming.launch_again(run, given, options, memory=streams, program=program, plan=plan)
    return _executed(launch)


def _executed(launch: Launch) -> Run:
    """Run a launch. If a signal stops it, say how to resume, and raise what the signal normally raises."""
    from dgs.api.running import execute
    from dgs.notebook import caller_in_a_cell

    try:
        run = execute(launch, caller_in_a_cell())
    except KeyboardInterrupt:
        say_how_to_go_on(launch)
        raise
    by = str(run.report.get("stopped_by"))
    if by in signal.Signals.__members__:
        say_how_to_go_on(launch)
        signal.raise_signal(signal.Signals[by])
    return run


def _tree(plan: Any) -> Plan | None:
    from dgs.planner.plan import Plan

    if plan is None or isinstance(plan, (str, os.PathLike, Mapping)):
        return None
    if not isinstance(plan, Plan):
        message = f"plan={plan!r} is of type {type(plan).__name__}: give a Plan, its data or a file with a `plan:` section"
        raise UsageError(message=message)
    return plan


def overrides(
    *,
    runtime: str | Mapping[str, Any] | None,
    optimizer: str | Mapping[str, Any] | None,
    plan: Any,
    settings: Mapping[str, Any] | None,
) -> dict[str, Given]:
    """Return the values given from Python by their paths in the plan file, except a plan that is a tree.

    Raises PlanFileError for a file without a `plan:` section, and UsageError for anything else.
    """
    from dgs.job.document import read_plan_section
    from dgs.job.run_directory import plan_at
    from dgs.job.settings import Given

    for name, value, kinds in (
        ("runtime", runtime, str),
        ("optimizer", optimizer, str),
        ("settings", settings, ()),
    ):
        if value is not None and not isinstance(value, (Mapping, kinds)):
            right = f"a dictionary{' or a name' * (kinds is str)}"
            raise UsageError(message=f"{name}={value!r} is of type {type(value).__name__}: give {right}")
    for path in settings or {}:
        if not isinstance(path, str):
            raise UsageError(message=f"settings={settings!r}: {path!r} is no path such as 'runtime.linger'")
    given = {path: Given(value, f"settings[{path!r}]") for path, value in (settings or {}).items()}
    for name, short, section in (("runtime", "kind", runtime), ("optimizer", "name", optimizer)):
        fields = {short: section} if isinstance(section, str) else section or {}
        given |= {f"{name}.{key}": Given(value, f"{name}=") for key, value in fields.items()}
    if isinstance(plan, (str, os.PathLike)):
        given["plan"] = Given(read_plan_section(plan_at(Path(plan))), f"plan={os.fspath(plan)!r}")
    elif isinstance(plan, Mapping):
        given["plan"] = Given(dict(plan), "plan=")
    return given
