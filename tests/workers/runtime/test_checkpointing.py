"""The schedule of checkpoints: when one is requested, and which ones are committed (those with news, and those for a stop request)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dgs.errors import CheckpointFailedError
from dgs.model.outputs import OutputBatch
from dgs.model.tags import Tag
from dgs.workers.recovery.checkpoint import Checkpoint, MemoryStore, ResumePoint, StagedFile
from dgs.workers.recovery.coordinator import ControlRequest, HostReport, RootReport, Stage, StopRequest
from dgs.workers.runtime.checkpointing import Checkpointing, Commits
from dgs.workers.runtime.control import Control
from dgs.workers.runtime.store_opening import RunStores
from dgs.workers.sources.rows import SECOND

FILE = StagedFile(path="/out/1.partial", final="/out/1", size=1, digest="", rows=1)


class CountingStore(MemoryStore):
    """Remembers the committed epochs. `fails`: how many commits fail first."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[int] = []
        self.fails = 0

    def commit(self, checkpoint: Checkpoint) -> None:
        """Commit, and remember it."""
        if self.fails:
            self.fails -= 1
            raise CheckpointFailedError(path="/saved", epoch=checkpoint.epoch, problem="no space")
        super().commit(checkpoint)
        self.epochs.append(checkpoint.epoch)


class GivenControl(Control):
    """A control whose request the test gives."""

    def __init__(self) -> None:
        super().__init__(None)
        self.given: ControlRequest | None = None

    def pending(self) -> ControlRequest | None:
        """Return the request of the test."""
        return self.given


class Generation:
    """Checkpoints of a generation of one host, with its epochs reported one by one."""

    def __init__(self, point: ResumePoint = ResumePoint(generation=1), every: int | None = None) -> None:  # noqa: B008 - immutable
        config = None if every is None else SimpleNamespace(every=every * SECOND)
        job: Any = SimpleNamespace(checkpoint=config, checkpoint_dir=None, is_kept=False, splits=None)
        deployment: Any = SimpleNamespace(job=job, home={"w": 0}, lanes=SimpleNamespace(all=()), point=point)
        caller_outputs: Any = SimpleNamespace(commit=lambda epoch: None)
        self.store, self.control, self.stop = CountingStore(), GivenControl(), StopRequest(timeout=10.0)
        self.store.begin()
        self.now, self.asked = 0.0, []
        self.checkpointing = Checkpointing(
            deployment,
            RunStores(job, self.store, lambda _staged: None),
            caller_outputs,
            Commits(),
            control=self.control,
            stop=self.stop,
            clock=lambda: self.now,
        )
        self._epoch = point.epoch

    def poll(
        self, request: ControlRequest | None = None, *, now: float = 0.0, outputs: int = 0
    ) -> ControlRequest | None:
        """Look for the test's request; requested snapshots are noted in `asked`."""
        self.now, self.control.given = now, request
        return self.checkpointing.poll(self.asked.append, outputs)

    def epoch(self, *, state: bytes | None = b"state", is_final: bool = False, **said: Any) -> list[int]:
        """Report an epoch; return the committed epochs."""
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


def test_first_outputs_after_a_wait_are_asked_for_at_once_and_later_ones_when_due():
    generation = Generation(every=10)
    times = [(9.0, 4), (10.0, 4)]
    assert [len(_asked(generation, now, outputs)) for now, outputs in times] == [0, 1]
    generation.epoch(files=(FILE,))
    assert [len(_asked(generation, now, 5)) for now in (19.0, 20.0)] == [1, 2]
    generation.epoch()  # nothing new
    assert [len(_asked(generation, 21.0, outputs)) for outputs in (5, 6, 7)] == [2, 3, 3]
    generation.epoch(files=(FILE,))
    assert [len(_asked(generation, now, 8)) for now in (30.0, 31.0)] == [3, 4]


def _asked(generation: Generation, now: float, outputs: int) -> list[bool]:
    generation.poll(now=now, outputs=outputs)
    return generation.asked


STOP = ControlRequest("stop")


def test_checkpoint_for_a_request_needs_no_news():
    generation = Generation()
    assert generation.poll(STOP) is None
    assert generation.asked == [True]
    assert generation.epoch() == [1]
    assert generation.poll(STOP) == STOP
    assert generation.stop.end() == 1


def test_one_snapshot_is_asked_for_at_a_time():
    generation = Generation()
    assert [generation.poll(STOP) for _ in range(3)] == [None, None, None]
    assert generation.asked == [True]


def test_epoch_without_state_is_none_for_a_request():
    generation = Generation()
    generation.poll(STOP)
    assert generation.epoch(state=None, events=1) == []
    assert generation.poll(STOP) is None
    assert generation.asked == [True, True]


def test_request_waits_for_the_next_checkpoint_where_one_cannot_be_committed():
    generation = Generation()
    generation.store.fails = 1
    generation.poll(STOP)
    assert generation.epoch() == []
    assert generation.poll(STOP) is None
    assert generation.epoch() == [2]
    assert generation.poll(STOP) == STOP


def test_stop_ends_a_generation_without_a_checkpoint_when_its_time_is_over():
    generation = Generation()
    assert generation.poll(STOP, now=1.0) is None
    assert generation.poll(STOP, now=11.0) is None
    assert generation.poll(STOP, now=11.5) == STOP
    assert generation.stop.stage is Stage.TIMED_OUT


def test_move_waits_for_its_checkpoint_however_long_it_takes():
    generation, move = Generation(), ControlRequest("replan", "dgs replan", "plan.yaml")
    assert generation.poll(move, now=1.0) is None
    assert generation.poll(move, now=10_000.0) is None
    generation.epoch()
    assert generation.poll(move, now=10_001.0) == move
