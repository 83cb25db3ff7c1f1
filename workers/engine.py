"""One host at work: its sources, its workers, its sinks. The local and the Ray runtime drive this same loop.

`step` reads once, or takes what has arrived, and lets the workers do all they can. Frames for other hosts are left in
`outbox`; whoever drives the engine carries them.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from dgs.errors import DgsError
from dgs.order import END, OrderKey
from dgs.outputs import OutputBatch
from dgs.user_code import user_error
from workers.central import Central
from workers.deployment import Deployment
from workers.effects import Snapshot
from workers.messages import Frame
from workers.sinks import Sink, is_central, open_sink
from workers.sinks.publishing import publish
from workers.sources import Source, open_source
from workers.sources.live import LiveTime, Stopwatch

ONE_EPOCH = 0
"""The epoch of all outputs of a run without checkpoints."""


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
        self.outputs: list[tuple[int, OutputBatch]] = []
        self.final: Snapshot | None = None
        self.counts: Counter[str] = Counter()
        self.first_output: float | None = None
        self._keep_outputs = Central.is_needed(job)
        self._inbox: deque[Frame] = deque()
        self._sinks: list[Sink] = []
        self._sources: dict[str, Source] = {}
        self._in_flight = in_flight
        self._waits: list[float] = []
        self._watch = Stopwatch()
        self._time = LiveTime(job.runtime.linger, elapsed=self._watch)
        self._credit_bytes = deployment.credit_bytes
        self._fed = {
            config.id: deployment.fed_hosts(index, streams)
            for config, streams in deployment.local_streams(index)
        }
        self._program = job.program
        self._root = deployment.plan.root.id if deployment.root_host == index else None
        self._open(deployment)

    def _open(self, deployment: Deployment) -> None:
        job = deployment.job
        for sink in job.sinks:
            if not is_central(sink):
                self._sinks.append(
                    open_sink(sink, output_dir=job.output_dir, base_dir=job.base_dir, host=self.index)
                )
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
            )
        if self._root is not None:
            self.host.workers[self._root].start(self._initial_state())
            self.host.wake(self._root)

    def _initial_state(self) -> Any:
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
        busy = bool(self._inbox)
        self._waits = []
        while self._inbox:
            self.host.receive(self._inbox.popleft())
        name = self.host.next_source(self._is_ready)
        if name is not None and not self._is_congested(name):
            reading = self._sources[name].read()
            self.counts["events"] += sum(map(len, reading.batches))
            self.host.ingest(name, reading.batches, reading.frontier)
            busy = True
        for _, effect in self.host.pump(until_forked=True):
            busy = True
            if isinstance(effect, Snapshot):
                self.final = effect if effect.is_final else self.final
            elif isinstance(effect, OutputBatch):
                self._output(effect)
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

    def _output(self, batch: OutputBatch) -> None:
        if self.first_output is None:
            self.first_output = time.time()
        self.counts["outputs"] += len(batch)
        for sink in self._sinks:
            sink.write(batch, ONE_EPOCH)
        if self._keep_outputs:
            self.outputs.append((ONE_EPOCH, batch))

    def take_outputs(self) -> list[tuple[int, OutputBatch]]:
        """Remove and return the outputs that the caller wants to see, each with its epoch."""
        taken, self.outputs = self.outputs, []
        return taken

    def take_frames(self) -> list[tuple[int, Frame]]:
        """Remove and return the frames for other hosts."""
        taken, self.outbox = self.outbox, []
        return taken

    def close(self, *, complete: bool) -> None:
        """End the run here: give outputs their final names if it is complete, else leave them as `.partial`."""
        for source in self._sources.values():
            source.close()
        for sink in self._sinks:
            if complete:
                publish(sink.stage(ONE_EPOCH).files)
                sink.close()
            else:
                sink.abort()

    def figures(self) -> dict[str, Any]:
        """Return what this host has to say for the report."""
        return {
            "events_in": self.counts["events"],
            "outputs": self.counts["outputs"],
            "drops": {name: source.drops for name, source in self._sources.items()},
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

    def waits_for(self) -> str:
        """Return, for a run that is stuck, where each local source stands and what the workers hold."""
        held = {
            worker.id: worker.mailbox.nbytes for worker in self.host.workers.values() if worker.mailbox.nbytes
        }
        return (
            f"host {self.index}: lowest source frontier {_show(self.host.low)}, bytes held {held or 'none'}"
        )


def _show(key: OrderKey) -> str:
    return "ended" if key >= END else str(key.ts)
