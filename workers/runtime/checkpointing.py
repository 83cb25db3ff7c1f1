"""When a checkpoint is taken, and its commit: what the drivers of the local and of the Ray runtime have in common.

Law: at most one epoch is asked for at a time, so a slow disk makes checkpoints rarer, never more numerous; and what would only say
again what the checkpoint before says is not committed, so a run that waits for events writes nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dgs.errors import CheckpointFailedError
from dgs.workers.checkpoints import Checkpoint, CheckpointStore
from dgs.workers.recovery.coordinator import Coordinator
from dgs.workers.recovery.epochs import HostReport, RootReport
from dgs.workers.runtime.caller_outputs import CallerOutputs
from dgs.workers.runtime.control import Control, ControlRequest
from dgs.workers.runtime.deployment import Deployment

MOST_FAILURES = 3
"""Commits that may fail one after the other before the run ends: the disk will not mend itself."""

Ask = Callable[[bool], None]
"""Asks the root for a snapshot; True if its state must be saved whatever `checkpoint.when` says."""


@dataclass
class CheckpointFigures:
    """What the report says of checkpoints: how many, how many failed, seconds in commits, bytes of the last state.

    `outputs`: committed since the process began. `epoch`: the newest that was committed, here or before. `events`: in its state,
    if it was committed here.
    """

    committed: int = 0
    failed: int = 0
    seconds: float = 0.0
    state_bytes: int = 0
    outputs: int = 0
    epoch: int = 0
    events: int = 0


class Checkpointing:
    """The checkpoints of one generation. `durable`: gives the store in which a stopped run leaves its state, if there is one.

    `last`: the newest checkpoint that was committed. `clock`: seconds, of which only differences matter.
    """

    def __init__(
        self,
        deployment: Deployment,
        store: CheckpointStore,
        caller_outputs: CallerOutputs,
        figures: CheckpointFigures,
        control: Control,
        *,
        durable: Callable[[], CheckpointStore | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        job = deployment.job
        hosts = sorted(set(deployment.home.values()))
        self._coordinator = Coordinator(hosts, deployment.lanes.all, deployment.point, job.splits)
        self._store, self._caller_outputs, self._control = store, caller_outputs, control
        self._durable, self._clock = durable, clock
        self._every = None if job.checkpoint is None else job.checkpoint.every / 1e9
        self._next = None if self._every is None else clock() + self._every
        self._stop_timeout = job.runtime.stop_timeout / 1e9
        self._is_asked = False
        self._request: ControlRequest | None = None
        self._deadline = 0.0
        self._events, self._had_outbox = deployment.point.events, bool(deployment.point.outbox)
        self.figures = figures
        self.last: Checkpoint | None = None

    @property
    def is_over(self) -> bool:
        """Whether the end of all streams is committed."""
        return self.last is not None and self.last.is_final

    @property
    def is_stopping(self) -> bool:
        """Whether a request waits for its checkpoint."""
        return self._request is not None

    def poll(self, ask: Ask) -> ControlRequest | None:
        """Ask for a checkpoint if one is due or wanted. Return the request for which the generation is to end now, None if it goes on.

        A request waits for a checkpoint; a stop waits at most `stop_timeout`, since the checkpoint can be stuck behind a join that
        waits for a mute stream.
        """
        now = self._clock()
        request = self._control.pending()
        if request is None:
            if self._next is not None and now >= self._next and not self._is_asked:
                self._is_asked = True
                ask(False)
            return None
        if request != self._request:
            self._request = request
            self._store = self._durable() or self._store
            self._deadline = now + self._stop_timeout if request.action == "stop" else math.inf
        if self._control.committed_epoch is not None or now > self._deadline:
            return request
        if not self._is_asked:
            self._is_asked = True
            ask(True)
        return None

    def take_reports(self, reports: Sequence[HostReport | RootReport]) -> None:
        """Take reports of hosts, and commit what is complete.

        Raises CheckpointFailedError if the last checkpoint of the run, or several one after the other, cannot be committed.
        """
        for report in reports:
            if isinstance(report, RootReport):
                self._coordinator.root_reports(report)
            else:
                self._coordinator.host_reports(report)
        while reports and (checkpoint := self._coordinator.complete()) is not None:
            started = self._clock()
            if self._is_worth_it(checkpoint):
                self._commit(checkpoint)
            else:
                self._coordinator.carry(checkpoint)
            now = self._clock()
            self.figures.seconds += now - started
            self._is_asked = False
            self._next = None if self._every is None else now + self._every

    def _is_worth_it(self, checkpoint: Checkpoint) -> bool:
        if checkpoint.is_final or checkpoint.state is None:
            return checkpoint.is_final
        has_outputs = checkpoint.files or checkpoint.outbox or self._had_outbox
        return bool(has_outputs) or checkpoint.events != self._events or self._request is not None

    def _commit(self, checkpoint: Checkpoint) -> None:
        try:
            self._store.commit(checkpoint)
        except CheckpointFailedError:
            self.figures.failed += 1
            self._coordinator.failed(checkpoint)
            if checkpoint.is_final or self._coordinator.failures >= MOST_FAILURES:
                raise
            return
        self.last = checkpoint
        self._events, self._had_outbox = checkpoint.events, bool(checkpoint.outbox)
        self.figures.epoch, self.figures.events = checkpoint.epoch, checkpoint.events
        if self._request is not None:
            self._control.committed_epoch = checkpoint.epoch
        self._caller_outputs.commit(checkpoint.epoch)
        self.figures.outputs += self._coordinator.committed()
        self.figures.committed += 1
        self.figures.state_bytes = len(checkpoint.state or b"")
