"""One host at work: its sources, its workers, its sinks. The local and the Ray runtime drive this same loop.

`step` reads once, or takes what has arrived, and lets the workers do all they can. Frames for other hosts are left in
`outbox`; whoever drives the engine carries them.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from dgs import codec
from dgs.errors import DgsError
from dgs.events import EventBatch
from dgs.order import BEGIN, END
from dgs.outputs import OutputBatch
from dgs.skipping import DeadLetter
from dgs.user_code import user_error
from workers.central import Central
from workers.deployment import Deployment
from workers.effects import Closed, Skipped, Snapshot
from workers.epochs import Epochs, HostReport, RootReport
from workers.messages import Frame
from workers.positions import declared
from workers.sinks import Sink, is_central, open_sink
from workers.sinks.dead_letters import DeadLetters, dead_letters
from workers.sinks.places import FILE_KINDS
from workers.sources import Source, open_source
from workers.sources.generators import load
from workers.sources.live import LiveTime, Stopwatch
from workers.waiting import Standing, waits_of

TRANSACTIONAL = FILE_KINDS
"""Kinds of sinks that learn at a commit what counts. The others remember themselves what they have accepted."""


def _nothing(host: int) -> int:  # noqa: ARG001 - the signature of Transport.in_flight
    """Return the bytes in flight to a host where there is no other."""
    return 0


class Engine:
    """Drives the state machines of one host over real sources and sinks.

    `in_flight` tells the bytes on their way to a host. A source whose events go there waits while they are too many: a
    host that is busy takes nothing, so without this the queues to it would grow for as long as it is.
    """

    def __init__(
        self, deployment: Deployment, index: int, *, in_flight: Callable[[int], int] = _nothing
    ) -> None:
        job = deployment.job
        self.index = index
        self.host = deployment.make_host(index)
        self.outbox: list[tuple[int, Frame]] = []
        self.outputs: list[tuple[int, OutputBatch | DeadLetter]] = []
        self.reports: list[HostReport | RootReport] = []
        self.final: Snapshot | None = None
        self.counts: Counter[str] = Counter()
        self.began: float | None = None
        self.ended: float | None = None
        self.first_output: float | None = None
        self._keep_outputs = Central.is_needed(job)
        self._inbox: deque[Frame] = deque()
        self._sinks: list[tuple[Sink, bool]] = []
        self._letters: DeadLetters | None = None
        self._keeps_payloads = job.collect
        self._point = deployment.point
        self._splits = job.splits
        self._epochs = Epochs(self.host.workers, self._point.epoch)
        self._done = dict.fromkeys(self.host.workers, 0)  # events of each worker when it last closed an epoch
        self._outputs_of: Counter[int] = Counter()
        self._by_epoch = job.is_kept or self._point.epoch > 0
        self._sources: dict[str, Source] = {}
        self._in_flight = in_flight
        self._waits: list[float] = []
        self._watch = Stopwatch()
        self._heard = {config.id: time.monotonic() for config, _ in deployment.local_streams(index)}
        self._time = LiveTime(job.runtime.linger, elapsed=self._watch)
        self._lanes = deployment.lanes
        self._credit_bytes = deployment.credit_bytes
        self._fed = {
            config.id: deployment.fed_hosts(index, streams)
            for config, streams in deployment.local_streams(index)
        }
        self._program = job.program
        when = None if job.checkpoint is None else job.checkpoint.when
        self._when = None if when is None else load(when, base_dir=job.base_dir)
        self._saves_next = False
        self._saves_final = job.is_kept
        self._root = deployment.plan.root.id if deployment.root_host == index else None
        self._open(deployment)

    def _open_sinks(self, deployment: Deployment) -> None:
        job = deployment.job
        for sink in job.sinks:
            if not is_central(sink):
                opened = open_sink(
                    sink,
                    output_dir=job.output_dir,
                    base_dir=job.base_dir,
                    host=self.index,
                    generation=self._point.generation,
                    by_epoch=self._by_epoch,
                    run=job.run_id,
                    splits=self._splits,
                    program=job.program.name,
                )
                self._sinks.append((opened, sink.kind in TRANSACTIONAL))
        if job.dead_letter_dir is not None:
            self._letters = dead_letters(
                job.dead_letter_dir,
                host=self.index,
                generation=self._point.generation,
                by_epoch=self._by_epoch,
            )
        for batch in deployment.outbox(self.index):
            for opened, is_transactional in self._sinks:
                if not is_transactional:
                    opened.write(batch, self._point.epoch)

    def _open(self, deployment: Deployment) -> None:
        job = deployment.job
        self._open_sinks(deployment)
        for config, streams in deployment.local_streams(self.index):
            self._sources[config.id] = open_source(
                config,
                rank=deployment.rank(config.id),
                unit=job.unit,
                base_dir=job.base_dir,
                program=job.program,
                memory=job.memory,
                batch_rows=job.runtime.batch_rows,
                until=job.until,
                streams=streams,
                time=self._time,
                log_dir=job.log_dir,
            )
        if self._point.epoch:
            for name, source in self._sources.items():
                self._resume(name, source)
        if self._root is not None:
            self.host.workers[self._root].start(self._first_state(), self._point.epoch)
            self.host.wake(self._root)

    def _resume(self, name: str, source: Source) -> None:
        """Check that a source is what it was, and leave out what is in the state already, as far as it can."""
        if name in self._point.sources:
            source.resume(self._point.sources[name])
        base = self._point.positions.base(name)
        if BEGIN < base < END:
            source.skip_to(base.seq)

    def _first_state(self) -> Any:
        """Return the state of the point: the program's initial one, or that of a checkpoint."""
        if self._point.state is not None:
            return codec.decode(self._point.state)
        try:
            return self._program.init()
        except DgsError:
            raise
        except Exception as error:
            raise user_error(self._program, "init", error) from error

    def take(self, frame: Frame) -> None:
        """Take a frame of another host; the next step acts on it."""
        self._inbox.append(frame)

    def step(self) -> bool:
        """Act on what has arrived, and read from one source if that is allowed. Return whether anything was done."""
        if self.began is None:
            self.began = time.time()
        busy = bool(self._inbox)
        self._waits = []
        while self._inbox:
            self.host.receive(self._inbox.popleft())
        name = self.host.next_source(self._is_ready)
        if name is not None and not self._is_congested(name):
            reading = self._sources[name].read()
            if reading.batches or reading.frontier > self.host.frontiers[name]:
                self._heard[name] = time.monotonic()
            batches = reading.batches if self._point.epoch == 0 else self._above(name, reading.batches)
            self.counts["events"] += sum(map(len, batches))
            self.host.ingest(name, batches, reading.frontier)
            busy = True
        for worker, effect in self.host.pump(until_forked=True):
            busy = True
            if isinstance(effect, OutputBatch):
                self._output(effect, self._epochs.of(worker))
            elif isinstance(effect, Skipped):
                self._leave_out(effect, self._epochs.of(worker))
            elif isinstance(effect, Closed):
                self._close_epoch(worker, effect.epoch)
            else:
                self._show(effect)
        sent = list(self.host.frames())
        self.outbox += sent
        return busy or bool(sent)

    def _is_ready(self, source: str) -> bool:
        """Whether a source has something to read. How long the others will have nothing is noted for `idle_seconds`."""
        wait = self._sources[source].wait
        if wait > 0:
            self._waits.append(wait)
        return wait <= 0

    @property
    def idle_seconds(self) -> float | None:
        """How long to sleep after a step that did nothing: until a live source may bring something; None if none will.

        A frame of another host, or an acknowledgement, must end the sleep.
        """
        return min(self._waits, default=None)

    def _is_congested(self, source: str) -> bool:
        """Whether too much is on its way to a host that a source feeds. Its acknowledgement wakes this one."""
        return any(self._in_flight(host) > self._credit_bytes for host in self._fed[source])

    def _above(self, source: str, batches: Iterable[EventBatch]) -> list[EventBatch]:
        """Return the events that are not in the restored state."""
        return [self._point.positions.above(batch, self._splits[source]) for batch in batches]

    def _output(self, batch: OutputBatch, epoch: int) -> None:
        if not self._by_epoch and epoch > self._point.epoch + 1:
            return  # the run is being stopped: nothing after its one checkpoint will be committed
        if self.first_output is None:
            self.first_output = time.time()
        new = batch
        if self._point.epoch:
            new = self._point.committed.outputs_above(batch, self._splits[declared(batch.stream)[0]])
        self.counts["outputs"] += len(new)
        self._outputs_of[epoch] += len(new)
        for sink, is_transactional in self._sinks:
            sink.write(new if is_transactional else batch, epoch)
        if self._keep_outputs:
            self.outputs.append((epoch, new))

    def _leave_out(self, skipped: Skipped, epoch: int) -> None:
        """Write the letter of an event that was left out, unless one of it is committed. The caller counts it then."""
        if not self._by_epoch and epoch > self._point.epoch + 1:
            return
        letter, splits = skipped.letter, self._splits[skipped.letter.stream]
        if not len(self._point.committed.above(skipped.event, splits)):
            return
        if self._letters is not None:
            self._letters.write(letter, epoch)
        self.outputs.append((epoch, letter if self._keeps_payloads else replace(letter, payload=None)))

    def request_snapshot(self, *, always: bool = False) -> None:
        """Ask the root for a checkpoint. `always`: save the state whatever `checkpoint.when` says of it."""
        if self._root is not None:
            self._saves_next = self._saves_next or always
            self.host.workers[self._root].snapshot()
            self.host.wake(self._root)

    def _close_epoch(self, worker: str, epoch: int) -> None:
        """Stage the outputs of an epoch when all workers have closed it."""
        self._done[worker] = self.host.workers[worker].events
        if not self._epochs.close(worker, epoch):
            return
        staged = [sink.stage(epoch) for sink in self._all_sinks()]
        about = {name: source.description for name, source in self._sources.items()}
        self.reports.append(
            HostReport(
                self.index,
                epoch,
                tuple(file for part in staged for file in part.files),
                tuple(batch for part in staged for batch in part.unaccepted),
                {name: one["end"] for name, one in about.items() if one.get("end") is not None},
                about,
                events=sum(self._done.values()),
                outputs=self._outputs_of.pop(epoch, 0),
            )
        )

    def _all_sinks(self) -> Iterator[Sink | DeadLetters]:
        yield from (sink for sink, _ in self._sinks)
        if self._letters is not None:
            yield self._letters

    def _show(self, snapshot: Snapshot) -> None:
        """Take the root's snapshot: report its state if it is to be saved, before the root goes on with it."""
        if snapshot.is_final:
            self.final, self.ended = snapshot, time.time()
        saves = self._saves_final if snapshot.is_final else self._is_worth_saving(snapshot.state)
        state = codec.encode(snapshot.state) if saves else None
        self.reports.append(RootReport(snapshot.epoch, state, snapshot.positions, snapshot.is_final))

    def _is_worth_saving(self, state: Any) -> bool:
        if self._when is None or self._saves_next:
            self._saves_next = False
            return True
        try:
            return bool(self._when(state))
        except Exception as error:
            raise user_error(self._program, "checkpoint.when", error) from error

    def take_reports(self) -> list[HostReport | RootReport]:
        """Remove and return what the coordinator should hear."""
        taken, self.reports = self.reports, []
        return taken

    def take_outputs(self) -> list[tuple[int, OutputBatch | DeadLetter]]:
        """Remove and return the outputs that the caller wants to see, and what was left out, each with its epoch."""
        taken, self.outputs = self.outputs, []
        return taken

    def take_frames(self) -> list[tuple[int, Frame]]:
        """Remove and return the frames for other hosts."""
        taken, self.outbox = self.outbox, []
        return taken

    def close(self, *, complete: bool) -> None:
        """End the run here. If it is complete, all outputs are staged; else what is not committed stays `.partial`."""
        for source in self._sources.values():
            source.close()
        for sink in self._all_sinks():
            if complete:
                sink.close()
            else:
                sink.abort()

    def figures(self) -> dict[str, Any]:
        """Return what this host has to say for the report."""
        return {
            "events_in": self.counts["events"],
            "outputs": self.counts["outputs"],
            "drops": {name: source.drops for name, source in self._sources.items()},
            "began": self.began,
            "ended": self.ended,
            "first_output": self.first_output,
            "starved_reads": self.host.starved_reads,
            "per_worker": {
                worker.id: {
                    "host": self.index,
                    "events": worker.events,
                    "synchronisations": worker.synchronisations,
                }
                for worker in self.host.workers.values()
            },
        }

    def standing(self) -> Standing:
        """Return what the workers here wait for, and how long ago each source here was heard."""
        now = time.monotonic()
        return Standing(
            waits_of(self.host.workers.values(), self._lanes),
            dict(self.host.frontiers),
            {source: now - heard for source, heard in self._heard.items()},
            sum(worker.mailbox.held for worker in self.host.workers.values()),
        )
