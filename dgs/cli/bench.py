"""`dgs bench`: the speed of a plan compared with its sequential program in a plain loop."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dgs.cli.options import (
    OptimizerName,
    PlanFrom,
    PlanPath,
    SetValues,
    Tolerance,
    given_by_flags,
)
from dgs.cli.reporting import Ending, print_json, say, verb

if TYPE_CHECKING:
    from dgs.api.preparing import Prepared
    from dgs.bench.measuring import Sample


class Engine(StrEnum):
    """The engines that compute the outputs."""

    LOOP = "loop"
    LOCAL = "local"
    RAY = "ray"


# fmt: off
Engines = Annotated[list[Engine] | None, typer.Option("--engine",
    help="Measure only this one. Repeatable. Default: all, ray if it is installed.")]
Hosts = Annotated[list[int] | None, typer.Option("--hosts", min=1, metavar="N",
    help="How many host processes on Ray. Repeatable.")]
Repeat = Annotated[int, typer.Option("--repeat", min=1, metavar="N",
    help="How often each is run; the table shows medians.")]
MaxEvents = Annotated[int | None, typer.Option("--max-events", min=1, metavar="N",
    help="Take only the first N events, in their order.")]
# fmt: on


@verb
def bench(
    ending: Ending,
    plan_path: PlanPath,
    *,
    engines: Engines = None,
    hosts: Hosts = None,
    repeat: Repeat = 5,
    optimizer: OptimizerName = None,
    plan: PlanFrom = None,
    set_values: SetValues = None,
    max_events: MaxEvents = None,
    tolerance: Tolerance = None,
) -> None:
    """Measure a plan file: a plain loop over `update`, the local runtime, Ray; event by event and vectorised.

    Runs are interleaved, sinks are left out, and times include reading the sources. Outputs of every engine are compared
    with those of the loop: exit 1 if any differ.
    """
    from dgs.api.preparing import from_file, prepare
    from dgs.workers.runtime.process import keep_freed_memory

    keep_freed_memory()
    prepared = prepare(
        from_file(plan_path, given_by_flags(set_values, plan, optimizer__name=optimizer)),
        max_events=max_events,
    )
    chosen = engines or [one for one in Engine if one is not Engine.RAY or find_spec("ray")]
    counts = hosts or [_default_hosts(prepared)]
    with _ray_for(chosen, prepared, counts):
        samples = _measured(prepared, chosen, counts, repeat, tolerance)
    _finish(prepared, samples, as_json=ending.as_json)


def _measured(
    prepared: Prepared, engines: Sequence[Engine], hosts: Sequence[int], repeat: int, tolerance: float | None
) -> list[Sample]:
    from dgs.bench.contestants import contestants, expected
    from dgs.bench.measuring import measured

    name = prepared.config.name
    say(f"dgs: {name}: running the sequential program")
    right = expected(prepared, tolerance=tolerance)
    found = list(contestants(prepared, name, engines=list(engines), hosts=hosts, expects=right))
    say(f"dgs: {name}: {right.events:,} events, {repeat} runs of each of {len(found)}")
    return list(measured(found, repetitions=repeat))


def _finish(prepared: Prepared, samples: list[Sample], *, as_json: bool) -> None:
    """Print the table or the object; exit 1 if outputs differ or a run failed."""
    from dgs.bench.measuring import medians

    rows = medians(samples)
    if as_json:
        about = {"name": prepared.config.name, "workers": len(prepared.plan), "cpus": os.cpu_count()}
        print_json({**about, "rows": [sample.row() for sample in samples], "medians": rows})
    else:
        print("\n".join(_table(rows)))
    wrong = [row for row in rows if row["problem"] is not None]
    for row in wrong:
        say(f"dgs: {row['engine']}, {row['mode']}: {row['problem']}")
    if wrong:
        raise typer.Exit(1)


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table. `x loop` is the speed as a multiple of the loop's."""
    loop = next((row["eps"] for row in rows if row["engine"] == Engine.LOOP), None)
    yield f"{'engine':<7} {'mode':<11} {'hosts':>5} {'leaves':>6} {'seconds':>10} {'events/s':>13} {'x loop':>8}"
    for row in rows:
        times = f"{row['eps'] / loop:.2f}" if loop else "-"
        figures = f"{row['seconds']:>10.4g} {row['eps']:>13,.0f} {times:>8}"
        remark = "" if row["problem"] is None else "  WRONG" if row["events"] else "  FAILED"
        yield f"{row['engine']:<7} {row['mode']:<11} {row['hosts']:>5} {row['leaves']:>6} {figures}{remark}"


def _default_hosts(prepared: Prepared) -> int:
    return min(prepared.config.runtime.hosts or os.cpu_count() or 1, len(prepared.plan))


@contextmanager
def _ray_for(engines: Sequence[Engine], prepared: Prepared, hosts: Sequence[int]) -> Iterator[None]:
    """Start Ray once for all runs, if any of them needs it."""
    if Engine.RAY not in engines:
        yield
        return
    from dgs.workers.ray_runtime.cluster import cluster

    with cluster(prepared.config.runtime.address, max(hosts)):
        yield
