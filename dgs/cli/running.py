"""What `dgs run` and `dgs resume` have in common: the run with its progress, and its closing line."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

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
    from dgs.api.preparing import Prepared
    from dgs.api.running import Options
    from dgs.run_directory import RunDirectory
    from dgs.run_outcome import Run

UNCOMMITTED = 5
"""The exit code of a run that `dgs stop` ended and that could commit nothing in time."""

BY_SIGNAL = {"SIGINT": ("Ctrl-C", INTERRUPTED), "SIGTERM": ("a termination signal", TERMINATED)}


def check_flags(*, verify: bool, tolerance: float | None, save_state: Path | None) -> None:
    """Raise BadParameter for flags that need another one, StateUnwritableError for a file that cannot be written."""
    if tolerance is not None and not verify:
        raise typer.BadParameter("--tolerance is for --verify")
    if save_state is not None:
        from dgs.saved_state import check_place

        check_place(save_state)


def new_directory(prepared: Prepared, run_dir: Path | None) -> RunDirectory:
    """Make the directory of a new run. Raises OutputUnwritableError."""
    from dgs.run_directory import RunDirectory

    if run_dir is not None:
        return RunDirectory.create(run_dir)
    return RunDirectory.beside(prepared.request.base_dir)


def run_and_finish(prepared: Prepared, options: Options, ending: Ending, save_state: Path | None) -> None:
    """Run in the directory of the ending; print the closing line, and the object; exit with what it came to."""
    done = _run(prepared, options, ending)
    for line in done.differences:
        say(line)
    if done.report["status"] == "done" and save_state is not None:
        from dgs.saved_state import save_state as save

        save(save_state, done.state)
        ending.saved = save_state
    say(_closing_line(done, ending))
    if ending.as_json:
        print_json(done.report)
    code = _exit_code(done)
    if code:
        raise typer.Exit(code)


def _run(prepared: Prepared, options: Options, ending: Ending) -> Run:
    from dgs.api.running import execute, sinks_of
    from workers.job import Caller
    from workers.sinks.delivery import deliveries

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
    from dgs.run_outcome import summary

    by = done.report["stopped_by"]
    if by is not None:
        who = BY_SIGNAL.get(by, (by, 0))[0]
        return f"dgs: {done.name} was stopped by {who}; {_stopped(done, ending)}"
    places = sorted({show_path(path) for path in ending.output_dirs if path.exists()})
    outputs = f"; outputs in {', '.join(places)}" if places else ""
    where = f"; the run is in {show_path(done.run_dir)}" if done.run_dir is not None else ""
    state = f"; its final state is in {show_path(ending.saved)}" if ending.saved is not None else ""
    again = f"; repeat with: {command()}" if done.verified is False else ""
    return f"dgs: {done.name} done: {summary(done.report)}{outputs}{_letters(done)}{state}{where}{again}"


def _letters(done: Run) -> str:
    """Return a phrase on where the events are that were skipped."""
    place = done.report["dead_letters"]
    return "" if place is None else f"; the skipped events are in {show_path(Path(place))}"


def _stopped(done: Run, ending: Ending) -> str:
    """Return what is committed of a run that was stopped, what is kept, and how to go on."""
    if done.report["stopped_at"] is None:
        return f"no checkpoint could be committed within `runtime.stop_timeout`; {ending.kept()}{ending.committed()}; {ending.onward()}"
    places = sorted({show_path(path) for path in ending.output_dirs if path.exists()})
    outputs = f"; outputs in {', '.join(places)}" if places else ""
    return f"{ending.progress()}{outputs}{_letters(done)}; {ending.onward()}"


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
