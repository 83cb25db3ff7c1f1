"""The law of the store: after any crash or failure, a run begins from the last or the last but one checkpoint, complete.

The oracle knows only the attempted, acknowledged and published epochs, not the files.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest

from dgs.errors import CheckpointFailedError, CheckpointRefusedError
from dgs.workers.checkpoints.directory import CheckpointDirectory
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.checkpoints.saved import RECORDS, state_name
from dgs.workers.simulated.disk import DiskFaults, SimulatedCrash, SimulatedDisk
from tests.selection import rest_is_slow
from tests.workers.checkpoints.saving import FOLDER, assert_whole, checkpoint, open_store

SEEDS = 2
"""Possible outcomes of each crash."""


@dataclass
class Run:
    """A job on a simulated disk, over many crashes. `acknowledged`: the last epoch whose commit returned."""

    disk: SimulatedDisk
    keep: int = 2
    acknowledged: int = 0
    attempted: int = 0
    generation: int = 0
    published: set[int] = field(default_factory=set)
    store: DirectoryStore | None = None

    def publish(self, files) -> None:
        self.published.update(file.rows for file in files)

    def begin(self):
        self.store = open_store(disk=self.disk, keep=self.keep, publish=self.publish)
        point = self.store.begin()
        assert point.generation > self.generation
        self.generation = point.generation
        return point

    def commit(self, epoch: int) -> None:
        self.attempted = max(self.attempted, epoch)
        self.store.commit(checkpoint(epoch))
        self.acknowledged = epoch

    def check(self, point, *, is_damaged=False) -> None:
        """Check a resume point. It has an older state only if files are damaged."""
        assert self.acknowledged <= point.epoch <= self.attempted
        assert max(self.published, default=0) <= point.epoch
        used = int(point.state.split()[-1]) if point.state else 0
        if not is_damaged:
            assert used == point.epoch
        assert_whole(point, point.epoch, used)
        assert not point.epoch or point.epoch in self.published
        self.acknowledged = point.epoch


def started(seed: int, epochs: int) -> Run:
    run = Run(SimulatedDisk(Random(seed)))
    run.begin()
    for epoch in range(1, epochs + 1):
        run.commit(epoch)
    return run


def operations_of(act) -> int:
    """Return how many operations it takes without faults."""
    run = started(0, 3)
    before = run.disk.operations
    act(run)
    return run.disk.operations - before


@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_a_commit_cut_short_anywhere_is_done_or_not(epochs):
    found = set()
    for point in range(operations_of(lambda run: run.commit(4)) + 1):
        for seed in range(SEEDS):
            run = started(seed, epochs)
            run.disk.crash_at = run.disk.operations + point
            with suppress(SimulatedCrash):
                run.commit(epochs + 1)
            run.disk.crash()
            begun = run.begin()
            run.check(begun)
            found.add((run.attempted, begun.epoch))
            run.commit(epochs + 2)
    assert found == {(epochs + 1, epochs), (epochs + 1, epochs + 1)}


@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_a_begin_cut_short_anywhere_can_be_repeated(epochs):
    for point in range(operations_of(Run.begin) + 1):
        for seed in range(SEEDS):
            run = started(seed, epochs)
            run.disk.crash()
            run.disk.crash_at = run.disk.operations + point
            with suppress(SimulatedCrash):
                run.begin()
            run.disk.crash()
            run.check(run.begin())
            run.commit(epochs + 1)


def test_a_first_begin_cut_short_anywhere_can_be_repeated():
    for point in range(40):
        for seed in range(SEEDS):
            run = Run(SimulatedDisk(Random(seed), crash_at=point))
            with suppress(SimulatedCrash):
                run.begin()
            run.disk.crash()
            run.check(run.begin())


def test_a_crash_after_a_crash_in_a_commit_changes_nothing():
    commit, begin = operations_of(lambda run: run.commit(4)), operations_of(Run.begin)
    for seed in range(40):
        random = Random(seed)
        run = started(seed, 2)
        for act, most in ((lambda run: run.commit(3), commit), (Run.begin, begin), (Run.begin, begin)):
            run.disk.crash_at = run.disk.operations + random.randrange(most)
            with pytest.raises(SimulatedCrash):
                act(run)
            run.disk.crash()
        run.check(run.begin())


def live(run: Run, random: Random, *, is_damaged: bool = False) -> None:
    """Make commits that may fail, until the end or a crash."""
    if random.random() < 0.7:
        run.disk.crash_at = run.disk.operations + random.randrange(120)
    with suppress(SimulatedCrash):
        point = run.begin()
        run.check(point, is_damaged=is_damaged)
        for epoch in range(point.epoch + 1, point.epoch + random.randint(1, 5)):
            with suppress(CheckpointFailedError):
                run.commit(epoch)
    if run.disk.crash_at or random.random() < 0.5:
        run.disk.crash()


WRITING = ("full", "torn", "fsync", "rename", "sync_directory", "unlink")


@pytest.mark.parametrize("block", rest_is_slow(range(12)))
def test_failing_writes_and_crashes_lose_nothing(block):
    for seed in range(block * 100, block * 100 + 100):
        random = Random(seed)
        faults = DiskFaults(**{name: random.choice([0, 0, 0.02, 0.2]) for name in WRITING})
        run = Run(SimulatedDisk(random, faults), keep=random.randint(1, 3))
        for _ in range(random.randint(1, 4)):
            with suppress(CheckpointRefusedError):  # a generation that cannot be recorded does not begin
                live(run, random)
        run.disk.faults = DiskFaults()
        run.disk.crash()
        run.check(run.begin())


def flip_one(run: Run, random: Random) -> None:
    """Damage a file that another file can replace."""
    directory = CheckpointDirectory(FOLDER, run.disk)
    states = [info.file for info in directory.list() if info.is_committed]
    records = [name for name, problem in directory.verify() if name in RECORDS and problem is None]
    names = random.choice([states, records])
    if len(names) > 1:
        path = FOLDER / random.choice(names)
        run.disk.flip(path, random.randrange(8 * len(run.disk.read(path))))


def test_damage_at_rest_between_lives_loses_nothing():
    for seed in range(60):
        random = Random(seed)
        run = Run(SimulatedDisk(random), keep=random.randint(3, 5))
        for _ in range(random.randint(1, 4)):
            live(run, random, is_damaged=True)
            flip_one(run, random)
        run.disk.crash()
        run.check(run.begin(), is_damaged=True)


def test_any_one_damaged_file_is_survived():
    for name in (*RECORDS, state_name(2), state_name(3)):
        run = started(1, 3)
        for bit in range(0, 8 * len(run.disk.read(FOLDER / name)), 593):
            run.disk.flip(FOLDER / name, bit)
            run.check(run.begin(), is_damaged=True)
            run = started(bit, 3)


def test_no_state_is_a_mixture_under_any_faults():
    """Here everything fails at once, and a refusal is allowed."""
    begun = refused = 0
    for seed in range(80):
        random = Random(seed)
        disk, epoch = SimulatedDisk(random, DiskFaults(*[0.03] * 8)), 0
        for _ in range(4):
            store = open_store(disk=disk, keep=2)
            disk.crash_at = disk.operations + random.randrange(200)
            with suppress(SimulatedCrash, CheckpointFailedError):
                try:
                    point = store.begin()
                except CheckpointRefusedError:
                    refused += 1
                    continue
                begun += 1
                used = int(point.state.split()[-1]) if point.state else 0
                assert used <= point.epoch <= epoch
                assert_whole(point, point.epoch, used)
                for epoch in range(epoch + 1, epoch + 4):  # noqa: B020 - epochs never come again
                    store.commit(checkpoint(epoch))
            disk.crash()
    assert begun > refused


def test_a_seed_is_one_story():
    def story(seed):
        random = Random(seed)
        run = Run(SimulatedDisk(random, DiskFaults(full=0.1, fsync=0.1, rename=0.1)))
        for _ in range(3):
            with suppress(CheckpointRefusedError):
                live(run, random)
        files = run.disk.names(FOLDER)
        return run.disk.operations, files, [run.disk.read(FOLDER / name) for name in files]

    assert story(3) == story(3)
    assert story(3) != story(4)
