"""Figures: what a run measures of itself, by worker, stream, sink and pair of hosts. Everything that shows a run is drawn from them.

A host makes `HostFigures`, and the process that drives the run adds them up to `RunFigures`, at most once a second. Counts grow over
one generation, so a lost report loses nothing; `RunFigures.events` and `outputs` go on over generations. Times of clocks are seconds
since 1970; keys are times of events, in the unit of the plan file.

>>> figures = RunFigures(t=12.0, name="sums", streams={"a": StreamFigures(frontier=5), "b": StreamFigures(frontier=3)})
>>> figures.is_over, min(figures.streams, key=lambda name: figures.streams[name].frontier)
(False, 'b')

A meter says where the time of a host goes: to its workers' updates, forks and joins, to its sinks, and to nothing. It reads the clock
once at each change, so the parts add up to the whole.

>>> times = iter(range(0, 100, 10))
>>> meter = Meter(clock=times.__next__)
>>> meter.turn("w0")                     # 0 to 10: nothing
>>> before = meter.enter(FORK)           # 10 to 20: update
>>> _ = meter.enter(before)              # 20 to 30: fork
>>> meter.rest()                         # 30 to 40: update
>>> meter.of("w0"), meter.elapsed
(Spent(update=20.0, fork=10.0, join=0.0, sink=0.0), 40)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from dgs.job.units import TimeUnit

VERSION = 1
"""The version of the figures, in the first line of their file. It changes when a field changes its meaning or is removed."""

WaitKind = Literal["stream", "parent", "child"]
Phase = Literal["starting", "running", "stopping", "restarting", "done", "stopped", "failed"]
Way = Literal["down", "up", "input", "news"]

OVER: tuple[Phase, ...] = ("done", "stopped", "failed")


@dataclass(frozen=True, slots=True)
class Wait:
    """The reason why a worker is held back: it waits for a stream to pass `key`, for its parent's state, or for a child's answer.

    `on`: the stream or the worker. `key`: None if it waits for a state and not for a time. `since`: when it was first seen waiting.
    """

    kind: WaitKind
    on: str
    key: int | None
    since: float


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """Figures of a worker: its host, the events that it processed, and the synchronisations that it took part in.

    `update_seconds`, `fork_seconds`, `join_seconds`: in the program's functions and the code around them. `idle_seconds`: the rest.
    `held_events`, `held_bytes`: those that wait here. `is_compiled`: whether machine code folds its events, None if nothing is compiled;
    the other fields are about that. `compiled_events`, `interpreted_events`: folded by machine code, and one by one. `deviations`: how many
    of the latter the machine code met and gave back. `loops_compiled`: compiled for this worker, in `compile_seconds`; `loops_cached`:
    taken from the cache. `why_interpreted`: what the compiler does not accept.
    """

    host: int
    events: int = 0
    synchronisations: int = 0
    outputs: int = 0
    update_seconds: float = 0.0
    fork_seconds: float = 0.0
    join_seconds: float = 0.0
    idle_seconds: float = 0.0
    waits_for: Wait | None = None
    held_events: int = 0
    held_bytes: int = 0
    is_compiled: bool | None = None
    compiled_events: int = 0
    interpreted_events: int = 0
    deviations: int = 0
    loops_compiled: int = 0
    loops_cached: int = 0
    compile_seconds: float = 0.0
    why_interpreted: str = ""

    @property
    def busy_seconds(self) -> float:
        """The seconds in which the worker did anything."""
        return self.update_seconds + self.fork_seconds + self.join_seconds


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """Figures of a declared stream.

    `rows`: read from the source. `events`: of these, given to workers. `frontier`: everything before it has been read; None before the
    first row. `newest`: the time of the newest event. `lag_seconds`: how far the frontier is behind the clock, for times that are dates.
    `behind`: how far it is behind the newest event of all streams. `heard`: when it last brought something. `held`: events that wait to be
    put in order. `share`: the share of its input that is read, 0 to 1, if that is known.
    """

    rows: int = 0
    events: int = 0
    frontier: int | None = None
    newest: int | None = None
    has_ended: bool = False
    lag_seconds: float | None = None
    behind: int | None = None
    heard: float | None = None
    held: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    share: float | None = None


@dataclass(frozen=True, slots=True)
class SinkFigures:
    """Figures of a sink. `seconds`: spent in it. `epoch`: the last one that is committed. `bytes`: of files, 0 for others.

    `waits`: a sentence about the other process that it waits for, `since` when it was first seen waiting.
    """

    outputs: int = 0
    bytes: int = 0
    seconds: float = 0.0
    epoch: int = 0
    waits: str | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class PairFigures:
    """The traffic from one host to another."""

    frames: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class HostFigures:
    """Figures of a host. Workers and streams are those on it; a stream may be read by several hosts, in splits.

    `began`, `ended`, `first_output`: None if that has not happened; only the root's host knows the end. `starved_reads`: reads while a
    buffer was full, from the source that was furthest behind (R11). `sent`: bytes by the child of an edge and the direction. `pairs`: by
    the host to which it sends. `cpu_seconds`: the processor time of its process.
    """

    host: int = 0
    t: float = 0.0
    process: int = 0
    events_in: int = 0
    outputs: int = 0
    began: float | None = None
    ended: float | None = None
    first_output: float | None = None
    starved_reads: int = 0
    memory_bytes: int = 0
    held_bytes: int = 0
    cpu_seconds: float = 0.0
    workers: Mapping[str, WorkerFigures] = field(default_factory=dict)
    streams: Mapping[str, StreamFigures] = field(default_factory=dict)
    sinks: Mapping[str, SinkFigures] = field(default_factory=dict)
    pairs: Mapping[int, PairFigures] = field(default_factory=dict)
    sent: Mapping[tuple[str, Way], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostSummary:
    """The part of a host's figures that goes into those of its run. `heard`: when its last report came."""

    process: int = 0
    heard: float = 0.0
    memory_bytes: int = 0
    held_bytes: int = 0
    starved_reads: int = 0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Move:
    """A move to a plan that the run itself proposed: its workers, the predicted gain, and events per second before and after.

    `after`: None if the run ended before it could be measured.
    """

    workers: int
    predicted: float
    before: float
    after: float | None = None


@dataclass(frozen=True, slots=True)
class CheckpointFigures:
    """The checkpoints of a run: commits, failures, seconds in commits, bytes of the last state.

    `outputs`: committed since the process began. `epoch`: the newest committed one, also from an earlier process. `events`: in
    its state, if this process committed it. `last_seconds`, `at`: how long the last commit took, and when it was.
    """

    committed: int = 0
    failed: int = 0
    seconds: float = 0.0
    state_bytes: int = 0
    outputs: int = 0
    epoch: int = 0
    events: int = 0
    last_seconds: float = 0.0
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of a run, under one plan on some hosts. `why`: the reason why it ended, empty while it goes on."""

    number: int
    began: float
    workers: int = 0
    hosts: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of a run at a time `t`: everything that its page, progress, metrics and report show.

    `events`: read, with those in the state from which the run went on, `events_before`. `outputs`: made by this process. `began`: when
    this process began the run. `seconds`: of work in it. `pairs`: by "0>1", what host 0 has sent to host 1. `restarts`: generations that
    were lost. `moves`: to other plans, by `replan: auto`. `skipped`: events that `on_error: skip` left out. `waited`: the watchdog's
    sentences, None without a watchdog. `generations`: the latest ones.
    """

    t: float = 0.0
    name: str = ""
    unit: TimeUnit = "none"
    phase: Phase = "starting"
    began: float = 0.0
    generation: int = 0
    events: int = 0
    events_before: int = 0
    outputs: int = 0
    seconds: float = 0.0
    first_output_seconds: float | None = None
    skipped: int = 0
    restarts: int = 0
    hosts: Mapping[int, HostSummary] = field(default_factory=dict)
    workers: Mapping[str, WorkerFigures] = field(default_factory=dict)
    streams: Mapping[str, StreamFigures] = field(default_factory=dict)
    sinks: Mapping[str, SinkFigures] = field(default_factory=dict)
    pairs: Mapping[str, PairFigures] = field(default_factory=dict)
    sent: Mapping[str, int] = field(default_factory=dict)
    checkpoints: CheckpointFigures = field(default_factory=CheckpointFigures)
    generations: tuple[Generation, ...] = ()
    moves: tuple[Move, ...] = ()
    waited: tuple[str, ...] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.phase in OVER

    @property
    def reached(self) -> dict[str, float]:
        """The counts and the seconds so far, by their names in results.json."""
        counts = {"events_in": self.events, "outputs": self.outputs, "restarts": self.restarts}
        return {**counts, "seconds": self.seconds}

    @property
    def starved_reads(self) -> int:
        """The reads of all hosts while a buffer was full."""
        return sum(host.starved_reads for host in self.hosts.values())

    @property
    def held_events(self) -> int:
        """The events that wait at workers."""
        return sum(worker.held_events for worker in self.workers.values())


UPDATE, FORK, JOIN, SINK = range(4)
"""The activities of a worker in its turn. Whatever is none of the others counts as update."""


class Spent(NamedTuple):
    """The seconds of a worker so far. `sink`: while sinks took its outputs."""

    update: float = 0.0
    fork: float = 0.0
    join: float = 0.0
    sink: float = 0.0


class NoMeter:
    """A meter that measures nothing, and asks no clock."""

    def turn(self, worker: str) -> None:
        """Note that a worker begins to act."""

    def enter(self, part: int) -> int:  # noqa: ARG002 - the signature of Meter
        """Note that the worker begins a part of its work; return the part that it was in."""
        return UPDATE

    def rest(self) -> None:
        """Note that no worker acts."""

    def of(self, worker: str) -> Spent:  # noqa: ARG002 - the signature of Meter
        """Return the seconds of a worker so far."""
        return Spent()

    @property
    def elapsed(self) -> float:
        """The seconds since the meter began."""
        return 0.0


NO_METER = NoMeter()


class Meter(NoMeter):
    """Measures. `clock`: seconds, of which only differences matter."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = self._last = clock()
        self._spent: dict[str, list[float]] = {}
        self._account, self._part = [0.0] * 4, UPDATE  # the first account is nobody's

    def _pass(self) -> None:
        now = self._clock()
        self._account[self._part] += now - self._last
        self._last = now

    def turn(self, worker: str) -> None:
        """Note that a worker begins to act."""
        self._pass()
        self._account = self._spent.setdefault(worker, [0.0] * 4)
        self._part = UPDATE

    def enter(self, part: int) -> int:
        """Note that the worker begins a part of its work; return the part that it was in."""
        # Inlined: this runs several times per synchronisation.
        before, now = self._part, self._clock()
        self._account[before] += now - self._last
        self._last, self._part = now, part
        return before

    def rest(self) -> None:
        """Note that no worker acts."""
        self._pass()
        self._account, self._part = [0.0] * 4, UPDATE

    def of(self, worker: str) -> Spent:
        """Return the seconds of a worker so far."""
        return Spent(*self._spent.get(worker, ()))

    @property
    def elapsed(self) -> float:
        """The seconds since the meter began."""
        return self._last - self._began
