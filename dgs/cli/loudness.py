"""How much a verb that runs something says on stderr: notices, log lines, progress; and whether log lines are text or JSON."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer

from dgs.workers.observing.run_log import LogFormat, as_json_line, on_stderr


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
