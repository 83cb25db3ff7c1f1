"""Why a run makes no progress: a sentence made from the mailboxes, and a watchdog that says it. The caller gives times and ages.

>>> wait = Wait("w3", "rules", OrderKey(1_000, 0, 0))
>>> quiet = Standing((wait,), {"rules": OrderKey(40, 0, 0)}, {"rules": 12.2}, held=5_000)
>>> sentence([quiet], unit="none")
"worker w3 waits for stream 'rules' to pass 1000; last heard 12 s ago; 5,000 events held"
>>> sentence([Standing((), {"rules": OrderKey(40, 0, 0)}, {"rules": 70.0}, held=0)], unit="none")
"all events are processed; stream 'rules' has not ended, last heard 70 s ago"

The watchdog reports once per interval.

>>> said = []
>>> dog = Watchdog(after=10.0, now=0.0, notify=said.append)
>>> dog.is_due(5, now=9.0), dog.is_due(5, now=19.5), dog.is_due(5, now=20.0), dog.is_due(6, now=30.0)
(False, True, False, False)
>>> dog.say("worker w0 waits")
>>> said, dog.sentences
(['still waiting: worker w0 waits'], ['worker w0 waits'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dgs.job.units import TimeUnit
from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.observing.blame import shown_time
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.worker import Worker
from dgs.workers.recovery.positions import declared

LONGEST_SILENCE = 300.0
"""The longest time in seconds between two messages about missing progress, unless the first one comes later still."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A worker that holds events or requests back until a stream has passed `key`."""

    worker: str
    stream: str
    key: OrderKey


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of one host: what its workers wait for, and the frontiers and ages of the streams that it reads.

    An age is the number of seconds since the stream was last heard. `held`: the number of events that wait.
    `sink`: a sentence about a sink that waits for another process.
    """

    waits: tuple[Wait, ...]
    frontiers: Mapping[str, OrderKey]
    ages: Mapping[str, float]
    held: int
    sink: str | None = None


def waits_of(workers: Iterable[Worker], lanes: Lanes) -> tuple[Wait, ...]:
    """Return the wait of each worker that holds events or join requests back."""
    found = ((worker.id, worker.mailbox.missing()) for worker in workers)
    return tuple(
        Wait(id_, declared(lanes.all[what[0]].stream)[0], what[1]) for id_, what in found if what is not None
    )


def sentence(standings: Sequence[Standing], *, unit: TimeUnit) -> str:
    """Return a sentence on what a run waits for, given the state of each host."""
    whole = _merged(standings)
    if whole.sink is not None:  # nothing else goes on here meanwhile
        return whole.sink
    wait = _longest_wait(whole)
    running = [stream for stream, key in whole.frontiers.items() if key < END]
    if wait is not None:
        return _about_wait(wait, whole, unit)
    if whole.held or not running:
        return _about_nothing(whole)
    return _about_streams(running, whole)


def _merged(standings: Sequence[Standing]) -> Standing:
    """Return the states of all hosts as one. If several read splits of one stream, the one furthest behind counts."""
    frontiers: dict[str, OrderKey] = {}
    for stream, key in (one for standing in standings for one in standing.frontiers.items()):
        frontiers[stream] = min(key, frontiers.get(stream, END))
    return Standing(
        tuple(wait for standing in standings for wait in standing.waits),
        frontiers,
        {stream: age for standing in standings for stream, age in standing.ages.items()},
        sum(standing.held for standing in standings),
        next((standing.sink for standing in standings if standing.sink is not None), None),
    )


def _longest_wait(whole: Standing) -> Wait | None:
    """Return the wait for the stream that was heard longest ago, None if no worker waits for a stream.

    A worker may wait for a stream that has already passed its key: then it waits for its parent. So waits for streams that are
    behind come first.
    """
    behind = [wait for wait in whole.waits if whole.frontiers.get(wait.stream, BEGIN) < wait.key]
    return max(
        behind or whole.waits, key=lambda wait: (whole.ages.get(wait.stream, 0.0), wait.key), default=None
    )


def _about_wait(wait: Wait, whole: Standing, unit: TimeUnit) -> str:
    return (
        f"worker {wait.worker} waits for stream {wait.stream!r} to pass {shown_time(wait.key.ts, unit)}; "
        f"last heard {whole.ages.get(wait.stream, 0.0):.0f} s ago; {whole.held:,} events held"
    )


def _about_nothing(whole: Standing) -> str:
    places = [
        f"{stream!r} {'ended' if key >= END else f'at {key.ts}'}" for stream, key in whole.frontiers.items()
    ]
    return f"no worker waits for a stream ({', '.join(places)}); {whole.held:,} events held"


def _about_streams(running: Sequence[str], whole: Standing) -> str:
    ages = [
        f"stream {stream!r} has not ended, last heard {whole.ages.get(stream, 0.0):.0f} s ago"
        for stream in running
    ]
    return f"all events are processed; {'; '.join(ages)}"


class Watchdog:
    """Watches a number that grows with progress, such as events read and outputs made. `after`: seconds; with 0 it is silent.

    Without progress it reports after that time, then after twice that time, and so on up to every LONGEST_SILENCE seconds.
    `notify` gives a sentence to the caller of the run. `sentences`: all of them so far, for the report.
    """

    def __init__(self, *, after: float, now: float, notify: Callable[[str], None]) -> None:
        self._after = self._wait = after
        self._moved: int | None = None
        self._since = now
        self._notify = notify
        self.sentences: list[str] = []

    def is_due(self, moved: int, *, now: float) -> bool:
        """Return whether a message is due: nothing has moved for long enough since the last progress or the last message."""
        if moved != self._moved:
            self._moved, self._since, self._wait = moved, now, self._after
            return False
        if not self._after or now - self._since < self._wait:
            return False
        self._since, self._wait = now, max(self._after, min(2 * self._wait, LONGEST_SILENCE))
        return True

    def say(self, sentence: str) -> None:
        """Tell the caller what the run waits for, and keep it for the report."""
        self.sentences.append(sentence)
        self._notify(f"still waiting: {sentence}")
