"""One host at work: its sources, its workers, its sinks. The local and the Ray runtime drive this same loop.

`step` takes the frames that have arrived, reads from one source, and lets the workers do all they can. Frames for other hosts
are left in `outbox`, and the driver of the engine carries them and notes them in `load`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from dgs import codec
from dgs.job.loading import load_function
from dgs.model.outputs import OutputBatch
from dgs.model.user_code import UserCode
from dgs.planner.moving import Counts
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.observing.blame import shown_time
from dgs.workers.observing.figures import SINK, HostFigures
from dgs.workers.protocol.host import Reported
from dgs.workers.protocol.messages import EpochClosed, Frame, Skipped, Snapshot
from dgs.workers.protocol.story_words import StoryEntry, entries_of
from dgs.workers.recovery.checkpoint import encoded_state
from dgs.workers.recovery.coordinator import HostReport, RootReport
from dgs.workers.runtime import process
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.host_outputs import HostOutputs
from dgs.workers.runtime.host_sources import HostSources, TagCounts
from dgs.workers.runtime.observed import HostObserver
from dgs.workers.runtime.run_story import in_a_line
from dgs.workers.runtime.stall import Standing, waits_of
from dgs.workers.sources.rows import SECOND
from dgs.workers.transport.frames import NetworkLoad


def _nothing(host: int) -> int:  # noqa: ARG001 - the signature of Transport.in_flight
    """Return 0: without other hosts, no bytes are in flight."""
    return 0


class Engine:
    """Drives the state machines of one host over real sources and sinks. `in_flight`: see `dgs.workers.runtime.host_sources`."""

    def __init__(
        self, deployment: Deployment, index: int, *, in_flight: Callable[[int], int] = _nothing
    ) -> None:
        job = deployment.job
        self.index = index
        self.host = deployment.make_host(index)
        self.outbox: list[tuple[int, Frame]] = []
        self.load = NetworkLoad(deployment.lanes)
        self.reports: list[HostReport | RootReport] = []
        self.final: Snapshot | None = None
        self.events = 0
        self.began: float | None = None
        self.ended: float | None = None
        self._inbox: deque[Frame] = deque()
        self._point = deployment.point
        self._lanes = deployment.lanes
        self._code, self._unit = UserCode(job.program), job.unit
        when = None if job.checkpoint is None else job.checkpoint.when
        self._when = None if when is None else load_function(when, job.base_dir)
        self._tag_counts = None if job.replan is None else TagCounts()
        self._every = None if job.observe is None else job.observe.every / SECOND
        self._next_figures = time.monotonic() + (self._every or 0.0)
        self._saves_next = False
        self._saves_final = job.is_kept
        self._root = deployment.plan.root.id if deployment.root_host == index else None
        with ExitStack() as opened:
            self._outputs = HostOutputs(deployment, index, self.host.workers)
            opened.callback(self._outputs.close, complete=False)
            self._sources = HostSources(deployment, index, in_flight)
            opened.callback(self._sources.close)
            self._observer = HostObserver(self.host, self._lanes, self._sources, self._outputs, self.load)
            self._say_beginning()
            if self._root is not None:
                self.host.workers[self._root].start(self._first_state(), self._point.epoch)
                self.host.wake(self._root)
            opened.pop_all()  # from here on, `close` of the engine closes them

    def _first_state(self) -> Any:
        """Return the state of the point: the program's initial state, or that of a checkpoint."""
        if self._point.state is not None:
            return codec.decode(self._point.state)
        return self._code.call("init", self._code.program.init)

    def _say_beginning(self) -> None:
        point, story = self._point, self.host.story
        story.tick(process.now())
        names = ", ".join(self.host.workers)
        story.says(
            f"begins generation {point.generation} from epoch {point.epoch}, with {names or 'no worker'}"
        )

    def take(self, frame: Frame) -> None:
        """Take a frame of another host. The next step acts on it."""
        self._inbox.append(frame)

    def step(self, *, reads: bool = True, between: Callable[[], None] | None = None) -> bool:
        """Act on frames that have arrived, and read from one source if that is allowed. Return whether anything was done.

        `reads`: False if the sinks are full, so that no more input is read. `between`: called between two parts of the step; it may end the
        step by an exception.
        """
        self.host.story.tick(process.now())
        try:
            return self._step(reads, between)
        except Exception as error:
            self.host.story.says(f"fails: {in_a_line(error)}", getattr(error, "worker", None))
            raise

    def _step(self, reads: bool, between: Callable[[], None] | None) -> bool:
        """Do one step: take messages, read one source, and let the workers run. Return whether there was anything to do."""
        if self.began is None:
            self.began = process.now()
        is_behind = self.host.is_behind
        busy = bool(self._inbox) or is_behind
        while self._inbox:
            self.host.receive(self._inbox.popleft())
        self._sources.begin_step(self.host.lowest_besides)
        is_to_read = reads and not is_behind
        name = self.host.next_source(self._sources.is_ready) if is_to_read else None
        if name is not None and not self._sources.is_congested(name):
            batches, frontier = self._sources.read(name, self.host.frontiers[name])
            self.events += sum(map(len, batches))
            if self._tag_counts is not None:
                for batch in batches:
                    self._tag_counts.add(batch)
            self.host.ingest(name, batches, frontier)
            busy = True
        for worker, effect in self.host.pump(until_awaited=True):
            busy = True
            self._act(worker, effect)
            if between is not None:
                between()
        sent = list(self.host.frames())
        self.outbox += sent
        return busy or bool(sent) or self.host.is_behind

    def _act(self, worker: str, effect: Reported) -> None:
        """Carry out an effect of a worker."""
        if isinstance(effect, OutputBatch):
            before = self.host.meter.enter(SINK)
            self._outputs.write(worker, effect)
            self.host.meter.enter(before)
        elif isinstance(effect, EpochClosed):
            self._close_epoch(worker, effect.epoch)
        elif isinstance(effect, Skipped):
            self._outputs.leave_out(worker, effect)
        else:
            self._show(effect)

    @property
    def idle_seconds(self) -> float | None:
        """The time to sleep after a step that did nothing, until a live source may bring an event; None if none will.

        A frame or an acknowledgement of another host must end the sleep.
        """
        return self._sources.idle_seconds

    @property
    def counts(self) -> tuple[int, int]:
        """The events read and the outputs made so far."""
        return self.events, self._outputs.count

    def take_counts(self) -> Counts:
        """Return the events by tag since the last call, for `replan:`. Another thread may call this."""
        return {} if self._tag_counts is None else self._tag_counts.take()

    def request_snapshot(self, *, always: bool = False) -> None:
        """Ask the root for a checkpoint. `always`: save the state whatever `checkpoint.when` says."""
        if self._root is not None:
            self.host.story.says(f"is asked for a snapshot{', for a request' if always else ''}")
            self._saves_next = self._saves_next or always
            self.host.workers[self._root].snapshot()
            self.host.wake(self._root)

    def _close_epoch(self, worker: str, epoch: int) -> None:
        report = self._outputs.close_epoch(worker, epoch, self._sources.describe)
        if report is not None:
            staged = f"{report.outputs:,} outputs, {len(report.files)} files"
            self.host.story.says(f"has staged epoch {epoch}: {staged}")
            self.reports.append(report)

    def _show(self, snapshot: Snapshot) -> None:
        """Report the root's snapshot. Its state is encoded, if it is to be saved, before the root goes on with it."""
        if snapshot.is_final:
            self.final, self.ended = snapshot, process.now()
        saves = self._saves_final if snapshot.is_final else self._is_worth_saving(snapshot.state)
        state = encoded_state(snapshot.state) if saves else None
        self.reports.append(RootReport(snapshot.epoch, state, snapshot.positions, snapshot.is_final))

    def _is_worth_saving(self, state: Any) -> bool:
        if self._when is None or self._saves_next:
            self._saves_next = False
            return True
        return bool(self._code.call("checkpoint.when", self._when, state))

    def take_reports(self) -> list[HostReport | RootReport]:
        """Remove and return the reports for the coordinator."""
        taken, self.reports = self.reports, []
        return taken

    @property
    def has_outputs(self) -> bool:
        """Whether there are outputs for the caller, or events that were left out."""
        return self._outputs.are_seen

    @property
    def is_blocked(self) -> bool:
        """Whether a sink waits for another process."""
        return self._outputs.waiting is not None

    def while_blocked(self, meanwhile: Callable[[], None]) -> None:
        """Call `meanwhile` again and again, in a step, while a sink waits for another process. It may end the step by an exception."""
        self._outputs.meanwhile = meanwhile

    def take_outputs(self) -> list[tuple[int, OutputBatch | DeadLetter]]:
        """Remove and return outputs for the caller and events that were left out, each with its epoch."""
        return self._outputs.take()

    def take_frames(self) -> list[tuple[int, Frame]]:
        """Remove and return the frames for other hosts."""
        taken, self.outbox = self.outbox, []
        return taken

    def close(self, *, complete: bool) -> None:
        """End the run on this host. If it is complete, all outputs are staged; else uncommitted ones stay `.partial`."""
        self._sources.close()
        self._outputs.close(complete=complete)

    def figures(self) -> HostFigures:
        """Return the figures of this host. Only the thread that calls `step` may call this."""
        return self._observer.figures(events=self.events, began=self.began, ended=self.ended)

    def figures_if_due(self) -> HostFigures | None:
        """Return the figures if the last ones are `observe.every` old, else None."""
        now = time.monotonic()
        if self._every is None or now < self._next_figures:
            return None
        self._next_figures = now + self._every
        return self.figures()

    def story(self) -> list[StoryEntry]:
        """Return the latest notes of this host. Another thread may call this."""
        return entries_of(self.host.story.log, shown=lambda ts: shown_time(ts, self._unit))

    def standing(self) -> Standing:
        """Return what the workers here wait for, and how long ago each source here brought something."""
        return Standing(
            waits_of(self.host.workers.values(), self._lanes),
            dict(self.host.frontiers),
            self._sources.ages(),
            sum(worker.mailbox.held for worker in self.host.workers.values()),
            self._outputs.waiting,
        )
