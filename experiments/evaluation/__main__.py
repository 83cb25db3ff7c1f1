"""`python -m experiments.evaluation figure8`: one figure or table of the paper's evaluation, as JSON, a table and a drawing.

Measurements on this machine and predictions for others are marked: `is_measured` in JSON and tables, full and dashed lines in drawings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dgs.workers.runtime.process import keep_freed_memory
from experiments.bench import report
from experiments.evaluation import (
    cases,
    choices,
    file_loops,
    latencies,
    moving_key,
    parallelism,
    predictions,
    principles,
    scaling,
)
from experiments.evaluation.finding import Finding

OUT = Path(__file__).parent / "out"

OF_JOBS: Mapping[str, tuple[Callable[[choices.Trials], Finding], choices.Trials, choices.Trials]] = {
    "choices": (choices.choices, choices.Trials(), choices.QUICK),
    "predictions": (predictions.predictions, predictions.FULL, predictions.QUICK),
}
"""Findings that have a row for each of many jobs, with their extent, and that under `--quick`."""


def _of_jobs(name: str, jobs: Sequence[str], places: Sequence[str], quick: bool) -> Finding:
    """Return a finding for some jobs or places only, if any are named."""
    unknown = [one for one in jobs if one not in choices.JOBS]
    if name not in OF_JOBS or unknown:
        raise typer.BadParameter(f"the jobs of {', '.join(OF_JOBS)} are {', '.join(choices.JOBS)}")
    make, full, small = OF_JOBS[name]
    extent = small if quick else full
    return make(replace(extent, jobs=jobs or extent.jobs, places=places or extent.places))


FINDINGS: Mapping[str, Callable[[bool], Finding]] = {
    "figure4": lambda quick: parallelism.figure4(scaling.QUICK if quick else scaling.Size()),
    "figure6": lambda quick: parallelism.figure6(scaling.QUICK if quick else scaling.Size()),
    "figure8": lambda quick: scaling.figure8(scaling.QUICK if quick else scaling.Size()),
    "figure10": lambda quick: latencies.figure10(latencies.QUICK if quick else latencies.Sweep()),
    "table1": lambda _: principles.table1(),
    **{name: partial(_of_jobs, name, (), ()) for name in OF_JOBS},
    "files": lambda quick: file_loops.file_loops(file_loops.QUICK if quick else file_loops.Extent()),
    "moving": lambda quick: moving_key.moving(moving_key.QUICK if quick else moving_key.Extent()),
    "cases": lambda quick: cases.cases(cases.QUICK if quick else cases.Extent()),
}


def main(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(FINDINGS)}.")],
    *,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Small data, this process only unless --place says otherwise: some seconds."
        ),
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Where NAME.json, .md and .svg go.")] = OUT,
    job: Annotated[list[str] | None, typer.Option(help="Of choices and predictions, only this job.")] = None,
    place: Annotated[list[str] | None, typer.Option(help="Of these, only on local or on ray.")] = None,
) -> None:
    """Make one figure or table of the evaluation."""
    if name not in FINDINGS:
        raise typer.BadParameter(f"there is no {name}: there are {', '.join(FINDINGS)}")
    about = report.surroundings({"name": name, "quick": quick})
    keep_freed_memory()  # as `dgs run` and its hosts do
    found = _of_jobs(name, job or [], place or [], quick) if job or place else FINDINGS[name](quick)
    print(found.as_table())
    for path in found.write(out, about):
        print(path)
    if wrong := [row for row in found.rows if row.get("problem")]:
        print(f"{len(wrong)} rows have wrong outputs: {wrong[0]['problem']}")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
