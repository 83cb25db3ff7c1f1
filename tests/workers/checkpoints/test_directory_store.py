"""The store of checkpoints on a real disk: which state it resumes from, which ones it refuses, and which it keeps."""

import os
from dataclasses import replace

import pytest

from dgs import codec
from dgs.errors import (
    CheckpointBusyError,
    CheckpointFailedError,
    CheckpointRefusedError,
    FencedError,
    IncompatibleCheckpointError,
    InternalError,
    OutputUnwritableError,
)
from dgs.workers.checkpoints.saved import RECORDS, pack_record, read_record
from dgs.workers.storage.disk import RealDisk
from tests.workers.checkpoints.saving import SUMS, assert_whole, checkpoint, open_store, positions, staged


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


@pytest.fixture
def opened():
    """Open stores that are closed at the end."""
    stores = []

    def opened(path, *, fresh=True, **options):
        if fresh:
            while stores:
                stores.pop().close()
        stores.append(open_store(path, **options))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


@pytest.fixture
def saved(folder, opened):
    """A directory with epochs 1 to 3, closed."""
    store = opened(folder)
    store.begin()
    for epoch in (1, 2, 3):
        store.commit(checkpoint(epoch))
    store.close()
    return folder


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def test_store_is_empty_in_a_new_directory(folder, opened):
    point = opened(folder).begin()
    assert_whole(point, 0)
    assert (point.generation, point.is_final) == (1, False)


def test_store_resumes_from_the_last_commit(saved, opened):
    point = opened(saved).begin()
    assert_whole(point, 3)
    assert point.generation == 2


def test_generations_grow_with_every_begin(saved, opened):
    store = opened(saved)
    assert [store.begin().generation for _ in range(3)] == [2, 3, 4]
    assert opened(saved).begin().generation == 5


def test_commits_go_on_after_a_resume(saved, opened):
    store = opened(saved)
    store.begin()
    store.commit(checkpoint(4))
    assert_whole(opened(saved).begin(), 4)


def test_only_the_last_states_are_kept(folder, opened):
    store = opened(folder, keep=2)
    store.begin()
    for epoch in range(1, 6):
        store.commit(checkpoint(epoch))
    assert [info.epoch for info in store.list()] == [4, 5]
    assert sorted(path.name for path in folder.iterdir()) == [
        "lock",
        *RECORDS,
        "state-4.dgs",
        "state-5.dgs",
    ]


def test_files_are_published_when_the_record_is_there_and_again_when_a_run_begins(folder, opened):
    published = []

    def publish(files):
        epochs = {read_record(RealDisk(), folder / name).checkpoint.epoch for name in RECORDS}
        published.append(([file.path for file in files], epochs))

    store = opened(folder, publish=publish)
    store.begin()
    store.commit(checkpoint(1))
    store.commit(checkpoint(2, files=(staged(2), staged(7))))
    opened(folder, publish=publish).begin()
    both = ["/out/2.staged", "/out/7.staged"]
    assert published == [([], {0}), (["/out/1.staged"], {1}), (both, {2}), (both, {2})]


def test_files_that_could_not_be_published_are_published_with_the_next_epoch(folder, opened):
    published = []

    def publish(files):
        if store.committed().checkpoint.epoch == 1:
            raise PermissionError(13, "Permission denied", "/out/1.jsonl")
        published.extend(file.path for file in files)

    store = opened(folder, publish=publish)
    store.begin()
    with pytest.raises(OutputUnwritableError, match=r"/out/1.jsonl"):
        store.commit(checkpoint(1))
    store.commit(checkpoint(2))
    assert published == ["/out/1.staged", "/out/2.staged"]
    assert_whole(opened(folder).begin(), 2)


def test_one_run_at_a_time_has_a_directory_open(saved, opened):
    opened(saved).begin()
    other = opened(saved, fresh=False)
    with pytest.raises(CheckpointBusyError, match=f"process {os.getpid()} on") as caught:
        other.begin()
    assert caught.value.exit_code == 6


def test_a_run_that_is_refused_does_not_keep_the_directory(saved, opened):
    refused = opened(saved, identity=replace(SUMS, name="Other"))
    with pytest.raises(CheckpointRefusedError):
        refused.begin()
    opened(saved, fresh=False).begin()


def test_an_older_generation_is_fenced(saved, opened):
    older = opened(saved)
    older.begin()
    older._lock.release()  # as if the lock had no effect on the other machine
    newer = opened(saved, fresh=False)
    newer.begin()
    with pytest.raises(FencedError, match=r"generation 2 .* generation 3"):
        older.commit(checkpoint(4))
    newer.commit(checkpoint(4, state=b"of the newer"))
    with pytest.raises(FencedError):
        older.commit(checkpoint(4))
    assert opened(saved).begin().state == b"of the newer"


@pytest.mark.parametrize("step", ["create", "rename"])
def test_an_older_generation_is_fenced_also_while_it_writes_its_state(saved, opened, monkeypatch, step):
    older = opened(saved)
    older.begin()
    older._lock.release()
    real = getattr(RealDisk, step)

    def slowly(disk, path, *rest):
        real(disk, path, *rest)
        if path.name.startswith("state"):
            monkeypatch.undo()
            opened(saved, fresh=False).begin()

    monkeypatch.setattr(RealDisk, step, slowly)
    with pytest.raises(FencedError):
        older.commit(checkpoint(4))
    assert_whole(opened(saved).begin(), 3)


def test_only_unfinished_files_of_a_crash_are_removed(saved, opened):
    for name in ("state-9.dgs.1f.tmp", "record-a.dgs.2e.tmp", "part-0.jsonl.tmp", "notes"):
        (saved / name).write_bytes(b"")
    opened(saved).begin()
    assert {path.name for path in saved.iterdir()} >= {"part-0.jsonl.tmp", "notes", "state-1.dgs"}
    assert not list(saved.glob("*.dgs.*.tmp"))


def test_a_damaged_state_is_named_and_an_older_one_used_with_the_newest_record(saved, opened):
    damage(saved / "state-3.dgs")
    store = opened(saved)
    assert_whole(store.begin(), 3, used=2)
    (rejected,) = store.rejected
    assert rejected.path == str(saved / "state-3.dgs")
    assert "digest" in rejected.problem


def test_commits_stay_after_a_return_to_an_older_state(saved, opened):
    """Outputs up to the newest record are published: an older state must not repeat them."""
    damage(saved / "state-3.dgs")
    store = opened(saved)
    point = store.begin()
    store.commit(replace(checkpoint(4), positions=point.positions))
    store.close()
    resumed = opened(saved).begin()
    assert resumed.positions == point.positions
    assert point.committed == positions(3)
    assert resumed.committed.base("a") == positions(3).base("a")


@pytest.mark.parametrize("name", ["state-2.dgs", "elsewhere"])
def test_a_state_that_is_another_or_gone_is_not_used(saved, opened, name):
    (saved / "state-3.dgs").replace(saved / "elsewhere")
    (saved / name).replace(saved / "state-3.dgs") if name == "state-2.dgs" else None
    store = opened(saved)
    assert_whole(store.begin(), 3, used=1 if name == "state-2.dgs" else 2)
    assert store.rejected[0].path == str(saved / "state-3.dgs")


def test_a_whole_state_of_another_history_is_not_used(saved, opened, tmp_path):
    store = opened(tmp_path / "other")
    store.begin()
    store.commit(checkpoint(3, state=b"of another run"))
    (tmp_path / "other" / "state-3.dgs").replace(saved / "state-3.dgs")
    store = opened(saved)
    assert_whole(store.begin(), 3, used=2)
    assert "not the file that was committed" in store.rejected[0].problem


def test_a_state_newer_than_the_record_is_ignored_and_removed(saved, opened):
    store = opened(saved)
    store.begin()
    record = [(saved / name).read_bytes() for name in RECORDS]
    store.commit(checkpoint(4))
    for name, data in zip(RECORDS, record, strict=True):
        (saved / name).write_bytes(data)
    assert_whole(opened(saved).begin(), 3)
    assert not (saved / "state-4.dgs").exists()


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("harm", [damage, os.unlink])
def test_one_copy_of_the_record_suffices_and_the_other_is_restored(saved, opened, name, harm):
    harm(saved / name)
    assert_whole(opened(saved).begin(), 3)
    assert {read_record(RealDisk(), saved / name).generation for name in RECORDS} == {2}


@pytest.mark.parametrize("name", RECORDS)
def test_the_newer_copy_of_the_record_is_believed(saved, opened, name):
    store = opened(saved)
    store.begin()
    older = (saved / name).read_bytes()  # of the same generation
    store.commit(checkpoint(4))
    (saved / name).write_bytes(older)
    assert_whole(opened(saved).begin(), 4)


@pytest.mark.parametrize("harm", [damage, os.unlink])
def test_without_any_record_the_run_is_refused_unless_duplicates_are_accepted(saved, opened, harm):
    for name in RECORDS:
        harm(saved / name)
    with pytest.raises(
        CheckpointRefusedError, match=r"both copies of the record .*--accept-duplicates"
    ) as caught:
        opened(saved).begin()
    assert caught.value.exit_code == 6
    assert (saved / "state-1.dgs").exists()
    point = opened(saved, accept_duplicates=True).begin()
    assert_whole(point, 3)
    assert point.generation == 2
    assert_whole(opened(saved).begin(), 3)


def test_without_complete_records_and_states_a_run_starts_over_if_duplicates_are_accepted(saved, opened):
    for path in saved.glob("*.dgs"):
        damage(path)
    with pytest.raises(CheckpointRefusedError):
        opened(saved).begin()
    assert_whole(opened(saved, accept_duplicates=True).begin(), 0)


def test_without_any_complete_state_the_run_is_refused_unless_it_may_start_over(saved, opened):
    for path in saved.glob("state-*.dgs"):
        damage(path)
    store = opened(saved)
    with pytest.raises(CheckpointRefusedError, match="no committed state can be read"):
        store.begin()
    assert len(store.rejected) == 3
    point = opened(saved, accept_duplicates=True).begin()
    assert (point.epoch, point.state, point.positions) == (3, None, positions(0))
    assert point.committed == positions(3)  # so nothing is repeated


def test_checkpoints_of_outputs_only_resume_from_the_last_state_or_from_the_beginning(folder, opened):
    store = opened(folder)
    store.begin()
    store.commit(checkpoint(1, state=None))
    assert_whole(store.begin(), 1, used=0)
    store.commit(checkpoint(2))
    store.commit(checkpoint(3, state=None))
    assert_whole(opened(folder).begin(), 3, used=2)


def test_a_finished_run_says_so(folder, opened):
    store = opened(folder)
    store.begin()
    store.commit(checkpoint(1))
    store.commit(checkpoint(2, is_final=True))
    assert opened(folder).begin().is_final
    damage(folder / "state-2.dgs")
    assert not opened(folder).begin().is_final  # its state must be recomputed


def test_another_program_is_refused_with_both_shown(saved, opened):
    other = replace(SUMS, parts={"streams in order": "'b', 'a'"})
    with pytest.raises(CheckpointRefusedError) as caught:
        opened(saved, identity=other).begin()
    for text in (SUMS.digest, other.digest, "streams in order: 'a', 'b' there, 'b', 'a' here"):
        assert text in str(caught.value)
    assert_whole(opened(saved).begin(), 3)


def test_another_program_may_begin_where_nothing_was_committed(folder, opened):
    opened(folder).begin()
    store = opened(folder, identity=replace(SUMS, name="Other"))
    store.begin()
    store.commit(checkpoint(1))
    with pytest.raises(CheckpointRefusedError):
        opened(folder).begin()


def test_another_version_without_migrate_is_refused_with_both_numbers(saved, opened):
    with pytest.raises(
        IncompatibleCheckpointError, match=r"version 1, and this is version 2.*migrate"
    ) as caught:
        opened(saved, identity=replace(SUMS, version=2)).begin()
    assert (caught.value.found, caught.value.expected) == (1, 2)


def test_another_version_is_migrated_until_it_commits_states_of_its_own(folder, opened):
    store = opened(folder)
    store.begin()
    store.commit(checkpoint(1, state=codec.encode({"sum": 7})))
    newer = {"identity": replace(SUMS, version=2), "migrate": lambda state, version: [version, state["sum"]]}
    for _ in range(2):
        store = opened(folder, **newer)
        assert codec.decode(store.begin().state) == [1, 7]
    assert opened(folder).begin().state == codec.encode({"sum": 7})  # a run may still go back to it
    store = opened(folder, **newer)
    store.begin()
    store.commit(checkpoint(2, state=b"as it is"))
    assert opened(folder, **newer).begin().state == b"as it is"
    with pytest.raises(IncompatibleCheckpointError):
        opened(folder).begin()


def test_another_format_is_refused_and_left_alone(saved, opened, monkeypatch):
    record = read_record(RealDisk(), saved / RECORDS[0])
    monkeypatch.setattr("dgs.workers.storage.sealed_file.VERSION", 2)
    (saved / RECORDS[0]).write_bytes(newer := pack_record(RECORDS[0], record))
    monkeypatch.undo()
    with pytest.raises(IncompatibleCheckpointError, match="format has version 2, and this is version 1"):
        opened(saved).begin()
    assert (saved / RECORDS[0]).read_bytes() == newer


def test_a_commit_that_fails_leaves_the_previous_one_and_the_next_one_works(saved, opened, monkeypatch):
    store = opened(saved)
    store.begin()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(CheckpointFailedError, match=r"epoch 4 .* No space left") as caught:
        store.commit(checkpoint(4))
    assert (caught.value.epoch, caught.value.exit_code) == (4, 6)
    monkeypatch.undo()
    assert [info.epoch for info in store.list()] == [1, 2, 3]
    store.commit(checkpoint(5))
    assert_whole(opened(saved).begin(), 5)


def test_a_state_whose_record_failed_makes_room(saved, opened, monkeypatch):
    store = opened(saved)
    store.begin()
    create = RealDisk.create

    def fail(disk, path, data):
        if path.name.startswith("record"):
            raise OSError(28, "No space left on device")
        create(disk, path, data)

    monkeypatch.setattr(RealDisk, "create", fail)
    with pytest.raises(CheckpointFailedError):
        store.commit(checkpoint(4))
    assert not (saved / "state-4.dgs").exists()


def test_a_commit_counts_when_only_its_second_copy_fails(saved, opened, monkeypatch):
    published = []
    store = opened(saved, publish=published.extend)
    store.begin()
    create = RealDisk.create

    def fail(disk, path, data):
        if path.name.startswith(RECORDS[1]):
            raise OSError(28, "No space left on device")
        create(disk, path, data)

    monkeypatch.setattr(RealDisk, "create", fail)
    store.commit(checkpoint(4))
    assert published[-1] == staged(4)
    assert str(store.rejected[-1]).endswith("the second copy could not be written: No space left on device")
    monkeypatch.undo()
    assert_whole(opened(saved).begin(), 4)


def test_a_directory_that_cannot_be_written_is_an_error_of_ours(tmp_path, opened):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CheckpointRefusedError, match="Make the directory readable and writable"):
        opened(tmp_path / "file" / "below").begin()


def test_commits_out_of_place_are_bugs(folder, opened):
    store = opened(folder)
    with pytest.raises(InternalError, match="not begun"):
        store.commit(checkpoint(1))
    store.begin()
    store.commit(checkpoint(2))
    with pytest.raises(InternalError, match="epoch 2 after epoch 2"):
        store.commit(checkpoint(2))
    store.close()
    with pytest.raises(InternalError, match="closed"):
        store.commit(checkpoint(3))
