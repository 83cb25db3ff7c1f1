"""`python -m experiments.queries.bench`: the cost of keeping answers of queries, beside the same work without dgs, in one run.

Each line has medians of the CPU time of five alternating repetitions, and the ratio of our time to the opponent's, or our time in ms.
Without `--full` sizes are small and the bench takes a minute.
"""

from __future__ import annotations

import gc
import json as jsons
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from experiments.bench import report
from experiments.queries.query_workloads import FULL, SMALL, WORKLOADS, Duel, Sizes


@dataclass(frozen=True)
class Result:
    """A duel with its medians, in ms of CPU time, and the figure of its kind, which must be at most `most`."""

    name: str
    opponent: str
    ours: float
    theirs: float | None
    kind: str
    figure: float
    most: float

    @property
    def is_met(self) -> bool:
        """Whether the target is met."""
        return self.figure <= self.most


def measured(duel: Duel, sizes: Sizes) -> Result:
    """Measure both sides in turn."""
    ours, theirs = [], []
    for place in range(sizes.repeats):
        ours.append(_milliseconds(duel.ours(place)))
        if duel.theirs is not None:
            theirs.append(_milliseconds(duel.theirs(place)))
    middle, other = median(ours), median(theirs) if theirs else None
    figures = {"share": middle / (other or 1.0), "ms": middle, "ms beyond": middle - (other or 0.0)}
    return Result(duel.name, duel.opponent, middle, other, duel.kind, figures[duel.kind], duel.most)


def _milliseconds(work: Any) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return 1e3 * (time.process_time() - started)


def results(names: list[str], sizes: Sizes) -> Iterator[Result]:
    """Yield the results of workloads, by name."""
    for name in names:
        for duel in WORKLOADS[name](sizes):
            yield measured(duel, sizes)


Only = Annotated[list[str] | None, typer.Option("--only", help=f"One of {', '.join(WORKLOADS)}. Repeatable.")]
Full = Annotated[bool, typer.Option("--full", help="The sizes that the targets are for: some minutes, 4 GB.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the medians.")]


def main(*, only: Only = None, full: Full = False, json: Json = None) -> None:
    """Measure, print the table, and write the file. Missed targets are shown, but are no failure."""
    found = list(results(only or list(WORKLOADS), FULL if full else SMALL))
    _print(found)
    if json is not None:
        about = report.surroundings({"full": full, "only": only})
        rows = [{**asdict(one), "is_met": one.is_met} for one in found]
        json.write_text(jsons.dumps({**about, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def _print(found: list[Result]) -> None:
    from rich.table import Table

    table = Table(title="queries", title_justify="left")
    for name in ("what", "opponent"):
        table.add_column(name, no_wrap=True)
    for name in ("ms", "opponent ms", "figure", "at most", "of", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        other = "-" if one.theirs is None else f"{one.theirs:,.1f}"
        verdict = "[green]met" if one.is_met else "[yellow]missed"
        table.add_row(
            one.name,
            one.opponent,
            f"{one.ours:,.1f}",
            other,
            f"{one.figure:,.3g}",
            f"{one.most:,.3g}",
            one.kind,
            verdict,
        )
    report.console().print(table)


if __name__ == "__main__":
    typer.run(main)
