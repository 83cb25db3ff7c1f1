"""One worker of a plan: a mailbox, a state, and the synchronisation with its children (Section 3.4, "Event processing").

A leaf holds a state and folds update over what its mailbox releases. A worker with children holds none while they run: to
process an event it asks them for their states, joins, updates, forks, and hands the parts down again. Messages are taken
with `offer` and acted upon with `work`, which returns what is to be sent and what was output; nothing is sent from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dgs.errors import InternalError
from dgs.order import BEGIN, END, OrderKey
from dgs.outputs import OutputBatch
from dgs.program import Program
from workers.fold import Folder
from workers.forking import Forking
from workers.lanes import Lanes
from workers.mailbox import Mailbox, Run
from workers.messages import Events, Forked, JoinAnswer, JoinRequest, Message, Progress

NOTHING = object()
"""The state of a worker that holds none: its children run, or its parent has it."""


@dataclass(frozen=True, slots=True)
class Send:
    """A message for another worker."""

    target: str
    message: Message


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state, at the root, with the position of every lane: state = fold over the events below the positions."""

    state: Any
    positions: dict[int, OrderKey]
    is_final: bool


Effect = Send | OutputBatch | Snapshot


@dataclass(slots=True)
class Synchronisation:
    """A join in progress: why (an own event, or the parent's or the runtime's request), and what has come back."""

    number: int
    event: Run | None
    request: JoinRequest | None
    answers: dict[str, JoinAnswer]


class Worker:
    """The state machine of one plan node. Law: whatever the delivery order, outputs are the sequential program's."""

    def __init__(self, node_id: str, program: Program, lanes: Lanes) -> None:
        node, parent = lanes.plan.node(node_id), lanes.plan.parent(node_id)
        self.id = node_id
        self.parent = None if parent is None else parent.id
        self.children = tuple(child.id for child in node.children)
        self.mailbox = Mailbox((lane.id for lane in lanes.of(node_id)), lanes.ordered(node_id))
        self._forking = Forking(program, node, node_id)
        types = {state_type.name: state_type for state_type in program.states()}
        self._folder = Folder(program, types[node.state_type], node_id)
        self._state: Any = NOTHING
        self._has_state_below = False
        self._joining: Synchronisation | None = None
        self._joins = 0
        self._snapshots_wanted = 0
        self._is_finished = False
        self._positions: dict[int, OrderKey] = {}
        self._relayed = dict.fromkeys(
            (lane.id for lane in (*lanes.of(node_id), *lanes.above(node_id))), BEGIN
        )
        self.events = 0
        self.synchronisations = 0

    def start(self, state: Any) -> None:
        """Give the root its first state."""
        self._receive_state(state)

    def snapshot(self) -> None:
        """Ask the root for the state: a keyless request, which waits for its turn but for no event."""
        self._snapshots_wanted += 1

    def offer(self, message: Message) -> None:
        """Take a message. Nothing happens before `work`, so many messages cost one pass."""
        if isinstance(message, Events):
            self.mailbox.offer(message.lane, message.batch)
        elif isinstance(message, Progress):
            for lane, frontier in message.frontiers:
                self.mailbox.advance(lane, frontier)
        elif isinstance(message, JoinRequest):
            self.mailbox.request(message)
            if message.lane is not None and message.key is not None:
                self.mailbox.advance(message.lane, message.key)
        elif isinstance(message, JoinAnswer):
            self._accept(message)
        else:
            self._receive_state(message.state)

    def work(self) -> Iterator[Effect]:
        """Do all that can be done now, and yield what is to be sent and what was output."""
        if self._forking.is_leaf:
            yield from self._work_leaf()
        else:
            yield from self._work_inner()
            yield from self._relay()

    def _receive_state(self, state: Any) -> None:
        if self._has_state_below:
            raise InternalError(problem=f"worker {self.id} was handed a state while it has one")
        self._state, self._has_state_below = state, True

    def _work_leaf(self) -> Iterator[Effect]:
        while self._has_state_below:
            for run in self.mailbox.release():
                self._state, outputs = self._folder.fold(self._state, run)
                self.events += sum(map(len, run.batches))
                yield from outputs
            request = self._take_request()
            if request is None:
                return
            yield from self._answer(request, self._take_state())

    def _work_inner(self) -> Iterator[Effect]:
        while True:
            if self._state is not NOTHING:
                yield from self._hand_down()
            if self._joining is not None:
                if len(self._joining.answers) < len(self.children):
                    return
                yield from self._complete(self._joining)
            elif not self._has_state_below:
                return
            elif (event := self.mailbox.next_event()) is not None:
                lane, key = event
                yield from self._synchronise(Run((lane,), [self.mailbox.take_event(lane)]), None, lane, key)
            elif (request := self._take_request()) is not None:
                yield from self._synchronise(None, request, request.lane, request.key)
            else:
                return

    def _take_request(self) -> JoinRequest | None:
        """Remove and return the next request that can be acted upon: the parent's, or at the root the runtime's own."""
        if self.parent is not None:
            return self.mailbox.take_request()
        if self._snapshots_wanted:
            self._snapshots_wanted -= 1
            return JoinRequest(0, None, None)
        if self.mailbox.is_done and not self._is_finished:
            self._is_finished = True
            return JoinRequest(0, None, END)
        return None

    def _synchronise(
        self, event: Run | None, request: JoinRequest | None, lane: int | None, key: OrderKey | None
    ) -> Iterator[Effect]:
        """Ask the children for their states. R4: with a number of our own, in the order of release."""
        self._joins += 1
        self._joining = Synchronisation(self._joins, event, request, {})
        for child in self.children:
            yield Send(child, JoinRequest(self._joins, lane, key))

    def _accept(self, answer: JoinAnswer) -> None:
        """Take a child's answer. R4: an answer belongs to the request whose number it carries."""
        joining = self._joining
        if joining is None or answer.number != joining.number or answer.child in joining.answers:
            raise InternalError(
                problem=f"worker {self.id}: unexpected answer {answer.number} of {answer.child}"
            )
        joining.answers[answer.child] = answer

    def _complete(self, joining: Synchronisation) -> Iterator[Effect]:
        """All children have answered: join, and update or answer the parent."""
        self._joining = None
        self.synchronisations += 1
        for child in self.children:
            self._positions.update(joining.answers[child].positions)
        state = self._forking.join([joining.answers.pop(child).state for child in self.children])
        if joining.event is not None:
            state, outputs = self._folder.fold(state, joining.event)
            self.events += 1
            self._state = state
            yield from outputs
        elif joining.request is not None:
            self._has_state_below = False
            yield from self._answer(joining.request, state)

    def _answer(self, request: JoinRequest, state: Any) -> Iterator[Effect]:
        """Hand the state up with its positions (R5). At the root: show it to the runtime, which copies it, and go on."""
        positions = self._positions | {lane: self.mailbox.below(lane) for lane in self.mailbox.own}
        if self.parent is not None:
            yield Send(self.parent, JoinAnswer(self.id, request.number, state, positions))
            return
        yield Snapshot(state, positions, is_final=self._is_finished)
        if not self._is_finished:
            self._receive_state(state)

    def _take_state(self) -> Any:
        """Return the state and forget it (R9: what was handed over is never touched again)."""
        state, self._state, self._has_state_below = self._state, NOTHING, False
        return state

    def _hand_down(self) -> Iterator[Effect]:
        """Fork the state along the node's binary tree and send the parts to the children."""
        state, self._state = self._state, NOTHING
        for child, part in zip(self.children, self._forking.fork(state), strict=True):
            yield Send(child, Forked(part))

    def _relay(self) -> Iterator[Effect]:
        """Tell the children how far each lane is. R3: after the join requests, which are below these frontiers."""
        news = []
        for lane, told in self._relayed.items():
            below = self.mailbox.below(lane)
            if below > told:
                news.append((lane, below))
                self._relayed[lane] = below
        if news:
            for child in self.children:
                yield Send(child, Progress(tuple(news)))
