"""Mailboxes release many events at once, and are compared with their rule for single events."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import InternalError
from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, OrderKey, after_event
from dgs.model.tags import Tag
from dgs.workers.protocol.mailbox import Mailbox
from dgs.workers.protocol.messages import JoinRequest

LANES = 5
OWN = 3


@st.composite
def relations(draw: st.DrawFn) -> dict[int, tuple[int, ...]]:
    pairs = [(i, j) for i in range(LANES) for j in range(i)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True))
    return {i: tuple(j for j in range(LANES) if (max(i, j), min(i, j)) in chosen) for i in range(LANES)}


class OneByOne:
    """The rule of Section 3.4 literally: one event, and all lanes that it depends on."""

    def __init__(self, ordered: dict[int, tuple[int, ...]]) -> None:
        self.ordered = ordered
        self.buffers: dict[int, list[OrderKey]] = {lane: [] for lane in range(LANES)}
        self.frontiers = dict.fromkeys(range(LANES), BEGIN)

    def releasable(self, lane: int, key: OrderKey) -> bool:
        return all(
            self.frontiers[other] >= key and not any(k < key for k in self.buffers[other])
            for other in self.ordered[lane]
        )

    def release(self) -> Iterator[tuple[int, OrderKey]]:
        moved = True
        while moved:
            moved = False
            for lane in range(OWN):
                while self.buffers[lane] and self.releasable(lane, self.buffers[lane][0]):
                    yield lane, self.buffers[lane].pop(0)
                    moved = True


def requests(lane: int, ts: list[int], seq: int = 0) -> EventBatch:
    return EventBatch.of("p", rank=lane, tags=[Tag("t")], ts=ts, seq=range(seq, seq + len(ts)))


def released(box: Mailbox) -> list[tuple[int, OrderKey]]:
    keys = []
    for one in box.release():
        for lane, batch in zip(one.lanes, one.batches, strict=True):
            keys += [(lane, batch.key(row)) for row in range(len(batch))]
    return keys


@given(relations(), st.data())
def test_mailbox_releases_exactly_the_events_that_the_rule_allows(ordered, data):
    box, model = Mailbox(range(OWN), ordered), OneByOne(ordered)
    seq = dict.fromkeys(range(LANES), 0)
    now = dict.fromkeys(range(LANES), 0)
    number = 0
    for _ in range(data.draw(st.integers(1, 12))):
        lane = data.draw(st.integers(0, LANES - 1))
        steps = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=4))
        if lane < OWN and data.draw(st.booleans()):
            ts = []
            for step in steps:
                now[lane] += step
                ts.append(now[lane])
            batch = EventBatch.of(
                "s", rank=lane, tags=[Tag("t")], ts=ts, seq=range(seq[lane], seq[lane] + len(ts))
            )
            seq[lane] += len(ts)
            box.offer(lane, batch)
            model.buffers[lane] += [batch.key(row) for row in range(len(batch))]
            model.frontiers[lane] = after_event(model.buffers[lane][-1])
        elif lane >= OWN and data.draw(st.booleans()):
            now[lane] += steps[0]
            keys = requests(lane, [now[lane]] * len(steps), seq[lane])
            box.request(JoinRequest(number + 1, lane, keys))
            number, seq[lane] = number + len(keys), seq[lane] + len(keys)
            model.buffers[lane] += [keys.key(row) for row in range(len(keys))]
            model.frontiers[lane] = max(model.frontiers[lane], model.buffers[lane][-1])
        else:
            now[lane] += steps[0]
            frontier = OrderKey(now[lane], lane, seq[lane])
            box.advance(lane, frontier)
            model.frontiers[lane] = max(model.frontiers[lane], frontier)
        box.validate_state()
        assert sorted(released(box)) == sorted(model.release())
        box.validate_state()
    for lane in range(LANES):
        first = min([*model.buffers[lane], model.frontiers[lane]])
        assert box.below(lane) == first


def test_mailbox_looks_at_lanes_that_all_depend_on_each_other_once_a_release(monkeypatch):
    lanes, looks = 100, []
    box = Mailbox(range(lanes), {i: tuple(j for j in range(lanes) if j != i) for i in range(lanes)})
    original = Mailbox._first_from
    monkeypatch.setattr(
        Mailbox, "_first_from", lambda box, lane, limit: looks.append(lane) or original(box, lane, limit)
    )
    for lane in range(lanes):
        assert box.release() == []  # the lanes after this one may still have something earlier
        box.offer(lane, EventBatch.of("a", rank=lane, tags=[Tag("x")], ts=[1, 5]))
    assert not looks
    assert len(released(box)) == lanes + 1  # all events of time 1, and the first of time 5
    assert len(looks) <= 3 * lanes


def test_mailbox_never_merges_independent_lanes():
    box = Mailbox([0, 1], {0: (), 1: ()})
    for lane in (0, 1):
        box.offer(lane, EventBatch.of("s", rank=lane, tags=[Tag("t")], ts=[1, 2, 3]))
    assert [one.lanes for one in box.release()] == [(0,), (1,)]


def test_mailbox_answers_requests_in_their_order_only():
    """R4: a later request waits, although it has all that it depends on."""
    box = Mailbox([0], {0: (1,), 1: (0,), 2: ()})
    box.request(JoinRequest(1, 1, requests(1, [5, 7])))
    box.request(JoinRequest(3, 2, requests(2, [1])))
    assert box.take_requests() is None
    box.advance(0, OrderKey(6, 0, 0))
    assert box.take_requests().number == 1
    assert box.take_requests() is None
    box.advance(0, OrderKey(8, 0, 0))
    assert [box.take_requests().number, box.take_requests().number] == [2, 3]


def test_mailbox_gives_many_requests_at_once_up_to_what_has_arrived():
    box = Mailbox([0], {0: (1,), 1: (0,)})
    box.request(JoinRequest(1, 1, requests(1, [5, 7, 9])))
    box.offer(0, EventBatch.of("s", rank=0, tags=[Tag("t")], ts=[1, 6, 7, 8]))
    taken = box.take_requests(10, beside_events=True)
    assert (taken.number, len(taken)) == (1, 2)
    assert [batch.ts.tolist() for batch in box.take_windows(taken)] == [[1, 6, 7]]
    assert box.below(0) == OrderKey(8, 0, 3)


def test_mailbox_answers_a_request_without_lane_at_once():
    box = Mailbox([0], {0: ()})
    box.offer(0, EventBatch.of("s", rank=0, tags=[Tag("t")], ts=[1]))
    box.request(JoinRequest(1, None, None))
    assert box.take_requests().number == 1


def test_mailbox_refuses_events_below_its_frontier():
    box = Mailbox([0], {0: ()})
    box.advance(0, OrderKey(5, 0, 0))
    with pytest.raises(InternalError, match="below frontier"):
        box.offer(0, EventBatch.of("s", rank=0, tags=[Tag("t")], ts=[4]))


def test_mailbox_counts_the_bytes_it_holds():
    box = Mailbox([0], {0: (1,), 1: (0,)})
    batch = EventBatch.of("s", rank=0, tags=[Tag("t")], ts=[1, 2, 3])
    box.offer(0, batch)
    assert box.nbytes == batch.nbytes
    box.advance(1, END)
    box.release()
    assert box.nbytes == 0
