"""Each rule for the files of checkpoints is removed in turn, and a disk that fails and crashes must notice it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dgs.workers.checkpoints import directory, directory_store
from dgs.workers.checkpoints.directory import CheckpointDirectory
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.checkpoints.saved import RECORDS, Committed, Saved, epoch_of, pack_record, state_name
from dgs.workers.recovery.checkpoint import Checkpoint, ResumePoint, resume_point
from dgs.workers.simulated import directory as simulated_directory
from dgs.workers.simulated import store as simulated_store
from dgs.workers.simulated.directory import DirectoryStorage
from dgs.workers.simulated.disk import DiskFaults
from dgs.workers.simulated.faults import Faults
from dgs.workers.storage.disk import Disk
from tests.selection import every_other
from tests.workers.simulated import test_crashes
from tests.workers.simulated.mutation import CRASHES, Mutant, assert_killed


def begins_without_saying_so(patch: pytest.MonkeyPatch) -> None:
    """R10: the record says which generation has begun before it does anything."""
    original = DirectoryStore._begin

    def silently(store: DirectoryStore) -> ResumePoint:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(CheckpointDirectory, "write_record", lambda *_: None)
            return original(store)

    patch.setattr(DirectoryStore, "_begin", silently)


def commits_again_what_is_committed(patch: pytest.MonkeyPatch) -> None:
    """After a return to an older state, outputs below the newest committed positions are suppressed."""

    def forgetful(*args: Any) -> ResumePoint:
        point = resume_point(*args)
        return replace(point, committed=point.positions)

    patch.setattr(directory_store, "resume_point", forgetful)
    patch.setattr(simulated_store, "resume_point", forgetful)


def publishes_before_it_commits(patch: pytest.MonkeyPatch) -> None:
    """Files get their final names when the record that names them is durable, not before."""
    original = DirectoryStore.commit

    def early(store: DirectoryStore, checkpoint: Checkpoint) -> None:
        with suppress(OSError):  # as in the store: the next commit tries again
            store._publish(checkpoint.files)
        original(store, checkpoint)

    patch.setattr(DirectoryStore, "commit", early)


def forgets_to_publish_what_was_committed(patch: pytest.MonkeyPatch) -> None:
    """A generation begins by finishing the files of a commit that was cut short."""
    original = DirectoryStore._begin

    def silently(store: DirectoryStore) -> ResumePoint:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(store, "_publish_all", lambda: None)
            return original(store)

    patch.setattr(DirectoryStore, "_begin", silently)


def writes_the_record_once(patch: pytest.MonkeyPatch) -> None:
    """The record is written twice: one copy may turn bad."""

    def only_first(there: CheckpointDirectory, committed: Committed) -> None:
        first = there.path / RECORDS[0]
        there.disk.write_new(first, pack_record(first.name, committed))

    patch.setattr(CheckpointDirectory, "write_record", only_first)


def uses_a_state_that_was_never_committed(patch: pytest.MonkeyPatch) -> None:
    """A state newer than the record is ignored."""
    original = DirectoryStore._newest_whole

    def any_state(store: DirectoryStore, known: Committed) -> tuple[Saved | None, Any]:
        for epoch in sorted(filter(None, map(epoch_of, store.disk.names(store.path))), reverse=True):
            with store._rejecting(Path(state_name(epoch))):
                return store.load(epoch), []
        return original(store, known)

    patch.setattr(DirectoryStore, "_newest_whole", any_state)


def removes_the_states_of_a_doubtful_record(patch: pytest.MonkeyPatch) -> None:
    """A record whose rename failed may be what a crash leaves: its states stay until another one is durable."""
    patch.setattr(DirectoryStore, "_may_be_there", lambda *_: False)


def writes_without_making_it_durable(patch: pytest.MonkeyPatch) -> None:
    """A commit is durable before anything follows from it: content and names are fsynced."""

    def hastily(disk: Disk, path: Path, data: bytes) -> None:
        temporary = path.with_name(f"{path.name}.{disk.unique()}.tmp")
        disk.create(temporary, data)
        disk.rename(temporary, path)

    patch.setattr(Disk, "write_new", hastily)


def trusts_what_it_wrote(patch: pytest.MonkeyPatch) -> None:
    """A disk that wrote less than it was told, and did not say so, is found out before the commit."""
    patch.setattr(Disk, "read_back", lambda *_: None)


def writes_the_record_first(patch: pytest.MonkeyPatch) -> None:
    """A record never names a state that is not durable."""
    save, write = DirectoryStore._save, CheckpointDirectory.write_record

    def record_first(store: DirectoryStore, now: Committed, checkpoint: Checkpoint) -> dict[int, str]:
        with pytest.MonkeyPatch.context() as inner:
            later: list[Any] = []
            inner.setattr(Disk, "write_new", lambda _disk, *args: later.append(args))
            found = save(store, now, checkpoint)
        write(store, replace(now, checkpoint=replace(checkpoint, state=None), states={**now.states, **found}))
        for args in later:
            store.disk.write_new(*args)
        return found

    patch.setattr(DirectoryStore, "_save", record_first)


def writes_states_that_are_not_whole(patch: pytest.MonkeyPatch) -> None:
    """A state that is named in the record is whole, whatever the disk does: no other state and no refusal covers that up."""
    original = directory_store.pack_state

    def now_and_then(now: Committed, checkpoint: Checkpoint, state: bytes) -> bytes:
        data = original(now, checkpoint, state)
        return data if checkpoint.epoch % 2 else turned(data)

    patch.setattr(directory_store, "pack_state", now_and_then)


def writes_a_second_copy_that_is_not_whole(patch: pytest.MonkeyPatch) -> None:
    """Both copies of the record are whole when they are written."""
    original = directory.pack_record

    def badly(name: str, committed: Committed) -> bytes:
        data = original(name, committed)
        return turned(data) if name == RECORDS[1] else data

    patch.setattr(directory, "pack_record", badly)


def turned(data: bytes) -> bytes:
    """Return the data with one bit in its middle turned."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def check_with_a_bad_copy(seed: int) -> None:
    """Run a seed in which one bit of the record's first copy has turned before every generation: the second one must do."""

    def spoil(storage: DirectoryStorage) -> None:
        if storage.disk.exists(simulated_directory.FOLDER / RECORDS[0]):
            storage.disk.flip(simulated_directory.FOLDER / RECORDS[0], storage._random.randrange(800))

    case = test_crashes.case_of(seed // test_crashes.SEEDS_PER_WORKLOAD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DirectoryStorage, "threaten", spoil)
        patch.setattr(DirectoryStorage, "is_beyond_promise", lambda _: False)
        case.check_with(seed, Faults(crashes=2, crash_chance=0.03, disk=DiskFaults()))


MUTANTS = [
    pytest.param(
        Mutant(begins_without_saying_so, ("crash",), {**CRASHES, "zombie_chance": 1.0, "disk": DiskFaults()}),
        marks=pytest.mark.slow,
    ),
    pytest.param(
        Mutant(
            commits_again_what_is_committed,
            ("crash",),
            {**CRASHES, "disk": DiskFaults(), "rot": 0.8},
            subject="history",
        ),
        marks=pytest.mark.slow,
    ),
    pytest.param(Mutant(publishes_before_it_commits, ("disk",), CRASHES), marks=pytest.mark.slow),
    Mutant(forgets_to_publish_what_was_committed, ("disk",), CRASHES),
    Mutant(writes_the_record_once, run=check_with_a_bad_copy),
    Mutant(
        uses_a_state_that_was_never_committed,
        ("crash",),
        {**CRASHES, "disk": DiskFaults(), "disk_crash": 0.9},
        subject="history",
    ),
    Mutant(
        removes_the_states_of_a_doubtful_record,
        ("crash",),
        {**CRASHES, "disk": DiskFaults(rename=0.2, sync_directory=0.2), "disk_crash": 0.8},
    ),
    Mutant(writes_states_that_are_not_whole, ("crash", "disk")),
    Mutant(writes_a_second_copy_that_is_not_whole, ("crash", "disk")),
    Mutant(
        writes_without_making_it_durable,
        ("crash",),
        {**CRASHES, "disk": DiskFaults(), "disk_crash": 0.9},
        subject="history",
    ),
    Mutant(trusts_what_it_wrote, ("crash",), {**CRASHES, "disk": DiskFaults(torn=0.5)}, subject="history"),
    Mutant(
        writes_the_record_first,
        ("crash",),
        {**CRASHES, "disk": DiskFaults(), "disk_crash": 0.9},
        subject="history",
    ),
]


@pytest.mark.parametrize("mutant", every_other(MUTANTS), ids=str)
def test_disk_faults_are_noticed_by_stores_without_this_rule(mutant):
    assert_killed(mutant)
