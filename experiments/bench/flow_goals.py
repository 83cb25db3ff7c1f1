"""The target ratios of flows, each measured in one run with its opponent: `python -m experiments.bench --flows`.

A ratio is the CPU time of the opponent over that of the flow: medians of alternating runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dgs.bench.measuring import Contestant, Sample, measured, medians
from experiments.bench import flow_workloads as workloads
from experiments.bench import report

WORKLOADS: tuple[Callable[[float], list[Contestant]], ...] = (
    workloads.query_iv,
    workloads.query_iv_texts,
    workloads.ready_made,
    workloads.chain,
    workloads.word_count,
    workloads.windows,
    workloads.known_keys,
    workloads.event_windows,
)

QUICK_SCALE = 0.1


@dataclass(frozen=True)
class Goal:
    """`engine` must be at least `least` times as fast as `opponent`."""

    app: str
    engine: str
    opponent: str
    least: float


GOALS = (
    Goal("query IV, int64", "flow", "numpy", 0.5),
    Goal("query IV, texts", "flow", "arrow", 0.5),
    Goal("three steps", "flow", "arrow", 0.8),
    Goal("three functions", "flow", "update", 0.7),
    Goal("word count", "flow", "Counter", 0.4),
    Goal("word count", "columns", "Counter", 2.0),
    Goal("windows", "10 panes", "tumbling", 1 / 1.5),
    Goal("windows", "1,000 panes", "tumbling", 1 / 2),
    Goal("known keys", "many keys", "few keys", 1 / 2),
    Goal("event window", "flow", "by hand", 0.8),
)


@dataclass(frozen=True)
class Result:
    """A goal with its measurement: the seconds of both sides, the ratio, and the first wrong output if there is one."""

    goal: Goal
    seconds: float
    opponent_seconds: float
    problem: str | None = None

    @property
    def ratio(self) -> float:
        """The speed, in multiples of the opponent's."""
        return self.opponent_seconds / self.seconds if self.seconds and self.problem is None else 0.0

    @property
    def is_met(self) -> bool:
        """Whether the ratio is reached."""
        return self.ratio >= self.goal.least


def results(rows: Sequence[Mapping[str, Any]]) -> Iterator[Result]:
    """Yield the result of each goal that was measured.

    >>> row = {"app": "query IV, int64", "problem": None}
    >>> [one.ratio for one in results([{**row, "engine": "flow", "seconds": 4.0}, {**row, "engine": "numpy", "seconds": 3.0}])]
    [0.75]
    """
    found = {(row["app"], row["engine"]): row for row in rows}
    for goal in GOALS:
        one, other = found.get((goal.app, goal.engine)), found.get((goal.app, goal.opponent))
        if one is not None and other is not None:
            yield Result(goal, one["seconds"], other["seconds"], one["problem"] or other["problem"])


def measure(repetitions: int, *, quick: bool, apps: Sequence[str] | None = None) -> list[Sample]:
    """Measure all workloads, or those whose name starts with one of `apps`, one after the other."""
    found: list[Sample] = []
    for workload in WORKLOADS:
        if apps and not any(workload.__name__.startswith(name) for name in apps):
            continue
        group = workload(QUICK_SCALE if quick else 1.0)
        report.console().print(f"{group[0].app} ...", highlight=False)
        found += measured(group, repetitions=repetitions)
    return found


def starting() -> dict[str, float]:
    """Return the CPU seconds of the type check of 1,000 steps, and of a process that does `import dgs.flow`."""
    from dgs.flow.definition import Flow

    def build(numbers: Any) -> Any:
        for _ in range(250):
            numbers = numbers.map(lambda _, v: v).filter(lambda _, v: v).key_by(lambda _, v: v)
            numbers = numbers.aggregate(workloads.COUNT)
        return numbers

    started = time.process_time()
    Flow("long", {"numbers": int}, build).types()
    checked = time.process_time() - started
    code = "import sys, dgs.flow; sys.exit(bool({'numpy', 'pyarrow'} & set(sys.modules)))"
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603
    after = os.times()
    imported = sum(after[2:4]) - sum(before[2:4])  # of children, by user and system
    return {"type check of 1,000 steps": checked, "import dgs.flow": imported}


def run(
    about: Mapping[str, Any], file: Path | None, repetitions: int, *, quick: bool, apps: Sequence[str] | None
) -> None:
    """Measure, print the table, and write the file."""
    samples = measure(repetitions, quick=quick, apps=apps)
    found = list(results(medians(samples)))
    _print(found)
    times = starting()
    for name, seconds in times.items():
        report.console().print(f"{name}: {seconds:.3f} s", highlight=False)
    for one in found:
        if one.problem:
            report.console().print(f"{one.goal.app}: {one.problem}", markup=False)
    if file is not None:
        goals = [{**asdict(one), "ratio": one.ratio, "is_met": one.is_met} for one in found]
        rows = [sample.row() for sample in samples]
        report.write_data(file, {**about, "rows": rows, "goals": goals, "seconds": times})


def _print(found: Sequence[Result]) -> None:
    from rich.table import Table

    table = Table(title="flows", title_justify="left")
    for name in ("workload", "flow", "opponent"):
        table.add_column(name, no_wrap=True)
    for name in ("ms", "opponent ms", "ratio", "at least", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        goal = one.goal
        verdict = "[red]WRONG" if one.problem else "[green]met" if one.is_met else "[yellow]missed"
        times = (f"{seconds * 1e3:,.1f}" for seconds in (one.seconds, one.opponent_seconds))
        table.add_row(
            goal.app, goal.engine, goal.opponent, *times, f"{one.ratio:.2f}", f"{goal.least:.2f}", verdict
        )
    report.console().print(table)
