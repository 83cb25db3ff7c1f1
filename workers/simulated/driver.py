"""The driver of a simulated generation: takes the reports of hosts, in any order of hosts, and commits complete checkpoints."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from dgs.errors import CheckpointFailedError, FencedError, OutputUnwritableError
from dgs.workers.recovery.checkpoint import Checkpoint, CheckpointStore
from dgs.workers.recovery.coordinator import Coordinator, HostReport, RootReport
from dgs.workers.runtime.checkpointing import MOST_FAILURES
from dgs.workers.simulated.slowness import COMMIT, Slowness, staging
from dgs.workers.simulated.world import World


class Driver:
    """Takes reports that are on their way. `final`: the last checkpoint, once it is committed."""

    def __init__(
        self, world: World, store: CheckpointStore, coordinator: Coordinator, hosts: int, slowness: Slowness
    ) -> None:
        self._world, self._store, self._coordinator, self._slowness = world, store, coordinator, slowness
        self._reports: dict[int, deque[HostReport | RootReport]] = {i: deque() for i in range(hosts)}
        self.final: Checkpoint | None = None
        self.commits = 0
        self.is_fenced = False
        self._underway: Callable[[], None] | None = None

    def send(self, host: int, report: HostReport | RootReport) -> None:
        """Append a report to those of its host."""
        self._reports[host].append(report)

    def waiting(self) -> Iterator[int]:
        """Yield the hosts whose next report can be taken now. There are none while a commit is under way."""
        if self._underway is None:
            for host, reports in self._reports.items():
                if reports and not self._slowness.is_busy(staging(host), self._world.now):
                    yield host

    @property
    def can_finish(self) -> bool:
        """Return whether a slow commit is done."""
        return self._underway is not None and not self._slowness.is_busy(COMMIT, self._world.now)

    def finish(self) -> None:
        """End a slow commit. Raises CheckpointFailedError, as `take_report` does."""
        underway, self._underway = self._underway, None
        if underway is not None:
            underway()

    def take_report(self, host: int) -> None:
        """Give the next report of a host to the coordinator, and commit a complete checkpoint."""
        report = self._reports[host].popleft()
        if isinstance(report, RootReport):
            self._coordinator.root_reports(report)
        else:
            self._coordinator.host_reports(report)
        checkpoint = self._coordinator.complete()
        if checkpoint is None:
            return
        if not checkpoint.is_final and self._world.is_odd():
            self._coordinator.carry(checkpoint)  # `checkpoint.when` says that it is not worth saving
            return
        if not self._slowness.begins(COMMIT, chance=self._world.faults.slow_stores, now=self._world.now):
            self._commit(checkpoint)
        elif self._world.random.random() < 0.5:  # noqa: PLR2004 - as often as not
            self._underway = partial(self._commit, checkpoint)
        elif self._is_durable(checkpoint):  # a slow commit: the driver learns of it later
            self._underway = partial(self._committed, checkpoint)

    def _commit(self, checkpoint: Checkpoint) -> None:
        if self._is_durable(checkpoint):
            self._committed(checkpoint)

    def _is_durable(self, checkpoint: Checkpoint) -> bool:
        """Make a checkpoint durable; return whether it is. Raises CheckpointFailedError for the last one or after many failures.

        Raises OutputUnwritableError if its files do not get their names. The next commit tries that again, so a driver may go on.
        """
        try:
            self._store.commit(checkpoint)
        except CheckpointFailedError:
            self._world.says(f"epoch {checkpoint.epoch} is not durable")
            self._coordinator.failed(checkpoint)
            if checkpoint.is_final or self._coordinator.failures >= MOST_FAILURES:
                raise
            return False
        except FencedError:
            self.is_fenced = True
            return False
        except OutputUnwritableError:
            if checkpoint.is_final or not self._world.is_odd():
                raise
            self._world.says(
                f"epoch {checkpoint.epoch} is durable, and not all of its files have their names"
            )
        self._world.made_durable(checkpoint)
        return True

    def _committed(self, checkpoint: Checkpoint) -> None:
        self._world.says(f"epoch {checkpoint.epoch} is committed")
        self._coordinator.committed()
        self.commits += 1
        self._world.acknowledge(checkpoint.epoch)
        if checkpoint.is_final:
            self.final = checkpoint
