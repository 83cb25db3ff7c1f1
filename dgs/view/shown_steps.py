"""The step from one line of figures to the next: what workers, streams, sinks and hosts did in between, as rates and states."""

from __future__ import annotations

from dataclasses import dataclass

from dgs.observe import RunFigures, WorkerFigures
from dgs.view.moments import SinkNow, StreamNow, WorkerNow, WorkerState
from dgs.view.pictures.texts import count, plural, seconds, size
from dgs.workers.observing.progress_line import WAITING_SECONDS

IDLE_BELOW = 0.01
"""A worker without events that is busy for a smaller share of its time has nothing to do."""


@dataclass(frozen=True)
class Step:
    """Figures, the previous ones of the same generation (empty for its first), and the seconds and events a second in between."""

    new: RunFigures
    old: RunFigures
    span: float
    rate: float

    @classmethod
    def between(cls, before: RunFigures | None, figures: RunFigures) -> Step:
        """Return the step to figures from the previous ones; None if they are the first."""
        since, events = (
            (figures.began, figures.events_before) if before is None else (before.t, before.events)
        )
        span = max(figures.t - since, 1e-3)
        is_same = before is not None and before.generation == figures.generation
        old = before if before is not None and is_same else RunFigures(t=figures.t - span)
        return cls(figures, old, span, max(0, figures.events - events) / span)

    @classmethod
    def whole(cls, figures: RunFigures) -> Step:
        """Return the step over all of the last generation, for the means of a run that has ended. The rate is that of all generations."""
        began = figures.generations[-1].began if figures.generations else figures.began
        rate = max(0, figures.events - figures.events_before) / max(figures.seconds, 1e-3)
        return cls(figures, RunFigures(t=began), max(figures.t - began, 1e-3), rate)

    def worker(self, name: str) -> WorkerNow:
        """Return what a worker does."""
        now = self.new.workers.get(name)
        if now is None:
            return WorkerNow("idle")
        old = self.old.workers.get(name) or WorkerFigures(now.host)
        wait = now.waits_for if not self.new.is_over else None
        waited = 0.0 if wait is None else self.new.t - wait.since
        busy = min(1.0, max(0.0, (_busy(now) - _busy(old)) / self.span))
        rate = max(0, now.events - old.events) / self.span
        state: WorkerState = "working" if rate > 0 or busy >= IDLE_BELOW else "idle"
        if wait is not None and waited >= WAITING_SECONDS:
            state = "waiting" if wait.kind == "stream" or not now.held_events else "held"
        is_stuck = wait is not None and state in ("waiting", "held")
        return WorkerNow(
            state,
            str(now.host),
            rate=rate,
            events=now.events,
            synchronisations=max(0, now.synchronisations - old.synchronisations) / self.span,
            busy=busy,
            blocked=1 - busy if is_stuck else 0.0,
            held=now.held_events,
            held_bytes=now.held_bytes,
            waits_for=wait.on if wait is not None and is_stuck else None,
            waits_for_stream=wait is not None and is_stuck and wait.kind == "stream",
            waited=waited if is_stuck else 0.0,
        )

    def streams(self, blamed: str) -> tuple[StreamNow, ...]:
        """Return how far the streams have come. `blamed`: the stream that holds the run back."""
        return tuple(self._stream(name, is_waited_for=name == blamed) for name in self.new.streams)

    def _stream(self, name: str, *, is_waited_for: bool) -> StreamNow:
        now, old = self.new.streams[name], self.old.streams.get(name)
        events = now.events - (old.events if old is not None else 0)
        heard = (
            "no row yet" if now.heard is None else f"last row {seconds(max(0.0, self.new.t - now.heard))} ago"
        )
        return StreamNow(
            name,
            now.frontier,
            now.newest,
            rate=max(0, events) / self.span,
            note=heard if is_waited_for else "",
            is_waited_for=is_waited_for,
            has_ended=now.has_ended,
            dropped=now.dropped,
            letters=now.dead_lettered,
            disorder=now.held,
        )

    def sinks(self) -> tuple[SinkNow, ...]:
        """Return what the sinks have."""
        found = self.new.sinks.items()
        return tuple(SinkNow(name, sink.outputs, sink.bytes, sink.epoch or None) for name, sink in found)

    @property
    def synchronisation_ms(self) -> float:
        """The mean time that workers spent in a synchronisation, 0 if there was none."""
        new, old = self.new.workers.values(), self.old.workers.values()
        number = sum(one.synchronisations for one in new) - sum(one.synchronisations for one in old)
        spent = sum(map(_joining, new)) - sum(map(_joining, old))
        return max(0.0, 1000 * spent / number) if number > 0 else 0.0

    @property
    def checkpoint(self) -> str:
        """When the last checkpoint was committed, empty if none was."""
        at = self.new.checkpoints.at
        return f"{seconds(max(0.0, self.new.t - at))} ago" if at else ""

    @property
    def hosts(self) -> int:
        """The number of hosts: those that were started, or have reported."""
        started = self.new.generations[-1].hosts if self.new.generations else 0
        return max(started, len({worker.host for worker in self.new.workers.values()}))

    @property
    def between_hosts(self) -> str:
        """The traffic between hosts, empty if there is one host."""
        new, old = self.new.pairs.values(), self.old.pairs.values()
        if not new:
            return ""
        frames = max(0, sum(pair.frames for pair in new) - sum(pair.frames for pair in old)) / self.span
        sent = max(0, sum(pair.bytes for pair in new) - sum(pair.bytes for pair in old)) / self.span
        return f"between {plural(self.hosts, 'host')}: {count(frames)} frames/s, {size(sent)}/s"


def _busy(worker: WorkerFigures) -> float:
    return worker.update_seconds + worker.fork_seconds + worker.join_seconds


def _joining(worker: WorkerFigures) -> float:
    return worker.fork_seconds + worker.join_seconds
