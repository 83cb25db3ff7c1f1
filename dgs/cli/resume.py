"""`dgs resume`: resumes a run from its newest good checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dgs.cli.loudness import Loudness
from dgs.cli.options import (
    AcceptCodeChange,
    AcceptDuplicates,
    AsJson,
    Debug,
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
)
from dgs.cli.reporting import Ending, print_json, reporting, say, show_path

if TYPE_CHECKING:
    from dgs.api.known_runs import KnownRun
    from dgs.cli.finishing import Asked

# fmt: off
Target = Annotated[Path | None, typer.Argument(metavar="RUN_DIR | PLAN",
    help="The directory of a run, or the plan.yaml whose newest run is meant (default: the newest unfinished run here).",
    show_default=False)]
Verify = Annotated[bool, typer.Option("--verify",
    help="Compare all committed files (jsonl, parquet) with the sequential program; exit 1 if they differ.")]
FromTable = Annotated[bool, typer.Option("--from-table",
    help="Its directory of checkpoints is lost: make it again from its table of checkpoints (`checkpoint: {spark: ...}`).")]
# fmt: on


def resume(
    target: Target = None,
    *,
    from_table: FromTable = False,
    plan: PlanFrom = None,
    optimizer: OptimizerName = None,
    runtime: RuntimeName = None,
    hosts: Hosts = None,
    set_values: SetValues = None,
    accept_duplicates: AcceptDuplicates = False,
    accept_code_change: AcceptCodeChange = False,
    verify: Verify = False,
    tolerance: VerifyTolerance = None,
    save_state: SaveState = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    log_format: LogFormat = LogFormatName.TEXT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Go on with a run that was stopped, failed or was killed; under another plan, runtime or number of hosts, too."""
    with reporting(as_json=as_json, debug=debug) as ending:
        ending.loudness = Loudness(verbose, quiet, log_format.value)
        from dgs.api.known_runs import run_at
        from dgs.api.resuming import resumable
        from dgs.cli.finishing import asked

        wanted = asked(
            set_values,
            plan,
            optimizer=optimizer,
            runtime=runtime,
            hosts=hosts,
            verify=verify,
            tolerance=tolerance,
            save_state=save_state,
            accept_duplicates=accept_duplicates,
            accept_code_change=accept_code_change,
        )
        run = resumable(Path.cwd()) if target is None else run_at(target)
        if from_table:
            from dgs.api.resuming import restore_from_table

            epoch = restore_from_table(run, wanted.given, say)
            say(f"dgs: {run.name}: checkpoint {epoch} is made again from the table of checkpoints")
        go_on(run, wanted, ending)


def go_on(run: KnownRun, wanted: Asked, ending: Ending) -> None:
    """Resume a run in its directory."""
    from dgs.api.resuming import has_nothing_left, launch_again
    from dgs.cli.finishing import run_and_finish

    ending.name = run.name
    if has_nothing_left(run):
        say(f"dgs: {run.name} is done, there is nothing to go on with; the run is in {_path(run)}")
        if ending.as_json:
            print_json(run.directory.results())
        return
    launch = launch_again(run, wanted.given, wanted.options)
    say(f"dgs: {run.name} goes on in {_path(run)}{run.ending}: {run.progress}")
    run_and_finish(launch, wanted.save_state, ending)


def _path(run: KnownRun) -> str:
    return show_path(run.directory.path)
