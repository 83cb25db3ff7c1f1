"""A user's store over the directory of a run: together they keep the laws, also if a commit is interrupted between the two."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dgs import codec
from dgs.connectors import Checkpoint
from dgs.errors import CheckpointRefusedError, ConnectorError, UserCodeError
from dgs.model.identity import ProgramIdentity
from dgs.testing import check_store
from dgs.workers.checkpoints.custom_store import ConnectedStore
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.recovery.checkpoint import StagedFile
from dgs.workers.recovery.positions import Positions
from dgs.workers.runtime import store_opening
from tests.dgs.testing.test_store_laws import Files
from tests.programs import Counters

PUBLISHED: list[str] = []


def connected(folder: Path, *, run: str = "one", theirs=Files, version: int = 1, migrate=None):
    program = Counters()
    program.version = version
    for name in ("theirs", f"ours-{run}"):
        (folder / name).mkdir(exist_ok=True)
    directory = DirectoryStore(
        folder / f"ours-{run}",
        identity=ProgramIdentity("Counters", version, {}),
        publish=lambda files: PUBLISHED.extend(file.final for file in files),
        migrate=None if migrate is None else lambda state, _: state,
    )
    return ConnectedStore(
        theirs(folder / "theirs"),
        directory,
        ref="files.py:Files",
        run=run,
        program=program,
        base=folder,
        migrate=migrate,
    )


WRONG_POINTS = [
    ({"state": b"\xff"}, r"returned the state b'\\xff', which `commit` did not get"),
    ({"state": "text"}, "returned the state 'text'"),
    ({"state": codec.encode(5)}, "returned the state b'\\\\x05'"),
    ({"epoch": "3"}, "a ResumePoint whose `epoch` is '3'"),
    ({"positions": None}, "a ResumePoint whose `positions` is None"),
]


def committed(folder: Path, state=7, **options) -> None:
    store = connected(folder, **options)
    epoch = store.begin().epoch + 1
    store.commit(Checkpoint(epoch, codec.encode(state), Positions()))
    store.close()


@pytest.mark.slow
def test_both_together_keep_the_laws(tmp_path):
    check_store(lambda: connected(tmp_path))


def test_commit_that_ended_between_the_two_is_completed_with_its_files(tmp_path):
    store = connected(tmp_path)
    store.begin()

    def fail(_checkpoint):
        raise KeyError("the run ends here")

    store._directory.commit = fail
    draft = StagedFile(str(tmp_path / "a.partial"), str(tmp_path / "a"), 3, "", 1)
    with pytest.raises(KeyError):
        store.commit(Checkpoint(1, codec.encode(7), Positions(), files=(draft,)))
    store.close()
    PUBLISHED.clear()
    point = connected(tmp_path).begin()
    assert (point.epoch, codec.decode(point.state)) == (1, 7)
    assert [str(tmp_path / "a")] == PUBLISHED


def test_state_of_another_run_is_refused_with_advice(tmp_path):
    committed(tmp_path)
    with pytest.raises(CheckpointRefusedError, match=r"it has epoch 1 of another run.*for_run"):
        connected(tmp_path, run="two").begin()


def test_store_that_has_lost_a_committed_state_is_refused(tmp_path):
    committed(tmp_path)
    (tmp_path / "theirs" / "saved").unlink()
    with pytest.raises(CheckpointRefusedError, match=r"files.py:Files: it is empty, but epoch 1"):
        connected(tmp_path).begin()


def test_run_that_has_kept_its_states_itself_takes_no_store(tmp_path):
    store = connected(tmp_path)
    store._directory.begin()
    store._directory.commit(Checkpoint(1, codec.encode({"store": 1, "epoch": 1, "more": 2}), Positions()))
    with pytest.raises(CheckpointRefusedError, match="has kept its states in its directory so far"):
        store.begin()
    store.close()


def test_run_whose_states_are_in_a_store_does_not_resume_without_it(tmp_path):
    committed(tmp_path)
    store = connected(tmp_path)
    job = SimpleNamespace(checkpoint=None, checkpoint_dir=tmp_path)
    with pytest.raises(
        CheckpointRefusedError, match=r"the states of this run are in the store files\.py:Files"
    ):
        store_opening.check_store(job, store._directory.begin())
    store_opening.check_store(job, replace(store.begin(), state=codec.encode({"store": 1})))
    store.close()


def test_state_of_an_older_version_is_migrated(tmp_path):
    committed(tmp_path)
    point = connected(tmp_path, version=2, migrate=lambda state, version: (state, version)).begin()
    assert codec.decode(point.state) == (7, 1)


def test_exceptions_and_wrong_results_of_the_store_name_it(tmp_path):
    class Broken(Files):
        def begin(self):
            return None if self.folder.exists() else self.missing

    with pytest.raises(ConnectorError, match=r"store files.py:Files: `begin` returned NoneType"):
        connected(tmp_path, theirs=Broken).begin()

    class Failing(Files):
        def commit(self, checkpoint):
            raise OSError("no route to the store")

    with pytest.raises(UserCodeError, match=r"files.py:Files.commit of program Counters raised OSError"):
        committed(tmp_path, run="two", theirs=Failing)


def test_points_that_no_commit_has_made_are_named(tmp_path):
    class OfAnother(Files):
        def begin(self):
            return replace(super().begin(), **self.instead)

    committed(tmp_path)
    for instead, problem in WRONG_POINTS:
        OfAnother.instead = instead
        store = connected(tmp_path, theirs=OfAnother)
        with pytest.raises(ConnectorError, match=problem):
            store.begin()
        store.close()
