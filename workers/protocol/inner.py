"""Workers with children: to process an event they need their children's states (Section 3.4, "Event processing").

Released events are announced to the children at once, many before the first is complete; the children answer in that order
(R4), so a round trip overlaps with their work. How many is bounded by what they have lately answered at once: a keyless request
waits for those before it, so a checkpoint would wait for the end of a stream that has been read ahead. Where a child's subtree accumulates it answers with a partial state and goes
on without waiting for a fork; where all do, the worker keeps the base state itself and nothing is forked at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from dgs.model.order import BEGIN, OrderKey
from dgs.model.program import Program
from dgs.planner.plan import PlanNode
from dgs.workers.protocol.fold import NOTHING
from dgs.workers.protocol.forking import Forking
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.messages import Effect, ForkedState, Frontiers, JoinAnswer, JoinRequest, Send
from dgs.workers.protocol.pending import OwnEvents, ParentRequests, Pending, Synchronisation
from dgs.workers.protocol.releases import Release
from dgs.workers.protocol.worker import Worker, is_accumulating

LEAST_IN_FLIGHT = 32
"""Own events that may be in flight at least."""

GROWTH = 4
"""So many times as many as the children have answered at once may be in flight next."""

MOST_REQUESTS = 4096
"""Requests of the parent that are passed on at once where the subtree accumulates."""


class Inner(Worker):
    """A worker with children."""

    def __init__(self, node: PlanNode, program: Program, lanes: Lanes, *, skips: bool = False) -> None:
        super().__init__(node, program, lanes, skips=skips)
        self.children = tuple(child.id for child in node.children)
        takers = [i for i, child in enumerate(node.children) if not is_accumulating(child, program)]
        self._forking = Forking(program, node, takers)
        self._keeps_base = not takers
        self._pending = Pending(self.children)
        self._hands_over = (
            False  # a request in flight will take the state to the parent: release nothing behind it
        )
        self._held: deque[OwnEvents] = deque()  # released, and not announced yet
        self._most_in_flight = LEAST_IN_FLIGHT
        self._below: dict[int, OrderKey] = {}
        mailbox = (*lanes.of(node.id), *lanes.above(node.id))
        self._relayed = dict.fromkeys((lane.id for lane in mailbox), BEGIN)
        self._accumulating_lanes = {
            lane.id
            for lane in lanes.of(node.id)
            if not lane.tags.others and all(k in program.accumulating for k, _ in lane.tags.kinds)
        }

    def work(self) -> Iterator[Effect]:
        """Complete what the children have answered, release what may go, and tell the children how far lanes are."""
        if self._state is not NOTHING and not self._keeps_base:
            yield from self._hand_down()
        while True:
            yield from self._settle()
            released = list(self._release())
            if not released:
                break
            yield from released
        yield from self._relay()

    def _release(self) -> Iterator[Effect]:
        """Put everything that may go now in flight, in the one order that the children follow."""
        while self._has_state and not self._hands_over:
            if not self._held:
                self._held.extend(
                    OwnEvents(lane, batch, needs_children=not self._goes_into_base(lane))
                    for release in self.mailbox.release()
                    for lane, batch in release.stretches()
                )
            entries: list[Synchronisation] = list(self._with_room())
            if self.parent is None or not self._held:  # what the parent asks comes after what is held
                request = self._take_requests(MOST_REQUESTS if self._accumulates else 1)
                if request is not None:
                    entries.append(ParentRequests(request))
                    self._hands_over = self.parent is not None and not self._accumulates
            if not entries:
                return
            for entry in entries:
                yield from self._announce(entry)

    def _with_room(self) -> Iterator[OwnEvents]:
        """Remove and yield what is held, as far as there is room in flight."""
        room = self._most_in_flight - self._pending.in_flight
        while self._held and (room > 0 or not self._held[0].needs_children):
            entry = self._held.popleft()
            if entry.needs_children:
                if len(entry) > room:
                    self._held.appendleft(entry.cut(room, len(entry)))
                    entry = entry.cut(0, room)
                room -= len(entry)
            yield entry

    @property
    def _is_done(self) -> bool:
        return super()._is_done and not self._held

    def _goes_into_base(self, lane: int) -> bool:
        """Whether own events of a lane need no state of the children. They wait for their turn all the same."""
        return self._keeps_base and lane in self._accumulating_lanes

    def _announce(self, entry: Synchronisation) -> Iterator[Effect]:
        """Put a synchronisation in flight, and ask the children for the states that it needs."""
        first = self._pending.add(entry)
        if entry.needs_children:
            asked = entry.asked(first)
            for child in self.children:
                yield Send(child, asked)

    def _accept(self, answer: JoinAnswer) -> None:
        self._pending.accept(answer)

    def _settle(self) -> Iterator[Effect]:
        """Complete synchronisations in their order, as far as all children have answered."""
        before = self.synchronisations
        while (taken := self._pending.take(self._below)) is not None:
            entry, parts = taken
            if entry.needs_children:
                self.synchronisations += len(entry)
            if isinstance(entry, OwnEvents):
                yield from self._process(entry, parts)
            else:
                yield from self._pass_up(entry.requests, parts)
        if done := self.synchronisations - before:
            self._most_in_flight = max(LEAST_IN_FLIGHT, GROWTH * done, 3 * self._most_in_flight // 4)

    def _process(self, own: OwnEvents, parts: list[list[Any]]) -> Iterator[Effect]:
        """Fold own events, each into the joined state of its moment."""
        self.events += len(own)
        if not own.needs_children:
            self._state, outputs = self._folder.fold(self._state, Release((own.lane,), [own.batch]))
        elif self._keeps_base:
            self._state, outputs = self._folder.fold_joined(self._state, own.batch, parts)
        else:
            state = self._forking.join([states[0] for states in parts])
            self._state, outputs = self._folder.fold(state, Release((own.lane,), [own.batch]))
        yield from outputs
        if not self._keeps_base:
            yield from self._hand_down()

    def _pass_up(self, request: JoinRequest, parts: list[list[Any]]) -> Iterator[Effect]:
        """Answer requests of the parent with the joined states."""
        states = []
        for row in zip(*parts, strict=True):
            if self._keeps_base:
                state = self._state
                for part in row:
                    state = self._forking.joined_with(state, part)
                self._state = self._identity() if self._accumulates else NOTHING
            else:
                state = self._forking.join(list(row))
            states.append(state)
        if not self._accumulates:
            self._has_state = self._hands_over = False
        yield from self._answer(request, states)
        if self.parent is None and self._has_state and not self._keeps_base:
            yield from self._hand_down()

    def _hand_down(self) -> Iterator[Effect]:
        """Fork the state to the children that do not accumulate."""
        state, self._state = self._state, NOTHING
        for position, part in self._forking.fork(state):
            yield Send(self.children[position], ForkedState(part))

    def _positions(self) -> dict[int, OrderKey]:
        own = {lane: self._pending.first_event(lane) or self._unsent(lane) for lane in self.mailbox.own}
        return self._below | own

    def _unsent(self, lane: int) -> OrderKey:
        """Return the key below which everything of a lane has been announced."""
        for entry in self._held:
            if entry.lane == lane:
                return entry.batch.key(0)
        return self.mailbox.below(lane)

    def _relay(self) -> Iterator[Effect]:
        """Tell the children how far each lane is. R3: after the join requests, which are below these frontiers."""
        news = []
        for lane, told in self._relayed.items():
            below = self._unsent(lane)
            if below > told:
                news.append((lane, below))
                self._relayed[lane] = below
        if news:
            for child in self.children:
                yield Send(child, Frontiers(tuple(news)))
