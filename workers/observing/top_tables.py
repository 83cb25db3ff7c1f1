"""The tables of `dgs top`: streams, workers and sinks of a run, beginning with those that hold it back.

>>> from dgs.workers.observing.figures import StreamFigures, WorkerFigures
>>> waits = WorkerFigures(0, waits_for=Wait("stream", "rules", 9, 1.0), held_events=5)
>>> run = RunFigures(t=8.0, name="sums", phase="running", events=70, workers={"w0": WorkerFigures(0, 70), "w1": waits},
...                  streams={"rules": StreamFigures(rows=3, frontier=4, heard=2.0)})
>>> for line in head_of(run, status="running"):
...     print(line)
sums: running, 70 events, 0 outputs, generation 0, 0 restarts
worker w1 waits for stream 'rules' to pass 9; last heard 6 s ago; 5 events held
>>> [row[0] for table in tables_of(run) for row in table.rows]
['rules', 'w1', 'w0']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dgs.workers.observing.blame import blame, shown_time
from dgs.workers.observing.figures import RunFigures, StreamFigures, Wait, WorkerFigures
from dgs.workers.observing.progress_line import duration

END_OF_TIME = 1 << 63


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the names of its columns, and its rows."""

    head: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


def head_of(figures: RunFigures, *, status: str) -> Iterator[str]:
    """Yield the lines above the tables: how the run is, and what holds it back. `status`: as the run directory says."""
    yield (
        f"{figures.name}: {status}, {figures.events:,} events, {figures.outputs:,} outputs, "
        f"generation {figures.generation}, {figures.restarts} restarts"
    )
    points = figures.checkpoints
    if points.at is not None:
        yield (
            f"epoch {points.epoch} committed {duration(max(figures.t - points.at, 0.0))} before, in {points.last_seconds:.2f} s; "
            f"{points.state_bytes:,} bytes of state; {points.failed} failures"
        )
    cause = blame(figures)
    if cause is not None:
        yield cause.sentence


def tables_of(figures: RunFigures) -> Iterator[Table]:
    """Yield the tables of a run."""
    yield _streams(figures)
    yield _workers(figures)
    if figures.sinks:
        head = ("sink", "outputs", "bytes", "seconds", "epoch")
        yield Table(
            head,
            [
                (name, one.outputs, one.bytes, f"{one.seconds:.2f}", one.epoch)
                for name, one in figures.sinks.items()
            ],
        )


def _streams(figures: RunFigures) -> Table:
    """Return the streams, the one furthest behind first."""
    head = (
        "stream",
        "rows",
        "events",
        "event time",
        "behind",
        "lag",
        "heard",
        "held",
        "dropped",
        "left out",
        "is",
    )
    found = sorted(
        figures.streams.items(),
        key=lambda one: (one[1].has_ended, END_OF_TIME if one[1].frontier is None else one[1].frontier),
    )
    return Table(head, [_stream(figures, name, stream) for name, stream in found])


def _stream(figures: RunFigures, name: str, stream: StreamFigures) -> tuple[Any, ...]:
    return (
        name,
        stream.rows,
        stream.events,
        None if stream.frontier is None else shown_time(stream.frontier, figures.unit),
        stream.behind,
        None if stream.lag_seconds is None else duration(stream.lag_seconds),
        None if stream.heard is None else f"{duration(max(figures.t - stream.heard, 0.0))} ago",
        stream.held,
        stream.dropped,
        stream.dead_lettered,
        "ended" if stream.has_ended else "reading" if stream.share is None else f"{stream.share:.0%} read",
    )


def _workers(figures: RunFigures) -> Table:
    """Return the workers: those that wait, the longest first, then the others by the time that they have worked."""
    head = (
        "worker",
        "host",
        "events",
        "synchronisations",
        "held",
        "update",
        "fork",
        "join",
        "idle",
        "waits for",
    )
    found = sorted(figures.workers.items(), key=lambda one: _weight(figures, one[1]))
    return Table(head, [_worker(figures, name, worker) for name, worker in found])


def _weight(figures: RunFigures, worker: WorkerFigures) -> tuple[float, float]:
    wait = worker.waits_for
    return (0.0 if wait is None else wait.since - figures.t - 1.0, -worker.busy_seconds)


def _worker(figures: RunFigures, name: str, worker: WorkerFigures) -> tuple[Any, ...]:
    spent = (worker.update_seconds, worker.fork_seconds, worker.join_seconds, worker.idle_seconds)
    whole = sum(spent)
    return (
        name,
        worker.host,
        worker.events,
        worker.synchronisations,
        worker.held_events,
        *(f"{part / whole:.0%}" if whole else None for part in spent),
        _waits(figures, worker.waits_for),
    )


def _waits(figures: RunFigures, wait: Wait | None) -> str | None:
    if wait is None:
        return None
    up_to = "" if wait.key is None else f" to pass {shown_time(wait.key, figures.unit)}"
    return f"{wait.kind} {wait.on}{up_to}, {duration(max(figures.t - wait.since, 0.0))}"
