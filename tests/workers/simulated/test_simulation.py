"""Random programs under random plans and delivery orders give the outputs of the sequential program."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dgs import codec
from dgs.model.events import EventBatch
from dgs.model.order import OrderKey
from dgs.model.tags import Tag
from dgs.planner.optimizers import by_name
from dgs.planner.plan import Plan
from dgs.planner.topology import Machine, Stream, Topology
from dgs.semantics import sequential
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.recovery.positions import Layer, Positions
from dgs.workers.simulated.faults import Faults, small_bounds
from dgs.workers.simulated.simulation import Simulated, simulate
from tests.selection import rest_is_slow
from tests.strategies import Workload, random_workload

SMALL_BUFFER = 200
"""The bytes of a few events, so R11 decides what is read."""


def random_plan(work: Workload, seed: int) -> Plan:
    streams = [Stream(s, tags) for s, tags in zip(work.stream_ids, work.tags, strict=True)]
    return by_name.plan(work.program, Topology(streams, [Machine("m", 3)]), name="random", seed=seed)


def run_seed(seed: int) -> tuple[Workload, Simulated]:
    work = random_workload(random.Random(seed))
    streams = dict(zip(work.stream_ids, work.batches, strict=True))
    bound = SMALL_BUFFER if seed % 3 == 0 else None
    bounds = small_bounds(random.Random(f"bounds {seed}"))
    return work, simulate(
        work.program,
        random_plan(work, seed),
        streams,
        seed=seed,
        buffer_bytes=bound,
        faults=Faults(bounds=bounds),
        validates=True,
    )


def ids(work: Workload, run: Simulated) -> list[tuple[object, ...]]:
    return sorted(
        (int(ts), batch.rank, int(seq), int(index), codec.encode(value))
        for batch in run.outputs
        for ts, seq, index, value in zip(batch.ts, batch.seq, batch.index, batch.to_list(), strict=True)
    )


def check_seed(seed: int) -> None:
    work, run = run_seed(seed)
    expected = sequential.run(work.program, work.batches)
    wanted = sorted(
        (o.key.ts, o.key.rank, o.key.seq, o.index, codec.encode(o.value)) for o in expected.outputs
    )
    assert ids(work, run) == wanted, f"seed {seed}: outputs differ"
    assert codec.encode(run.state) == codec.encode(expected.state), f"seed {seed}: the final state differs"
    for state, positions in run.snapshots:
        folded = sequential.run(work.program, events_below(work.batches, positions)).state
        assert codec.encode(folded) == codec.encode(codec.decode(state)), (
            f"seed {seed}: a snapshot is not the fold of the events below its positions"
        )


def events_below(streams: Sequence[Sequence[EventBatch]], positions: Positions) -> list[list[EventBatch]]:
    """Return the events that are below their position, row by row, by the definition."""
    kept = []
    for batches in streams:
        kept.append([])
        for batch in batches:
            layers = positions.streams.get(batch.stream, ())
            for row, tag in enumerate(batch.tag_list()):
                if any(is_below(batch.key(row), tag, layer) for layer in layers):
                    kept[-1].append(batch.cut(row, row + 1))
    return kept


def is_below(key: OrderKey, tag: Tag, layer: Layer) -> bool:
    split = key.seq // layer.block % layer.splits
    return any(part.split == split and tag in part.tags and key < part.key for part in layer.parts)


@pytest.mark.parametrize("block", rest_is_slow(range(20)))
def test_simulated_run_gives_the_outputs_state_and_snapshots_of_the_sequential_program(block):
    for seed in range(block * 30, block * 30 + 30):
        check_seed(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_simulated_run_gives_the_sequential_outputs_for_many_seeds(block):
    for seed in range(10_000 + block * 1000, 11_000 + block * 1000):
        check_seed(seed)


@pytest.mark.slow
def test_simulated_seeds_reach_many_shapes():
    """The seeds above would prove little if all plans were single workers or nothing ever synchronised."""
    sizes, synchronised, several_hosts, snapshots = set(), 0, 0, 0
    for seed in range(100):
        work, run = run_seed(seed)
        plan = random_plan(work, seed)
        sizes.add(len(plan))
        synchronised += bool(Lanes(plan, work.program.dependence).of(plan.root.id)) and len(plan) > 1
        several_hosts += any(" deliver " in step for step in run.trace)
        snapshots += len(run.snapshots)
    assert len(sizes) > 5
    assert synchronised > 20
    assert several_hosts > 20
    assert snapshots > 50


def digests(seeds: range) -> str:
    return " ".join(run_seed(seed)[1].digest[:16] for seed in seeds)


@pytest.mark.slow
def test_simulated_run_is_the_same_in_every_process_and_for_every_hash_seed():
    """A failing seed must fail in every process."""
    code = "from tests.workers.simulated.test_simulation import digests; print(digests(range(20)))"
    root = Path(__file__).parents[3]
    elsewhere = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)},
        ).stdout.strip()
        for hash_seed in ("0", "1")
    }
    assert elsewhere == {digests(range(20))}
