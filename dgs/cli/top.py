"""`dgs top`: the streams, workers and sinks of a run in the terminal, first those that hold the run back.

On a terminal it follows the run until that ends, or until Ctrl-C. In a pipe it prints the newest figures once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dgs.cli.reporting import Ending, print_json, print_table, printable, say, verb

if TYPE_CHECKING:
    from dgs.api.known_runs import KnownRun
    from dgs.observe import RunFigures
    from dgs.workers.observing.top_tables import Table

# fmt: off
Target = Annotated[str | None, typer.Argument(metavar="RUN | PLAN",
    help="The id or directory of a run, or the plan.yaml whose newest run is meant (default: the newest run here).",
    show_default=False)]
Once = Annotated[bool, typer.Option("--once", help="Print the newest figures once, also on a terminal.")]
# fmt: on


@verb
def top(ending: Ending, target: Target = None, *, once: Once = False) -> None:
    """Show what a run does now: what holds it back, its streams, workers and sinks."""
    from dgs.api.known_runs import run_named
    from dgs.observe import newest

    run = run_named(target, Path.cwd())
    if ending.as_json:
        _print_data(run, newest(run.directory.path))
    elif once or not sys.stdout.isatty() or not run.is_alive:
        _print(run, newest(run.directory.path))
    else:
        _follow(run)


def _print_data(run: KnownRun, figures: RunFigures) -> None:
    import json

    from dgs.observe import blame
    from dgs.workers.observing.figure_lines import line_of, named

    cause = blame(figures)
    known = {"id": run.directory.path.name, "status": run.status, "held_back_by": cause and cause.sentence}
    print_json({**known, **named(json.loads(line_of(figures)))})


def _print(run: KnownRun, figures: RunFigures) -> None:
    from dgs.workers.observing.top_tables import head_of, tables_of

    print("\n".join(map(printable, head_of(figures, status=run.status))))
    for table in tables_of(figures):
        print()
        print_table(table.head, list(table.rows))


def _follow(run: KnownRun) -> None:
    """Redraw the figures whenever there are new ones, until the run ends."""
    from rich.console import Console
    from rich.live import Live

    from dgs.observe import follow

    console, last = Console(), None
    with suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        for figures in follow(run.directory.path, is_alive=lambda: run.is_alive):
            if figures is not None:
                last = figures
                live.update(_drawn(figures, run.status), refresh=True)
    if last is None:
        say("dgs: the run has left no figures yet")
    else:
        _print(run, last)


def _drawn(figures: RunFigures, status: str) -> Any:
    from rich.console import Group
    from rich.text import Text

    from dgs.workers.observing.top_tables import head_of, tables_of

    return Group(*(Text(line) for line in head_of(figures, status=status)), *_rich_tables(tables_of(figures)))


def _rich_tables(tables: Iterable[Table]) -> Iterable[Any]:
    from rich.table import Table as Drawn
    from rich.text import Text

    for table in tables:
        drawn = Drawn(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        first = next(iter(table.rows), ())
        for name, value in zip(table.head, first or table.head, strict=True):
            drawn.add_column(name, justify="right" if isinstance(value, int) else "left", no_wrap=True)
        for row in table.rows:
            drawn.add_row(*(Text("-" if value is None else str(value)) for value in row))
        yield drawn
