"""`dgs replan`: moves a run to another plan while it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dgs.cli.options import MaxLeaves, OptimizerName, PlanFrom, Timeout, given_by_flags
from dgs.cli.reporting import Ending, print_json, say, show_path, verb

# fmt: off
Target = Annotated[Path, typer.Argument(metavar="RUN_DIR",
    help="The directory of a run that is alive, or the plan.yaml whose newest run is meant.",
    show_default=False)]
# fmt: on


@verb
def replan(
    ending: Ending,
    target: Target,
    *,
    plan: PlanFrom = None,
    optimizer: OptimizerName = None,
    max_leaves: MaxLeaves = None,
    timeout: Timeout = 60.0,
) -> None:
    """Let a run move to another plan, at a checkpoint, without losing its place. A plan that is not valid changes nothing."""
    from dgs.api.steering import move_run, running

    given = given_by_flags(None, plan, optimizer__name=optimizer, optimizer__max_leaves=max_leaves)
    if not given:
        raise typer.BadParameter("give the new plan: --plan FILE, or --optimizer NAME")
    run = running(Path.cwd(), target)
    path = move_run(run, given, timeout=timeout)
    say(f"dgs: {run.name} has moved; the plan is in {show_path(run.directory.plan_file)}")
    if ending.as_json:
        print_json({"run_dir": str(run.directory.path), "plan": path})
