"""What `dgs run` and `dgs resume` have in common: what their flags ask for, the run with its progress, its closing line."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from dgs.cli.options import given_by_flags
from dgs.cli.progress import shown_progress
from dgs.cli.reporting import (
    INTERRUPTED,
    TERMINATED,
    Ending,
    Terminated,
    command,
    print_json,
    say,
    show_path,
)

if TYPE_CHECKING:
    from dgs.api.outcome import Run
    from dgs.api.preparing import Prepared
    from dgs.api.running import Options
    from dgs.job.settings import Given

UNCOMMITTED = 5
"""The exit code of a run that `dgs stop` ended and that could commit nothing in time."""

BY_SIGNAL = {"SIGINT": ("Ctrl-C", INTERRUPTED), "SIGTERM": ("a termination signal", TERMINATED)}


@dataclass(frozen=True)
class Asked:
    """What flags ask for. `given`: values of the plan file; `save_state`: where to write the final state."""

    given: dict[str, Given]
    options: Options
    save_state: Path | None


def asked(
    set_values: list[str] | None,
    plan: Path | None,
    *,
    optimizer: str | None,
    runtime: str | None,
    hosts: int | None,
    verify: bool,
    tolerance: float | None,
    save_state: Path | None,
    accept_duplicates: bool = False,
) -> Asked:
    """Return what flags ask for.

    Raises BadParameter for one that needs another one, StateUnwritableError for a file that cannot be written, UsageError and
    PlanFileError for what `--set` and `--plan` give.
    """
    from dgs.api.running import Options
    from dgs.api.state_files import check_place

    if tolerance is not None and not verify:
        raise typer.BadParameter("--tolerance is for --verify")
    if save_state is not None:
        check_place(save_state)
    given = given_by_flags(
        set_values, plan, runtime__kind=runtime, runtime__hosts=hosts, optimizer__name=optimizer
    )
    options = Options(verify=verify, tolerance=tolerance, accepts_duplicates=accept_duplicates)
    return Asked(given, options, save_state)


def run_and_finish(prepared: Prepared, wanted: Asked, ending: Ending, *, resumes: bool) -> None:
    """Run in the directory of the ending; print the closing line, and the object; exit with what it came to."""
    done = _run(prepared, replace(wanted.options, resumes=resumes), ending)
    for line in done.differences:
        say(line)
    if done.report["status"] == "done" and wanted.save_state is not None:
        from dgs.api.state_files import save_state

        save_state(wanted.save_state, done.state)
        ending.saved = wanted.save_state
    say(_closing_line(done, ending))
    if ending.as_json:
        print_json(done.report)
    code = _exit_code(done)
    if code:
        raise typer.Exit(code)


def _run(prepared: Prepared, options: Options, ending: Ending) -> Run:
    from dgs.api.running import execute, sinks_of
    from dgs.workers.runtime.allocator import keep_freed_memory
    from dgs.workers.runtime.job import Caller
    from dgs.workers.sinks.delivery import deliveries

    keep_freed_memory()
    base_dir, directory = prepared.request.base_dir, ending.directory
    sinks = sinks_of(prepared, directory)
    paths = [path for sink in sinks if (path := getattr(sink.details, "path", None)) is not None]
    ending.output_dirs = [base_dir / path for path in paths]
    weak = deliveries(sinks, prepared.config.delivery)
    if weak is not None:
        say(f"dgs: {ending.name}: {weak}")
    with shown_progress(ending.name) as progress:
        caller = Caller(progress, notify=lambda text: say(f"dgs: {ending.name}: {text}"))
        return execute(prepared, directory, options, caller)


def _closing_line(done: Run, ending: Ending) -> str:
    from dgs.api.outcome import summary

    by = done.report["stopped_by"]
    if by is not None:
        who = BY_SIGNAL.get(by, (by, 0))[0]
        return f"dgs: {done.name} was stopped by {who}; {_stopped(done, ending)}"
    where = f"; the run is in {show_path(done.run_dir)}" if done.run_dir is not None else ""
    state = f"; its final state is in {show_path(ending.saved)}" if ending.saved is not None else ""
    again = f"; repeat with: {command()}" if done.verified is False else ""
    return f"dgs: {done.name} done: {summary(done.report)}{_outputs(ending)}{_letters(done)}{state}{where}{again}"


def _outputs(ending: Ending) -> str:
    """Return a phrase on where the outputs are."""
    places = sorted({show_path(path) for path in ending.output_dirs if path.exists()})
    return f"; outputs in {', '.join(places)}" if places else ""


def _letters(done: Run) -> str:
    """Return a phrase on where the events are that were skipped."""
    place = done.report["dead_letters"]
    return "" if place is None else f"; the skipped events are in {show_path(Path(place))}"


def _stopped(done: Run, ending: Ending) -> str:
    """Return what is committed of a run that was stopped, what is kept, and how to go on."""
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


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Let SIGTERM stop what comes before and after the run as Ctrl-C does."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
