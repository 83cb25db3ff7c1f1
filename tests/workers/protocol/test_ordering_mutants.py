"""More rules of the protocol removed in turn, most of them visible only where bounds are small: the simulation must notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.protocol import lanes as lanes_module
from dgs.workers.protocol import releases
from dgs.workers.protocol.edges import Edges
from dgs.workers.protocol.folding import fold
from dgs.workers.protocol.forking import Forking
from dgs.workers.protocol.inner import Inner, KeepingInner
from dgs.workers.protocol.lanes import Router
from dgs.workers.protocol.leaf import Leaf
from dgs.workers.protocol.mailbox import Mailbox
from dgs.workers.protocol.messages import Effect, JoinRequest, Send
from dgs.workers.protocol.pending import ParentRequests, Pending, Synchronisation
from dgs.workers.protocol.worker import Worker
from tests.workers.simulated.mutation import CRASHES, Mutant, assert_killed


def announces_a_request_ahead_of_held_events(patch: pytest.MonkeyPatch) -> None:
    """A request of the parent comes after the events that are released and held: they are before it."""
    original = Inner._release

    def whatever_is_held(worker: Inner) -> Iterator[Effect]:
        yield from original(worker)
        while worker.parent is not None and worker.has_state and not worker._hands_over and worker._held:
            requests = worker._take_requests(worker._bounds.most_requests if worker._accumulates else 1)
            if requests is None:
                return
            yield from worker._announce(ParentRequests(requests))

    patch.setattr(Inner, "_release", whatever_is_held)


def answers_a_request_at_a_frontier(patch: pytest.MonkeyPatch) -> None:
    """Frontiers are exclusive: a request waits for what may come at its own key of another lane."""
    original = Mailbox._bound

    def one_too_far(box: Mailbox, lane: int, beside_events: bool) -> OrderKey:
        bound = original(box, lane, beside_events)
        return bound if bound >= END or bound <= BEGIN else OrderKey(bound.ts + 1, bound.rank, bound.seq)

    patch.setattr(Mailbox, "_bound", one_too_far)


def releases_past_events_that_stay(patch: pytest.MonkeyPatch) -> None:
    """An event goes no further than the first event of a dependent lane that has to stay."""
    original = Mailbox._limits

    def without_the_others(box: Mailbox) -> dict[int, OrderKey]:
        limits = original(box)
        for lane in box.own:
            near = box._ordered[lane]
            limits[lane] = min((min(box._frontier[o], box._asked[o]) for o in near), default=END)
        return limits

    patch.setattr(Mailbox, "_limits", without_the_others)


def releases_past_requests(patch: pytest.MonkeyPatch) -> None:
    """An event waits for the join requests of an ancestor's lane that come before it."""
    original = Mailbox._limits

    def as_if_none_was_asked(box: Mailbox) -> dict[int, OrderKey]:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(box, "_asked", dict.fromkeys(box._asked, END))
            return original(box)

    patch.setattr(Mailbox, "_limits", as_if_none_was_asked)


def takes_windows_without_their_last_events(patch: pytest.MonkeyPatch) -> None:
    """An answer has all own events before the last of its requests."""
    original = Mailbox.take_windows

    def before_the_first(box: Mailbox, request: JoinRequest) -> list[EventBatch]:
        return original(box, request.cut(0, 1))

    patch.setattr(Mailbox, "take_windows", before_the_first)


def counts_positions_of_later_answers(patch: pytest.MonkeyPatch) -> None:
    """R5: positions are those of the states that are used, not of states that are still waiting."""

    def all_there_are(pending: Pending, count: int, positions: dict[int, OrderKey]) -> list[list[Any]]:
        pending._used += count
        for marks in pending._marks.values():
            while marks and marks[0][0] <= pending._used:
                positions.update(marks.popleft()[1])
            for _, known in marks:
                positions.update(known)
        return [[states.popleft() for _ in range(count)] for states in pending._states.values()]

    patch.setattr(Pending, "_take_states", all_there_are)


def keeps_positions_of_earlier_answers(patch: pytest.MonkeyPatch) -> None:
    """R5: positions move with the states that are used: older ones would let events come twice."""
    original = Pending._take_states

    def once(pending: Pending, count: int, positions: dict[int, OrderKey]) -> list[list[Any]]:
        return original(pending, count, {} if positions else positions)

    patch.setattr(Pending, "_take_states", once)


def joins_in_the_other_order(patch: pytest.MonkeyPatch) -> None:
    """C2: joins undo the forks on the same tree, left with left."""
    patch.setattr(Forking, "join", _swapped(Forking.join))


def _swapped(join: Any) -> Any:
    def other_way(forking: Forking, states: Any) -> Any:
        return join(forking, list(reversed(states)))

    return other_way


def hands_parts_to_the_wrong_children(patch: pytest.MonkeyPatch) -> None:
    """A child gets the part of the state that was forked for its tags."""
    original = Forking.fork

    def to_each_other(forking: Forking, state: Any) -> list[tuple[int, Any]]:
        parts = original(forking, state)
        return [(position, part) for (position, _), (_, part) in zip(parts, reversed(parts), strict=True)]

    patch.setattr(Forking, "fork", to_each_other)


def hands_up_its_base_and_keeps_it(patch: pytest.MonkeyPatch) -> None:
    """A worker that accumulates goes on from the identity: what it has handed up is counted."""
    original = KeepingInner._hand_up

    def kept(worker: KeepingInner, parts: list[Any]) -> Any:
        state = original(worker, parts)
        if worker._accumulates:
            worker._state = state
        return state

    patch.setattr(KeepingInner, "_hand_up", kept)


def folds_own_events_before_the_partial_states(patch: pytest.MonkeyPatch) -> None:
    """A worker's own event comes after the windows of its children that end with it."""
    original = KeepingInner._process

    def base_first(worker: KeepingInner, own: Any, parts: list[list[Any]]) -> Iterator[Effect]:
        if not own.needs_children:
            yield from original(worker, own, parts)
            return
        late = [[fold.NOTHING, *states[:-1]] for states in parts]
        rest = [states[-1] for states in parts]
        yield from original(worker, own, late)
        for state in rest:
            worker._state = worker._forking.joined_with(worker._state, state)

    patch.setattr(KeepingInner, "_process", base_first)


def relays_to_the_first_child_only(patch: pytest.MonkeyPatch) -> None:
    """Every child has to hear how far the lanes above it are, or it waits for ever."""
    original = Inner._relay

    def to_one(worker: Inner) -> Iterator[Effect]:
        for effect in original(worker):
            if isinstance(effect, Send) and effect.target == worker.children[0]:
                yield effect

    patch.setattr(Inner, "_relay", to_one)


def keeps_the_end_of_its_sources_to_itself(patch: pytest.MonkeyPatch) -> None:
    """All hosts tell the others that their sources have ended, or the root never makes the last request."""
    original = Edges._is_news

    def unless_ended(edges: Edges, told: Any, me: Any) -> bool:
        return original(edges, told, me) and not told.lowest_frontier < END <= me.lowest_frontier

    patch.setattr(Edges, "_is_news", unless_ended)


def deals_rows_in_another_order(patch: pytest.MonkeyPatch) -> None:
    """The rows of a lane stay in order when a batch is cut by lane."""
    original = lanes_module._rows_by_lane

    def backwards(*args: Any) -> Iterator[Any]:
        yield from ((lane, rows[::-1]) for lane, rows in original(*args))

    patch.setattr(lanes_module, "_rows_by_lane", backwards)


def sorts_rows_by_lane_alone(patch: pytest.MonkeyPatch) -> None:
    """A sort of rows by lane is stable."""
    argsort = np.argsort

    def unstable(values: Any, kind: str | None = None, **more: Any) -> Any:
        order = argsort(values, kind=kind, **more)
        return order if kind != "stable" else argsort(values[::-1], kind="stable")[::1] * -1 + len(values) - 1

    patch.setattr(lanes_module.np, "argsort", unstable)


def processes_lanes_one_after_the_other(patch: pytest.MonkeyPatch) -> None:
    """Stretches of one lane are cut where another has an event that must come between."""
    patch.setattr(releases, "_cut_each_other", lambda *_: None)


def merges_lanes_by_time_alone(patch: pytest.MonkeyPatch) -> None:
    """Lanes are merged by the whole key: at one instant the stream that is declared first comes first."""
    lexsort = np.lexsort
    patch.setattr(releases.np, "lexsort", lambda keys: lexsort(tuple(reversed(keys[1:]))[:1]))


def gives_the_last_window_what_comes_later(patch: pytest.MonkeyPatch) -> None:
    """A window that an event ends has nothing that comes after the event."""
    original = fold.windows_of

    def one_more(batch: EventBatch, keys: EventBatch | None) -> Any:
        stops, _ = original(batch, keys)
        if keys is not None:
            stops = np.minimum(stops + 1, len(batch))
        starts = np.concatenate(([0], stops[:-1]))
        return stops, np.flatnonzero(stops > starts).tolist()

    patch.setattr(fold, "windows_of", one_more)


def remembers_the_lane_of_a_tag_for_all_streams(patch: pytest.MonkeyPatch) -> None:
    """A lane is of one stream: the same tag on another stream may belong to another worker."""
    original = Router.lane

    def of_any_stream(router: Router, stream: str, tag: Any) -> int | None:
        known = router.__dict__.setdefault("_of_tag", {})
        return known.setdefault(tag, original(router, stream, tag))

    patch.setattr(Router, "lane", of_any_stream)


def answers_with_the_rows_of_another_request(patch: pytest.MonkeyPatch) -> None:
    """A request that is cut keeps the numbers of what is left of it."""
    original = JoinRequest.cut

    def numbered_from_the_front(request: JoinRequest, start: int, stop: int) -> JoinRequest:
        return replace(original(request, start, stop), number=request.number)

    patch.setattr(JoinRequest, "cut", numbered_from_the_front)


def forgets_where_it_was_cut(patch: pytest.MonkeyPatch) -> None:
    """The part of held events for which there is no room stays held."""
    original = Inner._with_room

    def all_or_nothing(worker: Inner) -> Iterator[Any]:
        before = list(worker._held)
        for entry in original(worker):
            if before and len(entry) < len(before[0]) and worker._held:
                worker._held.popleft()
            before = before[1:]
            yield entry

    patch.setattr(Inner, "_with_room", all_or_nothing)


def completes_entries_in_the_order_of_answers(patch: pytest.MonkeyPatch) -> None:
    """Synchronisations are completed in the order of their release: own events without children wait their turn."""
    original = Pending.add

    def ahead(pending: Pending, entry: Synchronisation) -> int:
        first = original(pending, entry)
        if not entry.needs_children and len(pending._queue) > 1 and not pending._done:
            pending._queue.appendleft(pending._queue.pop())
        return first

    patch.setattr(Pending, "add", ahead)


def shares_a_lane_among_workers_that_resume(patch: pytest.MonkeyPatch) -> None:
    """A worker resumes each lane at its own position, not all at the lowest or the highest."""
    original = Worker.resume

    def at_the_highest(worker: Worker, positions: Any) -> None:
        mine = [positions[lane] for lane in worker.mailbox.lanes]
        original(worker, dict.fromkeys(worker.mailbox.lanes, max(mine, default=BEGIN)))

    patch.setattr(Worker, "resume", at_the_highest)


def folds_windows_into_the_state_before(patch: pytest.MonkeyPatch) -> None:
    """The first window of an answer goes on from the state since the last answer, the others from the identity."""
    original = Leaf._answer_windows

    def from_the_identity(leaf: Leaf, request: JoinRequest) -> Iterator[Effect]:
        leaf._state = leaf._identity()
        yield from original(leaf, request)

    patch.setattr(Leaf, "_answer_windows", from_the_identity)


MUTANTS = [
    pytest.param(Mutant(announces_a_request_ahead_of_held_events), marks=pytest.mark.slow),
    Mutant(answers_a_request_at_a_frontier),
    Mutant(releases_past_events_that_stay),
    Mutant(releases_past_requests),
    Mutant(takes_windows_without_their_last_events),
    Mutant(counts_positions_of_later_answers),
    Mutant(keeps_positions_of_earlier_answers),
    Mutant(joins_in_the_other_order),
    Mutant(hands_parts_to_the_wrong_children),
    Mutant(hands_up_its_base_and_keeps_it),
    Mutant(folds_own_events_before_the_partial_states),
    Mutant(relays_to_the_first_child_only),
    Mutant(keeps_the_end_of_its_sources_to_itself),
    Mutant(deals_rows_in_another_order),
    Mutant(sorts_rows_by_lane_alone),
    Mutant(processes_lanes_one_after_the_other),
    Mutant(merges_lanes_by_time_alone),
    Mutant(gives_the_last_window_what_comes_later),
    Mutant(remembers_the_lane_of_a_tag_for_all_streams),
    Mutant(answers_with_the_rows_of_another_request),
    Mutant(forgets_where_it_was_cut),
    Mutant(completes_entries_in_the_order_of_answers),
    Mutant(shares_a_lane_among_workers_that_resume, ("crash",), CRASHES),
    Mutant(folds_windows_into_the_state_before),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_simulation_notices_a_protocol_that_orders_worse(mutant):
    assert_killed(mutant)
