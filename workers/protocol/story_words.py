"""A story in words: a sentence for every note, on a line of its own.

>>> from dgs.model.dependence import Dependence
>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.planner.plan import Plan, PlanNode
>>> from dgs.workers.protocol.messages import EpochClosed, JoinAnswer, JoinRequest
>>> from dgs.workers.protocol.story import Story
>>> story = Story(0, Lanes(Plan(PlanNode("w0", ImplTagSet.of(), (PlanNode("w1", ImplTagSet.of()),))), Dependence()))
>>> story.takes("w1", JoinRequest(14, None, None, epoch=3))
>>> story.tick(2.5)
>>> story.takes("w0", JoinAnswer("w1", 14, ["state"], {}))
>>> story.gives("w0", EpochClosed(3))
>>> entries = entries_of(story.log)
>>> for line in as_lines(entries, when=lambda time: f"at {time}"):
...     print(line)
at 0.0  host 0  w1 takes request 14, for the state at the end of epoch 3
at 2.5  host 0  w0 takes the answer of w1 to request 14
at 2.5  host 0  w0 closes epoch 3
>>> [entry.workers for entry in entries]
[('w1',), ('w1', 'w0'), ('w0',)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.story import Brief, Log, Note, Span

MOST_NAMES = 8
"""A sentence names at most this many workers. The entry has the names of all."""


@dataclass(frozen=True, slots=True)
class StoryEntry:
    """Something that happened, in words, with its host (None: the driver) and the workers it concerns.

    `time`: seconds since 1970, or steps of a simulation.
    """

    time: float
    generation: int
    host: int | None
    text: str
    workers: tuple[str, ...] = ()


def entries_of(log: Log, *, shown: Callable[[int], str] = str) -> list[StoryEntry]:
    """Return the entries of a log, the oldest first. `shown` gives the text of a time of events."""
    return [_entry(note, shown) for note in log.copy()]


def as_lines(entries: Iterable[StoryEntry], *, when: Callable[[float], str]) -> Iterator[str]:
    """Yield a line for each entry, and one where another generation begins. `when` gives the text of a time."""
    generation: int | None = None
    for entry in entries:
        if generation not in (None, entry.generation):
            yield f"generation {entry.generation}:"
        generation = entry.generation
        place = "driver" if entry.host is None else f"host {entry.host}"
        yield f"{when(entry.time)}  {place}  {entry.text}"


def _entry(note: Note, shown: Callable[[int], str]) -> StoryEntry:
    story, time, workers, (what, *details) = note
    words = _Words(story.lanes, shown, tuple(workers))
    text = getattr(words, what)(*details)
    return StoryEntry(time, story.generation, story.host, text, tuple(dict.fromkeys(words.workers)))


class _Words:
    """The words of one note, with a method for each kind. `who`: the workers that acted; `workers`: all that it concerns."""

    def __init__(self, lanes: Lanes | None, shown: Callable[[int], str], who: tuple[str, ...]) -> None:
        self._lanes, self._shown, self._who = lanes, shown, who
        self.workers = list(who)

    def says(self, text: str, worker: str | None) -> str:
        self.workers += [] if worker is None else [worker]
        return text

    def reads(self, source: str, rows: int, frontier: OrderKey) -> str:
        return f"reads {counted(rows, 'event')} of source {source!r}, which {self._place(frontier)}"

    def receives(self, sender: int, sequence: int, count: int) -> str:
        return f"receives frame {sequence} of host {sender}, with {counted(count, 'message')}"

    def sends(self, host: int, sequence: int, count: int, some: Sequence[tuple[str, Brief]]) -> str:
        parts = [f"for {self._named(target)}, {self._message(*brief)}" for target, brief in some]
        parts += [f"and {count - len(some)} more"] if count > len(some) else []
        return f"sends frame {sequence} to host {host}: {'; '.join(parts) or 'how far its sources are'}"

    def events(self, lane: int, span: Span) -> str:
        return f"{self._take()} {self._events(lane, span)}"

    def requests(self, number: int, lane: int | None, span: Span | None, epoch: int) -> str:
        return f"{self._take()} {self._requests(number, lane, span, epoch)}"

    def parts(self) -> str:
        return f"{self._take()} {'its part' if len(self._who) == 1 else 'their parts'} of the state"

    def answers(self, parent: str, number: int, count: int) -> str:
        noun = "answer" if len(self._who) == 1 else "answers"
        return f"{self._named(parent)} takes the {noun} of {_listed(self._who)} to {_numbered(number, count)}"

    def wishes(self, lane: int | None, ts: int) -> str:
        verb = "is" if len(self._who) == 1 else "are"
        return f"{_listed(self._who)} {verb} asked to prepare {self._event(lane, ts)}"

    def prepared(self, child: str, lane: int | None, ts: int) -> str:
        return f"{_listed(self._who)} hears that {self._named(child)} is prepared for {self._event(lane, ts)}"

    def outputs(self, stream: str, span: Span) -> str:
        made = f"{counted(span[0], 'output')} for events of {stream!r} {self._times(span)}"
        return f"{_listed(self._who)} makes {made}"

    def skips(self, stream: str, span: Span) -> str:
        return f"{_listed(self._who)} leaves out the event of {stream!r} {self._times(span)}"

    def shows(self, epoch: int) -> str:
        return f"{_listed(self._who)} shows the whole state at the end of epoch {epoch}"

    def closes(self, epoch: int) -> str:
        return f"{_listed(self._who)} closes epoch {epoch}"

    def _message(self, what: str, *details: object) -> str:
        phrase: Callable[..., str] = getattr(self, f"_{what}")
        return phrase(*details)

    def _frontiers(self, count: int) -> str:
        return f"how far {counted(count, 'lane')} {'is' if count == 1 else 'are'}"

    def _parts(self) -> str:
        return "its part of the state"

    def _events(self, lane: int, span: Span) -> str:
        return f"{counted(span[0], 'event')} of {self._stream(lane)} {self._times(span)}"

    def _requests(self, number: int, lane: int | None, span: Span | None, epoch: int) -> str:
        if lane is None or span is None:
            return f"request {number}, for the state at the end of epoch {epoch}"
        return f"{_numbered(number, span[0])}, for the state before {self._events(lane, span)}"

    def _answers(self, child: str, number: int, count: int) -> str:
        return f"the answer of {self._named(child)} to {_numbered(number, count)}"

    def _wishes(self, lane: int | None, ts: int) -> str:
        return f"the wish to prepare {self._event(lane, ts)}"

    def _prepared(self, child: str, lane: int | None, ts: int) -> str:
        return f"that {self._named(child)} is prepared for {self._event(lane, ts)}"

    def _event(self, lane: int | None, ts: int) -> str:
        return (
            "the end of all streams"
            if lane is None
            else f"the event of {self._stream(lane)} at {self._shown(ts)}"
        )

    def _take(self) -> str:
        return f"{_listed(self._who)} {'takes' if len(self._who) == 1 else 'take'}"

    def _named(self, worker: str) -> str:
        self.workers.append(worker)
        return worker

    def _stream(self, lane: int) -> str:
        return f"lane {lane}" if self._lanes is None else repr(self._lanes.all[lane].stream)

    def _place(self, frontier: OrderKey) -> str:
        if frontier >= END:
            return "has ended"
        return "has not begun" if frontier <= BEGIN else f"has come to {self._shown(frontier.ts)}"

    def _times(self, span: Span) -> str:
        _, first, last = span
        if first == last:
            return f"at {self._shown(first)}"
        return f"from {self._shown(first)} to {self._shown(last)}"


def _listed(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES} more"
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def _numbered(number: int, count: int) -> str:
    return f"request {number}" if count == 1 else f"requests {number} to {number + count - 1}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "worker"), counted(1200, "worker")
    ('1 worker', '1,200 workers')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
