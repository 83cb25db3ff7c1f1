"""`dgs report`: the page of a run as one file that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dgs.cli.options import named
from dgs.cli.reporting import Ending, print_json, say, show_path, verb
from dgs.cli.view import Target

# fmt: off
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE.html", callback=named(".html", ".htm"),
    help="Where the page goes (default: report.html in the run directory).", show_default=False)]
Picture = Annotated[Path | None, typer.Option("--picture", metavar="FILE.svg", callback=named(".svg"),
    help="Write the run as one SVG there, instead of the page.")]
At = Annotated[float | None, typer.Option("--at", min=0, metavar="S",
    help="For --picture: the moment, in seconds since the run began.")]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that was not made by `dgs report`.")]
# fmt: on


@verb
def report(
    ending: Ending,
    target: Target = None,
    *,
    output: Output = None,
    picture: Picture = None,
    at: At = None,
    force: Force = False,
) -> None:
    """Write the page of a run, with its history, as one HTML file; also of a run that failed or was killed."""
    from dgs.api.known_runs import run_named
    from dgs.view.report_file import NAME, write_picture, write_report
    from dgs.view.run_reading import RunView

    if picture is not None and output is not None:
        raise typer.BadParameter("give --output or --picture, not both")
    if at is not None and picture is None:
        raise typer.BadParameter("--at is for --picture")
    run = run_named(target, Path.cwd())
    ending.name = run.name
    seen = RunView(run.directory.path, lambda: run.status).seen()
    path = picture or output or run.directory.path / NAME
    if picture is not None:
        size = write_picture(seen, path, at=at, force=force)
    else:
        size = write_report(seen, path, force=force)
    say(f"dgs: {run.name} ({run.status}) is drawn in {show_path(path)}, {size / 1000:,.0f} kB")
    if ending.as_json:
        print_json({"run_dir": str(run.directory.path), "file": str(path), "bytes": size})
