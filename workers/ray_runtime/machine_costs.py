"""The costs of this machine: what a synchronisation takes here, measured with a small job of our own in this process.

The typical times of all our code are scaled by it. A byte between hosts is measured by itself: it takes new memory at both ends, and to get
that from the system takes longer than to write it. What a message needs in transit (`hop`) stays a constant: measuring it needs
the other hosts.
"""

from __future__ import annotations

import time
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dgs.job.schema import RuntimeConfig, StreamConfig
from dgs.model.dependence import ALWAYS, Dependence
from dgs.model.events import EventBatch
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import kind
from dgs.planner.optimizers.by_name import plan
from dgs.planner.plan import Plan
from dgs.planner.prediction.costs import TYPICAL, Costs
from dgs.planner.prediction.model import Predictor
from dgs.planner.topology import Machine, Stream, Topology
from dgs.workers.runtime.job import Job
from dgs.workers.runtime.local import run_local

SCALED = (
    "stretch",
    "call",
    "merge",
    "read",
    "split",
    "piece",
    "synchronisation",
    "window",
    "message",
)
"""The costs of our own code."""

MEASURED = (*SCALED, "byte")
"""The costs of the machine."""

WRITTEN = 16 << 20
"""The bytes of new memory that are written to measure a byte."""

CHILDREN = 2
SHORT, LONG = 50, 200
"""Synchronisations of two runs whose difference counts, so that the cost of starting a run does not."""

BETWEEN = 10
"""Events of each child between two synchronisations."""

LEAST_SHARE = 0.1
"""The least share of the measured time that counts as synchronising, since neither time is exact."""

REPETITIONS = 3
"""Runs of each job, of which the fastest counts, and differences of these, of which the median counts: one may be too small."""

VALUE, BARRIER = kind("value"), kind("barrier")


class Counting(Program):
    """Counts values, and forks after every barrier."""

    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))

    def init(self) -> int:
        """Start with none."""
        return 0

    def update(self, state: int, event: Any, emit: Any) -> int:  # noqa: ARG002
        """Count an event."""
        return state + 1

    def fork(self, state: int, left: Any, right: Any) -> tuple[int, int]:  # noqa: ARG002
        """Keep the count on the left."""
        return state, 0

    def join(self, left: int, right: int) -> int:
        """Add the counts."""
        return left + right


def machine_costs() -> Costs:
    """Return typical costs on this machine. It takes half a second. Raises any DgsError of a run."""
    typical = TYPICAL.synchronisation + (1 + 1 / CHILDREN) * TYPICAL.piece
    factor = median(_seconds_per_child(Counting()) for _ in range(REPETITIONS)) / typical
    scaled = {name: factor * getattr(TYPICAL, name) for name in SCALED}
    return replace(TYPICAL, **scaled, byte=min(_seconds_of_byte() for _ in range(REPETITIONS)))


def _seconds_of_byte() -> float:
    """Return the seconds of writing a byte of memory that the system gives to this process, and that other processes can map, as frames have."""
    data = bytes(WRITTEN)
    with mmap(-1, WRITTEN) as memory:
        began = time.thread_time()
        memory.write(data)
        return (time.thread_time() - began) / WRITTEN


def _seconds_per_child(program: Program) -> float:
    """Return the seconds of a synchronisation with one child of one lane: the part of a run's time that the other costs do not explain."""
    data = _streams(LONG)
    streams = [
        Stream(name, TagSet.of(*batch.tags), {batch.tags[0]: float(len(batch))})
        for name, batch in data.items()
    ]
    topology = Topology(streams, (Machine("here", CHILDREN),))
    made = plan(program, topology, name="greedy", max_leaves=CHILDREN)
    free = Predictor(program, topology, replace(TYPICAL, synchronisation=0.0, window=0.0, piece=0.0)).predict(
        made
    )
    explained = sum(len(batch) for batch in data.values()) / free.throughput / LONG
    short, long = (min(_seconds(program, made, count) for _ in range(REPETITIONS)) for count in (SHORT, LONG))
    each = (long - short) / (LONG - SHORT)
    return max(each - explained, LEAST_SHARE * each) / CHILDREN


def _streams(synchronisations: int) -> dict[str, EventBatch]:
    ends = np.arange(1, synchronisations + 1) * BETWEEN
    found = {"barriers": EventBatch.of("barriers", rank=0, tags=[BARRIER()], ts=ends)}
    for rank in range(1, CHILDREN + 1):
        times = np.arange(synchronisations * BETWEEN)
        found[f"values-{rank}"] = EventBatch.of(f"values-{rank}", rank=rank, tags=[VALUE()], ts=times)
    return found


def _seconds(program: Program, made: Plan, synchronisations: int) -> float:
    data = _streams(synchronisations)
    streams = tuple(
        StreamConfig.model_validate({"id": name, "tags": [batch.tags[0].kind], "source": {"memory": name}})
        for name, batch in data.items()
    )
    memory = {name: [batch] for name, batch in data.items()}
    here = Path()  # it has no files
    job = Job(program, made, streams, here, here, RuntimeConfig(kind="local"), memory=memory)
    began = time.thread_time()  # not `Stopwatch`: this job waits only because of other processes
    run_local(job)
    return time.thread_time() - began
