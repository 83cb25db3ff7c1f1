"""Counts of events by tag: exact for small batches, approximate for large ones, and bounded."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs import Tag
from dgs.model.events import EventBatch
from dgs.workers.runtime import host_sources
from dgs.workers.runtime.host_sources import LEAST_COUNTED, TagCounts


def batch(codes, tags=4, stream="s"):
    return EventBatch.of(
        stream, rank=0, tags=[Tag("k", i) for i in range(tags)], ts=range(len(codes)), codes=codes
    )


@given(st.lists(st.lists(st.integers(0, 3), max_size=LEAST_COUNTED), max_size=5))
def test_events_of_small_batches_are_counted_one_by_one(batches):
    counts = TagCounts()
    for codes in batches:
        counts.add(batch(codes))
    every = [code for codes in batches for code in codes]
    assert counts.take() == {("s", Tag("k", code)): every.count(code) for code in set(every)}


def test_a_part_of_large_batches_stands_for_all():
    rnd, counts, shares = random.Random(1), TagCounts(), (0.5, 0.3, 0.15, 0.05)
    for _ in range(200):
        counts.add(batch(rnd.choices(range(4), shares, k=5000)))
    found = counts.take()
    assert sum(found.values()) == pytest.approx(1_000_000)
    for code, share in enumerate(shares):
        assert found["s", Tag("k", code)] == pytest.approx(1_000_000 * share, rel=0.15)


def test_tags_in_a_regular_pattern_are_counted_without_a_bias():
    counts, period = TagCounts(), 16
    codes = [int(row % period == 0) for row in range(LEAST_COUNTED * period)]
    for _ in range(100):
        counts.add(batch(codes))
    assert counts.take()["s", Tag("k", 1)] == pytest.approx(100 * LEAST_COUNTED, rel=0.3)


@pytest.mark.parametrize("period", [2, 4, 7])
@pytest.mark.parametrize("events", [6_000, 262_144])
def test_tags_that_take_turns_are_counted_alike_in_one_batch(events, period):
    counts = TagCounts()
    counts.add(batch([row % period for row in range(events)], tags=period))
    found = counts.take()
    assert len(found) == period
    assert min(found.values()) > 0.3 * events / period


def test_the_last_event_of_each_batch_is_counted():
    counts, events = TagCounts(), 3 * LEAST_COUNTED - 1
    for _ in range(1000):
        counts.add(batch([0] * (events - 1) + [1]))
    assert counts.take()["s", Tag("k", 1)] == pytest.approx(1000, rel=0.2)


def test_tags_beyond_the_bound_are_counted_together(monkeypatch):
    monkeypatch.setattr(host_sources, "MOST_TAGS", 2)
    counts = TagCounts()
    counts.add(batch([0, 1, 2, 3, 0]))
    counts.add(batch([2], stream="t"))
    assert counts.take() == {("s", Tag("k", 0)): 2, ("s", Tag("k", 1)): 1, ("s", None): 2, ("t", None): 1}
