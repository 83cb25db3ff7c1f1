"""Leaves: workers that hold a state and fold update over the events that their mailbox releases."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Unpack

from dgs.errors import InternalError
from dgs.model.order import OrderKey
from dgs.model.program import Program
from dgs.planner.plan import PlanNode
from dgs.workers.protocol.bounds import RESOLUTION
from dgs.workers.protocol.folding.joined_windows import NOTHING
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.messages import Effect, JoinAnswer, JoinRequest, Prepared
from dgs.workers.protocol.releases import Release
from dgs.workers.protocol.worker import Options, Worker


class Leaf(Worker):
    """A leaf. When its parent asks, it hands up its state and waits for a fork. An accumulating leaf goes on at once.

    It folds for a bounded time (`dgs.workers.protocol.bounds`), however slow `update` or a sink is. Then its host looks for new
    messages. A request for a checkpoint comes before the remaining events.
    """

    def __init__(self, node: PlanNode, program: Program, lanes: Lanes, **options: Unpack[Options]) -> None:
        super().__init__(node, program, lanes, **options)
        self._held: deque[Release] = deque()  # released, and not folded yet
        self._piece = self._bounds.least_piece  # how many events are folded at once

    def _work(self) -> Iterator[Effect]:
        """Process released events, and answer the parent's requests."""
        until = self._clock() + self._bounds.seconds_at_once
        while self.has_state:
            if not self._is_asked_for_checkpoint:
                yield from self._fold_released(until)
                if self._held:
                    return
            most = self._bounds.most_windows if self._accumulates else 1
            request = self._take_requests(most, beside_events=self._accumulates)
            if request is None:
                return
            self.synchronisations += len(request)
            if self._accumulates:
                yield from self._answer_windows(request)
            else:
                state, self._state = self._state, NOTHING  # R9: the leaf never uses it again
                yield from self._answer(request, [state])

    def _fold_released(self, until: float) -> Iterator[Effect]:
        """Fold the released events in pieces, one at least, until a time, and keep the rest."""
        bounds, began = self._bounds, self._clock()
        was_behind = bool(self._held)
        if not was_behind:
            self._held.extend(self.mailbox.release())
        while self._held:
            piece, rest = self._held.popleft().cut(self._piece)
            if rest is not None:
                self._held.appendleft(rest)
            count = len(piece)
            self._state, outputs = self._folder.fold(self._state, piece)
            self.events += count
            yield from outputs
            began, took = (now := self._clock()), now - began
            fitting = int(count * bounds.seconds_in_flight / max(took, RESOLUTION))
            self._piece = max(bounds.least_piece, min(fitting, bounds.piece_growth * max(count, self._piece)))
            if was_behind and not self._held:  # the leaf has caught up: more may have been released since
                was_behind = False
                self._held.extend(self.mailbox.release())
            if now > until:
                return

    @property
    def has_more(self) -> bool:
        """Whether the leaf has stopped with released events left to fold."""
        return self.has_state and bool(self._held)

    @property
    def load(self) -> int:
        """The bytes of the events that wait here."""
        held = sum(batch.nbytes for release in self._held for batch in release.batches) if self._held else 0
        return self.mailbox.nbytes + held

    @property
    def _is_done(self) -> bool:
        return super()._is_done and not self._held

    @property
    def held(self) -> int:
        """The events that wait here."""
        return self.mailbox.held + sum(map(len, self._held))

    def _answer_windows(self, request: JoinRequest) -> Iterator[Effect]:
        """Answer each request with a partial state: the events since the request before it, folded from the identity."""
        states = [self._state, *[NOTHING] * (len(request) - 1)]
        self._state = self._identity()
        if request.keys is not None:
            for batch in self.mailbox.take_windows(request):
                self.events += len(batch)
                yield from self._folder.fold_windows(states, batch, request.keys)
        yield from self._answer(
            request, [self._identity() if state is NOTHING else state for state in states]
        )

    def _accept(self, message: JoinAnswer | Prepared) -> None:
        raise InternalError(problem=f"leaf {self.id} got the answer of {message.child}")

    def _positions(self) -> dict[int, OrderKey]:
        return {lane: self._unsent(lane) for lane in self.mailbox.own}

    def _unsent(self, lane: int) -> OrderKey:
        return self._first_held(lane) or self.mailbox.below(lane)

    def _first_held(self, lane: int) -> OrderKey | None:
        """Return the key of a lane's first event that is released but not folded, None if there is none."""
        for release in self._held:
            for one, batch in zip(release.lanes, release.batches, strict=True):
                if one == lane:
                    return batch.key(0)
        return None
