"""Directories of checkpoints: listed, verified and pruned without the program."""

import pytest

from dgs.errors import CheckpointBusyError, CheckpointRefusedError, CorruptFileError
from dgs.workers.checkpoints.directory import CheckpointDirectory
from dgs.workers.checkpoints.saved import RECORDS
from dgs.workers.storage.disk import RealDisk
from tests.workers.checkpoints.saving import SUMS, assert_whole, checkpoint, open_store, positions


@pytest.fixture
def folder(tmp_path):
    store = open_store(tmp_path, job="sums", clock=lambda: 1_700_000_000_000_000_000)
    store.begin()
    for epoch in (1, 2, 3):
        store.commit(checkpoint(epoch))
    store.close()
    return tmp_path


@pytest.fixture
def directory(folder):
    return CheckpointDirectory(folder)


def damage(path):
    path.write_bytes(path.read_bytes()[:-1])


def test_list_describes_each_state(directory):
    infos = directory.list()
    assert [(info.file, info.epoch, info.is_committed, info.problem) for info in infos] == [
        (f"state-{epoch}.dgs", epoch, True, None) for epoch in (1, 2, 3)
    ]
    said = infos[1].manifest
    assert (said.job, said.identity, said.generation) == ("sums", SUMS, 1)
    assert (said.watermark, said.size) == (positions(2).low, len(b"state of 2"))
    assert (said.checkpoint.events, said.created_at) == (200, 1_700_000_000_000_000_000)


def test_list_marks_damaged_and_uncommitted_states(folder, directory):
    damage(folder / "state-1.dgs")
    for name in RECORDS:
        (folder / name).unlink()
    infos = directory.list()
    assert [(info.is_committed, info.problem) for info in infos] == [
        (False, "it is cut off, or was never written to its end"),
        (False, None),
        (False, None),
    ]


def test_state_that_the_run_removes_meanwhile_is_neither_listed_nor_damaged(folder):
    class Stale(RealDisk):
        def names(self, directory):
            return [*super().names(directory), "state-0.dgs"]

    directory = CheckpointDirectory(folder, Stale())
    assert [info.epoch for info in directory.list()] == [1, 2, 3]
    assert [name for name, _problem in directory.verify()] == [
        *RECORDS,
        *(f"state-{n}.dgs" for n in (1, 2, 3)),
    ]


def test_load_gives_the_whole_checkpoint(directory):
    saved = directory.load(2)
    assert saved.state == b"state of 2"
    assert saved.checkpoint.state == b"state of 2"
    assert saved.checkpoint.positions == positions(2)


def test_load_of_a_missing_or_damaged_file_names_it(folder, directory):
    with pytest.raises(CorruptFileError, match=r"state-9.dgs .*No such file"):
        directory.load(9)
    damage(folder / "state-2.dgs")
    with pytest.raises(CorruptFileError, match=r"state-2.dgs is damaged: it is cut off"):
        directory.load(2)


def test_verify_names_every_file_and_its_problem(folder, directory):
    names = [*RECORDS, "state-1.dgs", "state-2.dgs", "state-3.dgs"]
    assert directory.verify() == [(name, None) for name in names]
    damage(folder / RECORDS[0])
    damage(folder / "state-1.dgs")
    (folder / "state-2.dgs").unlink()
    assert [name for name, problem in directory.verify() if problem] == [
        RECORDS[0],
        "state-1.dgs",
        "state-2.dgs",
    ]
    assert dict(directory.verify())["state-2.dgs"] == "No such file or directory"


def test_verify_knows_a_whole_state_that_is_not_the_one_that_was_committed(folder, directory, tmp_path):
    other = open_store(tmp_path / "other")
    other.begin()
    other.commit(checkpoint(3, state=b"of another run"))
    other.close()
    (tmp_path / "other" / "state-3.dgs").replace(folder / "state-3.dgs")
    assert dict(directory.verify())["state-3.dgs"] == "it is not the file that was committed"


def test_prune_keeps_the_newest_that_are_whole(folder, directory):
    damage(folder / "state-3.dgs")
    assert directory.prune(1) == ["state-1.dgs", "state-3.dgs"]
    assert directory.verify() == [(RECORDS[0], None), (RECORDS[1], None), ("state-2.dgs", None)]
    store = open_store(folder)
    assert_whole(store.begin(), 3, used=2)
    store.close()


def test_prune_always_keeps_one(directory):
    directory.prune(0)
    assert [info.epoch for info in directory.list()] == [3]


def test_prune_that_keeps_all_changes_nothing(folder, directory):
    before = {path.name: path.read_bytes() for path in folder.glob("*.dgs")}
    assert directory.prune(3) == []
    assert {path.name: path.read_bytes() for path in folder.glob("*.dgs")} == before


def test_prune_is_refused_while_a_run_has_the_directory_open(folder, directory):
    store = open_store(folder)
    store.begin()
    with pytest.raises(CheckpointBusyError):
        directory.prune(1)
    assert store.prune(1) == ["state-1.dgs", "state-2.dgs"]  # the run itself may read it
    store.commit(checkpoint(4))
    store.close()
    assert [problem for _, problem in directory.verify()] == [None] * 4
    directory.prune(1)


def test_prune_without_a_record_is_refused(folder, directory):
    for name in RECORDS:
        damage(folder / name)
    with pytest.raises(CheckpointRefusedError, match="no valid record"):
        directory.prune(1)
    assert (folder / "state-1.dgs").exists()


def test_prune_removes_nothing_where_no_state_is_whole(folder, directory):
    for path in folder.glob("state-*"):
        damage(path)
    with pytest.raises(CheckpointRefusedError, match="nothing is removed"):
        directory.prune(1)
    assert len(directory.list()) == 3


def test_a_directory_that_is_not_there_is_an_error_of_ours(tmp_path):
    with pytest.raises(CheckpointRefusedError, match="No such file"):
        CheckpointDirectory(tmp_path / "nowhere").list()
