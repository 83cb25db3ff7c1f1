"""The schedule of checkpoints and their commits, common to the drivers of the local runtime and the Ray runtime.

Law: at most one epoch is requested at a time, so a slow disk makes checkpoints rarer and never lets them pile up. A checkpoint
with nothing new since the previous one is not committed, so a run that waits for events writes nothing. The first outputs after such a
wait are committed at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dgs.errors import CheckpointFailedError
from dgs.workers.observing.figures import CheckpointFigures
from dgs.workers.recovery.checkpoint import Checkpoint
from dgs.workers.recovery.coordinator import ControlRequest, Coordinator, HostReport, RootReport, StopRequest
from dgs.workers.runtime import process
from dgs.workers.runtime.control import Control
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.host_outputs import CallerOutputs
from dgs.workers.runtime.store_opening import RunStores

MOST_FAILURES = 3
"""The run ends after this many failed commits in a row: by then the disk will hardly recover."""


class Commits:
    """Counts the checkpoints of a run over its generations. `figures`: the counts so far."""

    def __init__(self) -> None:
        self.figures = CheckpointFigures()

    def add(self, **more: float) -> None:
        """Add to counts, by name."""
        self.note(**{name: getattr(self.figures, name) + count for name, count in more.items()})

    def note(self, **known: Any) -> None:
        """Set values, by name."""
        self.figures = replace(self.figures, **known)


Ask = Callable[[bool], None]
"""Asks the root for a snapshot; with True, its state is saved whatever `checkpoint.when` says."""


class Checkpointing:
    """The checkpoints of one generation. `stop`: the state of the request that `control` has received.

    `last`: the newest committed checkpoint. `says` takes notes for the story of the run. `clock`: seconds, of which only
    differences matter.
    """

    def __init__(
        self,
        deployment: Deployment,
        stores: RunStores,
        caller_outputs: CallerOutputs,
        commits: Commits,
        *,
        control: Control,
        stop: StopRequest,
        says: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        job = deployment.job
        hosts = sorted(set(deployment.home.values()))
        self._coordinator = Coordinator(hosts, deployment.lanes.all, deployment.point, job.splits)
        self._stores, self._store, self._caller_outputs = stores, stores.store, caller_outputs
        self._control, self._stop, self._says, self._clock = control, stop, says, clock
        self._every = None if job.checkpoint is None else job.checkpoint.every / 1e9
        self._next = None if self._every is None else clock() + self._every
        self._is_underway = False  # whether the root has been asked for a snapshot
        self._is_overdue = False  # whether the last one had nothing new
        self._outputs = 0  # when it was asked for
        self._events, self._had_outbox = deployment.point.events, bool(deployment.point.outbox)
        self.commits = commits
        self.last: Checkpoint | None = None

    @property
    def is_over(self) -> bool:
        """Whether the end of all streams is committed."""
        return self.last is not None and self.last.is_final

    @property
    def is_stopping(self) -> bool:
        """Whether there is a request to stop or to move."""
        return self._stop.is_asked

    def poll(self, ask: Ask, outputs: int = 0) -> ControlRequest | None:
        """Ask for a checkpoint if one is due or requested. Return the request for which the generation is to end now.

        `outputs`: how many the hosts have written so far.
        """
        now = self._clock()
        request = self._control.pending()
        if request is not None:
            if request != self._stop.request:
                self._says(f"has a request by {request.by} to {request.action}")
            self._stop.ask(request, now=now)
            self._store = self._stores.for_request()
        due = self._stop.due(now=now)
        is_due = self._next is not None and (
            now >= self._next or (self._is_overdue and outputs != self._outputs)
        )
        if due is None and (is_due or self._stop.is_asked) and not self._is_underway:
            self._is_underway, self._outputs = True, outputs
            self._stop.snapshot_requested()
            self._says("asks the root for a snapshot")
            ask(self._stop.is_asked)
        return due

    def take_reports(self, reports: Sequence[HostReport | RootReport]) -> None:
        """Take reports of hosts, and commit complete checkpoints.

        Raises CheckpointFailedError if the last checkpoint of the run, or several in a row, cannot be committed.
        """
        for report in reports:
            if isinstance(report, RootReport):
                self._coordinator.root_reports(report)
            else:
                self._coordinator.host_reports(report)
        while reports and (checkpoint := self._coordinator.complete()) is not None:
            started = self._clock()
            self._is_overdue = not self._is_worth_it(checkpoint)
            if not self._is_overdue:
                self._commit(checkpoint)
            else:
                self._says(f"does not commit epoch {checkpoint.epoch}: it has nothing new, or no state")
                self._coordinator.carry(checkpoint)
                self._stop.not_saved()
            now = self._clock()
            self.commits.add(seconds=now - started)
            self._is_underway = False
            self._next = None if self._every is None else now + self._every

    def _is_worth_it(self, checkpoint: Checkpoint) -> bool:
        if checkpoint.is_final or checkpoint.state is None:
            return checkpoint.is_final
        has_outputs = checkpoint.files or checkpoint.outbox or self._had_outbox
        return bool(has_outputs) or checkpoint.events != self._events or self._stop.is_asked

    def _commit(self, checkpoint: Checkpoint) -> None:
        started = self._clock()
        try:
            self._store.commit(checkpoint)
        except CheckpointFailedError as error:
            self._says(f"cannot commit epoch {checkpoint.epoch}: {error.facts.get('problem', error)}")
            self.commits.add(failed=1)
            self._coordinator.failed(checkpoint)
            self._stop.not_saved()
            if checkpoint.is_final or self._coordinator.failures >= MOST_FAILURES:
                raise
            return
        self._says(f"commits epoch {checkpoint.epoch}, with {checkpoint.events:,} events in its state")
        self.last = checkpoint
        self._events, self._had_outbox = checkpoint.events, bool(checkpoint.outbox)
        self._stop.committed(checkpoint.epoch)
        self._caller_outputs.commit(checkpoint.epoch)
        self.commits.add(committed=1, outputs=self._coordinator.committed())
        self.commits.note(
            epoch=checkpoint.epoch,
            events=checkpoint.events,
            state_bytes=len(checkpoint.state or b""),
            at=process.now(),
            last_seconds=self._clock() - started,
        )
