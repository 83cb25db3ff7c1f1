"""The cost of observing: the CPU time of runs with figures beside that of runs without, in alternating pairs, local, four leaves.

    python -m experiments.bench.observing_costs [PAIRS] [EVENTS OF A STREAM] [APPLICATION...]

A line for each application and mode: the ratio of the fastest runs of the two sides, which others on the machine disturb least, with the
quartiles of the ratios of pairs. It should be 1.01 at most. The first pair is not counted. Figures are written to a directory, each second, as those of a run of `dgs run` are.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import quantiles

from dgs.api.running import run_job
from dgs.bench.contestants import measured_job
from dgs.job.schema import ObserveConfig
from dgs.workers.runtime.job import Job
from dgs.workers.runtime.process import keep_freed_memory
from experiments.bench.applications import application, available

PAIRS, EVENTS, LEAVES = 11, 50_000, 4
TIMES_AS_MANY = 10
"""Vectorised runs take so many times as many events."""


def seconds(job: Job, directory: Path, *, observe: bool) -> float:
    """Return the CPU seconds of one run."""
    job = replace(
        job,
        collect=False,
        observe=ObserveConfig() if observe else None,
        output_dir=directory,
        control_dir=directory / "control",
        replan=None,
    )
    gc.collect()
    began = time.process_time()
    run_job(job)
    return time.process_time() - began


def ratios(job: Job, pairs: int) -> tuple[float, list[float]]:
    """Return the ratio of the fastest runs, and those of the pairs."""
    sides: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as place:
        for pair in range(pairs + 1):
            for observe in (True, False) if pair % 2 else (False, True):
                took = seconds(job, Path(place), observe=observe)
                if pair:
                    sides[observe].append(took)
    whole = min(sides[True]) / min(sides[False])
    return whole, [on / off for on, off in zip(sides[True], sides[False], strict=True)]


def lines(pairs: int, events: int, names: Sequence[str]) -> Iterator[str]:
    """Yield a line for each application and mode."""
    for name in names:
        for mode, count in (("scalar", events), ("vectorised", TIMES_AS_MANY * events)):
            app = application(name, events=count)
            if mode == "vectorised" and not app.program.is_vectorised:
                continue
            job = measured_job(app.prepared(leaves=LEAVES), engine="local", hosts=1, mode=mode)
            whole, found = ratios(job, pairs)
            low, _, high = quantiles(found, n=4)
            yield f"{name:<16} {mode:<10}  {whole:.4f}  ({low:.4f} to {high:.4f})"


if __name__ == "__main__":
    keep_freed_memory()
    numbers = [int(given) for given in sys.argv[1:] if given.isdigit()]
    names = [given for given in sys.argv[1:] if not given.isdigit()] or available()
    pairs, events = [*numbers, *(PAIRS, EVENTS)[len(numbers) :]]
    for line in lines(pairs, events, names):
        print(line, flush=True)
