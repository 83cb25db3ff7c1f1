"""The coordinator of a generation: collects the reports of its epochs for checkpoints, and follows a request to stop.

Each worker closes its epochs, and a host reports an epoch that all its workers have closed. Workers close an epoch one after the other, so
outputs of two epochs come out interleaved. The epoch of an output is the open epoch of its worker at that moment. The driver commits the
checkpoint.

A checkpoint is complete when the root's snapshot of its epoch and the reports of all hosts have come. If an epoch is not worth
saving, or its commit fails, its files stay staged and are committed with the next epoch.

>>> from dgs.workers.recovery.checkpoint import ResumePoint
>>> coordinator = Coordinator(hosts=[0], lanes=(), point=ResumePoint(generation=1))
>>> coordinator.root_reports(RootReport(1, b"state", {}, is_final=True))
>>> coordinator.complete() is None
True
>>> coordinator.host_reports(HostReport(host=0, epoch=1, events=5))
>>> checkpoint = coordinator.complete()
>>> checkpoint.epoch, checkpoint.state, checkpoint.events, checkpoint.is_final
(1, b'state', 5, True)

A request to stop or to move to another plan is a state machine without a clock:

    NONE -- ask --> ASKED -- snapshot_requested --> REQUESTED -- committed --> COMMITTED -- end --> NONE
                      ^--------- not_saved ------------'
    ASKED, REQUESTED -- the deadline passes --> TIMED_OUT -- committed, late --> COMMITTED
    ASKED, REQUESTED, TIMED_OUT -- generation_lost --> NONE, and the next generation asks again

Events while nothing is asked, such as a periodic checkpoint, change nothing here.

>>> stop = StopRequest(timeout=10.0)
>>> stop.ask(ControlRequest("stop"), now=0.0)
>>> stop.snapshot_requested()
>>> stop.due(now=9.0) is None
True
>>> stop.committed(7)
>>> stop.due(now=9.5), stop.stage
(ControlRequest(action='stop', by='dgs stop', plan=None), <Stage.COMMITTED: 'committed'>)
>>> stop.end(), stop.stage
(7, <Stage.NONE: 'nothing is asked'>)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from dgs import codec
from dgs.errors import InternalError
from dgs.model.order import OrderKey
from dgs.model.outputs import OutputBatch
from dgs.workers.protocol.lanes import Lane
from dgs.workers.recovery.checkpoint import Checkpoint, Holds, ResumePoint, StagedOutput, most
from dgs.workers.recovery.positions import BLOCK, Positions


class Epochs:
    """The open epoch of every worker of a host. `last`: the last epoch that was closed before the workers started.

    >>> epochs = Epochs(["w1", "w2"], last=6)
    >>> epochs.of("w1"), epochs.close("w1", 7), epochs.of("w1"), epochs.of("w2"), epochs.close("w2", 7)
    (7, False, 8, 7, True)
    """

    def __init__(self, workers: Iterable[str], last: int) -> None:
        self._open = dict.fromkeys(workers, last + 1)

    def of(self, worker: str) -> int:
        """Return the epoch of a worker's outputs now."""
        return self._open[worker]

    def close(self, worker: str, epoch: int) -> bool:
        """Note that a worker has closed an epoch. Return whether all workers of the host have, so that it can be staged."""
        if self._open[worker] != epoch:
            raise InternalError(problem=f"worker {worker} closes epoch {epoch} in epoch {self._open[worker]}")
        self._open[worker] = epoch + 1
        return min(self._open.values()) > epoch


@dataclass(frozen=True, slots=True)
class HostReport:
    """A host's report that its outputs of an epoch are durable.

    `unaccepted`: outputs up to that epoch that idempotent sinks have not accepted yet (R7). `holds`: of each sink and part of it, how
    far it is (see `Staged`). `ends`: the key after the last event of each declared stream that this host has read to its end. `sources`: descriptions of its sources. `events`: the number of
    events in the states of its workers since the generation began. `outputs`: the number of outputs of this epoch.
    """

    host: int
    epoch: int
    files: tuple[StagedOutput, ...] = ()
    unaccepted: tuple[OutputBatch, ...] = ()
    ends: Mapping[str, OrderKey] = field(default_factory=dict)
    sources: Mapping[str, Any] = field(default_factory=dict)
    events: int = 0
    outputs: int = 0
    holds: Holds = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RootReport:
    """The root's snapshot of an epoch. `state`: codec bytes, None if it need not be saved."""

    epoch: int
    state: bytes | None
    positions: Mapping[int, OrderKey]
    is_final: bool


for _report in (HostReport, RootReport):
    codec.register(_report, name=f"dgs.{_report.__name__}", formerly=f"workers.epochs.{_report.__name__}")


class Coordinator:
    """Collects the reports of one generation: from the root, and from all `hosts` that have workers.

    `splits`: the number of splits of each declared stream, to which rows are dealt in blocks of `block`.
    """

    def __init__(
        self,
        hosts: Collection[int],
        lanes: Sequence[Lane],
        point: ResumePoint,
        splits: Mapping[str, int] | None = None,
        block: int = BLOCK,
    ) -> None:
        self._hosts = frozenset(hosts)
        self._lanes = lanes
        self._point = point
        self._dealing = (splits, block)
        self._roots: dict[int, RootReport] = {}
        self._reports: dict[int, dict[int, HostReport]] = {}
        self._carried: tuple[StagedOutput, ...] = ()
        self._holds: Holds = {}
        self.failures = 0
        self.outputs = 0  # of epochs that are closed but not committed

    def root_reports(self, report: RootReport) -> None:
        """Take the root's snapshot."""
        self._roots[report.epoch] = report

    def host_reports(self, report: HostReport) -> None:
        """Take a host's report of a staged epoch."""
        self._reports.setdefault(report.epoch, {})[report.host] = report

    def complete(self) -> Checkpoint | None:
        """Remove and return the next complete checkpoint, None if there is none."""
        for epoch in sorted(self._roots):
            reports = self._reports.get(epoch, {})
            if not self._hosts <= reports.keys():
                return None
            root = self._roots.pop(epoch)
            del self._reports[epoch]
            return self._checkpoint(root, [reports[host] for host in sorted(reports)])
        return None

    def _checkpoint(self, root: RootReport, reports: Sequence[HostReport]) -> Checkpoint:
        positions = Positions.of(self._lanes, root.positions, *self._dealing).over(self._point.positions)
        ends = {stream: end for report in reports for stream, end in report.ends.items()}
        self.outputs += sum(report.outputs for report in reports)
        files = self._carried + tuple(file for report in reports for file in report.files)
        self._carried = ()
        self._holds = most(self._holds, *(report.holds for report in reports))
        return Checkpoint(
            root.epoch,
            root.state,
            positions.ended(ends),
            files,
            tuple(batch for report in reports for batch in report.unaccepted),
            {stream: about for report in reports for stream, about in report.sources.items()},
            self._point.events + sum(report.events for report in reports),
            root.is_final,
            self._holds,
        )

    def committed(self) -> int:
        """Note that the last complete checkpoint is durable. Return the number of outputs that it committed."""
        self.failures, outputs, self.outputs = 0, self.outputs, 0
        return outputs

    def carry(self, checkpoint: Checkpoint) -> None:
        """Note that a checkpoint is not committed now. Its files go into the next one."""
        self._carried = checkpoint.files

    def failed(self, checkpoint: Checkpoint) -> None:
        """Note that a checkpoint could not be made durable."""
        self.carry(checkpoint)
        self.failures += 1


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """`stop`: commit and end; `replan`: commit and go on under the plan of the plan file `plan`. `by`: the command or signal."""

    action: Literal["stop", "replan"]
    by: str = "dgs stop"
    plan: str | None = None


class Stage(Enum):
    """The phases of a request."""

    NONE = "nothing is asked"
    ASKED = "asked"
    REQUESTED = "a snapshot is requested"
    COMMITTED = "committed"
    TIMED_OUT = "timed out"


class StopRequest:
    """The request to a run, over all its generations. There is one request at a time, until a generation ends for it.

    Law: a request to move ends a generation only at a checkpoint. So does a stop, but after `timeout` seconds it ends the
    generation without one, since the checkpoint can be stuck behind a join that waits for a silent stream.
    """

    def __init__(self, timeout: float = math.inf) -> None:
        self._timeout = timeout
        self._deadline = math.inf
        self._epoch: int | None = None
        self.request: ControlRequest | None = None
        self.stage = Stage.NONE

    @property
    def is_asked(self) -> bool:
        """Whether there is a request, with or without its checkpoint."""
        return self.stage is not Stage.NONE

    def ask(self, request: ControlRequest, *, now: float) -> None:
        """Note the pending request. A known request changes nothing; a new one has its own deadline.

        A checkpoint that was committed for the previous request also counts for the new one.
        """
        if self.is_asked and request == self.request:
            return
        self.request = request
        self._deadline = now + self._timeout if request.action == "stop" else math.inf
        if self.stage is not Stage.COMMITTED:
            self.stage = Stage.ASKED

    def snapshot_requested(self) -> None:
        """Note that the root has been asked for a snapshot."""
        if self.stage is Stage.ASKED:
            self.stage = Stage.REQUESTED

    def not_saved(self) -> None:
        """Note that the epoch is complete but not committed: its state was not worth saving, or the disk failed."""
        if self.stage is Stage.REQUESTED:
            self.stage = Stage.ASKED

    def committed(self, epoch: int) -> None:
        """Note that an epoch is committed. Its snapshot may have been asked for before the request."""
        if self.is_asked:
            self.stage, self._epoch = Stage.COMMITTED, epoch

    def due(self, *, now: float) -> ControlRequest | None:
        """Return the request for which the generation is to end now, None if it goes on."""
        if self.stage in (Stage.ASKED, Stage.REQUESTED) and now > self._deadline:
            self.stage = Stage.TIMED_OUT
        return self.request if self.stage in (Stage.COMMITTED, Stage.TIMED_OUT) else None

    def generation_lost(self) -> None:
        """Note that a generation is lost, with any snapshot under way. A committed checkpoint still counts."""
        if self.stage is not Stage.COMMITTED:
            self.stage = Stage.NONE

    def end(self) -> int | None:
        """Forget the request, since a generation has ended for it. Return the epoch that was committed for it, if any."""
        epoch, self._epoch = self._epoch, None
        self.stage, self.request = Stage.NONE, None
        return epoch
