"""The messages of a verb on stderr during a run: notices, log lines as text or JSON, progress.

Progress is a live line on a terminal, and a status line every ten seconds elsewhere.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer

from dgs.workers.observing.figures import RunFigures
from dgs.workers.observing.progress_line import Progressing
from dgs.workers.observing.run_log import LogFormat, as_json_line, on_stderr

STATUS_EVERY = 10.0
"""Seconds between two status lines without a terminal."""

SPINNER_WIDTH = 13
"""Columns beside the line on a terminal: the spinner and the time."""


@dataclass(frozen=True)
class Loudness:
    """The values of `-v`, `-q` and `--log-format`."""

    verbose: int = 0
    quiet: bool = False
    log_format: LogFormat = "text"

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise typer.BadParameter("-q and -v contradict each other")

    @property
    def level(self) -> int:
        """The level from which on log lines are printed."""
        if self.quiet:
            return logging.ERROR
        return (logging.WARNING, logging.INFO, logging.DEBUG)[min(self.verbose, 2)]

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Print what `dgs.*` logs inside this context. Errors have messages of their own."""
        logger, handler = logging.getLogger("dgs"), on_stderr(self.level, self.log_format)
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(self.level)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)

    def notify(self, name: str) -> Callable[[str], None]:
        """Return the function that prints a notice of a run."""
        if self.quiet:
            return lambda _: None
        if self.log_format == "json":
            return lambda text: typer.echo(as_json_line(text, name=name), err=True)
        return lambda text: typer.echo(f"dgs: {name}: {text}", err=True)


@contextmanager
def shown_progress(name: str, *, is_quiet: bool = False) -> Iterator[Progress]:
    """Yield the progress callback for a runtime."""
    if is_quiet:
        yield Progress(lambda _: None)
    elif sys.stderr.isatty():
        with _live(name) as shown:
            yield Progress(shown)
    else:
        yield Progress()


class Progress:
    """The progress of a run, as a callback that takes its figures.

    `show` gets each line, in the width of the terminal; by default one is printed whole, at most every STATUS_EVERY seconds.
    """

    def __init__(
        self, show: Callable[[str], None] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._show, self._clock = show, clock
        self._last = clock()
        self._rows: tuple[int, int] | None = None
        self._progressing = Progressing()

    def take_rows(self, read: int, committed: int) -> None:
        """Take the number of rows that Spark has read, and of those in the log."""
        self._rows = (read, committed)

    def __call__(self, figures: RunFigures) -> None:
        """Show a line, if it is time for one."""
        self._progressing.add(figures)
        now = self._clock()
        if figures.is_over or (self._show is None and now - self._last < STATUS_EVERY):
            return
        self._last = now
        rows = "Spark read {:,} rows, {:,} are in the log".format(*self._rows) if self._rows else ""
        if self._show is None:
            typer.echo(f"dgs: {self._progressing.line(more=rows)}", err=True)
        else:
            width = max(shutil.get_terminal_size().columns - SPINNER_WIDTH, 1)
            self._show(self._progressing.line(width=width, more=rows))


@contextmanager
def _live(name: str) -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name)
        yield lambda line: bar.update(task, description=line)
