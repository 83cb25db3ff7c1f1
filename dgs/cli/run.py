"""`dgs run`: runs a plan file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dgs.cli.finishing import RunFlags
from dgs.cli.options import (
    Compile,
)
from dgs.cli.reporting import Ending, verb

if TYPE_CHECKING:
    from dgs.api.preparing import Request
    from dgs.cli.finishing import Asked

# fmt: off
PlanHere = Annotated[Path, typer.Argument(metavar="[PLAN]",
    help="The plan.yaml of the job (default: the one here).", show_default=False)]
MaxEvents = Annotated[int | None, typer.Option("--max-events", min=0, metavar="N",
    help="Take only the first N events, in their total order.")]
ShowConfig = Annotated[bool, typer.Option("--show-config",
    help="Print the resolved plan.yaml and where each value comes from; run nothing.")]
Verify = Annotated[bool, typer.Option("--verify",
    help="Also run the sequential program and compare; exit 1 if the outputs differ.")]
RunDir = Annotated[Path | None, typer.Option("--run-dir", metavar="DIR",
    help="Where the run leaves its files (default: .dgs/runs/ID).")]
View = Annotated[bool, typer.Option("--view",
    help="Show the page of the run while it runs, as `dgs view` does.")]
Resume = Annotated[bool, typer.Option("--resume",
    help="Go on with the unfinished run of this plan file, if there is one.")]
Fresh = Annotated[bool, typer.Option("--fresh",
    help="Begin anew although a run of this plan file is unfinished.")]
# fmt: on


@verb
def run(
    ending: Ending,
    plan_path: PlanHere = Path("plan.yaml"),
    *,
    resume: Resume = False,
    fresh: Fresh = False,
    compile: Compile = None,  # noqa: A002 - the name of the flag
    max_events: MaxEvents = None,
    verify: Verify = False,
    run_dir: RunDir = None,
    view: View = False,
    show_config: ShowConfig = False,
    flags: RunFlags,
) -> None:
    """Run a plan file; outputs go to its sinks, or into the run directory. Ctrl-C stops it at a checkpoint."""
    ending.loudness = flags.loudness
    from dgs.api.preparing import from_file

    wanted = flags.asked(verify=verify, compile=compile)
    request = from_file(plan_path, wanted.given)
    ending.name = request.settings.config.name
    ending.shows_page = view
    if show_config:
        from dgs.cli.show_config import print_config

        print_config(request.settings, as_json=ending.as_json)
        return
    _begin(request, wanted, ending, run_dir, max_events, resume=resume, fresh=fresh)


def _begin(
    request: Request,
    wanted: Asked,
    ending: Ending,
    run_dir: Path | None,
    max_events: int | None,
    *,
    resume: bool,
    fresh: bool,
) -> None:
    """Begin a run, or resume the unfinished one if that is wanted."""
    from dgs.api.beginning import begun, launch
    from dgs.api.preparing import prepare
    from dgs.cli.finishing import run_and_finish
    from dgs.cli.resume import go_on

    run = begun(request, run_dir, resume=resume, fresh=fresh)
    if run is not None:
        go_on(run, wanted, ending)
        return
    prepared = prepare(request, max_events=max_events)
    launched = launch(prepared, run_dir, wanted.options, resume=resume, fresh=fresh)
    run_and_finish(launched, wanted.save_state, ending)
