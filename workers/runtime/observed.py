"""Figures of a run as it goes on: of each host, of all hosts together, and over all generations.

Law: observing reads what the hosts report, and gives nothing back to them.

>>> def host(number, events):
...     return HostFigures(number, events_in=events, workers={f"w{number}": WorkerFigures(number, events=events)})
>>> run = gathered([host(0, 3), host(1, 4)], RunFigures(events_before=5))
>>> sum(worker.events for worker in run.workers.values()), list(run.hosts)
(7, [0, 1])
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dgs.job.units import NANOSECONDS, TimeUnit
from dgs.workers.observing.blame import CALENDAR
from dgs.workers.observing.figure_lines import FiguresFile
from dgs.workers.observing.figures import (
    Generation,
    HostFigures,
    HostSummary,
    Move,
    Phase,
    RunFigures,
    SinkFigures,
    StreamFigures,
    Wait,
    WaitKind,
    WorkerFigures,
)
from dgs.workers.protocol.host import Host
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.worker import Awaited, Worker
from dgs.workers.recovery.checkpoint import Checkpoint
from dgs.workers.recovery.positions import declared
from dgs.workers.runtime import process
from dgs.workers.runtime.checkpointing import Commits
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.host_outputs import HostOutputs
from dgs.workers.runtime.host_sources import HostSources
from dgs.workers.runtime.job import Caller, Job
from dgs.workers.sources.rows import SECOND
from dgs.workers.transport.frames import NetworkLoad

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
        """Return the figures. `events`: read here. `began`: when the host first read; `ended`: when the run was complete."""
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
        """Return what a worker waits for, and since when it was seen waiting for that."""
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


def gathered(
    hosts: Sequence[HostFigures], run: RunFigures, parents: Mapping[str, str | None] | None = None
) -> RunFigures:
    """Return the figures of a run with those of its hosts. `run`: what the hosts do not know. `parents`: the parent of each worker."""
    streams = _with_lags(_streams(hosts), run.t, run.unit)
    return replace(
        run,
        hosts={host.host: _summary(host) for host in hosts},
        workers={
            name: _settled(name, worker, streams, parents or {})
            for host in hosts
            for name, worker in host.workers.items()
        },
        streams=streams,
        sinks=_sinks(hosts, run.checkpoints.epoch),
        pairs={f"{host.host}>{other}": pair for host in hosts for other, pair in host.pairs.items()},
        sent=_sent(hosts),
    )


def _summary(host: HostFigures) -> HostSummary:
    return HostSummary(
        host.process, host.t, host.memory_bytes, host.held_bytes, host.starved_reads, host.cpu_seconds
    )


def _streams(hosts: Iterable[HostFigures]) -> dict[str, StreamFigures]:
    found: dict[str, StreamFigures] = {}
    for name, stream in (one for host in hosts for one in host.streams.items()):
        found[name] = _merged(found[name], stream) if name in found else stream
    return found


def _merged(one: StreamFigures, other: StreamFigures) -> StreamFigures:
    """Return the figures of two readers of one stream. Each reads all rows, and keeps the events of its splits."""
    return StreamFigures(
        rows=max(one.rows, other.rows),
        events=one.events + other.events,
        frontier=_reached(one, other),
        newest=max((time for time in (one.newest, other.newest) if time is not None), default=None),
        has_ended=one.has_ended and other.has_ended,
        heard=max(one.heard or 0.0, other.heard or 0.0),
        held=max(one.held, other.held),
        dropped=max(one.dropped, other.dropped),
        dead_lettered=one.dead_lettered + other.dead_lettered,
        share=None if None in (one.share, other.share) else min(one.share or 0.0, other.share or 0.0),
    )


def _reached(one: StreamFigures, other: StreamFigures) -> int | None:
    """Return the time that both readers have reached. A reader that has ended holds nothing back."""
    if one.has_ended != other.has_ended:
        return (other if one.has_ended else one).frontier
    known = [frontier for frontier in (one.frontier, other.frontier) if frontier is not None]
    if one.has_ended:
        return max(known, default=None)
    return min(known) if len(known) == 2 else None  # noqa: PLR2004 - both know theirs


def _with_lags(streams: Mapping[str, StreamFigures], now: float, unit: TimeUnit) -> dict[str, StreamFigures]:
    newest = max((one.newest for one in streams.values() if one.newest is not None), default=None)
    return {name: _with_lag(stream, newest, now, unit) for name, stream in streams.items()}


def _with_lag(stream: StreamFigures, newest: int | None, now: float, unit: TimeUnit) -> StreamFigures:
    """Return the figures of a stream with its lag; a stream that has ended has none. `newest`: the newest event of all streams."""
    if stream.has_ended:
        return replace(stream, behind=0)
    if stream.frontier is None:
        return stream
    behind = None if newest is None else max(newest - stream.frontier, 0)
    reached = 0 if unit == "none" else stream.frontier * NANOSECONDS[unit]
    lag = max(now - reached / 1e9, 0.0) if reached >= CALENDAR else None
    return replace(stream, behind=behind, lag_seconds=lag)


def _settled(
    name: str, worker: WorkerFigures, streams: Mapping[str, StreamFigures], parents: Mapping[str, str | None]
) -> WorkerFigures:
    """Return the figures of a worker. If its stream has already passed the key, the worker waits for its parent to relay that."""
    wait = worker.waits_for
    if wait is None or wait.kind != "stream" or wait.key is None:
        return worker
    stream = streams.get(wait.on)
    if stream is None or not (
        stream.has_ended or (stream.frontier is not None and stream.frontier > wait.key)
    ):
        return worker
    parent = parents.get(name)
    return replace(worker, waits_for=None if parent is None else Wait("parent", parent, wait.key, wait.since))


def _sinks(hosts: Iterable[HostFigures], epoch: int) -> dict[str, SinkFigures]:
    found: dict[str, SinkFigures] = {}
    for name, sink in (one for host in hosts for one in host.sinks.items()):
        known = found.get(name, SinkFigures())
        first = min((known, sink), key=lambda one: (one.waits is None, one.since or 0.0))
        found[name] = SinkFigures(
            known.outputs + sink.outputs,
            known.bytes + sink.bytes,
            known.seconds + sink.seconds,
            epoch,
            first.waits,
            first.since,
        )
    return found


def _sent(hosts: Iterable[HostFigures]) -> dict[str, int]:
    """Return the bytes of all hosts by the child of an edge and the direction, as "child:way"."""
    total: dict[str, int] = {}
    for (child, way), size in (sent for host in hosts for sent in host.sent.items()):
        total[f"{child}:{way}"] = total.get(f"{child}:{way}", 0) + size
    return total


def seconds_of_work(hosts: Iterable[HostFigures], seconds: float) -> float:
    """Return the seconds from the first read to the last output, by the clocks of the hosts; the given seconds if the hosts know none."""
    hosts = list(hosts)
    ends = [host.ended for host in hosts if host.ended is not None]
    begins = [host.began for host in hosts if host.began is not None]
    return max(ends) - min(begins) if ends and begins else seconds


def first_output(hosts: Iterable[HostFigures]) -> float | None:
    """Return when the first output of all hosts was made, in seconds since 1970; None if there is none."""
    return min((host.first_output for host in hosts if host.first_output is not None), default=None)


MOST_GENERATIONS = 20
"""The number of latest generations that the figures keep."""


class RunObserver:
    """Observes one run. `figures`: the newest ones. `commits`: its checkpoints. With `observe: off` it only makes the last figures."""

    def __init__(self, job: Job, caller: Caller, commits: Commits) -> None:
        config, directory = job.observe, job.figures_dir
        self._caller, self._commits = caller, commits
        self._every = None if config is None else config.every / SECOND
        self._file = None
        if config is not None and directory is not None:
            self._file = FiguresFile(directory, warn=caller.notify)
        self._hosts: dict[int, HostFigures] = {}
        self._parents: dict[str, str | None] = {}
        self._events = self._outputs = 0  # in the state and committed, when the generation began
        self._last = 0.0
        now = process.now()
        self.figures = RunFigures(t=now, name=job.name, unit=job.unit, began=now)

    def begin(self, deployment: Deployment) -> None:
        """Note that a generation begins. Figures of the hosts of the previous one are forgotten."""
        point, plan = deployment.point, deployment.plan
        first = not self.figures.generations
        self._hosts.clear()
        parents = ((node.id, plan.parent(node.id)) for node in plan.nodes())
        self._parents = {name: None if parent is None else parent.id for name, parent in parents}
        self._events, self._outputs = point.events, self._commits.figures.outputs
        new = Generation(point.generation, process.now(), len(plan), deployment.hosts)
        self.figures = replace(
            self.figures,
            phase="starting",
            generation=point.generation,
            events_before=point.events if first else self.figures.events_before,
            generations=(*self.figures.generations, new)[-MOST_GENERATIONS:],
        )
        self.figures = gathered((), self.figures)
        self._show()

    def take(self, host: HostFigures) -> None:
        """Take the newest figures of a host."""
        self._hosts[host.host] = host

    def show_if_due(self, *, is_stopping: bool = False) -> None:
        """Write and show the newest figures of all hosts, if the last ones are `observe.every` old."""
        if self._every is None or not self._hosts or process.now() - self._last < self._every:
            return
        self._gather("stopping" if is_stopping else "running")
        self._show()

    def lost(self, why: str) -> None:
        """Note that a generation was lost, and that the run starts again."""
        self._end_generation(why)
        self.figures = replace(self.figures, phase="restarting", restarts=self.figures.restarts + 1)
        self._show()

    def moved(self, why: str, moves: Sequence[Move]) -> None:
        """Note that a generation has ended for a request."""
        self._end_generation(why)
        self.figures = replace(self.figures, moves=tuple(moves))
        self._show()

    def generation(
        self,
        hosts: Sequence[HostFigures],
        last: Checkpoint | None,
        *,
        seconds: float,
        started: float,
        waited: Sequence[str] | None = None,
    ) -> RunFigures:
        """Return the figures of the generation at its end. `last`: its newest checkpoint. `seconds`: the driver's measure.

        If the last checkpoint saved no state, the hosts' times from the first read to the last output replace it. `started`: seconds
        since 1970.
        """
        self._hosts = {host.host: host for host in hosts}
        self._gather("stopping")
        if last is not None and last.state is None:
            seconds = seconds_of_work(hosts, seconds)
        first = first_output(hosts)
        self.figures = replace(
            self.figures,
            events=0 if last is None else last.events,
            seconds=seconds,
            first_output_seconds=None if first is None else first - started,
            waited=None if waited is None else tuple(waited),
        )
        return self.figures

    def end(self, phase: Phase, figures: RunFigures | None = None, why: str = "") -> None:
        """Note how the run ended, with its last figures."""
        if self.figures.is_over:
            return
        if figures is not None:
            self.figures = figures
        elif self._hosts:
            self._gather(phase)
        self._end_generation(why)
        self.figures = replace(self.figures, phase=phase)
        self._show()

    def _end_generation(self, why: str) -> None:
        *before, last = self.figures.generations or (Generation(0, self.figures.began),)
        self.figures = replace(self.figures, generations=(*before, replace(last, why=why)))

    def _gather(self, phase: Phase) -> None:
        """Make the figures of what the hosts have last reported."""
        now, hosts = process.now(), [self._hosts[index] for index in sorted(self._hosts)]
        known = replace(
            self.figures,
            t=now,
            phase=phase,
            events=self._events + sum(host.events_in for host in hosts),
            outputs=self._outputs + sum(host.outputs for host in hosts),
            seconds=now - self.figures.began,
            checkpoints=self._commits.figures,
        )
        self.figures = gathered(hosts, known, self._parents)

    def _show(self) -> None:
        self._last = process.now()
        self.figures = replace(self.figures, t=self._last, checkpoints=self._commits.figures)
        if self._file is not None:
            self._file.add(self.figures)
        if self._every is not None:
            self._caller.progress(self.figures)
