"""One worker of a plan: a mailbox, a state, and answers to its parent (Section 3.4, "Event processing").

`offer` takes a message, and `work` acts upon all of them: it yields the messages to send and the outputs, and sends nothing
itself. Leaves and workers with children process released events in different ways: see `dgs.workers.protocol.leaf` and
`dgs.workers.protocol.inner`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

from dgs.errors import InternalError
from dgs.model.order import OrderKey
from dgs.model.program import Program
from dgs.model.user_code import UserCode
from dgs.planner.plan import PlanNode, is_accumulating
from dgs.workers.observing.figures import NO_METER, NoMeter
from dgs.workers.protocol.bounds import BOUNDS, Bounds, Clock, no_time
from dgs.workers.protocol.folding.fold import Folder
from dgs.workers.protocol.folding.joined_windows import NOTHING
from dgs.workers.protocol.folding.skipping import Skipping
from dgs.workers.protocol.folding.to_compile import CompiledCounts, ToCompile
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.mailbox import Mailbox
from dgs.workers.protocol.messages import (
    Effect,
    EpochClosed,
    Events,
    ForkedState,
    Frontiers,
    JoinAnswer,
    JoinRequest,
    Message,
    Prepare,
    Prepared,
    Send,
    Snapshot,
)

CompileMode = Literal["auto", "require", "off"]


class Options(TypedDict, total=False):
    """The options of every worker.

    `skips`: events whose `update` raises are left out (`on_error: skip`). `compiles`: whether `update` is compiled.
    `expected`: about how many own events will come. `clock` and `bounds` limit what is done at once and what is in flight. `meter` measures where the time goes.
    """

    skips: bool
    compiles: CompileMode
    expected: float
    clock: Clock
    bounds: Bounds
    meter: NoMeter


class Awaited(NamedTuple):
    """A cause for which a worker waits: a lane or another worker, and the key up to which it needs it, if there is one."""

    kind: Literal["lane", "parent", "child"]
    on: int | str
    key: OrderKey | None


class Worker(ABC):
    """The state machine of one plan node. Law: whatever the delivery order, outputs are the sequential program's."""

    def __init__(
        self,
        node: PlanNode,
        program: Program,
        lanes: Lanes,
        *,
        skips: bool = False,
        compiles: CompileMode = "off",
        expected: float = math.inf,
        clock: Clock = no_time,
        bounds: Bounds = BOUNDS,
        meter: NoMeter = NO_METER,
    ) -> None:
        parent = lanes.plan.parent(node.id)
        self.id = node.id
        self.parent = None if parent is None else parent.id
        self.mailbox = Mailbox((lane.id for lane in lanes.of(node.id)), lanes.ordered(node.id))
        self.events = 0
        self.synchronisations = 0
        types = {state_type.name: state_type for state_type in program.states()}
        folding: type[Folder | Skipping] = Skipping if skips else Folder
        self._bounds, self._clock, self._meter = bounds, clock, meter
        state_type = types[node.state_type]
        compiled = ToCompile(state_type.update, compiles == "require", expected, clock)
        self._folder = folding(program, state_type, node.id, bounds, None if compiles == "off" else compiled)
        self._program = program
        self._accumulates = self.parent is not None and is_accumulating(node, program.accumulating)
        self._state: Any = self._identity() if self._accumulates else NOTHING
        self._wishes: list[Prepare] = []  # from the parent
        self._snapshots_wanted = 0
        self._epoch = 0  # at the root: the last epoch that was closed
        self._has_ended = False
        self._is_finished = False

    def start(self, state: Any, epoch: int = 0) -> None:
        """Give the root its first state: the initial state, or that of a checkpoint, which closed `epoch`."""
        self._receive_state(state)
        self._epoch = epoch

    def resume(self, positions: Mapping[int, OrderKey]) -> None:
        """Start where a checkpoint ended: the events of a lane below its position are already in the state."""
        for lane in self.mailbox.lanes:
            self.mailbox.advance(lane, positions[lane])

    def snapshot(self) -> None:
        """Ask the root for the state: a keyless request, which waits for its turn but for no event."""
        self._snapshots_wanted += 1

    def finish(self) -> None:
        """Tell the root that all sources of the run have ended. It makes the last request once their events are processed.

        The last request waits for everything, and no checkpoint can be taken after it. So it is made only at the end.
        """
        self._has_ended = True

    def offer(self, message: Message) -> None:
        """Take a message. It is acted upon in `work`, so many messages cost one pass."""
        if isinstance(message, Events):
            self.mailbox.offer(message.lane, message.batch.read_only())
        elif isinstance(message, Frontiers):
            for lane, frontier in message.by_lane:
                self.mailbox.advance(lane, frontier)
        elif isinstance(message, JoinRequest):
            self.mailbox.request(message)
        elif isinstance(message, ForkedState):
            self._receive_state(message.state)
        elif isinstance(message, Prepare):
            self._wishes.append(message)
        else:
            self._accept(message)

    def work(self) -> Iterator[Effect]:
        """Do everything that can be done now; yield the messages to send and the outputs."""
        yield from self._work()
        if self._wishes:
            yield from self._say_prepared()

    @abstractmethod
    def _work(self) -> Iterator[Effect]:
        """Process and answer what can be processed and answered now."""

    @abstractmethod
    def _accept(self, message: JoinAnswer | Prepared) -> None:
        """Take a message of a child."""

    @abstractmethod
    def _unsent(self, lane: int) -> OrderKey:
        """Return the key below which everything of a lane has been folded, or announced to the children."""

    def _prepare_children(self, wish: Prepare) -> Iterator[Send]:  # noqa: ARG002 - a leaf has none
        """Ask the children, unless they were asked before."""
        yield from ()

    def _are_children_prepared(self, wish: Prepare) -> bool:  # noqa: ARG002 - a leaf has none
        return True

    def _say_prepared(self) -> Iterator[Effect]:
        """Tell the parent what this subtree is prepared for by now."""
        left = []
        for wish in self._wishes:
            yield from self._prepare_children(wish)
            box = self.mailbox
            lanes = box.own if wish.lane is None else box.ordered_with(wish.lane)
            is_behind = any(self._unsent(lane) < wish.key for lane in lanes)
            if is_behind or not self._are_children_prepared(wish):
                left.append(wish)
            elif self.parent is not None:
                yield Send(self.parent, Prepared(self.id, wish.lane, wish.key))
        self._wishes = left

    @abstractmethod
    def _positions(self) -> dict[int, OrderKey]:
        """Return the position of every lane of the subtree: all events below it are in the state (R5)."""

    def validate_state(self) -> None:
        """Raise InternalError if an invariant does not hold. Tests call this after every step."""
        for problem in self.broken_invariants():
            raise InternalError(problem=f"worker {self.id} is broken: {problem}")

    def broken_invariants(self) -> Iterator[str]:
        """Yield a sentence for each invariant that does not hold."""
        yield from self.mailbox.broken_invariants()
        if self._accumulates and not self.has_state:
            yield "it accumulates, but has no state"
        if self.parent is not None and (self._snapshots_wanted or self._has_ended):
            yield "it is not the root, but was asked for a snapshot or told of the end"
        if self._is_finished and not self._has_ended:
            yield "it made the last request before all sources had ended"

    def _receive_state(self, state: Any) -> None:
        if self.has_state:
            raise InternalError(problem=f"worker {self.id} was handed a state while it had one")
        self._state = state

    @property
    def has_state(self) -> bool:
        """Whether the state is here or at the children, and not at the parent."""
        return self._state is not NOTHING

    def _take_requests(self, most: int = 1, *, beside_events: bool = False) -> JoinRequest | None:
        """Remove and return requests that can be acted upon: the parent's, or at the root those of the runtime."""
        if self.parent is not None:
            return self.mailbox.take_requests(most, beside_events=beside_events)
        if self._is_finished:
            return None
        if self._snapshots_wanted:
            self._snapshots_wanted -= 1
            return self._keyless(is_final=False)
        if self._has_ended and self._is_done:
            self._is_finished = True
            return self._keyless(is_final=True)
        return None

    @property
    def has_more(self) -> bool:
        """Whether the worker has stopped with work left, so that its host can look for new messages."""
        return False

    @property
    def load(self) -> int:
        """The bytes of the events that wait here."""
        return self.mailbox.nbytes

    @property
    def held(self) -> int:
        """The events that wait here."""
        return self.mailbox.held

    @property
    def compiled_counts(self) -> CompiledCounts | None:
        """Figures of what machine code has folded, None if none is to."""
        return self._folder.compiled_counts

    @property
    def awaited(self) -> Awaited | None:
        """The cause that holds back the first event or request here: a lane, a child, or the parent that has the state. None if there is none."""
        missing = self.mailbox.missing()
        if missing is not None:
            return Awaited("lane", *missing)
        if self.parent is not None and not self.has_state and self.held:
            return Awaited("parent", self.parent, None)
        return None

    @property
    def _is_asked_for_checkpoint(self) -> bool:
        """Whether the next request is for a checkpoint. Such a request waits for no event, and goes before the events here."""
        return self._snapshots_wanted > 0 if self.parent is None else self.mailbox.is_asked_for_checkpoint

    @property
    def _is_done(self) -> bool:
        """Whether all own lanes have ended and none of their events is left."""
        return self.mailbox.is_done

    def _keyless(self, *, is_final: bool) -> JoinRequest:
        self._epoch += 1
        return JoinRequest(0, None, None, is_final=is_final, epoch=self._epoch)

    def _answer(self, request: JoinRequest, states: Sequence[Any]) -> Iterator[Effect]:
        """Hand the states up with their positions (R5). The root shows its state to the runtime, and goes on with it."""
        if request.epoch:
            yield EpochClosed(request.epoch)
        if self.parent is not None:
            yield Send(self.parent, JoinAnswer(self.id, request.number, states, self._positions()))
            return
        yield Snapshot(states[0], self._positions(), request.is_final, request.epoch)
        if not request.is_final:
            self._receive_state(states[0])

    def _identity(self) -> Any:
        return UserCode(self._program, self.id).call("identity", self._program.identity)
