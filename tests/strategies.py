"""Random inputs for the programs of tests/programs.py: workloads (many ties, overlapping streams), events, wire diagrams.

Everything is built from a `random.Random`, so one builder serves seeds (the simulations) and Hypothesis, which shrinks it: `workloads()`
and `diagrams()` are the same builders driven by Hypothesis. The same seed gives the same workload in every process.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence, Rule
from dgs.model.events import Event, EventBatch
from dgs.model.order import Heartbeat
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag, kind
from dgs.semantics import wire_diagrams
from tests import programs
from tests.programs import (
    BARRIER,
    CELL,
    INC,
    ITEM,
    MINUTE,
    READ,
    UPDATE,
    VALUE,
    VIEW,
    A,
    B,
    ChainHistory,
    Counters,
    EchoWindow,
    EventWindow,
    History,
    LastValueJoin,
    Neighbours,
    SmartHome,
    SumCounters,
    WindowsAtOnce,
)

MOST_EVENTS = 12
"""The most events per stream by default."""


@dataclass(frozen=True)
class Workload:
    """A program and its input, one entry per stream in rank order.

    `tags`: the possible tags of each stream (a tag may be on several); `batches`: its events; `feeds`: the same batches with
    true heartbeats between them.
    """

    program: Program
    stream_ids: list[str]
    tags: list[TagSet]
    batches: list[list[EventBatch]]
    feeds: list[list[EventBatch | Heartbeat]]

    @property
    def events(self) -> int:
        """The number of events."""
        return sum(len(batch) for stream in self.batches for batch in stream)

    def __repr__(self) -> str:
        lines = [f"{type(self.program).__name__} {getattr(self.program, 'dependence', '')!r}"]
        for stream, tags, batches in zip(self.stream_ids, self.tags, self.batches, strict=True):
            rows = [(e.ts, e.tag, e.payload) for batch in batches for e in batch.events()]
            lines.append(f"  {stream} {tags!r}: {rows}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Subject:
    """A program of tests/programs.py with its possible tags, and payloads made from a number unique in the workload."""

    make: Callable[[random.Random], Program]
    tags: Callable[[random.Random], list[Tag]]
    payload: Callable[[random.Random, int], Any]


def chance(rnd: random.Random, probability: float) -> bool:
    """Return True with a probability; Hypothesis shrinks to False."""
    return rnd.random() > 1 - probability


def _small(rnd: random.Random, _number: int) -> int:
    return rnd.randint(1, 20)


def _number(_rnd: random.Random, number: int) -> int:
    return number


SYMBOLS = [kind("p", key=(0, 1)), kind("q", key=(0, 1)), kind("r")]


def random_dependence(rnd: random.Random) -> Dependence:
    """Return a random relation on SYMBOLS: rules between kinds, or any symmetric relation, pair by pair."""
    pairs = [(a, b) for i, a in enumerate(SYMBOLS) for b in SYMBOLS[i:]]
    if chance(rnd, 0.5):
        return Dependence(*(Rule(a, b, rnd.choice([ALWAYS, SAME_KEY])) for a, b in pairs if chance(rnd, 0.5)))
    tags = symbol_tags(rnd)
    dependent = {frozenset([a, b]) for i, a in enumerate(tags) for b in tags[i:] if chance(rnd, 0.4)}
    return Dependence.from_function(lambda a, b: frozenset([a, b]) in dependent, tags)


def symbol_tags(_rnd: random.Random) -> list[Tag]:
    """Return all tags of SYMBOLS."""
    return [tag for one in SYMBOLS for tag in (map(one, one.domain) if one.is_keyed else [one()])]


def _keyed(*kinds: Any) -> Callable[[random.Random], list[Tag]]:
    return lambda rnd: [one(key) for key in range(rnd.randint(1, 3)) for one in kinds]


SUBJECTS: dict[str, Subject] = {
    "history": Subject(lambda rnd: History(random_dependence(rnd)), symbol_tags, _number),
    "chain_history": Subject(lambda _: ChainHistory(), lambda _: [ITEM(k) for k in range(6)], _number),
    "counters": Subject(lambda _: Counters(), _keyed(INC, READ), _small),
    "event_window": Subject(lambda _: EventWindow(), lambda rnd: [BARRIER(), *_keyed(VALUE)(rnd)], _small),
    "windows_at_once": Subject(
        lambda _: WindowsAtOnce(), lambda rnd: [BARRIER(), *_keyed(VALUE)(rnd)], _small
    ),
    "echo_window": Subject(lambda _: EchoWindow(), lambda rnd: [BARRIER(), *_keyed(VALUE)(rnd)], _small),
    "sum_counters": Subject(lambda _: SumCounters(), _keyed(INC, READ), _small),
    "last_value_join": Subject(lambda _: LastValueJoin(), _keyed(UPDATE, VIEW), _number),
    "smart_home": Subject(lambda _: SmartHome(), lambda _: [MINUTE(), A(1), A(2), B()], _small),
    "neighbours": Subject(lambda _: Neighbours(), lambda _: [CELL(k) for k in range(5)], _small),
}
"""All programs of tests/programs.py by name."""


def random_workload(
    rnd: random.Random, subject: str | None = None, *, most_events: int = MOST_EVENTS
) -> Workload:
    """Return a random workload of the named subject (default: any), with at most `most_events` events per stream."""
    chosen = SUBJECTS[rnd.choice(list(SUBJECTS)) if subject is None else subject]
    tags = chosen.tags(rnd)
    arrivals = _arrivals(rnd, tags)
    sets, feeds = [], []
    numbers = iter(range(1, 1_000_000))
    for rank, mine in enumerate(arrivals):
        symbolic = chance(rnd, 0.3)
        sets.append(TagSet.of(*mine) if not symbolic else _whole_kinds(mine))
        rows = rnd.choice([0, 1, 3, most_events, most_events])
        batches = _stream(rnd, rank, mine, [chosen.payload(rnd, next(numbers)) for _ in range(rows)])
        feeds.append(_with_heartbeats(rnd, f"s{rank}", batches))
    ids = [f"s{rank}" for rank in range(len(arrivals))]
    only = [[item for item in feed if isinstance(item, EventBatch)] for feed in feeds]
    return Workload(chosen.make(rnd), ids, sets, only, feeds)


def _arrivals(rnd: random.Random, tags: list[Tag]) -> list[list[Tag]]:
    """Return which tags arrive on which stream: each tag on one to three streams, several on one, no stream without."""
    streams: list[list[Tag]] = [[] for _ in range(rnd.randint(1, 5))]
    for tag in tags:
        for stream in rnd.sample(range(len(streams)), min(rnd.choice([1, 1, 2, 3]), len(streams))):
            streams[stream].append(tag)
    return [stream for stream in streams if stream]


def _whole_kinds(tags: Sequence[Tag]) -> TagSet:
    """Return all tags of the kinds of `tags`, as declared by a source with the key in a column."""
    declared = {str(one): one for one in _every_kind()}
    return TagSet.of(*(declared[tag.kind] for tag in tags))


def _every_kind() -> list[Any]:
    return [*SYMBOLS, *(one for one in vars(programs).values() if isinstance(one, type(INC)))]


def _stream(rnd: random.Random, rank: int, tags: list[Tag], payloads: list[Any]) -> list[EventBatch]:
    """Return the events of a stream in random batches: timestamps with many ties, raw row numbers with gaps."""
    ts, seq, step = rnd.choice([0, 0, 1, 7]), rnd.choice([0, 0, 5]), rnd.choice([0.2, 0.6, 0.9])
    rows = []
    for payload in payloads:
        ts += rnd.randint(2, 9) if chance(rnd, 0.05) else int(chance(rnd, step))
        rows.append((ts, seq, rnd.randrange(len(tags)), payload))
        seq += 3 if chance(rnd, 0.1) else 1
    batches = []
    while rows:
        size = rnd.choice([1, 1, 2, 5, len(rows)])
        batches.append(_batch(rnd, rank, tags, rows[:size]))
        rows = rows[size:]
    return batches


def _batch(
    rnd: random.Random, rank: int, tags: list[Tag], rows: list[tuple[int, int, int, Any]]
) -> EventBatch:
    ts, seq, codes, payload = (list(column) for column in zip(*rows, strict=True))
    column: Any = np.array(payload) if chance(rnd, 0.3) else payload
    if len(set(codes)) == 1 and chance(rnd, 0.8):
        only = [tags[codes[0]]]
        return EventBatch.of(f"s{rank}", rank=rank, tags=only, ts=ts, seq=seq, payload=column)
    return EventBatch.of(f"s{rank}", rank=rank, tags=tags, codes=codes, ts=ts, seq=seq, payload=column)


def _with_heartbeats(
    rnd: random.Random, stream: str, batches: list[EventBatch]
) -> list[EventBatch | Heartbeat]:
    """Put heartbeats before some batches (everything later is later) and at the end."""
    feed: list[EventBatch | Heartbeat] = []
    last = -5
    for batch in batches:
        first = int(batch.ts[0])
        if first > last and chance(rnd, 0.4):
            feed.append(Heartbeat(stream, rnd.randint(last, first - 1)))
        feed.append(batch)
        last = int(batch.ts[-1])
    if chance(rnd, 0.4):
        feed.append(Heartbeat(stream, last + rnd.choice([0, 3, 50])))
    return feed


def workloads(subject: str | None = None, *, most_events: int = MOST_EVENTS) -> st.SearchStrategy[Workload]:
    """Return a strategy of workloads."""
    randoms = st.randoms(use_true_random=False)
    return st.builds(lambda rnd: random_workload(rnd, subject, most_events=most_events), randoms)


def diagrams(program: Program, events: Sequence[Event]) -> st.SearchStrategy[wire_diagrams.Diagram]:
    """Return a strategy of the wire diagrams of `program` over `events` in that order."""
    return st.builds(lambda rnd: random_diagram(rnd, program, events), st.randoms(use_true_random=False))


def random_diagram(rnd: random.Random, program: Program, events: Sequence[Event]) -> wire_diagrams.Diagram:
    """Return a random wire diagram (Definition 2.2) that processes `events`, in that order up to independence."""
    return _Diagrams(rnd, program, events).wire(list(events), program.states()[0], TagSet.everything(), 0)


class _Diagrams:
    """The recursive builder: a wire of some state type and predicate, and its events."""

    def __init__(self, rnd: random.Random, program: Program, events: Sequence[Event]) -> None:
        self.rnd = rnd
        self.program = program
        self.tags = list(dict.fromkeys(event.tag for event in events))
        self.types = {one.name: one for one in program.states()}

    def wire(self, events: list[Event], of: StateType, tags: TagSet, depth: int) -> wire_diagrams.Diagram:
        """Return a diagram: successive pieces, each an update or a fork that takes as many events as it can."""
        parts: list[wire_diagrams.Diagram] = []
        pairs = [pair for pair in self.program.fork_joins() if pair.parent == of.name]
        while events or (pairs and chance(self.rnd, 0.2)):
            if pairs and depth < 4 and chance(self.rnd, 0.6):
                part, events = self.parallel(events, self.rnd.choice(pairs), tags, depth)
                parts.append(part)
            elif events:
                parts.append(wire_diagrams.Update(events[0]))
                events = events[1:]
        return parts[0] if len(parts) == 1 else wire_diagrams.Sequence(tuple(parts))

    def parallel(
        self, events: list[Event], pair: ForkJoin, tags: TagSet, depth: int
    ) -> tuple[wire_diagrams.Parallel, list[Event]]:
        """Fork with random independent predicates; take the longest prefix of `events` that they cover."""
        mine, yours = random_sides(self.rnd, self.program, pair, tags, self.tags)
        left, right = [], []
        while events and (events[0].tag in mine or events[0].tag in yours):
            tag = events[0].tag
            either = tag in mine and tag in yours
            (left if tag in mine and not (either and chance(self.rnd, 0.5)) else right).append(events[0])
            events = events[1:]
        diagram = wire_diagrams.Parallel(
            pair.name,
            self.wire(left, self.types[pair.left], mine, depth + 1),
            mine,
            self.wire(right, self.types[pair.right], yours, depth + 1),
            yours,
        )
        return diagram, events


def random_sides(
    rnd: random.Random, program: Program, pair: ForkJoin, tags: TagSet, seen: Sequence[Tag]
) -> tuple[TagSet, TagSet]:
    """Return two independent predicates over the tags `seen`, within `tags` and the tags of the two state types."""
    left, right = TagSet(), TagSet()
    types = {one.name: one for one in program.states()}
    accumulating = TagSet.of(*program.accumulating) if program.has_derived_fork else TagSet.everything()
    distinct = list(dict.fromkeys(seen))
    for tag in rnd.sample(distinct, len(distinct)):
        one = TagSet.of(tag)
        for _ in range(2):
            to_left = chance(rnd, 0.5)
            other = right if to_left else left
            handles = types[pair.left if to_left else pair.right].handles
            allowed = one <= tags & handles and not program.dependence.between(one, other)
            if allowed and (one <= accumulating or other <= accumulating):
                left, right = (left | one, right) if to_left else (left, right | one)
    return left, right
