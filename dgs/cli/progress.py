"""Progress of a run: a live line on a terminal, otherwise one status line every ten seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dgs.cli.reporting import say

STATUS_EVERY = 10.0
"""Seconds between two status lines where there is no terminal."""


@contextmanager
def shown_progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """Give the callback for a runtime: it takes the events read and the outputs written so far."""
    if sys.stderr.isatty():
        with _live(name) as callback:
            yield callback
    else:
        yield status_lines(name)


def status_lines(name: str, clock: Callable[[], float] = time.monotonic) -> Callable[[int, int], None]:
    """Return a callback that prints a line at most every STATUS_EVERY seconds."""
    started = last = clock()

    def tell(events: int, outputs: int) -> None:
        nonlocal last
        now = clock()
        if now - last >= STATUS_EVERY:
            last = now
            say(f"dgs: {name}: {_status(events, outputs, now - started)}")

    return tell


@contextmanager
def _live(name: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    started = time.monotonic()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name)

        def tell(events: int, outputs: int) -> None:
            bar.update(task, description=f"{name}: {_status(events, outputs, time.monotonic() - started)}")

        yield tell


def _status(events: int, outputs: int, seconds: float) -> str:
    rate = f", {events / seconds:,.0f} events/s" if seconds > 0 else ""
    return f"{events:,} events, {outputs:,} outputs{rate}"
