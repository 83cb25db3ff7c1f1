"""`dgs run`: run a plan file."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from dgs.cli.options import AsJson, Debug, OptimizerName, PlanFrom, PlanPath, SetValues, given_by_flags
from dgs.cli.reporting import Ending, Terminated, command, print_json, reporting, say, show_path

if TYPE_CHECKING:
    from dgs.api.preparing import Prepared
    from dgs.run_outcome import Run

RuntimeName = Annotated[
    str | None,
    typer.Option("--runtime", metavar="KIND", help="Run on ray (host processes) or local (this process)."),
]
Hosts = Annotated[int | None, typer.Option("--hosts", min=1, help="How many host processes (Ray).")]
MaxEvents = Annotated[
    int | None,
    typer.Option(
        "--max-events", min=0, metavar="N", help="Take only the first N events, in their total order."
    ),
]
ShowConfig = Annotated[
    bool,
    typer.Option(
        "--show-config", help="Print the resolved plan.yaml and where each value comes from; run nothing."
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify", help="Also run the sequential program and compare; exit 1 if the outputs differ."
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        "--tolerance", min=0, metavar="X", help="For --verify: floats may differ by this, relatively."
    ),
]
RunDir = Annotated[
    Path | None,
    typer.Option("--run-dir", metavar="DIR", help="Where the run leaves its files (default: .dgs/runs/ID)."),
]


def run(
    plan_path: PlanPath,
    *,
    runtime: RuntimeName = None,
    hosts: Hosts = None,
    optimizer: OptimizerName = None,
    plan: PlanFrom = None,
    set_values: SetValues = None,
    max_events: MaxEvents = None,
    verify: Verify = False,
    tolerance: Tolerance = None,
    run_dir: RunDir = None,
    show_config: ShowConfig = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run a plan file; outputs go to its sinks, or into the run directory."""
    with reporting(as_json=as_json, debug=debug) as ending:
        from dgs.api.preparing import from_file, prepare

        if tolerance is not None and not verify:
            raise typer.BadParameter("--tolerance is for --verify")
        given = given_by_flags(
            set_values, plan, runtime__kind=runtime, runtime__hosts=hosts, optimizer__name=optimizer
        )
        request = from_file(plan_path, given)
        ending.name = request.settings.config.name
        if show_config:
            from dgs.cli.show_config import print_config

            print_config(request.settings, as_json=as_json)
            return
        with _stopped_by_sigterm():
            prepared = prepare(request, max_events=max_events)
            done = _execute(prepared, ending, run_dir, verify=verify, tolerance=tolerance)
        _finish(done, ending)


def _execute(
    prepared: Prepared, ending: Ending, run_dir: Path | None, *, verify: bool, tolerance: float | None
) -> Run:
    from dgs.api.running import execute, sinks_of
    from dgs.cli.progress import shown_progress
    from dgs.run_directory import RunDirectory
    from workers.job import Caller

    base_dir = prepared.request.base_dir
    directory = RunDirectory.create(run_dir) if run_dir is not None else RunDirectory.beside(base_dir)
    ending.directory = directory
    paths = [sink.details.path for sink in sinks_of(prepared, directory) if hasattr(sink.details, "path")]
    ending.output_dirs = [base_dir / path for path in paths]
    with shown_progress(ending.name) as progress:
        caller = Caller(progress, notify=lambda text: say(f"dgs: {ending.name}: {text}"))
        return execute(
            prepared, directory, collect=False, verify=verify, tolerance=tolerance, caller=caller
        )


def _finish(done: Run, ending: Ending) -> None:
    """Print the closing line, and the object; exit 1 if the outputs are not those of the sequential program."""
    from dgs.run_outcome import summary

    for line in done.differences:
        say(line)
    places = sorted({show_path(path) for path in ending.output_dirs if path.exists()})
    outputs = f"; outputs in {', '.join(places)}" if places else ""
    where = f"; the run is in {show_path(done.run_dir)}" if done.run_dir is not None else ""
    again = f"; repeat with: {command()}" if done.verified is False else ""
    say(f"dgs: {done.name} done: {summary(done.report)}{outputs}{where}{again}")
    if ending.as_json:
        print_json(done.report)
    if done.verified is False:
        raise typer.Exit(1)


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Let SIGTERM stop the run as Ctrl-C does."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
