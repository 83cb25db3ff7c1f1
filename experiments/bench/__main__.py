"""`python -m experiments.bench`: the applications on all engines, the cost of synchronising, memory, latency.

The table shows medians, and their ratios to a plain Python loop and to NumPy by hand. The outputs of every run are compared with those of
the sequential program. The exit code is 1 if any differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from dgs.bench.measuring import Sample, measured, medians
from dgs.workers.runtime.process import keep_freed_memory
from experiments.bench import flow_goals, latency, memory, report, sync
from experiments.bench.applications import APPLICATIONS, application, available
from experiments.bench.baselines import Shapes, contestants

ENGINES = ("loop", "numpy", "local", "ray")


@dataclass(frozen=True)
class Size:
    """Events per stream, scalar and vectorised; repetitions; seconds after which a run is not repeated."""

    events: int
    large_events: int
    repetitions: int
    patience: float


FULL = Size(250_000, 2_500_000, repetitions=7, patience=30)
QUICK = Size(25_000, 250_000, repetitions=3, patience=2)
QUICK_APPS = ("event-window", "page-view", "fraud", "fraud-cyclic")

# fmt: off
Apps = Annotated[list[str] | None, typer.Option("--app",
    help=f"One of {', '.join(APPLICATIONS)}. Repeatable.")]
Engines = Annotated[list[str] | None, typer.Option("--engine",
    help=f"One of {', '.join(ENGINES)}. Repeatable.")]
Leaves = Annotated[list[int] | None, typer.Option("--leaves", min=1, help="Leaves of the plans. Repeatable.")]
Hosts = Annotated[list[int] | None, typer.Option("--hosts", min=1, help="Ray hosts. Repeatable.")]
Repeat = Annotated[int | None, typer.Option("--repeat", min=1, help="Repetitions (7; with --quick 3).")]
Events = Annotated[int | None, typer.Option(min=10_000,
    help="Events per stream, event by event (250,000; with --quick 25,000).")]
LargeEvents = Annotated[int | None, typer.Option(min=10_000,
    help="Events per stream, vectorised (2,500,000; with --quick 250,000).")]
BatchRows = Annotated[int | None, typer.Option(min=1,
    help="`runtime.batch_rows` (default: the runtime's own).")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every sample.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the medians as SVG.")]
Sync = Annotated[bool, typer.Option("--sync", help="Measure the cost of synchronising instead.")]
Memory = Annotated[bool, typer.Option("--memory",
    help="Measure the memory of a run of 100 million events instead.")]
Latency = Annotated[bool, typer.Option("--latency",
    help="Measure the latency of synchronising outputs on two Ray hosts instead.")]
Flows = Annotated[bool, typer.Option("--flows",
    help="Measure flows beside what one would write without them instead.")]
Quick = Annotated[bool, typer.Option("--quick",
    help="Small data, few repetitions, local only: under a minute.")]
# fmt: on


def main(
    *,
    apps: Apps = None,
    engines: Engines = None,
    leaves: Leaves = None,
    hosts: Hosts = None,
    repeat: Repeat = None,
    events: Events = None,
    large_events: LargeEvents = None,
    batch_rows: BatchRows = None,
    json: Json = None,
    plot_file: Plot = None,
    sync_only: Sync = False,
    memory_only: Memory = False,
    latency_only: Latency = False,
    flows_only: Flows = False,
    quick: Quick = False,
) -> None:
    """Measure the applications: engines x {scalar, vectorised} x leaves x hosts, repetitions interleaved."""
    asked = {name: value for name, value in locals().items() if name not in ("json", "plot_file")}
    about = report.surroundings(asked)
    keep_freed_memory()  # as `dgs run` and its hosts do
    if memory_only:
        memory.report(about, json)
        return
    if latency_only:
        latency.report(about, json, quick=quick)
        return
    size = QUICK if quick else FULL
    if flows_only:
        flow_goals.run(about, json, repeat or size.repetitions, quick=quick, apps=apps)
        return
    shapes = Shapes(
        engines=_chosen(engines, ENGINES, _engines_here(quick=quick), "engine"),
        leaves=leaves or (1, 4),
        hosts=hosts or (1, 2),
        settings={"runtime.batch_rows": batch_rows} if batch_rows else None,
    )
    names = _chosen(apps, available(), QUICK_APPS if quick else available(), "application")
    size = replace(size, events=events or size.events, large_events=large_events or size.large_events)
    size = replace(size, repetitions=repeat or size.repetitions)
    with _ray_started(shapes):
        found = (
            sync.samples(shapes, size.repetitions, quick=quick)
            if sync_only
            else _samples(names, shapes, size)
        )
        samples = list(found)
    _finish(samples, about, json, plot_file, title="synchronising" if sync_only else "applications")


def _samples(names: Sequence[str], shapes: Shapes, size: Size) -> Iterator[Sample]:
    for name in names:
        report.console().print(f"{name} ...", highlight=False)
        small = application(name, events=size.events)
        large = small if name == "flights" else application(name, events=size.large_events)
        group = contestants(small, large, shapes)
        yield from measured(group, repetitions=size.repetitions, patience=size.patience)


def _finish(
    samples: list[Sample], about: dict[str, object], json: Path | None, drawing: Path | None, *, title: str
) -> None:
    rows = medians(samples)
    report.print_table(title, rows)
    if json is not None:
        report.write_json(json, about, samples, targets=[*report.verdicts(rows), *sync.verdicts(rows)])
    if drawing is not None:
        drawing.write_text(report.as_svg(rows), encoding="utf-8")
    for line in sync.verdicts(rows):
        report.console().print(line)
    wrong = [row for row in rows if row["problem"]]
    for row in wrong:
        report.console().print(f"{row['app']} {row['engine']} {row['mode']}: {row['problem']}", markup=False)
    if wrong:
        raise typer.Exit(1)


def _chosen(
    asked: list[str] | None, there_are: Sequence[str], default: Sequence[str], what: str
) -> tuple[str, ...]:
    if unknown := set(asked or ()) - set(there_are):
        message = f"there is no {what} {', '.join(sorted(unknown))}: there are {', '.join(there_are)}"
        raise typer.BadParameter(message)
    return tuple(asked or default)


def _engines_here(*, quick: bool) -> tuple[str, ...]:
    has_ray = find_spec("ray") is not None and not quick
    return tuple(name for name in ENGINES if name != "ray" or has_ray)


@contextmanager
def _ray_started(shapes: Shapes) -> Iterator[None]:
    """Start Ray once for all runs."""
    with ExitStack() as stack:
        if "ray" in shapes.engines:
            from dgs.workers.ray_runtime.cluster import cluster

            stack.enter_context(cluster("local", max(shapes.hosts)))
        yield


if __name__ == "__main__":
    typer.run(main)
