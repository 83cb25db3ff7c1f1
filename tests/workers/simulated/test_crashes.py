"""Random programs under random faults and plans: no output is lost or repeated, and every checkpoint is right."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from dgs.errors import UsageError
from dgs.model.events import EventBatch
from dgs.model.outputs import OutputBatch
from dgs.model.tags import Tag
from dgs.workers.protocol.bounds import BOUNDS
from dgs.workers.recovery.positions import Positions
from dgs.workers.simulated.case import Case, WrongRunError, faults_of
from dgs.workers.simulated.disk import DiskFaults
from dgs.workers.simulated.faults import KINDS, Faults, fault_kinds
from dgs.workers.simulated.oracles import Truth, out_of_order, went_back, wrong_outputs
from dgs.workers.simulated.simulation import Layouts, Simulated
from tests.selection import FIRST, MANY
from tests.strategies import Workload, random_workload

ROOT = Path(__file__).parents[3]
SEEDS_PER_WORKLOAD = 8
PROCESSES = 2
BLOCK = 25
"""Seeds that a process runs at once."""

QUICK = (100, 125, 225, 250, 275)
"""The first seeds of the blocks of `make test`: they reach all faults, and none takes long."""


@lru_cache(maxsize=4)
def case_of(number: int) -> Case:
    work = random_workload(random.Random(number))
    streams = dict(zip(work.stream_ids, work.batches, strict=True))
    tags = dict(zip(work.stream_ids, work.tags, strict=True))
    return Case(work.program, streams, tags, validates=True)


def random_layouts(work: Workload) -> Layouts:
    """Every generation gets a separate random plan, and random numbers of splits of the streams."""
    streams = dict(zip(work.stream_ids, work.batches, strict=True))
    return Case(work.program, streams, dict(zip(work.stream_ids, work.tags, strict=True))).layout_of


def check_seed(seed: int, kinds: tuple[str, ...] = KINDS) -> Simulated:
    try:
        return case_of(seed // SEEDS_PER_WORKLOAD).check(seed, kinds)
    except WrongRunError as error:
        told = "\n".join(error.problems[:5])
        raise AssertionError(f"seed {seed}, faults {error.faults}:\n{told}") from error


def check_block(first: int) -> Counter[str]:
    """Check the seeds of a block; return counts of their events."""
    seen: Counter[str] = Counter()
    for seed in range(first, first + BLOCK):
        run = check_seed(seed)
        seen += run.ends
        seen += Counter(runs=1, complete=run.is_complete, refused=run.is_refused, commits=len(run.commits))
        seen += events_of(run.trace)
        seen += Counter(older=sum(point.positions != point.committed for _, point in run.begun))
    return seen


def events_of(trace: list[str]) -> Counter[str]:
    """Count the events that only the trace shows."""
    return Counter(
        {
            "full": sum("the disk is full" in line for line in trace),
            "slow sink": sum(line.startswith("sink ") for line in trace),
            "slow staging": sum(line.startswith("staging ") for line in trace),
            "slow commit": sum(line.endswith(" finish commit") for line in trace),
        }
    )


def check_blocks(firsts: Iterable[int]) -> Counter[str]:
    """Check blocks of seeds in two processes."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        return sum(pool.map(check_block, firsts), Counter())


def test_runs_under_all_faults_give_the_outputs_and_states_of_the_sequential_program():
    seen = check_blocks(QUICK)
    assert seen["complete"] + seen["refused"] == seen["runs"] == len(QUICK) * BLOCK
    assert seen["refused"] < seen["runs"] / 10
    for reached in (
        "CrashedError",
        "SimulatedCrash",
        "FrameGapError",
        "CheckpointFailedError",
        "OutputUnwritableError",
        "stopped",
        "user code raised",
        "user code raised an exit",
        "refused another sink",
        "crashed at the start",
        "refused for a while",
        "older",
        "full",
        "slow sink",
        "slow staging",
        "slow commit",
    ):
        assert seen[reached] > 3, f"the seeds prove little: {reached} happened {seen[reached]} times"


@pytest.mark.slow
@pytest.mark.parametrize(
    "firsts", [range(0, 3000, BLOCK), range(FIRST, FIRST + MANY, BLOCK)], ids=["kept", "new"]
)
def test_runs_under_all_faults_give_the_sequential_outputs_for_many_seeds(firsts):
    check_blocks(firsts)


def digests(seeds: range) -> str:
    return " ".join(check_seed(seed).digest[:16] for seed in seeds)


@pytest.mark.slow
def test_faults_are_the_same_in_every_process_and_for_every_hash_seed():
    """A failing seed must fail in every process."""
    code = "from tests.workers.simulated.test_crashes import digests; print(digests(range(40)))"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        )
        for hash_seed in ("0", "1")
    ]
    found = {process.communicate()[0].strip() for process in running}
    assert len(found) == 1
    assert len(found.pop().split()) == 40


def test_faults_are_drawn_alike_whichever_others_are_wanted():
    alone, among = (Faults.swarm(random.Random(5), kinds) for kinds in (("network",), KINDS))
    assert (alone.delay, alone.loss, alone.muting) == (among.delay, among.loss, among.muting)
    assert alone.crashes == 0
    assert alone.disk is None


def test_faults_of_a_seed_stay_the_same_when_slow_ones_are_wanted_too():
    """Seeds that once failed are kept: a new kind of fault must not change their draws."""
    for seed in range(20):
        new, old = (
            Faults.swarm(random.Random(seed), kinds) for kinds in (KINDS, KINDS[: KINDS.index("slow")])
        )
        plain = {"slow_sinks": 0.0, "slow_stores": 0.0, "bounds": BOUNDS, "snapshots": old.snapshots}
        assert replace(new, **plain, exits=0, poison=0.0, other_sinks=0.0, live=0.0, jumps=0.0) == old


def test_runs_in_which_everything_takes_long_end_with_the_sequential_outputs():
    faults = Faults(slow_sinks=1.0, slow_stores=1.0)
    seen: Counter[str] = Counter()
    for seed in range(0, 80, SEEDS_PER_WORKLOAD // 2):
        run = case_of(seed // SEEDS_PER_WORKLOAD).check_with(seed, faults)
        assert run.is_complete
        seen += events_of(run.trace)
    assert min(seen[what] for what in ("slow sink", "slow staging", "slow commit")) > 10, seen


def test_commit_counts_when_it_is_durable_and_not_when_a_zombie_learns_of_it():
    """Once the oracle said that positions go back: it took a late answer to a zombie for a commit of the living generation."""
    faults = replace(
        faults_of(807, ("crash", "slow", "odd", "bounds")), crashes=4, crash_chance=0.03, until=None
    )
    run = case_of(807 // SEEDS_PER_WORKLOAD).check_with(807, faults)
    assert [checkpoint.epoch for checkpoint in run.commits] == sorted(
        checkpoint.epoch for checkpoint in run.commits
    )


@pytest.mark.slow
def test_disk_that_is_full_when_outputs_are_staged_loses_none_of_them():
    full = 0
    for seed in range(0, 160, SEEDS_PER_WORKLOAD // 2):
        run = case_of(seed // SEEDS_PER_WORKLOAD).check_with(seed, Faults(disk=DiskFaults(full=0.3)))
        assert run.is_complete
        full += events_of(run.trace)["full"]
    assert full > 10


def test_faults_of_an_unknown_kind_are_refused():
    with pytest.raises(UsageError, match="'earthquake'"):
        fault_kinds("crash,earthquake")


# The oracles must find wrong runs, or the runs above prove nothing.

TAG = Tag("n")


class Numbers:
    """Outputs 10, 30, 60 of events at 1, 5, 7."""

    batch = EventBatch.of("s", rank=0, tags=[TAG], ts=[1, 5, 7], payload=[10, 20, 30])
    outputs = OutputBatch.of(
        "s", rank=0, tags=[TAG], ts=[1, 5, 7], seq=[0, 1, 2], index=[0, 0, 0], values=[10, 30, 60]
    )


@pytest.fixture
def truth():
    from dgs.model.program import Program

    class Total(Program):
        def init(self):
            return 0

        def update(self, state, event, emit):
            emit(state + event.payload)
            return state + event.payload

    return Truth(Total(), [[Numbers.batch]])


def test_oracle_accepts_correct_runs(truth):
    assert not list(wrong_outputs(truth, [Numbers.outputs]))
    assert not list(out_of_order([Numbers.outputs], block=2, splits=6))


def test_oracle_objects_to_missing_outputs_of_a_whole_run_only(truth):
    some = [Numbers.outputs.take(np.array([0, 2]))]
    assert ["missing" in one for one in wrong_outputs(truth, some)] == [True]
    assert not list(wrong_outputs(truth, some, is_whole=False))


def test_oracle_objects_to_other_values_unknown_ids_and_repeats(truth):
    other = replace(Numbers.outputs, values=[10, 31, 60])
    unknown = replace(Numbers.outputs, seq=Numbers.outputs.seq + 7)
    assert any("is 31, not 30" in one for one in wrong_outputs(truth, [other]))
    assert any("no such output" in one for one in wrong_outputs(truth, [unknown]))
    assert any("came 2 times" in one for one in wrong_outputs(truth, [Numbers.outputs] * 2))


def test_oracle_objects_to_outputs_of_a_tag_that_come_in_another_order(truth):
    assert list(out_of_order([Numbers.outputs.take(np.array([1, 0]))], block=2, splits=6))


def test_oracle_objects_to_positions_that_go_back(truth):
    from dgs.model.order import OrderKey
    from dgs.model.tag_sets import TagSet
    from dgs.workers.recovery.positions import Layer, Part

    def at(ts):
        return Positions({"s": (Layer(1, (Part(0, TagSet.everything(), OrderKey(ts, 0, 0)),)),)})

    assert list(went_back(truth, "epoch 2", at(6), at(5)))
    assert not list(went_back(truth, "epoch 2", at(6), at(7)))
