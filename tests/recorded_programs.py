"""The programs of the cases recorded from the prototype, and a loader of their inputs and expected outputs.

A tag `["a", 1]` of the recording is `Tag("a", 1)`. The prototype orders equal timestamps by tag in Erlang term order, so the
streams are declared in that order.

>>> wire_form(Tag("a", 1)), wire_form(Tag("b"))
(['a', 1], 'b')
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.events import Event, EventBatch
from dgs.model.order import Heartbeat
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag, kind
from tests.strategies import Workload

CASES = Path(__file__).parents[1].parent / "shared" / "cases"

Emit = Callable[[Any], None]

A, B = kind("a", key=range(1, 5)), kind("b")
UP, DOWN, MAXIMUM = kind("i"), kind("d"), kind("#")
USERS = (1, 2)
GET, PAGE_VIEW, UPDATE = (
    kind(name, key=USERS) for name in ("get_user_address", "page_view", "update_user_address")
)


class ValueBarrier(Program):
    """The sum of all values up to each barrier; it is never reset."""

    depends = Dependence((B, B, ALWAYS), (B, A, ALWAYS))
    accumulates = (A,)

    def init(self) -> int:
        return 0

    def identity(self) -> int:
        return 0

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        if event.tag.kind == A:
            return state + event.payload
        emit(("sum", [["b", event.ts], state]))
        return state

    def join(self, left: Any, right: Any) -> Any:
        return left + right


class Modulo(Program):
    """As ValueBarrier; also outputs values that equal, modulo 100, the timestamp of the last barrier plus one.

    State: (sum, timestamp of the last barrier). Values read the barrier, so both sides of a fork have it.
    """

    depends = Dependence((B, B, ALWAYS), (B, A, ALWAYS))

    def init(self) -> tuple[int, int]:
        return 0, -1

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        total, barrier = state
        if event.tag.kind == B:
            emit(("sum", [["b", event.ts], total]))
            return total, event.ts
        if event.payload % 100 == (barrier + 1) % 100:
            emit((wire_form(event.tag), event.payload))
        return total + event.payload, barrier

    def fork(self, state: Any, left: TagSet, right: TagSet) -> tuple[Any, Any]:
        nothing = (0, state[1])
        return (nothing, state) if B in right else (state, nothing)

    def join(self, left: Any, right: Any) -> Any:
        """Barriers are later than the last one, and where one side has seen one, the other has seen nothing."""
        return left[0] + right[0], max(left[1], right[1])


class IncrementDecrement(Program):
    """`#` outputs the maximum that the running total reached since the last `#`, and resets.

    State: (total, peak); a peak of None belongs to the side of a fork that started from nothing: it only counts, because its
    events all go in the direction of the other side's (increments and decrements depend on each other).
    """

    depends = Dependence(
        (UP, DOWN, ALWAYS), (MAXIMUM, UP, ALWAYS), (MAXIMUM, DOWN, ALWAYS), (MAXIMUM, MAXIMUM, ALWAYS)
    )

    def init(self) -> tuple[int, int | None]:
        return 0, 0

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        total, peak = state
        if event.tag.kind == MAXIMUM:
            emit([peak])
            return 0, 0
        total += 1 if event.tag.kind == UP else -1
        return total, None if peak is None else max(peak, total)

    def fork(self, state: Any, left: TagSet, right: TagSet) -> tuple[Any, Any]:
        nothing = (0, None)
        sees_all = MAXIMUM in right or (UP in right and DOWN in right)
        return (nothing, state) if sees_all else (state, nothing)

    def join(self, left: Any, right: Any) -> Any:
        total = left[0] + right[0]
        peaks = [peak for _, peak in (left, right) if peak is not None]
        return total, max(*peaks, total) if peaks else None


class UserPages(Program):
    """Views of pages joined with the zip code of their user; updates and views of one user depend on each other."""

    depends = Dependence((UPDATE, UPDATE, SAME_KEY), (UPDATE, GET, SAME_KEY), (UPDATE, PAGE_VIEW, SAME_KEY))

    def init(self) -> dict[int, int]:
        return {}

    def update(self, state: Any, event: Event, emit: Emit) -> Any:
        user = event.tag.key
        if event.tag.kind == UPDATE:
            emit((wire_form(event.tag), event.payload))
            state[user] = event.payload[0]
        else:
            emit((event.tag.kind, [user, state.get(user, "no_zipcode"), event.payload]))
        return state

    def fork(self, state: Any, left: TagSet, right: TagSet) -> tuple[Any, Any]:
        theirs = {user: code for user, code in state.items() if _sees(right, user)}
        mine = {user: code for user, code in state.items() if user not in theirs or _sees(left, user)}
        return mine, theirs

    def join(self, left: Any, right: Any) -> Any:
        left.update(right)  # a user on both sides was not updated on either
        return left


def _sees(tags: TagSet, user: int) -> bool:
    return any(one(user) in tags for one in (UPDATE, GET, PAGE_VIEW))


PROGRAMS: dict[str, type[Program]] = {
    "ab_example1": ValueBarrier,
    "ab_example2": ValueBarrier,
    "ab_ties": ValueBarrier,
    "ab_modulo": Modulo,
    "increment_decrement": IncrementDecrement,
    "page_view_join": UserPages,
}
"""The program of every recorded case."""


TAGS: dict[type[Program], list[Tag]] = {
    ValueBarrier: [A(1), A(2), B()],
    Modulo: [A(1), A(2), B()],
    IncrementDecrement: [UP(), DOWN(), MAXIMUM()],
    UserPages: [one(user) for user in USERS for one in (GET, PAGE_VIEW, UPDATE)],
}
"""The tags of each program's inputs."""


@dataclass(frozen=True)
class Recorded:
    """A recorded case: its program and input, and the outputs of every recording, as multisets of `as_json` texts."""

    case: str
    workload: Workload
    outputs: dict[str, Counter[str]]
    sums: dict[str, list[str]]


def recorded(case: str) -> Recorded:
    """Load a case, with its streams in the prototype's order for ties."""
    rows = [_lines(path) for path in sorted((CASES / case).glob("input_*.jsonl.gz"))]
    ordered = sorted(rows, key=lambda stream: _term_order(stream[0]["tag"]))
    feeds = [_feed(rank, stream) for rank, stream in enumerate(ordered)]
    workload = Workload(
        program=PROGRAMS[case](),
        stream_ids=[f"s{rank}" for rank in range(len(feeds))],
        tags=[TagSet.of(_tag(stream[0]["tag"])) for stream in ordered],
        batches=[[item for item in feed if isinstance(item, EventBatch)] for feed in feeds],
        feeds=feeds,
    )
    told = {
        path.stem: [as_json(json.loads(line)) for line in path.read_text().splitlines()]
        for path in sorted((CASES / case).glob("*.jsonl"))
    }
    sums = {name: sums_of(lines) for name, lines in told.items()}
    return Recorded(case, workload, {name: Counter(lines) for name, lines in told.items()}, sums)


def as_json(output: Any) -> str:
    """Return an output in the form of the recordings."""
    return json.dumps(output, separators=(",", ":"))


def sums_of(lines: list[str]) -> list[str]:
    """Return the outputs of the synchronising tag, which come in the order of time."""
    return [line for line in lines if line.startswith('["sum"')]


def wire_form(tag: Tag) -> Any:
    """Return a tag in the form of the recordings."""
    return tag.kind if tag.key is None else [tag.kind, tag.key]


def _lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def _tag(spelled: str | list[Any]) -> Tag:
    return Tag(spelled) if isinstance(spelled, str) else Tag(*spelled)


def _term_order(spelled: str | list[Any]) -> tuple[Any, ...]:
    """Order tags as Erlang does: atoms before tuples, these by size and then element by element."""
    return (0, [spelled]) if isinstance(spelled, str) else (len(spelled), spelled)


def _feed(rank: int, rows: list[dict[str, Any]]) -> list[EventBatch | Heartbeat]:
    """Return a stream as batches, cut where the recording has heartbeats."""
    feed: list[EventBatch | Heartbeat] = []
    start = 0
    for number, row in enumerate([*rows, {"kind": "end"}]):
        if row["kind"] == "event":
            continue
        if number > start:
            feed.append(_batch(rank, rows[start:number], start))
        if row["kind"] == "heartbeat":
            feed.append(Heartbeat(f"s{rank}", row["ts"]))
        start = number + 1
    return feed


def _batch(rank: int, rows: list[dict[str, Any]], first: int) -> EventBatch:
    return EventBatch.of(
        f"s{rank}",
        rank=rank,
        tags=[_tag(rows[0]["tag"])],
        ts=[row["ts"] for row in rows],
        seq=range(first, first + len(rows)),
        payload=[row["payload"] for row in rows],
    )
