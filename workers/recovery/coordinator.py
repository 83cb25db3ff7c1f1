"""The coordinator of a generation: it collects reports until a checkpoint is complete. The driver commits it.

A checkpoint is complete when the root's snapshot of its epoch and the reports of all hosts have come. If an epoch is not worth
saving, or its commit fails, its files stay staged and are committed with the next epoch.

>>> from dgs.workers.recovery.checkpoint import ResumePoint
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
from dgs.workers.recovery.epochs import HostReport, RootReport
from dgs.workers.recovery.positions import BLOCK, Positions


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
