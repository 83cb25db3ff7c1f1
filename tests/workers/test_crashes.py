"""Random programs under random faults and plans: nothing is lost, nothing comes twice, every checkpoint is what it says."""

from __future__ import annotations

import random

import pytest

from dgs import codec, sequential
from planner import optimizers
from planner.topology import Machine, Stream, Topology
from tests.strategies import Workload, random_workload
from tests.workers.test_simulation import SMALL_BUFFER, events_below, ids
from workers.faults import Faults
from workers.simulated_generation import Layout
from workers.simulation import Layouts, Simulated, simulate


def random_layouts(work: Workload) -> Layouts:
    """Every generation gets a random plan of its own, and its own number of splits for each stream."""

    def layout(rnd: random.Random) -> Layout:
        splits = {stream: rnd.choice([1, 1, 2, 3]) for stream in work.stream_ids}
        streams = [
            Stream(impl, tags)
            for stream, tags in zip(work.stream_ids, work.tags, strict=True)
            for impl in ([stream] if splits[stream] == 1 else [f"{stream}/{i}" for i in range(splits[stream])])
        ]
        machines = [Machine("m", 3)]
        plan = optimizers.plan(
            work.program, Topology(streams, machines), name="random", seed=rnd.randrange(10**6)
        )
        return Layout(plan, splits)

    return layout


def run_seed(seed: int) -> tuple[Workload, Simulated]:
    work = random_workload(random.Random(seed))
    faults = Faults.swarm(random.Random(f"faults {seed}"))
    streams = dict(zip(work.stream_ids, work.batches, strict=True))
    bound = SMALL_BUFFER if seed % 3 == 0 else None
    return work, simulate(
        work.program, random_layouts(work), streams, seed=seed, faults=faults, buffer_bytes=bound
    )


def check_seed(seed: int) -> Simulated:
    work, run = run_seed(seed)
    expected = sequential.run(work.program, work.batches)
    wanted = sorted(
        (o.key.ts, o.key.rank, o.key.seq, o.index, codec.encode(o.value)) for o in expected.outputs
    )
    assert ids(work, run) == wanted, f"seed {seed}: outputs differ"
    assert codec.encode(run.state) == codec.encode(expected.state), f"seed {seed}: the final state differs"
    for state, positions in run.snapshots:
        folded = sequential.run(work.program, events_below(work.batches, positions)).state
        assert codec.encode(folded) == state, f"seed {seed}: a snapshot is not the fold below its positions"
    return run


@pytest.mark.parametrize("block", range(10))
def test_crashed_run_gives_the_outputs_and_states_of_the_sequential_program(block):
    for seed in range(block * 30, block * 30 + 30):
        check_seed(seed)
