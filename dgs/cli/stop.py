"""`dgs stop`: stops a run at a checkpoint, and waits until it has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dgs.cli.options import Timeout
from dgs.cli.reporting import Ending, print_json, resume_command, say, show_path, verb

# fmt: off
Target = Annotated[Path | None, typer.Argument(metavar="RUN_DIR | PLAN",
    help="The directory of a run, or the plan.yaml whose newest run is meant (default: the one run that is alive here).",
    show_default=False)]
# fmt: on


@verb
def stop(ending: Ending, target: Target = None, *, timeout: Timeout = 60.0) -> None:
    """Let a run commit what it has and end; it can be gone on with."""
    from dgs.api.steering import running, stop_run

    run = running(Path.cwd(), target)
    was_alive = run.is_alive
    results = stop_run(run, timeout=timeout)
    where = show_path(run.directory.path)
    if results.get("status") == "done":
        how = "is done" if was_alive else "was done already"
        say(f"dgs: {run.name} {how}; the run is in {where}")
    elif not was_alive:
        say(
            f"dgs: {run.name} is not running{run.ending}; {run.progress}; go on with: {resume_command(run.directory.path)}"
        )
    else:
        onward = f"go on with: {resume_command(run.directory.path)}"
        say(f"dgs: {run.name} has ended{_how(results)}; {run.progress}; {onward}")
    if ending.as_json:
        print_json({"run_dir": str(run.directory.path), "was_running": was_alive, **results})


def _how(results: dict[str, Any]) -> str:
    """Return how a live run ended after a request to stop; empty if at a checkpoint."""
    status = results.get("status")
    if status == "stopped":
        return "" if results["stopped_at"] is not None else "; no checkpoint could be committed in time"
    how = {
        "failed": "it failed by itself",
        "interrupted": "it was interrupted",
        "killed": "its process was killed",
    }
    return f": {how.get(str(status), status)}"
