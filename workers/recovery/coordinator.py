"""The coordinator of a generation: brings together what is committed in one step. It says what to do, the driver does it.

A checkpoint is complete when the root's snapshot of its epoch and the reports of all hosts are there. What a commit could not
make durable, or an epoch that was not worth saving, stays staged and is committed with the next one.

>>> from dgs.workers.checkpoints import ResumePoint
>>> coordinator = Coordinator(hosts=[0], lanes=(), point=ResumePoint(generation=1))
>>> coordinator.root_reports(RootReport(1, b"state", {}, is_final=True))
>>> coordinator.complete() is None
True
>>> coordinator.host_reports(HostReport(host=0, epoch=1, events=5))
>>> coordinator.complete()
Checkpoint(epoch=1, state=b'state', positions=Positions(streams={}), files=(), outbox=(), sources={}, events=5, is_final=True)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dgs.workers.protocol.lanes import Lane
from dgs.workers.recovery.checkpoint import Checkpoint, ResumePoint, StagedOutput
from dgs.workers.recovery.dealing import BLOCK
from dgs.workers.recovery.epochs import HostReport, RootReport
from dgs.workers.recovery.positions import Positions


class Coordinator:
    """Collects the reports of one generation: of the root, and of the `hosts` that have workers.

    `splits`: into how many each declared stream is dealt, in blocks of `block` rows.
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
        self.failures = 0
        self.outputs = 0  # closed and not committed

    def root_reports(self, report: RootReport) -> None:
        """Take the root's snapshot."""
        self._roots[report.epoch] = report

    def host_reports(self, report: HostReport) -> None:
        """Take what a host has staged."""
        self._reports.setdefault(report.epoch, {})[report.host] = report

    def complete(self) -> Checkpoint | None:
        """Remove and return the next checkpoint that is complete, None if none is."""
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
        return Checkpoint(
            root.epoch,
            root.state,
            positions.ended(ends),
            files,
            tuple(batch for report in reports for batch in report.unaccepted),
            {stream: about for report in reports for stream, about in report.sources.items()},
            self._point.events + sum(report.events for report in reports),
            root.is_final,
        )

    def committed(self) -> int:
        """Note that the last complete checkpoint is durable. Return how many outputs became so with it."""
        self.failures, outputs, self.outputs = 0, self.outputs, 0
        return outputs

    def carry(self, checkpoint: Checkpoint) -> None:
        """Note that it is not committed now: its files are committed with the next one."""
        self._carried = checkpoint.files

    def failed(self, checkpoint: Checkpoint) -> None:
        """Note that it could not be made durable."""
        self.carry(checkpoint)
        self.failures += 1
