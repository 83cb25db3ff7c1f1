"""Releases are processed in orders that respect dependent lanes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import InternalError
from dgs.model.events import EventBatch
from dgs.model.tags import Tag
from dgs.workers.protocol.releases import Release


@st.composite
def releases(draw: st.DrawFn) -> Release:
    count = draw(st.integers(1, 4))
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=6))
    ordered = {
        i: tuple(j for j in range(count) if i != j and ((i, j) in pairs or (j, i) in pairs))
        for i in range(count)
    }
    lanes, batches = [], []
    for lane in range(count):
        ts, seq = 0, 0
        for _ in range(draw(st.integers(0, 2))):
            times = []
            for step in draw(st.lists(st.integers(0, 2), min_size=1, max_size=6)):
                ts += step
                times.append(ts)
            lanes.append(lane)
            batches.append(
                EventBatch.of(
                    "s",
                    rank=lane % 3,
                    tags=[Tag("t")],
                    ts=times,
                    seq=range(seq * 4 + lane, (seq + len(times)) * 4 + lane, 4),
                )
            )
            seq += len(times)
    return Release(tuple(lanes), batches, ordered)


@given(releases())
def test_stretches_keep_the_order_of_dependent_lanes(release):
    seen = [(lane, batch.key(row)) for lane, batch in release.stretches() for row in range(len(batch))]
    whole = [
        (lane, b.key(row))
        for lane, b in zip(release.lanes, release.batches, strict=True)
        for row in range(len(b))
    ]
    assert sorted(seen) == sorted(whole)
    for i, (lane, key) in enumerate(seen):
        for other, later in seen[i + 1 :]:
            assert key < later or (other != lane and other not in release.ordered[lane])


@given(releases(), st.integers(1, 8))
def test_pieces_are_the_events_before_a_key_and_the_rest(release, rows):
    """A piece is never empty, and has at most `rows` events of a lane. None of its events comes after the rest."""
    left, pieces = release, []
    while left is not None and len(left):
        piece, left = left.cut(rows)
        pieces.append(
            [
                (lane, b.key(i))
                for lane, b in zip(piece.lanes, piece.batches, strict=True)
                for i in range(len(b))
            ]
        )
        assert 0 < len(piece) <= rows * len(set(piece.lanes))
    events = [event for piece in pieces for event in piece]
    assert sorted(events) == sorted(
        (lane, b.key(i))
        for lane, b in zip(release.lanes, release.batches, strict=True)
        for i in range(len(b))
    )
    for earlier, later in pairwise(pieces):
        assert max(key for _, key in earlier) < min(key for _, key in later)


def events_of(release):
    pairs = zip(release.lanes, release.batches, strict=True)
    return [(batch.key(row), lane) for lane, batch in pairs for row in range(len(batch))]


@given(releases(), st.sets(st.integers(0, 3)), st.integers(0, 3))
def test_parts_around_events_of_some_lanes_are_in_order(release, apart, least):
    parts = release.around(apart, least)
    events = events_of(release)
    rare = sum(lane in apart for _, lane in events)
    assert bool(parts) == (rare > 0 and len(events) - rare >= max(1, least * rare))
    if not parts:
        return
    assert sorted(event for part in parts for event in events_of(part)) == sorted(events)
    for part in parts:
        assert len({lane in apart for lane in part.lanes}) == 1
    for earlier, later in pairwise(parts):
        assert max(events_of(earlier)) < min(events_of(later))
        assert (earlier.lanes[0] in apart) != (later.lanes[0] in apart)


@given(releases())
def test_merge_order_is_the_total_order(release):
    if not release.batches:
        return
    order, part, row = release.merge_order()
    keys = [release.batches[p].key(r) for p, r in zip(part.tolist(), row.tolist(), strict=True)]
    assert keys == sorted(b.key(r) for b in release.batches for r in range(len(b)))
    assert sorted(order.tolist()) == list(range(len(release)))


def batch(rank: int, ts: list[int]) -> EventBatch:
    return EventBatch.of("s", rank=rank, tags=[Tag("t")], ts=ts)


def test_independent_lanes_are_one_stretch_each_although_another_lane_depends_on_both():
    views = [batch(1, list(range(100))), batch(2, list(range(100)))]
    release = Release((0, 1, 2), [batch(0, [50]), *views], {0: (1, 2), 1: (0,), 2: (0,)})
    assert [(lane, len(b)) for lane, b in release.stretches()] == [(1, 50), (2, 50), (0, 1), (1, 50), (2, 50)]
    assert not release.is_dense()


def test_two_dependent_lanes_with_one_key_are_a_broken_invariant():
    with pytest.raises(InternalError, match="two lanes have an event"):
        list(Release((0, 1), [batch(0, [5]), batch(0, [5])], {0: (1,), 1: (0,)}).stretches())


def test_lanes_that_alternate_are_merged():
    release = Release((0, 1), [batch(0, list(range(100))), batch(1, list(range(100)))], {0: (1,), 1: (0,)})
    assert release.is_dense()
