"""`dgs view`: the page of a run, live while it runs, on loopback."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dgs.cli.reporting import Ending, print_json, say, show_path, verb

if TYPE_CHECKING:
    from dgs.job.run_directory import RunDirectory

# fmt: off
Target = Annotated[str | None, typer.Argument(metavar="RUN | PLAN",
    help="The id or directory of a run, or the plan.yaml whose newest run is meant (default: the newest run here).",
    show_default=False)]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, metavar="N",
    help="The port (default: a free one).", show_default=False)]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
UntilClosed = Annotated[bool, typer.Option("--until-closed", hidden=True,
    help="End when standard input is closed.")]
# fmt: on


@verb
def view(
    ending: Ending,
    target: Target = None,
    *,
    port: Port = 0,
    opens: Open = False,
    until_closed: UntilClosed = False,
) -> None:
    """Show a run as a page on this machine: its plan, its streams, and what holds it back. Ctrl-C ends the page, not the run."""
    from dgs.api.known_runs import run_named
    from dgs.view.page_feed import Feed
    from dgs.view.run_reading import RunView
    from dgs.view.server import LOOPBACK, listening, new_token, serve

    if until_closed and not _has_begun(Path(target or "")):
        return
    run = run_named(target, Path.cwd())
    ending.name = run.name
    place, token = listening(port), new_token()
    url = f"http://{LOOPBACK}:{place.getsockname()[1]}/?token={token}"
    if ending.as_json:
        print_json({"run_dir": str(run.directory.path), "url": url})
    else:
        say(f"dgs: {run.name} ({run.status}), in {show_path(run.directory.path)}, is shown at {url}")
    feed = Feed(RunView(run.directory.path, lambda: run.status))
    with _opened(url) if opens else nullcontext(), suppress(KeyboardInterrupt):
        serve(feed, place, token, is_wanted=_is_open if until_closed else lambda: True)


def _has_begun(directory: Path) -> bool:
    """Wait until a run has begun in a directory; return False if standard input was closed before."""
    from dgs.api.known_runs import KnownRun
    from dgs.job.run_directory import RunDirectory

    run = KnownRun(RunDirectory(directory))
    while not (run.is_alive and run.directory.about().get("status") == "running"):
        if not _is_open():
            return False
        time.sleep(0.1)
    return True


def _is_open() -> bool:
    """Return whether standard input is open: the process that started this one has the other end."""
    ready, _, _ = select.select([0], [], [], 0)
    return not ready or bool(os.read(0, 1))


@contextmanager
def _opened(url: str) -> Iterator[None]:
    """Open a page in a browser through a file that redirects to it: in the arguments of a process, other users would see the token."""
    import webbrowser

    with tempfile.TemporaryDirectory(prefix="dgs-view-") as folder:  # only its user may read it
        file = Path(folder) / "run.html"
        file.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={url}"><title>dgs</title>',
            encoding="utf-8",
        )
        webbrowser.open(file.as_uri())
        yield


@contextmanager
def shown(directory: RunDirectory) -> Iterator[None]:
    """Show the page of a run in a separate process that ends with this context."""
    command = [sys.executable, "-m", "dgs", "view", str(directory.path), "--until-closed"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - our own command
    try:
        yield
    finally:
        _close(process)


def _close(process: subprocess.Popen[bytes], within: float = 10.0) -> None:
    close: Callable[[], None] = process.stdin.close if process.stdin is not None else process.terminate
    with suppress(OSError):
        close()
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
