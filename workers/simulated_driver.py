"""The driver of a simulated generation: hears what hosts report, in any order of hosts, and commits what is complete."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from dgs.errors import CheckpointFailedError, FencedError
from workers.checkpointing import MOST_FAILURES
from workers.checkpoints import Checkpoint, CheckpointStore
from workers.coordinator import Coordinator
from workers.epochs import HostReport, RootReport
from workers.simulated_world import World


class Driver:
    """The reports that are on their way, and what became of them. `final`: the last checkpoint, once it is committed."""

    def __init__(
        self, world: World, store: CheckpointStore, coordinator: Coordinator, hosts: int, trace: list[str]
    ) -> None:
        self._world, self._store, self._coordinator, self._trace = world, store, coordinator, trace
        self._reports: dict[int, deque[HostReport | RootReport]] = {i: deque() for i in range(hosts)}
        self.final: Checkpoint | None = None
        self.commits = 0
        self.is_fenced = False

    def send(self, host: int, report: HostReport | RootReport) -> None:
        """Put a report behind the others of its host."""
        self._reports[host].append(report)

    def waiting(self) -> Iterator[int]:
        """Yield the hosts with reports that were not heard."""
        yield from (host for host, reports in self._reports.items() if reports)

    def hear(self, host: int) -> None:
        """Let the coordinator hear the next report of a host, and commit what is complete."""
        report = self._reports[host].popleft()
        if isinstance(report, RootReport):
            self._coordinator.root_reports(report)
        else:
            self._coordinator.host_reports(report)
        checkpoint = self._coordinator.complete()
        if checkpoint is None:
            return
        if not checkpoint.is_final and self._world.is_odd():
            self._coordinator.carry(checkpoint)  # not worth saving: `checkpoint.when`
            return
        self._commit(checkpoint)

    def _commit(self, checkpoint: Checkpoint) -> None:
        """Commit a checkpoint. Raises CheckpointFailedError if it is the last one, or several have failed."""
        try:
            self._store.commit(checkpoint)
        except CheckpointFailedError:
            self._trace.append(f"epoch {checkpoint.epoch} is not durable")
            self._coordinator.failed(checkpoint)
            if checkpoint.is_final or self._coordinator.failures >= MOST_FAILURES:
                raise
            return
        except FencedError:
            self.is_fenced = True
            return
        self._trace.append(f"epoch {checkpoint.epoch} is committed")
        self._coordinator.committed()
        self.commits += 1
        self._world.committed(checkpoint)
        if checkpoint.is_final:
            self.final = checkpoint
