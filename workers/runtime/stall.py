"""Reports of a run that stands still or fails: the reason, a watchdog that tells it, and the story of the run.

The reason why a run makes no progress is a sentence made from the mailboxes. The caller gives times and ages.

>>> wait = Wait("w3", "rules", OrderKey(1_000, 0, 0))
>>> quiet = Standing((wait,), {"rules": OrderKey(40, 0, 0)}, {"rules": 12.2}, held=5_000)
>>> sentence([quiet], unit="none")
"worker w3 waits for stream 'rules' to pass 1000; last heard 12 s ago; 5,000 events held"
>>> sentence([Standing((), {"rules": OrderKey(40, 0, 0)}, {"rules": 70.0}, held=0)], unit="none")
"all events are processed; stream 'rules' has not ended, last heard 70 s ago"

A watchdog notices that a run makes no progress, and says so once per interval.

>>> said = []
>>> dog = Watchdog(after=10.0, now=0.0, notify=said.append)
>>> dog.is_due(5, now=9.0), dog.is_due(5, now=19.5), dog.is_due(5, now=20.0), dog.is_due(6, now=30.0)
(False, True, False, False)
>>> dog.say("worker w0 waits")
>>> said, dog.sentences
(['still waiting: worker w0 waits'], ['worker w0 waits'])

The story of a run has the notes of the driver and of the hosts, as lines in a file of the run directory. It is written when a run fails, stalls, or stops without a checkpoint. A run that ends well leaves none.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "story.jsonl"
>>> story = RunStory(path)
>>> story.begin(1)
>>> story.says("commits epoch 1")
>>> story.hosts = lambda: [StoryEntry(0.0, 1, 0, "w0 closes epoch 1", ("w0",))]
>>> story.write()
>>> [(entry.host, entry.text) for entry in read_story(path)]
[(0, 'w0 closes epoch 1'), (None, 'commits epoch 1')]
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path

from dgs.errors import DgsError
from dgs.errors.hidden_values import masked
from dgs.job import private_files
from dgs.job.units import TimeUnit
from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.observing.blame import shown_time
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.story import MOST_NOTES, Log, Story
from dgs.workers.protocol.story_words import StoryEntry, entries_of
from dgs.workers.protocol.worker import Worker
from dgs.workers.recovery.positions import declared
from dgs.workers.runtime import process

LONGEST_SILENCE = 300.0
"""The longest time in seconds between two messages about missing progress, unless even the first comes later."""


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
    """

    waits: tuple[Wait, ...]
    frontiers: Mapping[str, OrderKey]
    ages: Mapping[str, float]
    held: int


def waits_of(workers: Iterable[Worker], lanes: Lanes) -> tuple[Wait, ...]:
    """Return the wait of each worker that holds events or join requests back."""
    found = ((worker.id, worker.mailbox.missing()) for worker in workers)
    return tuple(
        Wait(id_, declared(lanes.all[what[0]].stream)[0], what[1]) for id_, what in found if what is not None
    )


def sentence(standings: Sequence[Standing], *, unit: TimeUnit) -> str:
    """Return a sentence on what a run waits for, given the state of each host."""
    whole = _merged(standings)
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

    Without progress it speaks after that time, then after twice that time, and so on up to every LONGEST_SILENCE seconds.

    `notify` gives a sentence to the caller of the run. `sentences`: all of them so far, for the report.
    """

    def __init__(self, *, after: float, now: float, notify: Callable[[str], None]) -> None:
        self._after = self._wait = after
        self._moved: int | None = None
        self._since = now
        self._notify = notify
        self.sentences: list[str] = []

    def is_due(self, moved: int, *, now: float) -> bool:
        """Return whether a message is due: nothing has moved for long enough since the last move or the last message."""
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


LONGEST_LINE = 200
"""An entry has at most this many characters of an error. The results have the whole error."""


class RunStory:
    """The latest notes of the driver. `hosts` asks the hosts of the generation for theirs. `path`: the file, None for no file.

    `log` gets every note of the driver, too.
    """

    def __init__(self, path: Path | None, log: Callable[[str], None] = lambda _: None) -> None:
        self._to_log = log
        self._path = path
        self._log: Log = deque(maxlen=MOST_NOTES)
        self._driver = Story(None, log=self._log)
        self.hosts: Callable[[], list[StoryEntry]] = list

    def begin(self, generation: int) -> None:
        """Note that the driver begins a generation. Its hosts have no notes yet."""
        self._driver = Story(None, generation=generation, log=self._log)
        self.hosts = list

    def says(self, text: str) -> None:
        """Note an action of the driver."""
        self._driver.tick(process.now())
        self._driver.says(text)
        self._to_log(text)

    def keep(self) -> None:
        """Ask the hosts for their notes now, before they are gone."""
        found = self.hosts() if self._path is not None else []
        self.hosts = lambda: found

    def write(self) -> None:
        """Write the file, in place of an older one. If that fails, nothing is raised: the run's own error matters more."""
        if self._path is None:
            return
        entries = sorted([*self.hosts(), *entries_of(self._log)], key=attrgetter("time"))
        with suppress(OSError):
            private_files.write(self._path, "".join(map(_line, entries)))

    def forget(self) -> None:
        """Remove the file, since the run has ended well."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


def _line(entry: StoryEntry) -> str:
    return json.dumps({**asdict(entry), "text": masked(entry.text)}) + "\n"


def read_story(path: Path) -> list[StoryEntry]:
    """Return the entries of a file, the oldest first; none if the file does not exist or cannot be read."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [StoryEntry(**{**line, "workers": tuple(line["workers"])}) for line in lines]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []


def in_a_line(error: BaseException) -> str:
    """Return an error in one line, without the trace of user code."""
    trace = error.facts.get("trace") or "" if isinstance(error, DgsError) else ""
    text = " ".join(str(error).removeprefix(masked(trace)).split())
    return f"{type(error).__name__}: {text}"[:LONGEST_LINE]
