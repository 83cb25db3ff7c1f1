"""Synchronisations at a worker with children: those in flight, in order, with the children's answers; and the next one, in preparation.

A synchronisation in flight cannot be withdrawn, and a request for a checkpoint waits for it. So if synchronisations are rare, and the
children have much to process before the next one, the worker asks them to *prepare* it: to say when they have processed that. Only then it
is announced, and it is complete after a round trip. Until then a checkpoint goes first. The root's last request, which waits for
everything, is prepared too.

>>> preparations, read = Preparations(["w1", "w2"]), Prepare(0, OrderKey(5, 0, 0))
>>> preparations.begin(read), preparations.begin(read)
(True, False)
>>> for child in ("w1", "w2"):
...     preparations.accept(Prepared(child, 0, OrderKey(5, 0, 0)))
>>> preparations.is_met(read)
True
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dgs.errors import InternalError
from dgs.model.events import EventBatch
from dgs.model.order import OrderKey
from dgs.workers.protocol.messages import JoinAnswer, JoinRequest, Prepare, Prepared


@dataclass(frozen=True, slots=True)
class OwnEvents:
    """Own events of one lane that were released together.

    `needs_children`: each event waits for the children's states. Accumulating events go into the base state without them.
    """

    lane: int
    batch: EventBatch
    needs_children: bool

    def __len__(self) -> int:
        return len(self.batch)

    def cut(self, start: int, stop: int) -> OwnEvents:
        """Return the events `start` to `stop` of these."""
        if start == 0 and stop == len(self.batch):
            return self
        return OwnEvents(self.lane, self.batch.cut(start, stop), self.needs_children)

    def count_until(self, ts: int) -> int:
        """Return the number of these events that are at `ts` or before."""
        times = self.batch.ts
        return len(times) if times[-1] <= ts else int(times.searchsorted(ts, side="right"))

    def asked(self, number: int) -> JoinRequest:
        """Return the join requests for these events, numbered from `number` on."""
        return JoinRequest(number, self.lane, self.batch.keys_only())


@dataclass(frozen=True, slots=True)
class ParentRequests:
    """Requests of the parent, or of the runtime at the root: the children's states are joined and handed up."""

    requests: JoinRequest
    needs_children: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.requests)

    def cut(self, start: int, stop: int) -> ParentRequests:
        """Return the requests `start` to `stop` of these."""
        return ParentRequests(self.requests.cut(start, stop))

    def asked(self, number: int) -> JoinRequest:
        """Return the same requests for the children, with this worker's own numbers from `number` on."""
        return replace(self.requests, number=number)


Synchronisation = OwnEvents | ParentRequests
"""One entry in flight. Entries are completed in the order of release."""


class Pending:
    """Synchronisations in release order, and the states that each child has handed up for them."""

    def __init__(self, children: Sequence[str]) -> None:
        self._queue: deque[Synchronisation] = deque()
        self._done = 0  # how many events or requests of the first entry are complete
        self._states: dict[str, deque[Any]] = {child: deque() for child in children}
        self._answered = dict.fromkeys(children, 0)
        self._marks: dict[str, deque[tuple[int, Mapping[int, OrderKey]]]] = {
            child: deque() for child in children
        }
        self._used = 0
        self._asked = 0

    def add(self, entry: Synchronisation) -> int:
        """Append a synchronisation; return the number of its first request to the children."""
        self._queue.append(entry)
        first = self._asked + 1
        if entry.needs_children:
            self._asked += len(entry)
        return first

    def accept(self, answer: JoinAnswer) -> None:
        """Take a child's answer. R4: answers come in the order of the requests, and carry their numbers."""
        expected = self._answered[answer.child] + 1
        last = answer.number + len(answer.states) - 1
        if answer.number != expected or last > self._asked:
            raise InternalError(problem=f"{answer.child} answers {answer.number} where {expected} is next")
        self._answered[answer.child] = last
        self._states[answer.child].extend(answer.states)
        self._marks[answer.child].append((last, answer.positions))

    def take(self, positions: dict[int, OrderKey]) -> tuple[Synchronisation, list[list[Any]]] | None:
        """Remove the part of the first synchronisation that can be completed; return it with the states of each child, or None.

        Updates `positions` to those of the states. Without `needs_children` there are no states.
        """
        if not self._queue:
            return None
        first = self._queue[0]
        count = len(first) - self._done
        if first.needs_children:
            count = min(count, *map(len, self._states.values()))
        if not count:
            return None
        entry = first.cut(self._done, self._done + count)
        self._done += count
        if self._done == len(first):
            self._queue.popleft()
            self._done = 0
        return entry, self._take_states(count, positions) if entry.needs_children else []

    def _take_states(self, count: int, positions: dict[int, OrderKey]) -> list[list[Any]]:
        self._used += count
        for marks in self._marks.values():
            while marks and marks[0][0] <= self._used:
                positions.update(marks.popleft()[1])
        return [[states.popleft() for _ in range(count)] for states in self._states.values()]

    def first_event(self, lane: int) -> OrderKey | None:
        """Return the key of the first own event of a lane that is released but not complete."""
        done = self._done
        for entry in self._queue:
            if isinstance(entry, OwnEvents) and entry.lane == lane:
                return entry.batch.key(done)
            done = 0
        return None

    @property
    def ends_with_requests(self) -> bool:
        """Whether the last synchronisation is a request of the parent."""
        return bool(self._queue) and isinstance(self._queue[-1], ParentRequests)

    @property
    def own_events(self) -> int:
        """The number of own events that are released but not complete."""
        return sum(len(entry) for entry in self if isinstance(entry, OwnEvents))

    @property
    def slowest(self) -> str:
        """The child that has answered the fewest requests."""
        return min(self._answered, key=self._answered.__getitem__)

    @property
    def first_key(self) -> OrderKey | None:
        """The key of the first event that is not complete: an own one, or the one of a request; None for a keyless request."""
        first = next((entry for entry in self if entry.needs_children), None)
        if isinstance(first, ParentRequests):
            return None if first.requests.keys is None else first.requests.keys.key(0)
        return None if first is None else first.batch.key(0)

    @property
    def in_flight(self) -> int:
        """The number of requests that are announced but not complete."""
        return self._asked - self._used

    def __iter__(self) -> Iterator[Synchronisation]:
        """Yield the synchronisations, in their order, without the parts that are complete."""
        done = self._done
        for entry in self._queue:
            yield entry.cut(done, len(entry))
            done = 0

    def holds_state_of(self, child: str) -> bool:
        """Return whether a state that the child has handed up is here."""
        return bool(self._states[child])

    def broken_invariants(self) -> Iterator[str]:
        """Yield a sentence for each invariant that does not hold."""
        if not 0 <= self._done < (len(self._queue[0]) if self._queue else 1):
            yield f"{self._done} of the first synchronisation count as complete"
            return
        left = sum(len(entry) for entry in self if entry.needs_children)
        if self.in_flight != left:
            yield f"{self.in_flight} requests are in flight, but {left} are wanted"
        for child, answered in self._answered.items():
            if not self._used <= answered <= self._asked:
                yield f"{child} has answered {answered} requests of {self._asked}, and {self._used} answers are used"
            if len(self._states[child]) != answered - self._used:
                yield f"there are {len(self._states[child])} states of {child}, not {answered - self._used}"
            marks = [self._used, *(number for number, _ in self._marks[child])]
            if marks != sorted(set(marks)) or marks[-1] != answered:
                yield f"the positions of {child} are those of the answers {marks[1:]}, the last of which is {answered}"


class Preparations:
    """The synchronisations that the children were asked to prepare, each with the children that are not prepared yet."""

    def __init__(self, children: Sequence[str]) -> None:
        self._children = children
        self._missing: dict[Prepare, dict[str, None]] = {}

    def begin(self, wish: Prepare) -> bool:
        """Note a wish; return whether the children have to be asked, because it is new."""
        if wish in self._missing:
            return False
        self._missing[wish] = dict.fromkeys(self._children)
        return True

    def accept(self, news: Prepared) -> None:
        """Note that a child is prepared. Raises InternalError if it was not asked."""
        missing = self._missing.get(Prepare(news.lane, news.key), {})
        if news.child not in missing:
            raise InternalError(problem=f"{news.child} is prepared for {news.key}, which nobody asked for")
        del missing[news.child]

    def is_met(self, wish: Prepare) -> bool:
        """Return whether all children were asked, and are prepared."""
        return wish in self._missing and not self._missing[wish]

    def forget(self, wish: Prepare) -> None:
        """Forget a wish that is met."""
        del self._missing[wish]
