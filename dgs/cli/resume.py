"""`dgs resume`: resumes a run from its newest good checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dgs.cli.finishing import RunFlags
from dgs.cli.options import (
    AcceptDuplicates,
)
from dgs.cli.reporting import Ending, print_json, say, show_path, verb

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


@verb
def resume(
    ending: Ending,
    target: Target = None,
    *,
    from_table: FromTable = False,
    accept_duplicates: AcceptDuplicates = False,
    verify: Verify = False,
    flags: RunFlags,
) -> None:
    """Go on with a run that was stopped, failed or was killed; under another plan, runtime or number of hosts, too."""
    ending.loudness = flags.loudness
    from dgs.api.known_runs import run_at
    from dgs.api.resuming import resumable

    wanted = flags.asked(verify=verify, accept_duplicates=accept_duplicates)
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
