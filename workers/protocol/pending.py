"""Synchronisations in flight at a worker with children: what was released, in order, and what the children have answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dgs.errors import InternalError
from dgs.model.events import EventBatch
from dgs.model.order import OrderKey
from dgs.workers.protocol.messages import JoinAnswer, JoinRequest


@dataclass(slots=True)
class Synchronisation:
    """Released together: own events of one lane, or requests of the parent. `done` of them are complete.

    `asks`: whether the children's states are needed; own accumulating events go into the base state without them.
    """

    lane: int | None
    events: EventBatch | None
    request: JoinRequest | None
    asks: bool
    done: int = 0

    @property
    def left(self) -> int:
        """How many are not complete."""
        whole = self.events if self.events is not None else self.request
        return len(whole or ()) - self.done


class Pending:
    """Synchronisations in release order, and per child the states it has handed up for them."""

    def __init__(self, children: Sequence[str]) -> None:
        self._queue: deque[Synchronisation] = deque()
        self._states: dict[str, deque[Any]] = {child: deque() for child in children}
        self._answered = dict.fromkeys(children, 0)
        self._marks: dict[str, deque[tuple[int, Any]]] = {child: deque() for child in children}
        self._used = 0
        self._asked = 0

    def add(self, entry: Synchronisation) -> int:
        """Take a synchronisation at the end; return the number of its first request to the children."""
        self._queue.append(entry)
        first = self._asked + 1
        if entry.asks:
            self._asked += entry.left
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

    def ready(self) -> tuple[Synchronisation, int] | None:
        """Return the first synchronisation and how many of it can be completed now; None if none can."""
        if not self._queue:
            return None
        entry = self._queue[0]
        count = entry.left
        if entry.asks:
            count = min(count, *map(len, self._states.values()))
        return (entry, count) if count else None

    def take(self, entry: Synchronisation, count: int, positions: dict[int, OrderKey]) -> list[list[Any]]:
        """Complete `count` of the first synchronisation: return the states of each child, and note their positions."""
        entry.done += count
        if not entry.left:
            self._queue.popleft()
        if not entry.asks:
            return []
        self._used += count
        for marks in self._marks.values():
            while marks and marks[0][0] <= self._used:
                positions.update(marks.popleft()[1])
        return [[states.popleft() for _ in range(count)] for states in self._states.values()]

    def first_event(self, lane: int) -> OrderKey | None:
        """Return the key of the first own event of a lane that is released and not complete."""
        for entry in self._queue:
            if entry.lane == lane and entry.events is not None:
                return entry.events.key(entry.done)
        return None

    @property
    def in_flight(self) -> int:
        """How many requests are announced and not complete."""
        return self._asked - self._used
