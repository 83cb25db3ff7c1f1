"""The figures of one host: what its workers, sources, sinks and channels have counted, and what each worker waits for, since when."""

from __future__ import annotations

import os
import time
from pathlib import Path

from dgs.workers.observing.figures import HostFigures, Wait, WaitKind, WorkerFigures
from dgs.workers.protocol.host import Host
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.worker import Awaited, Worker
from dgs.workers.recovery.positions import declared
from dgs.workers.runtime import process
from dgs.workers.runtime.host_outputs import HostOutputs
from dgs.workers.runtime.host_sources import HostSources
from dgs.workers.transport.network_load import NetworkLoad

_PAGE = os.sysconf("SC_PAGE_SIZE")


class HostObserver:
    """Makes the figures of one host. It reads what the host holds, so only the thread that runs the host may call it."""

    def __init__(
        self, host: Host, lanes: Lanes, sources: HostSources, outputs: HostOutputs, load: NetworkLoad
    ) -> None:
        self._host, self._lanes = host, lanes
        self._sources, self._outputs, self._load = sources, outputs, load
        self._waits: dict[str, Wait] = {}
        self._cpu = time.process_time()

    def figures(self, *, events: int, began: float | None, ended: float | None) -> HostFigures:
        """Return the figures. `events`: read here. `began`, `ended`: when it read first, and when the run was complete."""
        now, host = process.now(), self._host
        return HostFigures(
            host=host.index,
            t=now,
            process=os.getpid(),
            events_in=events,
            outputs=self._outputs.count,
            began=began,
            ended=ended,
            first_output=self._outputs.first,
            starved_reads=host.starved_reads,
            memory_bytes=_memory(),
            held_bytes=host.load,
            cpu_seconds=time.process_time() - self._cpu,
            workers={worker.id: self._of(worker, now) for worker in host.workers.values()},
            streams=self._sources.figures(host.frontiers, self._outputs.dead_lettered),
            sinks=self._outputs.figures(),
            pairs=dict(self._load.pairs),
            sent=dict(self._load.sent),
        )

    def _of(self, worker: Worker, now: float) -> WorkerFigures:
        meter = self._host.meter
        spent, compiled = meter.of(worker.id), worker.compiled_counts
        return WorkerFigures(
            self._host.index,
            worker.events,
            worker.synchronisations,
            self._outputs.by_worker[worker.id],
            spent.update,
            spent.fork,
            spent.join,
            max(meter.elapsed - sum(spent), 0.0),
            self._wait(worker, now),
            worker.held,
            worker.load,
            **({} if compiled is None else compiled._asdict()),
        )

    def _wait(self, worker: Worker, now: float) -> Wait | None:
        """Return what a worker waits for, since it was first seen waiting for just that."""
        awaited = worker.awaited
        if awaited is None:
            self._waits.pop(worker.id, None)
            return None
        kind, on = self._named(awaited)
        key = None if awaited.key is None else awaited.key.ts
        known = self._waits.get(worker.id)
        if known is None or (known.kind, known.on, known.key) != (kind, on, key):
            known = self._waits[worker.id] = Wait(kind, on, key, now)
        return known

    def _named(self, awaited: Awaited) -> tuple[WaitKind, str]:
        if awaited.kind == "lane":
            return "stream", declared(self._lanes.all[int(awaited.on)].stream)[0]
        return awaited.kind, str(awaited.on)


def _memory() -> int:
    """Return the bytes of memory that this process uses, 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0
