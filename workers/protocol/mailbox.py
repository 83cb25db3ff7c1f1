"""Selective reordering: release events in dependence order, not in total order (Section 3.4).

A mailbox holds, for every lane of its worker and of the worker's ancestors, a buffer and a *frontier*: everything below the
frontier has arrived. Lanes of ancestors carry join requests instead of events. A mailbox decides what may be released.

>>> from dgs.model.tags import Tag
>>> box = Mailbox(own=[0, 1], ordered={0: (1,), 1: (0,)})
>>> box.offer(0, EventBatch.of("a", rank=0, tags=[Tag("x")], ts=[1, 5]))
>>> box.release()                                  # lane 1 may still bring something earlier
[]
>>> box.advance(1, OrderKey(3, 1, 0))
>>> [(release.lanes, [len(b) for b in release.batches]) for release in box.release()]
[((0,), [1])]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from dgs.errors import InternalError
from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.protocol.messages import JoinRequest
from dgs.workers.protocol.releases import Release


class Mailbox:
    """Buffers and frontiers of one worker. `ordered`: for each lane, the other lanes that it must wait for."""

    def __init__(self, own: Iterable[int], ordered: Mapping[int, tuple[int, ...]]) -> None:
        self.own = tuple(own)
        self._ordered = ordered
        self._frontier = dict.fromkeys(ordered, BEGIN)
        self._events: dict[int, deque[EventBatch]] = {lane: deque() for lane in self.own}
        self._start = dict.fromkeys(self.own, 0)  # how many events of the first batch have been released
        self._heads = dict.fromkeys(self.own, END)
        self._requests: deque[JoinRequest] = deque()
        self._answered = 0  # how many requests of the first entry have been taken
        # The key of the first join request that waits here, for an ancestor's lane.
        self._asked = dict.fromkeys(ordered, END)
        self._groups = _groups(self.own, ordered)
        self._twins = _twins(self.own, ordered)
        self.nbytes = 0
        # The lanes that changed. A worker with children empties the set when it relays.
        self.moved = set(self._frontier)
        self._validated: dict[int, tuple[OrderKey, OrderKey]] = {}

    def offer(self, lane: int, batch: EventBatch) -> None:
        """Take events of an own lane. Raises InternalError unless they come after all earlier ones."""
        if not len(batch):
            return
        if batch.key(0) < self._frontier[lane]:
            raise InternalError(
                problem=f"lane {lane}: event {batch.key(0)} is below frontier {self._frontier[lane]}"
            )
        if not self._events[lane]:
            self._heads[lane] = batch.key(0)
        self._events[lane].append(batch)
        last = batch.key(len(batch) - 1)
        self._frontier[lane] = OrderKey(last.ts, last.rank, last.seq + 1)
        self.moved.add(lane)
        self.nbytes += batch.nbytes

    def request(self, request: JoinRequest) -> None:
        """Take join requests of the parent. R4: they are answered in this order."""
        if self._requests and request.number != self._requests[-1].number + len(self._requests[-1]):
            raise InternalError(problem=f"join request {request.number} after {self._requests[-1].number}")
        self._requests.append(request)
        if request.lane is not None and request.keys is not None:
            if self._asked[request.lane] == END:
                self._asked[request.lane] = request.keys.key(0)
            self.advance(request.lane, request.keys.key(len(request) - 1))

    def advance(self, lane: int, frontier: OrderKey) -> None:
        """Note that everything of `lane` below `frontier` has arrived. Frontiers never go back."""
        self._frontier[lane] = max(self._frontier[lane], frontier)
        self.moved.add(lane)

    def below(self, lane: int) -> OrderKey:
        """Return the key below which nothing of `lane` is left here: its first event or join request, else its frontier.

        A parent relays this key to its children, and a checkpoint has it as the position of an own lane.
        """
        return min(self._frontier[lane], self._heads.get(lane, END), self._asked[lane])

    def frontier(self, lane: int) -> OrderKey:
        """Return the key below which everything of `lane` has arrived."""
        return self._frontier[lane]

    def ordered_with(self, lane: int) -> tuple[int, ...]:
        """Return the other lanes that a lane must wait for."""
        return self._ordered[lane]

    @property
    def lanes(self) -> Iterable[int]:
        """All lanes: the own ones, and those of ancestors."""
        return self._frontier.keys()

    @property
    def is_done(self) -> bool:
        """Whether all own lanes have ended and nothing is buffered."""
        return all(self._frontier[lane] >= END and not self._events[lane] for lane in self.own)

    @property
    def held(self) -> int:
        """The number of buffered events."""
        return sum(map(len, (b for batches in self._events.values() for b in batches))) - sum(
            self._start.values()
        )

    def missing(self) -> tuple[int, OrderKey] | None:
        """Return the lane that holds back the first entries here, and the key it must reach; None if no entry waits for a lane.

        First entries are the parent's next join request, and the first event of each own lane.
        """
        heads = [(key, lane) for lane, key in self._heads.items() if key < END]
        front = self._requests[0] if self._requests else None
        if front is not None and front.lane is not None and front.keys is not None:
            heads.append((front.keys.key(self._answered), front.lane))
        for key, lane in sorted(heads):
            behind = [(self._frontier[o], o) for o in self._ordered[lane] if self._frontier[o] < key]
            if behind:
                return min(behind)[1], key
        return None

    def take_requests(self, most: int = 1, *, beside_events: bool = False) -> JoinRequest | None:
        """Remove and return up to `most` of the parent's next requests that can be acted upon now; None if there is none.

        R4: in the parent's order. A request may be acted upon when everything ordered before it has arrived and been
        released. With `beside_events`, own events before it may still be buffered: the caller takes them.
        """
        if not self._requests:
            return None
        front, done = self._requests[0], self._answered
        if front.lane is None or front.keys is None:
            ready = 1
        else:
            bounds = [self._bound(other, beside_events) for other in self._ordered[front.lane]]
            ready = front.keys.count_up_to(min(bounds, default=END)) - done
        ready = min(ready, most)
        if not ready:
            return None
        self._answered = done + ready
        if self._answered == len(front):
            self._requests.popleft()
            self._answered = 0
        if front.lane is not None:
            self._asked[front.lane] = self._first_asked(front.lane)
            self.moved.add(front.lane)
        return front.cut(done, done + ready)

    @property
    def is_asked_for_checkpoint(self) -> bool:
        """Whether the parent's next request is keyless. Such a request waits for no event."""
        return bool(self._requests) and self._requests[0].lane is None

    def _bound(self, lane: int, beside_events: bool) -> OrderKey:
        """Return the highest key before which nothing of `lane` is missing or waiting here."""
        if beside_events:
            return min(self._frontier[lane], self._asked[lane])
        return self.below(lane)

    def _first_asked(self, lane: int) -> OrderKey:
        first = self._answered
        for request in self._requests:
            if request.lane == lane and request.keys is not None:
                return request.keys.key(first)
            first = 0
        return END

    def take_windows(self, request: JoinRequest) -> list[EventBatch]:
        """Remove and return the own events before the last of these requests, of the lanes ordered with theirs."""
        if request.lane is None or request.keys is None:
            return []
        last = request.keys.key(len(request) - 1)
        own = [lane for lane in self._ordered[request.lane] if lane in self._heads]
        return [batch for lane in own for batch in self._take_below(lane, last)]

    def release(self) -> list[Release]:
        """Remove and return all own events that may go now, in as few releases as possible.

        A lane is released up to the frontiers of the lanes that it is ordered with, or to the first join request of an
        ancestor's lane, but not beyond the first event of such a lane that has to stay.
        """
        limits = self._limits()
        releases = []
        for group in self._groups:
            parts = [(lane, batch) for lane in group for batch in self._take_below(lane, limits[lane])]
            if parts:
                releases.append(
                    Release(tuple(lane for lane, _ in parts), [batch for _, batch in parts], self._ordered)
                )
        return releases

    def _limits(self) -> dict[int, OrderKey]:
        limits = dict.fromkeys(self.own, END)
        self._lower(limits, {lane: min(key, self._asked[lane]) for lane, key in self._frontier.items()})
        if all(self._heads[lane] >= limits[lane] for lane in self.own):
            return limits
        busy = {lane for lane in self.own if self._events[lane]}
        stays: dict[int, OrderKey] = {}
        lowered = list(busy) if len(busy) > 1 else []
        while lowered:
            stays |= {lane: self._first_from(lane, limits[lane]) for lane in lowered if lane in busy}
            lowered = self._lower(limits, stays)
        return limits

    def _lower(self, limits: dict[int, OrderKey], keys: Mapping[int, OrderKey]) -> list[int]:
        """Lower the limit of each lane to the least of the keys of the lanes that it is ordered with; return the lowered lanes."""
        lowered = []
        for twins, near in self._twins:
            least, second, first = END, END, None
            for lane in near:
                key = keys.get(lane, END)
                if key < least:
                    least, second, first = key, least, lane
                elif key < second:
                    second = key
            for lane in twins:
                bound = second if lane == first else least
                if bound < limits[lane]:
                    limits[lane] = bound
                    lowered.append(lane)
        return lowered

    def _first_from(self, lane: int, limit: OrderKey) -> OrderKey:
        """Return the key of the first buffered event of `lane` at or above `limit`, END if there is none."""
        start = self._start[lane]
        for batch in self._events[lane]:
            position = max(start, batch.position_of(limit))
            if position < len(batch):
                return batch.key(position)
            start = 0
        return END

    def _take_below(self, lane: int, limit: OrderKey) -> list[EventBatch]:
        if self._heads[lane] >= limit:
            return []
        count = -self._start[lane]
        for batch in self._events[lane]:
            position = batch.position_of(limit)
            count += position
            if position < len(batch):
                break
        return self._take(lane, count)

    def _take(self, lane: int, count: int) -> list[EventBatch]:
        """Remove the first `count` events of a lane, without a copy. `nbytes` counts a batch in full until it is used up."""
        queue, start, taken = self._events[lane], self._start[lane], []
        while count:
            batch = queue[0]
            stop = min(len(batch), start + count)
            taken.append(batch if stop - start == len(batch) else batch.cut(start, stop))
            count -= stop - start
            start = stop
            if stop == len(batch):
                self.nbytes -= queue.popleft().nbytes
                start = 0
        self._start[lane] = start
        self.moved.add(lane)
        self._heads[lane] = queue[0].key(start) if queue else END
        return taken

    def validate_state(self) -> None:
        """Raise InternalError if an invariant does not hold. Tests call this after every step."""
        for problem in self.broken_invariants():
            raise InternalError(problem=f"a mailbox is broken: {problem}")

    def broken_invariants(self) -> Iterator[str]:
        """Yield a sentence for each invariant that does not hold. No frontier and no `below` may go back since the last call."""
        held = sum(batch.nbytes for batches in self._events.values() for batch in batches)
        if self.nbytes != held:
            yield f"it counts {self.nbytes} bytes, but holds {held}"
        for lane in self.own:
            yield from self._broken_buffer(lane)
        yield from self._broken_requests()
        now = {lane: (frontier, self.below(lane)) for lane, frontier in self._frontier.items()}
        for lane, before in self._validated.items():
            if now[lane][0] < before[0] or now[lane][1] < before[1]:
                yield f"lane {lane} went back from {before} to {now[lane]} (its frontier, and the key of what is left)"
        self._validated = now

    def _broken_buffer(self, lane: int) -> Iterator[str]:
        batches, start = self._events[lane], self._start[lane]
        if not 0 <= start < (len(batches[0]) if batches else 1):
            yield f"lane {lane}: {start} events of the first batch count as released"
        elif self._heads[lane] != (batches[0].key(start) if batches else END):
            yield f"lane {lane}: {self._heads[lane]} is not its first event"
        ends = [key for batch in batches for key in (batch.key(0), batch.key(len(batch) - 1))]
        if any(later < earlier for earlier, later in pairwise(ends)):
            yield f"lane {lane}: its events are not in order"
        if ends and ends[-1] >= self._frontier[lane]:
            yield f"lane {lane}: event {ends[-1]} is not below the frontier {self._frontier[lane]}"

    def _broken_requests(self) -> Iterator[str]:
        if not 0 <= self._answered < (len(self._requests[0]) if self._requests else 1):
            yield f"{self._answered} requests of the first entry count as answered"
        for earlier, later in pairwise(self._requests):
            if later.number != earlier.number + len(earlier):
                yield f"request {later.number} comes after {earlier.number}"
        for request in self._requests:
            if request.lane is None or request.keys is None:
                continue
            if request.lane in self._heads or request.lane not in self._frontier:
                yield f"request {request.number} is for lane {request.lane}, which is no ancestor's"
            elif request.keys.key(len(request) - 1) > self._frontier[request.lane]:
                yield f"request {request.number} is above the frontier of its lane {request.lane}"
        for lane, asked in self._asked.items():
            if asked != self._first_asked(lane):
                yield f"lane {lane}: {asked} is not the key of its first join request"


def _groups(own: tuple[int, ...], ordered: Mapping[int, tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the own lanes by connected component. Lanes of one component must be merged; independent ones never are."""
    left, groups = dict.fromkeys(own), []
    while left:
        group = [left.popitem()[0]]
        for lane in group:
            near = [other for other in ordered[lane] if other in left]
            group.extend(near)
            for other in near:
                del left[other]
        groups.append(tuple(sorted(group)))
    return sorted(groups)


def _twins(
    own: tuple[int, ...], ordered: Mapping[int, tuple[int, ...]]
) -> list[tuple[list[int], tuple[int, ...]]]:
    """Return the own lanes that are ordered with each other and with the same lanes, each with all of these and themselves.

    In a worker of a thousand streams that all depend on each other, all lanes are twins, and their bound is looked up once.
    """
    found: dict[tuple[int, ...], list[int]] = {}
    for lane in own:
        found.setdefault(tuple(sorted((lane, *ordered[lane]))), []).append(lane)
    return [(lanes, near) for near, lanes in found.items()]
