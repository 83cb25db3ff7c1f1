"""The store that truncates event logs after commits: below the oldest kept checkpoint. A failure does not end the run."""

import pytest

from dgs.errors import OutputUnwritableError
from dgs.model.identity import ProgramIdentity
from dgs.model.order import OrderKey
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.checkpoints.truncating_store import TruncatingStore, kept_checkpoints
from dgs.workers.recovery.checkpoint import Checkpoint
from dgs.workers.recovery.positions import Layer, Part, Positions


def positions(ts):
    return Positions({"s": (Layer(1, (Part(0, TagSet.of(Tag("value")), OrderKey(ts, 0, ts)),)),)})


@pytest.fixture
def opened(tmp_path):
    def open_(truncate, notify=pytest.fail):
        identity = ProgramIdentity("Sums", 1, {})
        store = DirectoryStore(tmp_path, identity=identity, publish=lambda _files: None, keep=2)
        return TruncatingStore(store, tmp_path, truncate, notify)

    return open_


def bases(kept):
    return [found.positions.base("s").ts for found in kept]


def test_logs_are_truncated_after_an_older_checkpoint_is_removed(opened, tmp_path):
    asked = []
    store = opened(lambda kept: asked.append(bases(kept)))
    store.begin()
    for epoch in (1, 2, 3):
        store.commit(Checkpoint(epoch, b"state", positions(10 * epoch)))
    store.commit(Checkpoint(4, None, positions(40)))  # without a state: no run resumes from it
    store.close()
    assert asked == [[10], [20, 30]]
    store = opened(lambda kept: asked.append(bases(kept)))
    store.begin()
    store.commit(Checkpoint(5, b"state", positions(50)))
    store.close()
    assert asked[2:] == [[30, 50]]
    assert bases(kept_checkpoints(tmp_path).values()) == [30, 50]


def test_failure_to_truncate_is_reported_once_and_the_run_goes_on(opened, tmp_path):
    told = []

    def failing(_kept):
        raise OutputUnwritableError(path=tmp_path, problem="the disk is gone")

    store = opened(failing, told.append)
    store.begin()
    for epoch in (1, 2, 3):
        store.commit(Checkpoint(epoch, b"state", positions(epoch)))
    store.close()
    assert len(told) == 1
    assert "the disk is gone" in told[0]
