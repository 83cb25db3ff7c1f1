"""The common part of `dgs run` and `dgs resume`: their flags, the run with its progress, and the closing line."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dgs.cli.loudness import Loudness
from dgs.cli.options import (
    AcceptCodeChange,
    Hosts,
    LogFormat,
    LogFormatName,
    OptimizerName,
    PlanFrom,
    Quiet,
    RuntimeName,
    SaveState,
    SetValues,
    Verbose,
    VerifyTolerance,
    given_by_flags,
)
from dgs.cli.reporting import (
    INTERRUPTED,
    Ending,
    command_elsewhere,
    print_json,
    say,
    say_why_one_worker,
    show_path,
)
from dgs.cli.view import shown
from dgs.workers.runtime.process import check_not_stopped, keep_freed_memory

if TYPE_CHECKING:
    from dgs.api.outcome import Run
    from dgs.api.preparing import Launch, Options
    from dgs.job.settings import Given

UNCOMMITTED = 5
"""The exit code of a run that `dgs stop` ended before it could commit anything."""

BY_SIGNAL = {
    "SIGINT": ("Ctrl-C", INTERRUPTED),
    "SIGTERM": ("a termination signal", 143),
    "SIGHUP": ("the end of its terminal", 129),
}


@dataclass(frozen=True)
class Asked:
    """The values of the flags. `given`: values for the plan file. `save_state`: the file for the final state."""

    given: dict[str, Given]
    options: Options
    save_state: Path | None


@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """The flags of both verbs."""

    accept_code_change: AcceptCodeChange = False
    runtime: RuntimeName = None
    hosts: Hosts = None
    optimizer: OptimizerName = None
    plan: PlanFrom = None
    set_values: SetValues = None
    tolerance: VerifyTolerance = None
    save_state: SaveState = None
    verbose: Verbose = 0
    quiet: Quiet = False
    log_format: LogFormat = LogFormatName.TEXT

    @property
    def loudness(self) -> Loudness:
        """The loudness that `-v`, `-q` and `--log-format` ask for."""
        return Loudness(self.verbose, self.quiet, self.log_format.value)

    def asked(self, *, verify: bool, compile: str | None = None, accept_duplicates: bool = False) -> Asked:  # noqa: A002 - the name of the flag
        """Return the values of these flags and of those that only one of the verbs has.

        Raises BadParameter if a flag needs another one, StateUnwritableError for a file that cannot be written, UsageError and
        PlanFileError for the values of `--set` and `--plan`.
        """
        from dgs.api.preparing import Options
        from dgs.api.state_files import check_place

        if self.tolerance is not None and not verify:
            raise typer.BadParameter("--tolerance is for --verify")
        if self.save_state is not None:
            check_place(self.save_state)
        of_runtime = {
            "runtime__kind": self.runtime,
            "runtime__hosts": self.hosts,
            "runtime__compile": compile,
        }
        given = given_by_flags(self.set_values, self.plan, **of_runtime, optimizer__name=self.optimizer)
        options = Options(
            verify=verify,
            tolerance=self.tolerance,
            accepts_duplicates=accept_duplicates,
            accepts_code_change=self.accept_code_change,
        )
        return Asked(given, options, self.save_state)


def run_and_finish(launch: Launch, state_file: Path | None, ending: Ending) -> None:
    """Run a launch; save the final state into `state_file`; print the closing line and the object; exit with the code."""
    ending.directory = launch.directory
    done = _run(launch, ending)
    for line in done.differences:
        say(line)
    if done.report["status"] == "done" and state_file is not None:
        from dgs.api.state_files import save_state

        save_state(state_file, done.state)
        ending.saved = state_file
    say(_closing_line(done, ending))
    if ending.as_json:
        print_json(done.report, waits=done.report["stopped_by"] is None)
    code = _exit_code(done)
    if code:
        raise typer.Exit(code)


def _run(launch: Launch, ending: Ending) -> Run:
    from dgs.api.running import execute
    from dgs.cli.loudness import shown_progress
    from dgs.workers.runtime.job import Caller
    from dgs.workers.sinks.opening import deliveries

    keep_freed_memory()
    base_dir = launch.prepared.request.base_dir
    paths = [path for sink in launch.sinks if (path := getattr(sink.details, "path", None)) is not None]
    ending.output_dirs = [base_dir / path for path in paths]
    ending.tables = [
        (base_dir / sink.details.path, sink.details.table)
        for sink in launch.sinks
        if sink.kind == "sqlite" and sink.details.mode != "append"
    ]
    loudness = ending.loudness or Loudness()
    if not loudness.quiet:
        say_why_one_worker(launch.prepared)
    if launch.sinks and (weak := deliveries(launch.sinks, launch.prepared.config.delivery, base_dir)):
        loudness.notify(ending.name)(weak)
    directory = launch.directory if ending.shows_page else None
    page = nullcontext() if directory is None else shown(directory)
    check_not_stopped()  # from here on the run itself takes signals
    with loudness.logging(), page, shown_progress(ending.name, is_quiet=loudness.quiet) as progress:
        caller = Caller(progress, notify=loudness.notify(ending.name), rows=progress.take_rows)
        options = replace(launch.options, log_format=loudness.log_format)
        return execute(replace(launch, options=options), caller)


def _closing_line(done: Run, ending: Ending) -> str:
    from dgs.api.outcome import summary

    by = done.report["stopped_by"]
    if by is not None:
        who = BY_SIGNAL.get(by, (by, 0))[0]
        return f"dgs: {done.name} was stopped by {who}; {_stopped(done, ending)}"
    where = f"; the run is in {show_path(done.run_dir)}" if done.run_dir is not None else ""
    state = f"; its final state is in {show_path(ending.saved)}" if ending.saved is not None else ""
    again = f"; repeat with: {command_elsewhere()}" if done.verified is False else ""
    return f"dgs: {done.name} done: {summary(done.report)}{_outputs(ending)}{_letters(done)}{state}{where}{again}"


def _outputs(ending: Ending) -> str:
    """Return a phrase with the places of the outputs."""
    places = sorted({show_path(path) for path in ending.output_dirs if path.exists()})
    return f"; outputs in {', '.join(places)}" if places else ""


def _letters(done: Run) -> str:
    """Return a phrase with the files of skipped events and rows."""
    of_spark = (one["dead_letters"] for one in done.report["left_out"])
    places = [place for place in (done.report["dead_letters"], *of_spark) if place is not None]
    shown = ", ".join(show_path(Path(place)) for place in places)
    return f"; the skipped events are in {shown}" if places else ""


def _stopped(done: Run, ending: Ending) -> str:
    """Return what a stopped run has committed and kept, and how to go on."""
    if done.report["stopped_at"] is None:
        return f"no checkpoint could be committed within `runtime.stop_timeout`; {ending.kept()}{ending.committed()}; {ending.onward()}"
    return f"{ending.progress()}{_outputs(ending)}{_letters(done)}; {ending.onward()}"


def _exit_code(done: Run) -> int:
    by = done.report["stopped_by"]
    if by in BY_SIGNAL:
        return BY_SIGNAL[by][1]
    if by is not None:
        return UNCOMMITTED if done.report["stopped_at"] is None else 0
    return 1 if done.verified is False else 0
