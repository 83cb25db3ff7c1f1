"""Figures of hosts as figures of their run.

>>> def host(number, events):
...     return HostFigures(number, events_in=events, workers={f"w{number}": WorkerFigures(number, events=events)})
>>> run = gathered([host(0, 3), host(1, 4)], RunFigures(events_before=5))
>>> sum(worker.events for worker in run.workers.values()), list(run.hosts)
(7, [0, 1])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dgs.job.units import NANOSECONDS, TimeUnit
from dgs.workers.observing.blame import CALENDAR
from dgs.workers.observing.figures import (
    HostFigures,
    HostSummary,
    RunFigures,
    SinkFigures,
    StreamFigures,
    Wait,
    WorkerFigures,
)


def gathered(
    hosts: Sequence[HostFigures], run: RunFigures, parents: Mapping[str, str | None] | None = None
) -> RunFigures:
    """Return the figures of a run with those of its hosts. `run`: what the hosts do not know. `parents`: of each worker."""
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
    """Return the time that both readers have reached. One that has ended holds nothing back."""
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
    """Return the figures of a stream with its lag. One that has ended has none. `newest`: the newest event of all."""
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
    """Return the figures of a worker. If the stream that it waits for has passed the key already, it waits for its parent to say so."""
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
        found[name] = SinkFigures(
            known.outputs + sink.outputs, known.bytes + sink.bytes, known.seconds + sink.seconds, epoch
        )
    return found


def _sent(hosts: Iterable[HostFigures]) -> dict[str, int]:
    """Return the bytes of all hosts by the child of an edge and the way on it, as "child:way"."""
    total: dict[str, int] = {}
    for (child, way), size in (sent for host in hosts for sent in host.sent.items()):
        total[f"{child}:{way}"] = total.get(f"{child}:{way}", 0) + size
    return total


def seconds_of_work(hosts: Iterable[HostFigures], seconds: float) -> float:
    """Return the seconds from the first read to the last output, by the clocks of the hosts; the given ones if they know none."""
    hosts = list(hosts)
    ends = [host.ended for host in hosts if host.ended is not None]
    begins = [host.began for host in hosts if host.began is not None]
    return max(ends) - min(begins) if ends and begins else seconds


def first_output(hosts: Iterable[HostFigures]) -> float | None:
    """Return when the first output of all hosts was made, in seconds since 1970; None if there is none."""
    return min((host.first_output for host in hosts if host.first_output is not None), default=None)
