"""Which checkpoints are committed: those that say something new, and those that somebody waits for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dgs.job.schema import RuntimeConfig
from dgs.model.outputs import OutputBatch
from dgs.model.tags import Tag
from dgs.workers.checkpoints import Checkpoint, ResumePoint, StagedFile
from dgs.workers.checkpoints.memory_store import MemoryStore
from dgs.workers.recovery.epochs import HostReport, RootReport
from dgs.workers.runtime.checkpointing import CheckpointFigures, Checkpointing
from dgs.workers.runtime.control import Control, ControlRequest

FILE = StagedFile(path="/out/1.partial", final="/out/1", size=1, digest="", rows=1)


class CountingStore(MemoryStore):
    """Remembers the epochs that were committed."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[int] = []

    def commit(self, checkpoint: Checkpoint) -> None:
        """Commit, and remember it."""
        super().commit(checkpoint)
        self.epochs.append(checkpoint.epoch)


class GivenControl(Control):
    """A control whose request the test gives."""

    def __init__(self) -> None:
        super().__init__(None)
        self.given: ControlRequest | None = None

    def pending(self) -> ControlRequest | None:
        """Return what the test asks for."""
        return self.given


class Generation:
    """Checkpoints of a generation of one host; its epochs are reported one after the other."""

    def __init__(self, point: ResumePoint = ResumePoint(generation=1)) -> None:  # noqa: B008 - immutable
        job = SimpleNamespace(checkpoint=None, splits=None, runtime=RuntimeConfig())
        deployment: Any = SimpleNamespace(job=job, home={"w": 0}, lanes=SimpleNamespace(all=()), point=point)
        caller_outputs: Any = SimpleNamespace(commit=lambda epoch: None)
        self.store, self.control = CountingStore(), GivenControl()
        self.store.begin()
        self.checkpointing = Checkpointing(
            deployment, self.store, caller_outputs, CheckpointFigures(), self.control
        )
        self._epoch = point.epoch

    def epoch(self, *, state: bytes | None = b"state", is_final: bool = False, **said: Any) -> list[int]:
        """Report an epoch; return those that are committed."""
        self._epoch += 1
        root = RootReport(self._epoch, state, {}, is_final=is_final)
        self.checkpointing.take_reports([root, HostReport(host=0, epoch=self._epoch, **said)])
        return self.store.epochs


def test_epochs_without_news_are_not_committed():
    generation = Generation()
    assert generation.epoch() == []
    assert generation.epoch(events=3) == [2]
    assert generation.epoch(events=3) == [2]
    assert generation.epoch(events=4) == [2, 4]


def test_events_before_the_resume_point_are_no_news():
    generation = Generation(ResumePoint(generation=2, epoch=7, state=b"state", events=5))
    assert generation.epoch() == []
    assert generation.epoch(events=1) == [9]


def test_outputs_are_news_without_events():
    generation = Generation()
    assert generation.epoch(files=(FILE,)) == [1]


def test_accepted_outputs_are_news():
    outbox = (OutputBatch.of("s", rank=0, tags=[Tag("n")], ts=[1], seq=[0], index=[0], values=["one"]),)
    generation = Generation(ResumePoint(generation=2, epoch=1, state=b"state", outbox=outbox))
    assert generation.epoch() == [2]
    assert generation.epoch() == [2]


def test_end_is_committed_without_news():
    assert Generation().epoch(is_final=True) == [1]


def test_checkpoint_for_a_request_needs_no_news():
    generation = Generation()
    generation.control.given = ControlRequest("stop")
    asked: list[bool] = []
    assert generation.checkpointing.poll(asked.append) is None
    assert asked == [True]
    assert generation.epoch() == [1]
    assert generation.control.committed_epoch == 1


def test_epoch_without_state_is_none_for_a_request():
    generation = Generation()
    generation.control.given = ControlRequest("stop")
    generation.checkpointing.poll(lambda _: None)
    assert generation.epoch(state=None, events=1) == []
    assert generation.control.committed_epoch is None
