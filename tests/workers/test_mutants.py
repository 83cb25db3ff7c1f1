"""Each rule of the protocol removed in turn: the seeded scheduler must notice, or it would not notice our mistakes either."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dgs.errors import DgsError
from dgs.order import END, OrderKey
from tests.workers.test_simulation import check_seed
from workers.effects import Effect
from workers.inner import Inner
from workers.lanes import Lanes
from workers.mailbox import Mailbox
from workers.messages import JoinAnswer, JoinRequest
from workers.pending import Pending, Synchronisation
from workers.runs import Run

SEEDS = range(30_000, 31_500)


def relays_past_waiting_requests(patch: pytest.MonkeyPatch) -> None:
    """R3: progress of a tag never overtakes a join request of that tag."""
    patch.setattr(Mailbox, "below", lambda box, lane: min(box._frontier[lane], box._heads.get(lane, END)))


def answers_requests_in_any_order(patch: pytest.MonkeyPatch) -> None:
    """R4: requests are answered in the parent's order even when a later one could be answered first."""
    original = Mailbox.take_requests

    def any_ready(box: Mailbox, most: int = 1, *, beside_events: bool = False) -> JoinRequest | None:
        for _ in range(len(box._requests)):
            box._requests[0] = box._requests[0].cut(box._answered, len(box._requests[0]))
            box._answered = 0
            box._requests.rotate(-1)
            if (ready := original(box, most, beside_events=beside_events)) is not None:
                return ready
        return None

    def any_answer(pending: Pending, answer: JoinAnswer) -> None:
        pending._states[answer.child].extend(answer.states)
        pending._marks[answer.child].append((pending._used, answer.positions))

    patch.setattr(Mailbox, "request", _append)
    patch.setattr(Mailbox, "take_requests", any_ready)
    patch.setattr(Pending, "accept", any_answer)


def _append(box: Mailbox, request: JoinRequest) -> None:
    box._requests.append(request)
    if request.lane is not None and request.keys is not None:
        box.advance(request.lane, request.keys.key(len(request) - 1))


def orders_by_dependence_above_children(patch: pytest.MonkeyPatch) -> None:
    """R6: tags connected through the subtree are released in order at a worker with children."""

    def dependent(lanes: Lanes, node_id: str) -> dict[int, tuple[int, ...]]:
        mailbox = [lane.id for lane in (*lanes.of(node_id), *lanes.above(node_id))]
        return {i: tuple(j for j in mailbox if j != i and j in lanes._neighbours[i]) for i in mailbox}

    patch.setattr(Lanes, "ordered", dependent)


def takes_own_accumulating_events_out_of_turn(patch: pytest.MonkeyPatch) -> None:
    """A worker's own accumulating events wait their turn behind its pending synchronisations."""
    original = Inner._announce

    def at_once(worker: Inner, entry: Synchronisation) -> Iterator[Effect]:
        if entry.asks or entry.events is None or entry.lane is None:
            yield from original(worker, entry)
            return
        run = Run((entry.lane,), [entry.events])
        worker._state, outputs = worker._folder.fold(worker._state, run)
        yield from outputs

    patch.setattr(Inner, "_announce", at_once)


def releases_behind_a_hand_over(patch: pytest.MonkeyPatch) -> None:
    """A worker that is about to hand its state up releases nothing behind that request."""
    patch.setattr(Inner, "_hands_over", property(lambda _: False, lambda *_: None), raising=False)


def forgets_the_events_in_flight(patch: pytest.MonkeyPatch) -> None:
    """R5: a position stands before events that are released and not yet processed."""
    patch.setattr(Pending, "first_event", lambda *_: None)


def relays_more_than_it_knows(patch: pytest.MonkeyPatch) -> None:
    """Frontiers are exclusive: an event at the frontier may still come."""
    original = Mailbox.advance

    def too_far(box: Mailbox, lane: int, frontier: OrderKey) -> None:
        original(
            box, lane, OrderKey(frontier.ts + 1, frontier.rank, frontier.seq) if frontier < END else frontier
        )

    patch.setattr(Mailbox, "advance", too_far)


MUTANTS = [
    relays_past_waiting_requests,
    answers_requests_in_any_order,
    orders_by_dependence_above_children,
    takes_own_accumulating_events_out_of_turn,
    releases_behind_a_hand_over,
    forgets_the_events_in_flight,
    relays_more_than_it_knows,
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_scheduler_notices_a_protocol_without_this_rule(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch
):
    mutant(monkeypatch)
    killed = None
    for seed in SEEDS:
        try:
            check_seed(seed)
        except (AssertionError, DgsError, IndexError, KeyError, TypeError, AttributeError):
            killed = seed
            break
    assert killed is not None, f"no seed of {SEEDS} notices: {mutant.__doc__}"
