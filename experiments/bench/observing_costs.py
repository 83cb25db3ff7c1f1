"""The cost of observing, measured in two ways, on the local runtime with four leaves. All times are CPU time, which other load disturbs least.

    python -m experiments.bench.observing_costs [PAIRS] [EVENTS OF A STREAM] [APPLICATION...]

A line for each application and mode:

- the share of a run's CPU time that making, gathering and writing figures takes, added up call by call inside the run, and the
  milliseconds of a run's first and last figures, which every run pays once. All is measured in one run, so this is precise to a hundredth
  of a percent. It does not include the effect on caches.
- the cost by pairs of runs with and without figures, whose order alternates: the median with its 95 % confidence interval, which assumes
  nothing about the noise. It includes the first and last figures, of runs of a second.

Figures are taken ten times a second, and their cost is divided by ten. It should be at most 1 %. The first pair is not counted.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import comb
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from dgs.api.running import run_job
from dgs.bench.contestants import measured_job
from dgs.job.schema import ObserveConfig
from dgs.workers.observing.figure_lines import FiguresFile
from dgs.workers.runtime.engine import Engine
from dgs.workers.runtime.job import Job
from dgs.workers.runtime.observed import RunObserver
from dgs.workers.runtime.process import keep_freed_memory
from experiments.bench.applications import application, available

PAIRS, EVENTS, LEAVES = 21, 50_000, 4
TIMES_AS_MANY = 10
"""How many times as many events vectorised runs take."""

TIMES_AS_OFTEN = 10
OFTEN, ENDS = (ObserveConfig.model_validate({"every": every}) for every in ("100ms", "1h"))
"""The settings for ten times as many figures as by default, and for only the first and last ones."""

MEASURED: tuple[tuple[type, str], ...] = (
    (Engine, "figures_if_due"),
    (RunObserver, "take"),
    (RunObserver, "show_if_due"),
    (FiguresFile, "add"),
)
"""The functions in which a run spends time on figures."""


class Ledger:
    """Adds up the CPU time of calls; nested calls count once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_inside = False

    def measured(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time is added up."""

        def call(*args: Any, **options: Any) -> Any:
            if self._is_inside:
                return function(*args, **options)
            self._is_inside, began = True, time.thread_time()
            try:
                return function(*args, **options)
            finally:
                self.seconds += time.thread_time() - began
                self._is_inside = False

        return call


def seconds(job: Job, directory: Path, observe: ObserveConfig | None) -> float:
    """Return the CPU seconds of one run."""
    job = replace(
        job,
        collect=False,
        observe=observe,
        output_dir=directory,
        control_dir=directory / "control",
        replan=None,
    )
    gc.collect()
    began = time.process_time()
    run_job(job)
    return time.process_time() - began


def inside(job: Job, directory: Path, observe: ObserveConfig) -> tuple[float, float]:
    """Return the CPU seconds of observing a run, and of the run."""
    ledger = Ledger()
    with ExitStack() as measuring:
        for kind, name in MEASURED:
            measuring.enter_context(mock.patch.object(kind, name, ledger.measured(getattr(kind, name))))
        whole = seconds(job, directory, observe)
    return ledger.seconds, whole


def costs_of_pairs(job: Job, directory: Path, pairs: int) -> list[float]:
    """Return by what share figures increase the CPU time of a run, by pairs of runs."""
    found = []
    for pair in range(pairs + 1):
        order = (OFTEN, None) if pair % 2 else (None, OFTEN)
        took = {observe is not None: seconds(job, directory, observe) for observe in order}
        found.append((took[True] / took[False] - 1.0) / TIMES_AS_OFTEN)
    return found[1:]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return a 95 % confidence interval of the median: two of the values, whatever their distribution.

    >>> interval(list(range(21)))
    (5, 15)
    """
    ordered, count = sorted(values), len(values)
    outside, rank = 0.0, 0
    while rank < count // 2 and (outside := outside + comb(count, rank) / 2**count) <= 0.025:  # noqa: PLR2004 - each side
        rank += 1
    return ordered[max(rank - 1, 0)], ordered[count - max(rank, 1)]


def lines(pairs: int, events: int, names: Sequence[str]) -> Iterator[str]:
    """Yield a line for each application and mode."""
    for name in names:
        for mode, count in (("scalar", events), ("vectorised", TIMES_AS_MANY * events)):
            app = application(name, events=count)
            if mode == "vectorised" and not app.program.is_vectorised:
                continue
            job = measured_job(app.prepared(leaves=LEAVES), engine="local", hosts=1, mode=mode)
            with tempfile.TemporaryDirectory() as place:
                found = costs_of_pairs(job, Path(place), pairs)
                ends, _ = min(inside(job, Path(place), ENDS) for _ in range(3))
                often, whole = inside(job, Path(place), OFTEN)
            low, high = interval(found)
            share = max(often - ends, 0.0) / whole / TIMES_AS_OFTEN
            told = f"{share:.2%} and {1000 * ends:.1f} ms inside; {median(found):+.2%} by pairs ({low:+.2%} to {high:+.2%})"
            yield f"{name:<16} {mode:<10}  {told}"


if __name__ == "__main__":
    keep_freed_memory()
    numbers = [int(given) for given in sys.argv[1:] if given.isdigit()]
    names = [given for given in sys.argv[1:] if not given.isdigit()] or available()
    pairs, events = [*numbers, *(PAIRS, EVENTS)[len(numbers) :]]
    for line in lines(pairs, events, names):
        print(line, flush=True)
