"""The figures of a run: of one worker, of one host, and of the whole run, from where they are counted to the report.

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


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """A worker: its host, the events in its states, and how often it took part in a synchronisation."""

    host: int
    events: int
    synchronisations: int


@dataclass(frozen=True, slots=True)
class HostFigures:
    """A host: the events it read, the outputs it made, the events its sources dropped because they came too late.

    `began`, `ended`, `first_output`: seconds since 1970, None where it has not come to that; only the root's host knows the end.
    `starved_reads`: readings over the bound of bytes, of the source that was furthest behind (R11).
    """

    events_in: int
    outputs: int
    drops: Mapping[str, int]
    began: float | None = None
    ended: float | None = None
    first_output: float | None = None
    starved_reads: int = 0
    per_worker: Mapping[str, WorkerFigures] = field(default_factory=dict)


@dataclass
class CheckpointFigures:
    """The checkpoints of a run, counted as it goes on: how many, how many failed, seconds in commits, bytes of the last state.

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


@dataclass(frozen=True, slots=True)
class RunFigures:
    """A run. Of its hosts it has those of the last generation.

    `events_in`: in the last state that was committed; `seconds`: from the first read to the last output, or to the commit of the end;
    `first_output_seconds`: from the start of the generation. `waited`: what was said while nothing moved, None where nobody watched.
    `skipped`: events that `on_error: skip` left out. `restarts`: generations that were lost.
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


def run_figures(
    hosts: Sequence[HostFigures],
    last: Checkpoint | None,
    *,
    seconds: float,
    started: float,
    waited: Sequence[str] | None = None,
) -> RunFigures:
    """Return the figures of a generation. `last`: its newest checkpoint, which says how many events the state holds.

    Hosts know how long it took from the first read to the last output; where the end had to be committed as a checkpoint, the
    driver does (`seconds`). `started`: seconds since 1970.
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
    )


def _drops(hosts: Sequence[HostFigures]) -> dict[str, int]:
    """Return the drops of each stream: all readers of its splits count those of the whole stream."""
    drops: dict[str, int] = {}
    for stream, count in (drop for host in hosts for drop in host.drops.items()):
        drops[stream] = max(drops.get(stream, 0), count)
    return drops
