"""The outputs of the hosts of a simulated generation. They go to files staged by epoch, or to a sink that remembers marks.

An output belongs to the open epoch of its worker, as in `dgs.workers.runtime.host_outputs`. Outputs that the sink has not
accepted when an epoch is closed travel in its checkpoint (R7).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

import numpy as np

from dgs.errors import FencedError
from dgs.model.order import OrderKey
from dgs.model.outputs import OutputBatch, Stamps
from dgs.workers.protocol.host import Host
from dgs.workers.protocol.lanes import Lanes, Router
from dgs.workers.protocol.messages import Skipped
from dgs.workers.recovery.checkpoint import ResumePoint
from dgs.workers.recovery.coordinator import Epochs, HostReport
from dgs.workers.recovery.outbox import dealt_otherwise, dealt_outputs, owners
from dgs.workers.simulated.layout import Layout
from dgs.workers.simulated.slowness import Slowness, sink, staging
from dgs.workers.simulated.sources import BLOCK
from dgs.workers.simulated.world import World


class Outputs:
    """The outputs of all hosts of a generation, on their way to their sinks."""

    def __init__(
        self, world: World, layout: Layout, point: ResumePoint, hosts: list[Host], slowness: Slowness
    ) -> None:
        self._world, self._layout, self._point, self._slowness = world, layout, point, slowness
        self._stamps = [Stamps.of(world.program.stamps) for _ in hosts]
        self._epochs = [Epochs(host.workers, point.epoch) for host in hosts]
        self._outlets: dict[int, deque[tuple[int, OutputBatch]]] = {i: deque() for i in range(len(hosts))}
        self._ends: dict[int, dict[str, OrderKey]] = {i: {} for i in range(len(hosts))}
        self.is_fenced = False

    def restore(self, lanes: Lanes, home: Mapping[str, int]) -> None:
        """Queue the outputs that sinks have not accepted before all newer outputs (R7)."""
        router = Router(lanes)
        for batch in self._point.outbox:
            before = dealt_otherwise(batch, self._point.committed, self._layout.splits, block=BLOCK)
            if before is not None:
                self._world.accept(self._point.generation, batch, before)
                continue
            for part in dealt_outputs(batch, self._layout.impl_streams, block=BLOCK):
                for lane, some in owners(part, router):
                    self._outlets[home[lanes.all[lane].owner]].append((self._point.epoch, some))

    def write(self, host: int, worker: str, batch: OutputBatch) -> None:
        """Take outputs of a worker."""
        self._world.result.trace.append(
            f"output {batch.stream} {batch.ts.tolist()} {np.asarray(batch.seq).tolist()}"
        )
        epoch, stamps = self._epochs[host].of(worker), self._stamps[host]
        put, of = (batch, None) if stamps is None else stamps.put(batch)
        if not self._world.is_transactional:
            self._outlets[host].append((epoch, put))
            return
        new = self._point.committed.outputs_above(batch, self._layout.split(batch.stream), put=(put, of))
        if len(new):
            self._world.write(self._path(host, epoch), new)

    def leave_out(self, host: int, worker: str, skipped: Skipped) -> None:
        """Write a dead letter, always to a file, as the value of an output."""
        event = skipped.event
        if len(self._point.committed.above(event, self._layout.split(event.stream))):
            letter = OutputBatch.of_rows(event, [skipped.letter])
            self._world.write(self._path(host, self._epochs[host].of(worker)), letter)

    def ended(self, host: int, stream: str, end: OrderKey) -> None:
        """Note that a host has read a stream to its end."""
        self._ends[host][stream] = end

    def close_epoch(self, host: int, worker: str, epoch: int) -> HostReport | None:
        """Stage an epoch if all workers of the host have closed it, and return the report. Raises OutputUnwritableError."""
        if not self._epochs[host].close(worker, epoch):
            return None
        path = self._path(host, epoch)
        files = self._world.stage(path)
        self._slowness.begins(staging(host), chance=self._world.faults.slow_sinks, now=self._world.now)
        unaccepted = tuple(batch for of, batch in self._outlets[host] if of <= epoch)
        return HostReport(host, epoch, files, unaccepted, dict(self._ends[host]))

    def waiting(self) -> Iterator[int]:
        """Yield the hosts with outputs that the sink can take now."""
        for host, outlet in self._outlets.items():
            if outlet and not self._slowness.is_busy(sink(host), self._world.now):
                yield host

    @property
    def is_done(self) -> bool:
        """Whether the sink has taken all outputs."""
        return not any(self._outlets.values())

    def accept(self, host: int) -> None:
        """Let the sink take the next outputs of a host."""
        _, batch = self._outlets[host][0]
        self._slowness.begins(sink(host), chance=self._world.faults.slow_sinks, now=self._world.now)
        try:
            self._world.accept(self._point.generation, batch, self._layout.split(batch.stream))
        except FencedError:
            self.is_fenced = True
        if not self._world.is_odd():  # else the acknowledgement is lost
            self._outlets[host].popleft()

    def _path(self, host: int, epoch: int) -> str:
        return f"{epoch}-{host}.{self._point.generation}"
