"""Figures of a worker, of a host, and of a whole run: counts and times for the report.

>>> def host(number, read, first):
...     worker = WorkerFigures(number, events=read, synchronisations=1)
...     return HostFigures(read, 1, {"s": 2}, began=5.0, ended=9.0, first_output=first, per_worker={f"w{number}": worker})
>>> run = run_figures([host(0, 3, 6.5), host(1, 4, 6.0)], None, seconds=4.5, started=5.0)
>>> run.outputs, run.hosts, run.workers, run.drops, run.first_output_seconds
(2, 2, 2, {'s': 2}, 1.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dgs.workers.recovery.checkpoint import Checkpoint
from dgs.workers.transport.network_load import Sent, Way


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """Figures of a worker: its host, the events that it processed, and the synchronisations that it took part in."""

    host: int
    events: int
    synchronisations: int


@dataclass(frozen=True, slots=True)
class HostFigures:
    """Figures of a host: the events it read, the outputs it made, and the late events that its sources dropped.

    `began`, `ended`, `first_output`: seconds since 1970, or None if that has not happened; only the root's host knows the end.
    `starved_reads`: reads while a buffer was full, from the source that was furthest behind (R11). `frames`, `sent`: see
    `dgs.workers.transport.network_load`.
    """

    events_in: int
    outputs: int
    drops: Mapping[str, int]
    began: float | None = None
    ended: float | None = None
    first_output: float | None = None
    starved_reads: int = 0
    per_worker: Mapping[str, WorkerFigures] = field(default_factory=dict)
    frames: int = 0
    sent: Sent = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Move:
    """A move to a plan that the run itself proposed: its workers, the predicted gain, and events per second before and after.

    `after`: None if the run ended before it could be measured.
    """

    workers: int
    predicted: float
    before: float
    after: float | None = None


@dataclass
class CheckpointFigures:
    """The checkpoints of a run, counted as it goes on: commits, failures, seconds in commits, bytes of the last state.

    `outputs`: committed since the process began. `epoch`: the newest committed one, also from an earlier process. `events`: in
    its state, if this process committed it.
    """

    committed: int = 0
    failed: int = 0
    seconds: float = 0.0
    state_bytes: int = 0
    outputs: int = 0
    epoch: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of a run, with the hosts of its last generation.

    `events_in`: events in the last committed state. `seconds`: from the first read to the last output, or to the final commit.
    `first_output_seconds`: from the start of the generation. `waited`: the watchdog's sentences, None without a watchdog.
    `skipped`: events that `on_error: skip` left out. `restarts`: generations that were lost.
    `moves`: to other plans, by `replan: auto`. `frames`, `sent`: those between hosts.
    """

    events_in: int
    outputs: int
    seconds: float
    first_output_seconds: float | None
    hosts: int
    workers: int
    drops: Mapping[str, int]
    starved_reads: int
    per_worker: Mapping[str, WorkerFigures]
    waited: tuple[str, ...] | None = None
    skipped: int = 0
    checkpoints: CheckpointFigures = field(default_factory=CheckpointFigures)
    restarts: int = 0
    moves: tuple[Move, ...] = ()
    frames: int = 0
    sent: Sent = field(default_factory=dict)


def run_figures(
    hosts: Sequence[HostFigures],
    last: Checkpoint | None,
    *,
    seconds: float,
    started: float,
    waited: Sequence[str] | None = None,
) -> RunFigures:
    """Return the figures of a generation. `last`: its newest checkpoint, which has the number of events in the state.

    `seconds` is the driver's measure. If the last checkpoint saved no state, the hosts' times from the first read to the last
    output replace it. `started`: seconds since 1970.
    """
    ends = [host.ended for host in hosts if host.ended is not None]
    begins = [host.began for host in hosts if host.began is not None]
    if ends and last is not None and last.state is None:
        seconds = max(ends) - min(begins)
    firsts = [host.first_output for host in hosts if host.first_output is not None]
    per_worker = {name: worker for host in hosts for name, worker in host.per_worker.items()}
    return RunFigures(
        events_in=0 if last is None else last.events,
        outputs=sum(host.outputs for host in hosts),
        seconds=seconds,
        first_output_seconds=min(firsts) - started if firsts else None,
        hosts=len(hosts),
        workers=len(per_worker),
        drops=_drops(hosts),
        starved_reads=sum(host.starved_reads for host in hosts),
        per_worker=per_worker,
        waited=None if waited is None else tuple(waited),
        frames=sum(host.frames for host in hosts),
        sent=_sent(hosts),
    )


def _sent(hosts: Sequence[HostFigures]) -> Sent:
    """Return the bytes of all hosts."""
    total: dict[tuple[str, Way], int] = {}
    for edge, size in (sent for host in hosts for sent in host.sent.items()):
        total[edge] = total.get(edge, 0) + size
    return total


def _drops(hosts: Sequence[HostFigures]) -> dict[str, int]:
    """Return the drops of each stream. Each reader of a split counts the drops of the whole stream, so take the largest."""
    drops: dict[str, int] = {}
    for stream, count in (drop for host in hosts for drop in host.drops.items()):
        drops[stream] = max(drops.get(stream, 0), count)
    return drops
