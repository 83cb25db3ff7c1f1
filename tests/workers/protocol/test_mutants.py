"""Each rule of the protocol is removed in turn, and the seeded scheduler must notice it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dgs.model.order import END, OrderKey
from dgs.workers.protocol.edges import Edge, Edges, ReadGate
from dgs.workers.protocol.host import Host
from dgs.workers.protocol.inner import Inner
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.leaf import Leaf
from dgs.workers.protocol.mailbox import Mailbox
from dgs.workers.protocol.messages import EVERYTHING, Effect, Frame, JoinAnswer, JoinRequest, Message, Send
from dgs.workers.protocol.pending import OwnEvents, Pending, Preparations, Synchronisation
from dgs.workers.protocol.releases import Release
from dgs.workers.protocol.worker import Worker
from dgs.workers.recovery.positions import Positions
from dgs.workers.simulated.faults import Faults
from tests.workers.simulated.mutation import CRASHES, Mutant, assert_killed, case_of
from tests.workers.simulated.test_crashes import SEEDS_PER_WORKLOAD


def relays_past_waiting_requests(patch: pytest.MonkeyPatch) -> None:
    """R3: the frontier of a tag never overtakes a join request of that tag."""
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

    patch.setattr(Mailbox, "request", _append)
    patch.setattr(Mailbox, "take_requests", any_ready)
    patch.setattr(Pending, "accept", _accept_any)


def _append(box: Mailbox, request: JoinRequest) -> None:
    box._requests.append(request)
    if request.lane is not None and request.keys is not None:
        box.advance(request.lane, request.keys.key(len(request) - 1))


def _accept_any(pending: Pending, answer: JoinAnswer) -> None:
    pending._states[answer.child].extend(answer.states)
    pending._marks[answer.child].append((pending._used, answer.positions))


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
        if entry.needs_children or not isinstance(entry, OwnEvents):
            yield from original(worker, entry)
            return
        release = Release((entry.lane,), [entry.batch])
        worker._state, outputs = worker._folder.fold(worker._state, release)
        yield from outputs

    patch.setattr(Inner, "_announce", at_once)


def releases_behind_a_hand_over(patch: pytest.MonkeyPatch) -> None:
    """A worker that is about to hand its state up releases nothing behind that request."""
    patch.setattr(Inner, "_hands_over", property(lambda _: False))


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


def takes_repeated_frames(patch: pytest.MonkeyPatch) -> None:
    """R1: a repeated frame is dropped."""
    original = Edge.accept

    def again(edge: Edge, frame: Frame) -> bool:
        return original(edge, frame) or (
            frame.generation == edge.generation and frame.sequence <= edge.received
        )

    patch.setattr(Edge, "accept", again)


def does_not_notice_a_gap(patch: pytest.MonkeyPatch) -> None:
    """R1: a frame that is missing ends the generation."""
    original = Edge.accept

    def whatever_comes(edge: Edge, frame: Frame) -> bool:
        if frame.generation == edge.generation and frame.sequence > edge.received:
            edge.received = frame.sequence - 1
        return original(edge, frame)

    patch.setattr(Edge, "accept", whatever_comes)


def takes_frames_of_older_generations(patch: pytest.MonkeyPatch) -> None:
    """R1: a frame of an older generation is dropped."""
    original = Edge.accept

    def of_any(edge: Edge, frame: Frame) -> bool:
        return original(edge, replace(frame, generation=edge.generation))

    patch.setattr(Edge, "accept", of_any)


def keeps_no_order_of_messages(patch: pytest.MonkeyPatch) -> None:
    """R2: messages on an edge are first in, first out."""
    send, put = Host._send, Edges.put

    def last_first(host: Host, target: str, message: Message) -> None:
        send(host, target, message)
        if host._home[target] == host.index:
            host._queue.rotate(1)

    def in_front(edges: Edges, host: int, target: str, message: Message) -> None:
        put(edges, host, target, message)
        outgoing = edges._to[host].outgoing
        outgoing.insert(0, outgoing.pop())

    patch.setattr(Host, "_send", last_first)
    patch.setattr(Edges, "put", in_front)


def answers_keyless_requests_at_once(patch: pytest.MonkeyPatch) -> None:
    """R4: a keyless request is answered after the earlier ones."""
    original = Mailbox.take_requests

    def keyless_first(box: Mailbox, most: int = 1, *, beside_events: bool = False) -> JoinRequest | None:
        for request in box._requests:
            if request.lane is None and not request.is_final:
                if request is box._requests[0]:
                    break
                box._requests.remove(request)
                return request
        return original(box, most, beside_events=beside_events)

    patch.setattr(Mailbox, "request", _append)
    patch.setattr(Mailbox, "take_requests", keyless_first)
    patch.setattr(Pending, "accept", _accept_any)


def forgets_the_events_it_holds(patch: pytest.MonkeyPatch) -> None:
    """R3, R5: what is released and not announced is above positions, and above what children are told."""
    patch.setattr(Inner, "_unsent", lambda worker, lane: worker.mailbox.below(lane))


def goes_on_with_a_state_it_handed_up(patch: pytest.MonkeyPatch) -> None:
    """R9: a state that was handed up is not changed again."""
    original = Leaf._answer_windows

    def shared(leaf: Leaf, request: JoinRequest) -> Iterator[Effect]:
        for effect in original(leaf, request):
            if isinstance(effect, Send) and isinstance(effect.message, JoinAnswer):
                leaf._state = effect.message.states[-1]
            yield effect

    patch.setattr(Leaf, "_answer_windows", shared)


def goes_on_before_its_state_is_copied(patch: pytest.MonkeyPatch) -> None:
    """R9: the root's snapshot is copied before the root goes on."""
    original = Host.pump

    def all_at_once(host: Host, **more: Any) -> Iterator[Any]:
        yield from list(original(host, **more))

    patch.setattr(Host, "pump", all_at_once)


def makes_the_last_request_early(patch: pytest.MonkeyPatch) -> None:
    """The root makes the last request when all children are prepared for it: a bounded run flushes everything."""
    original = Preparations.is_met
    patch.setattr(Preparations, "is_met", lambda known, wish: wish is EVERYTHING or original(known, wish))


def lets_nobody_read_over_the_bound(patch: pytest.MonkeyPatch) -> None:
    """R11: the source with the globally lowest frontier may always read on."""
    original = ReadGate.next_source

    def strictly(gate: ReadGate, load: int, *args: Any) -> str | None:
        return None if load > gate._buffer_bytes else original(gate, load, *args)

    patch.setattr(ReadGate, "next_source", strictly)


def reads_whatever_is_there(patch: pytest.MonkeyPatch) -> None:
    """R11: over the bound only the source that is furthest behind is read."""
    original = ReadGate.next_source

    def with_room(gate: ReadGate, *args: Any) -> str | None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(gate, "_buffer_bytes", 2**60)
            return original(gate, *args)

    patch.setattr(ReadGate, "next_source", with_room)


def says_nothing_of_its_frontier(patch: pytest.MonkeyPatch) -> None:
    """R11: hosts exchange their lowest frontiers while one is full."""
    patch.setattr(Edges, "_is_news", lambda *_: False)


def begins_again_at_the_beginning(patch: pytest.MonkeyPatch) -> None:
    """A resumed mailbox starts at the restored positions."""
    patch.setattr(Worker, "resume", lambda *_: None)


def check_without_layers(seed: int) -> None:
    """Run a seed under one plan for all generations: then positions do not go back even if earlier ones are forgotten."""
    case = case_of(seed // SEEDS_PER_WORKLOAD, None)
    fixed = replace(case, layout=case.layout_of(random.Random(seed)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Positions, "over", lambda positions, _older: positions)
        fixed.check_with(seed, Faults(**CRASHES))


MUTANTS = [
    pytest.param(Mutant(relays_past_waiting_requests), marks=pytest.mark.slow),
    Mutant(answers_requests_in_any_order),
    Mutant(orders_by_dependence_above_children),
    Mutant(takes_own_accumulating_events_out_of_turn),
    Mutant(releases_behind_a_hand_over),
    Mutant(forgets_the_events_in_flight),
    Mutant(relays_more_than_it_knows),
    Mutant(takes_repeated_frames, ("network",), {"repetition": 0.3}),
    Mutant(does_not_notice_a_gap, ("network",), {"crashes": 3, "loss": 0.05}),
    Mutant(takes_frames_of_older_generations, ("crash",), {**CRASHES, "straggling": 1.0}),
    Mutant(keeps_no_order_of_messages),
    Mutant(answers_keyless_requests_at_once),
    Mutant(forgets_the_events_it_holds),
    Mutant(goes_on_with_a_state_it_handed_up),
    Mutant(goes_on_before_its_state_is_copied, ("odd",), {"oddity": 0.1, "until": None}, subject="history"),
    Mutant(makes_the_last_request_early, ("network",), {"delay": 0.2, "until": None}, subject="history"),
    Mutant(lets_nobody_read_over_the_bound),
    Mutant(reads_whatever_is_there, ("odd",)),
    Mutant(says_nothing_of_its_frontier),
    Mutant(begins_again_at_the_beginning, run=check_without_layers),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_scheduler_notices_a_protocol_without_this_rule(mutant):
    assert_killed(mutant)
