"""Workers with children: they need their children's states to process an event (Section 3.4, "Event processing").

Released events are announced to the children at once, many before the first is complete. The children answer in that order
(R4), so a round trip overlaps with their work. Their number is bounded by time (`Window`), since a keyless request waits for
announced events. It goes before events that are not announced yet, so a checkpoint does not wait for streams read ahead. If there
is no room for even one, the children prepare the next one before it is announced (`Preparations`).

There are two kinds. A `ForkingInner` has a child that needs a part of the state: after every event it forks the state to its
children, and waits until they hand it up again. A `KeepingInner` has only children that accumulate: each answers with a partial
state and goes on without a fork. The worker keeps the base state, into which the partial states are joined.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Any, Unpack

from dgs.model.order import BEGIN, OrderKey
from dgs.model.program import Program
from dgs.planner.plan import PlanNode, is_accumulating
from dgs.workers.observing.figures import JOIN
from dgs.workers.protocol.bounds import Window
from dgs.workers.protocol.folding.joined_windows import NOTHING
from dgs.workers.protocol.forking import Forking
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.messages import (
    EVERYTHING,
    Effect,
    ForkedState,
    Frontiers,
    JoinAnswer,
    Prepare,
    Prepared,
    Send,
)
from dgs.workers.protocol.pending import OwnEvents, ParentRequests, Pending, Preparations, Synchronisation
from dgs.workers.protocol.releases import Release
from dgs.workers.protocol.worker import Awaited, Options, Worker


class Inner(Worker):
    """The common part of workers with children: keeps synchronisations in flight, in one order, and relays frontiers downward.

    `takers`: the positions of the children that need a part of the state.
    """

    def __init__(self, node: PlanNode, program: Program, lanes: Lanes, **options: Unpack[Options]) -> None:
        super().__init__(node, program, lanes, **options)
        self._window = Window(self._clock, self._bounds)
        self.children = tuple(child.id for child in node.children)
        self._forking = Forking(program, node, takers(node, program), self._meter)
        self._held: deque[OwnEvents] = deque()  # released, and not announced yet
        self._pending = Pending(self.children)
        self._preparations = Preparations(self.children)
        self._wish: Prepare | None = None  # for the first of the held events
        self._below: dict[int, OrderKey] = {}  # positions of the lanes of the children's subtrees
        mailbox = (*lanes.of(node.id), *lanes.above(node.id))
        self._relayed = dict.fromkeys((lane.id for lane in mailbox), BEGIN)

    def _work(self) -> Iterator[Effect]:
        """Complete synchronisations that the children have answered, release own events, and relay frontiers to the children."""
        yield from self._hand_down()
        while True:
            yield from self._settle()
            released = list(self._release())
            if not released:
                break
            yield from released
        yield from self._relay()

    @abstractmethod
    def _needs_children(self, lane: int) -> bool:
        """Return whether own events of a lane need the children's states."""

    @abstractmethod
    def _process(self, own: OwnEvents, parts: list[list[Any]]) -> Iterator[Effect]:
        """Fold own events, each into the state joined for it. `parts`: for each child, a state for each event."""

    @abstractmethod
    def _hand_up(self, parts: list[Any]) -> Any:
        """Return the state that answers a request of the parent. `parts`: one state of each child."""

    def _hand_down(self) -> Iterator[Effect]:
        """Send the children their parts of the state, if the state is here and they need any."""
        yield from ()

    # -- into flight ---------------------------------------------------------------------------------------------------

    def _release(self) -> Iterator[Effect]:
        """Put all events and requests in flight that may go now, in the order that the children follow."""
        while self.has_state and not self._hands_over:
            if not self._held:
                self._held.extend(
                    OwnEvents(lane, batch, self._needs_children(lane))
                    for release in self.mailbox.release()
                    for lane, batch in release.stretches()
                )
            entries = list(self._next_entries())
            if not entries:
                yield from self._prepare_next()
                return
            for entry in entries:
                yield from self._announce(entry)

    def _next_entries(self) -> Iterator[Synchronisation]:
        """Remove and yield what may go in flight now. A request for a checkpoint goes before held events, other requests go after them."""
        is_for_checkpoint = self._is_asked_for_checkpoint
        if not is_for_checkpoint:
            yield from self._with_room()
        if is_for_checkpoint or not self._held:
            requests = self._take_requests(self._bounds.most_requests if self._accumulates else 1)
            if requests is not None:
                yield ParentRequests(requests)

    @property
    def _hands_over(self) -> bool:
        """Whether a request in flight will hand the state up to the parent. Nothing is released behind it."""
        return self.parent is not None and not self._accumulates and self._pending.ends_with_requests

    def _with_room(self) -> Iterator[OwnEvents]:
        """Remove and yield held events, as far as there is room in flight, or the first one if it is prepared."""
        is_prepared = self._wish is not None and self._are_children_prepared(self._wish)
        if is_prepared:
            self._wish = None
        room = 1 if is_prepared else self._window.room
        while self._held:
            entry = self._held[0]
            fitting = len(entry)
            if entry.needs_children:
                fitting = 1 if is_prepared else min(room, entry.count_until(self._window.until))
                room -= fitting
                is_prepared = False
            if fitting <= 0:
                return
            self._held.popleft()
            self.mailbox.moved.add(entry.lane)
            if fitting < len(entry):
                self._held.appendleft(entry.cut(fitting, len(entry)))
            yield entry.cut(0, fitting)

    def _prepare_next(self) -> Iterator[Effect]:
        """Ask the children to prepare the first held event, or the end, if nothing is in flight and there is still no room for it."""
        if self._has_ended and super()._is_done and not self._held:
            yield from self._prepare_children(EVERYTHING)
        elif self._held and self._held[0].needs_children and not self._wish and not self._window.in_flight:
            self._wish = Prepare(self._held[0].lane, self._held[0].batch.key(0))
            self._window.prepare()
            yield from self._prepare_children(self._wish)

    def _prepare_children(self, wish: Prepare) -> Iterator[Send]:
        if self._preparations.begin(wish):
            yield from (Send(child, wish) for child in self.children)

    def _are_children_prepared(self, wish: Prepare) -> bool:
        if not self._preparations.is_met(wish):
            return False
        self._preparations.forget(wish)
        return True

    @property
    def _is_done(self) -> bool:
        return super()._is_done and not self._held and self._preparations.is_met(EVERYTHING)

    @property
    def held(self) -> int:
        """The events that wait here."""
        return self.mailbox.held + sum(map(len, self._held)) + self._pending.own_events

    @property
    def awaited(self) -> Awaited | None:
        """The cause that holds back the first event or request here."""
        if self._pending.in_flight:
            return Awaited("child", self._pending.slowest, self._pending.first_key)
        return super().awaited

    def _announce(self, entry: Synchronisation) -> Iterator[Effect]:
        """Put a synchronisation in flight, and ask the children for the states that it needs."""
        first = self._pending.add(entry)
        if entry.needs_children:
            if isinstance(entry, OwnEvents):
                self._window.announce(len(entry), int(entry.batch.ts[-1]))
            else:
                self._window.pass_on(len(entry))
            asked = entry.asked(first)
            for child in self.children:
                yield Send(child, asked)

    # -- completing ----------------------------------------------------------------------------------------------------

    def _accept(self, message: JoinAnswer | Prepared) -> None:
        if isinstance(message, Prepared):
            self._preparations.accept(message)
        else:
            self._pending.accept(message)

    def _settle(self) -> Iterator[Effect]:
        """Complete synchronisations in their order, as far as all children have answered."""
        before = self.synchronisations
        while (taken := self._pending.take(self._below)) is not None:
            entry, parts = taken
            if entry.needs_children:
                self.synchronisations += len(entry)
            if isinstance(entry, OwnEvents):
                self.events += len(entry)
                yield from self._process(entry, parts)
            else:
                states = [self._hand_up(list(one_each)) for one_each in zip(*parts, strict=True)]
                yield from self._answer(entry.requests, states)
            yield from self._hand_down()
        if done := self.synchronisations - before:
            self._window.complete(done)

    # -- relaying frontiers --------------------------------------------------------------------------------------------

    def _positions(self) -> dict[int, OrderKey]:
        own = {lane: self._pending.first_event(lane) or self._unsent(lane) for lane in self.mailbox.own}
        return self._below | own

    def _unsent(self, lane: int) -> OrderKey:
        for entry in self._held:
            if entry.lane == lane:
                return entry.batch.key(0)
        return self.mailbox.below(lane)

    def _relay(self) -> Iterator[Effect]:
        """Relay to the children the frontier of each lane. R3: after the join requests, which are below these frontiers."""
        news = []
        moved, self.mailbox.moved = sorted(self.mailbox.moved), set()
        for lane in moved:
            below = self._unsent(lane)
            if below > self._relayed[lane]:
                news.append((lane, below))
                self._relayed[lane] = below
        if news:
            for child in self.children:
                yield Send(child, Frontiers(tuple(news)))

    # -- invariants ----------------------------------------------------------------------------------------------------

    def broken_invariants(self) -> Iterator[str]:
        """Yield a sentence for each invariant that does not hold."""
        yield from super().broken_invariants()
        yield from self._pending.broken_invariants()
        yield from self._window.broken_invariants()
        if self._window.in_flight != self._pending.in_flight:
            yield f"{self._pending.in_flight} requests are in flight, but its window has {self._window.in_flight}"
        in_flight = list(self._pending)
        if not self.has_state and in_flight:
            yield "events are in flight although its state is at the parent"
        hands_over = self.parent is not None and not self._accumulates
        if hands_over and any(isinstance(entry, ParentRequests) for entry in in_flight[:-1]):
            yield "something is in flight behind a request that takes the state to the parent"
        yield from self._broken_order([*in_flight, *self._held])
        for lane, told in self._relayed.items():
            if told > self._unsent(lane):
                yield f"children were told that lane {lane} is at {told}, but it is at {self._unsent(lane)}"
            if told < self._unsent(lane) and lane not in self.mailbox.moved:
                yield f"children were not told that lane {lane} is at {self._unsent(lane)}"

    def _broken_order(self, released: list[Synchronisation]) -> Iterator[str]:
        """Yield the lanes whose events are out of order across those in flight, those held and the mailbox."""
        last: dict[int, OrderKey] = {}
        for own in (entry for entry in released if isinstance(entry, OwnEvents)):
            if own.batch.key(0) <= last.get(own.lane, BEGIN):
                yield f"lane {own.lane}: event {own.batch.key(0)} is released after {last[own.lane]}"
            last[own.lane] = own.batch.key(len(own) - 1)
        for lane, key in last.items():
            if self.mailbox.below(lane) <= key:
                yield f"lane {lane}: event {key} is released, but {self.mailbox.below(lane)} is still to come"


class ForkingInner(Inner):
    """A worker whose children have its state. It joins the state for an event or its parent, and forks it after each event."""

    def __init__(self, node: PlanNode, program: Program, lanes: Lanes, **options: Unpack[Options]) -> None:
        super().__init__(node, program, lanes, **options)
        self.takers = tuple(self.children[i] for i in takers(node, program))
        self._is_below = False  # whether the children have the state, in parts

    @property
    def has_state(self) -> bool:
        """Whether the state is here or at the children, and not at the parent."""
        return self._is_below or super().has_state

    def _needs_children(self, lane: int) -> bool:  # noqa: ARG002 - every lane does
        return True

    def _process(self, own: OwnEvents, parts: list[list[Any]]) -> Iterator[Effect]:
        """Fold one event. There is only one: the children need a new part after each."""
        state = self._hand_up([states[0] for states in parts])
        self._state, outputs = self._folder.fold(state, Release((own.lane,), [own.batch]))
        yield from outputs

    def _hand_up(self, parts: list[Any]) -> Any:
        self._is_below = False
        return self._forking.join(parts)

    def _hand_down(self) -> Iterator[Effect]:
        """Fork the state, if it is here, to the children that need a part of it."""
        if self._state is NOTHING:
            return
        state, self._state, self._is_below = self._state, NOTHING, True
        for position, part in self._forking.fork(state):
            yield Send(self.children[position], ForkedState(part))

    def has_part_of(self, child: str) -> bool:
        """Return whether a taker's part is not at the child: the part is in an answer, or in the whole state, here or at the parent."""
        return not self._is_below or self._pending.holds_state_of(child)

    def broken_invariants(self) -> Iterator[str]:
        """Yield a sentence for each invariant that does not hold."""
        yield from super().broken_invariants()
        if self._is_below and self._state is not NOTHING:
            yield "its state is here, and at the children"


class KeepingInner(Inner):
    """A worker that keeps the base state. All its children accumulate: each answers with its partial state since its last answer.

    If this worker accumulates too, the base is its own partial state since its last answer. Otherwise it hands the base up with
    an answer, and waits for a fork.
    """

    def __init__(self, node: PlanNode, program: Program, lanes: Lanes, **options: Unpack[Options]) -> None:
        super().__init__(node, program, lanes, **options)
        self._accumulating_lanes = {
            lane.id
            for lane in lanes.of(node.id)
            if not lane.tags.others and all(kind in program.accumulating for kind, _ in lane.tags.kinds)
        }

    def _needs_children(self, lane: int) -> bool:
        """Own events that accumulate are folded into the base alone. They still wait for their turn."""
        return lane not in self._accumulating_lanes

    def _process(self, own: OwnEvents, parts: list[list[Any]]) -> Iterator[Effect]:
        if own.needs_children:
            # each event is folded right after the states of its window are joined
            before = self._meter.enter(JOIN)
            self._state, outputs = self._folder.fold_joined(self._state, own.batch, parts)
            self._meter.enter(before)
        else:
            self._state, outputs = self._folder.fold(self._state, Release((own.lane,), [own.batch]))
        yield from outputs

    def _hand_up(self, parts: list[Any]) -> Any:
        state = self._state
        for part in parts:
            state = self._forking.joined_with(state, part)
        self._state = self._identity() if self._accumulates else NOTHING
        return state


def takers(node: PlanNode, program: Program) -> list[int]:
    """Return the positions of the children that need a part of the state. An accumulating subtree needs none."""
    return [i for i, child in enumerate(node.children) if not is_accumulating(child, program.accumulating)]
