"""Leaves: workers that hold a state and fold update over the events that their mailbox releases."""

from __future__ import annotations

from collections.abc import Iterator

from dgs.errors import InternalError
from dgs.model.order import OrderKey
from dgs.workers.protocol.folding.fold import NOTHING
from dgs.workers.protocol.messages import Effect, JoinAnswer, JoinRequest
from dgs.workers.protocol.releases import Release
from dgs.workers.protocol.worker import Worker

MOST_WINDOWS = 4096
"""One answer carries at most this many partial states."""


class Leaf(Worker):
    """A leaf. When its parent asks, it hands up its state and waits for a fork. An accumulating leaf goes on at once."""

    def work(self) -> Iterator[Effect]:
        """Process released events, and answer the parent's requests."""
        while self.has_state:
            if not self._is_asked_for_checkpoint:
                for release in self.mailbox.release():
                    yield from self._fold(release)
            most = MOST_WINDOWS if self._accumulates else 1
            request = self._take_requests(most, beside_events=self._accumulates)
            if request is None:
                return
            self.synchronisations += len(request)
            if self._accumulates:
                yield from self._answer_windows(request)
            else:
                state, self._state = self._state, NOTHING  # R9: the leaf never uses it again
                yield from self._answer(request, [state])

    def _fold(self, release: Release) -> Iterator[Effect]:
        self._state, outputs = self._folder.fold(self._state, release)
        self.events += len(release)
        yield from outputs

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

    def _accept(self, answer: JoinAnswer) -> None:
        raise InternalError(problem=f"leaf {self.id} got the answer of {answer.child}")

    def _positions(self) -> dict[int, OrderKey]:
        return {lane: self.mailbox.below(lane) for lane in self.mailbox.own}
