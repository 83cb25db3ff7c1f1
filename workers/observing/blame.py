"""Blame: what holds a run back, as one sentence made of its figures. Progress, `dgs top`, the page and reports all use it.

Waits make chains: a worker waits for a child, that one for a stream. The sentence is about the end of a chain, since all others in it wait for that.

>>> from dgs.workers.observing.figures import SinkFigures, WorkerFigures
>>> late = StreamFigures(frontier=40, heard=88.0)
>>> waits = {"w0": WorkerFigures(0, waits_for=Wait("child", "w1", 1_000, 90.0)),
...          "w1": WorkerFigures(0, waits_for=Wait("stream", "rules", 1_000, 89.0), held_events=5_000)}
>>> blame(RunFigures(t=100.0, workers=waits, streams={"rules": late})).sentence
"worker w1 waits for stream 'rules' to pass 1000; last heard 12 s ago; 5,000 events held; 1 more worker waits behind it"
>>> blame(RunFigures(t=100.0, streams={"rules": late})).sentence
"all events are processed; stream 'rules' has not ended, last heard 12 s ago"
>>> blame(RunFigures(t=100.0, streams={"rules": late}), after=20.0) is None
True
>>> locked = SinkFigures(waits="sink 'sqlite' waits for out.db, which another process has locked", since=90.0)
>>> blame(RunFigures(t=100.0, workers=waits, streams={"rules": late}, sinks={"sqlite": locked}), after=2.0).sentence
"sink 'sqlite' waits for out.db, which another process has locked"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dgs.job.units import NANOSECONDS, TimeUnit
from dgs.workers.observing.figures import RunFigures, StreamFigures, Wait

CALENDAR = 10 * 365 * 86_400 * 10**9
"""Times from 1980 on, in nanoseconds, are shown as dates."""


@dataclass(frozen=True, slots=True)
class Blame:
    """The cause that holds a run back: a sink that waits for another process, a stream, or a worker that is at work.

    `chain`: the workers that wait, from the one furthest from the cause to the one that waits for it. `waiting`: all workers that wait for
    the cause. `seconds`: for how long. `short`: in a few words.
    """

    sentence: str
    short: str
    seconds: float
    stream: str | None = None
    worker: str | None = None
    chain: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def blame(figures: RunFigures, *, after: float = 0.0) -> Blame | None:
    """Return what holds a run back, None if nothing does. Waits of less than `after` seconds are part of the work, and do not count."""
    if figures.is_over:
        return None
    if (locked := _locked_out(figures, after)) is not None:  # nothing else goes on at its host meanwhile
        return locked
    waits = {
        name: worker.waits_for
        for name, worker in figures.workers.items()
        if worker.waits_for is not None and figures.t - worker.waits_for.since >= after
    }
    chains = [_chain(name, waits) for name in waits]
    return _worst(figures, waits, chains) if chains else _silence(figures, after)


def _locked_out(figures: RunFigures, after: float) -> Blame | None:
    """Return the sink that has waited longest for another process."""
    found = [
        Blame(sink.waits, f"{name} waits", figures.t - sink.since)
        for name, sink in figures.sinks.items()
        if sink.waits is not None and sink.since is not None and figures.t - sink.since >= after
    ]
    return max(found, key=lambda one: one.seconds, default=None)


def _chain(first: str, waits: Mapping[str, Wait]) -> tuple[str, ...]:
    """Return a chain of workers, each of which waits for the next. The last one waits for a stream, or for no worker that waits."""
    chain = [first]
    while (wait := waits[chain[-1]]).kind != "stream" and wait.on in waits and wait.on not in chain:
        chain.append(wait.on)
    return tuple(chain)


def _worst(figures: RunFigures, waits: Mapping[str, Wait], chains: Sequence[tuple[str, ...]]) -> Blame:
    """Return the cause that was heard longest ago. Streams come before workers, which are at work."""

    def weight(chain: tuple[str, ...]) -> tuple[bool, float, float, int]:
        wait = waits[chain[-1]]
        return wait.kind == "stream", _age(figures, wait.on), figures.t - wait.since, len(chain)

    worst = max(chains, key=weight)
    wait = waits[worst[-1]]
    cause = (wait.kind == "stream", wait.on)
    waiting = {
        name: None
        for chain in chains
        if (waits[chain[-1]].kind == "stream", waits[chain[-1]].on) == cause
        for name in chain
    }
    others = len(waiting) - 1
    sentence = f"{_about(figures, worst[-1], wait)}; {figures.held_events:,} events held"
    if others:
        sentence += f"; {others:,} more worker{' waits' if others == 1 else 's wait'} behind it"
    is_stream = wait.kind == "stream"
    return Blame(
        sentence,
        f"{worst[-1]} waits for {wait.on}",
        figures.t - wait.since,
        stream=wait.on if is_stream else None,
        worker=None if is_stream else wait.on,
        chain=worst,
        waiting=tuple(waiting),
    )


def _about(figures: RunFigures, worker: str, wait: Wait) -> str:
    up_to = "" if wait.key is None else f" to pass {shown_time(wait.key, figures.unit)}"
    if wait.kind == "stream":
        return f"worker {worker} waits for stream {wait.on!r}{up_to}; last heard {_age(figures, wait.on):.0f} s ago"
    who = "the answer of its child" if wait.kind == "child" else "the state from its parent"
    return f"worker {worker} waits for {who} {wait.on} since {figures.t - wait.since:.0f} s"


def _age(figures: RunFigures, stream: str) -> float:
    """Return how many seconds ago a stream was last heard, 0 for a worker."""
    heard = figures.streams.get(stream, StreamFigures()).heard
    return 0.0 if heard is None else max(figures.t - heard, 0.0)


def _silence(figures: RunFigures, after: float) -> Blame | None:
    """Return the silent streams, if all other work is done."""
    running = [name for name, stream in figures.streams.items() if not stream.has_ended]
    ages = {name: _age(figures, name) for name in running}
    if not running or figures.held_events or min(ages.values()) < after:
        return None
    quietest = max(running, key=lambda name: ages[name])
    told = "; ".join(f"stream {name!r} has not ended, last heard {ages[name]:.0f} s ago" for name in running)
    return Blame(
        f"all events are processed; {told}", f"{quietest} is silent", min(ages.values()), stream=quietest
    )


def shown_time(ts: int, unit: TimeUnit) -> str:
    """Return a time of events as text: a date, or a number with its unit.

    >>> shown_time(1_700_000_000, "s"), shown_time(1_700_000_000, "none"), shown_time(1_500, "ms")
    ('2023-11-14 22:13:20', '1700000000', '1500 ms')
    """
    if unit not in NANOSECONDS:
        return str(ts)
    nanoseconds = ts * NANOSECONDS[unit]
    if nanoseconds < CALENDAR:
        return f"{ts} {unit}"
    try:
        return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return f"{ts} {unit}"
