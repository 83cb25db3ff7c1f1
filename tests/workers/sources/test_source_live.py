"""Live sources with a clock that tests set: pace, linger, heartbeats, and late events."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import OutOfOrderError
from dgs.model.order import END, OrderKey
from dgs.model.tags import Tag
from dgs.workers.sources.live.heartbeats import Heartbeats, Wall, delay_in
from dgs.workers.sources.live.paced import SLICE, Paced
from dgs.workers.sources.pipeline import PipelineSource
from dgs.workers.sources.rows import SECOND, Arrivals, Beats, Live, LiveTime, nothing
from dgs.workers.sources.shaping.disorder import ordering
from tests.workers.reading import opened, rows, stream

MS = SECOND // 1000


class Turned:
    """A clock in nanoseconds that moves on command."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Turned:
    return Turned()


def numbers(times):
    """Yield one value at each time: the generator of these tests."""
    return ((("value"), ts, number) for number, ts in enumerate(times))


def batches(times, rows_each):
    """Yield the same as columns."""
    times = list(times)
    for start in range(0, len(times), rows_each):
        part = times[start : start + rows_each]
        yield {"ts": part, "payload": list(range(start, start + len(part)))}


def paced(clock, times, *, pace="1k/s", linger=0, function="numbers", args=None, unit="ms", **sections):
    source = {
        "generator": {"ref": f"{__name__}:{function}", "args": {"times": times, **(args or {})}, "pace": pace}
    }
    sections.setdefault("payload", "payload")
    return opened(stream(source, **sections), unit=unit, time=LiveTime(linger, elapsed=clock, now=clock))


def read_due(source):
    """Read as long as the source has something; return the payloads, and its last frontier."""
    found, frontier = [], None
    while source.wait <= 0 and frontier != END:
        reading = source.read()
        frontier = reading.frontier
        found += [payload for *_, payload in rows(reading.batches)]
    return found, frontier


def test_pace_lets_rows_through_when_they_are_due(clock):
    source = paced(clock, [5, 5, 7, 100])
    assert read_due(source) == ([0], OrderKey(5, 0, 1))
    assert source.wait == pytest.approx(0.001)
    clock.now = 2 * MS
    assert read_due(source) == ([1, 2], OrderKey(7, 0, 3))
    clock.now = 3 * MS
    assert read_due(source) == ([3], END)


def test_pace_brings_nothing_when_read_too_early(clock):
    source = paced(clock, [5, 6])
    read_due(source)
    reading = source.read()
    assert (reading.batches, reading.frontier) == ((), OrderKey(5, 0, 1))


def test_pace_is_left_out_without_clocks():
    source = {"generator": {"ref": f"{__name__}:numbers", "args": {"times": [1, 2, 3]}, "pace": "1/d"}}
    config = stream(source, heartbeat={"every": "1s", "max_delay": 0})
    assert len(opened(config, unit="ms").read().batches[0]) == 3


def test_linger_collects_rows_until_the_first_has_waited_so_long(clock):
    source = paced(clock, range(100), linger=5 * MS)
    assert source.wait == pytest.approx(0.005)
    clock.now = 4 * MS
    assert source.wait == pytest.approx(0.001)
    clock.now = 5 * MS
    assert read_due(source)[0] == [0, 1, 2, 3, 4, 5]
    assert source.wait == pytest.approx(0.006)  # the next row is due in 1 ms


@given(
    lengths=st.lists(st.integers(1, 7), max_size=8),
    rate=st.integers(1, 5000),
    linger=st.sampled_from([0, 1, MS, 7 * MS]),
    steps=st.lists(st.integers(0, 20 * MS), max_size=60),
)
def test_pace_is_never_ahead_nor_more_than_linger_behind(lengths, rate, linger, steps):
    """For any pieces of the generator and any moments of reading."""
    clock, first = Turned(), 0
    pieces = []
    for length in lengths:
        pieces.append(Arrivals(first, np.arange(first, first + length)))
        first += length
    source = Paced(iter(pieces), rate=rate, time=LiveTime(linger, elapsed=clock), batch_rows=3)
    passed = 0
    for step in steps:
        clock.now += step
        while source.wait() <= 0:
            part = next(source, None)
            if part is None:
                assert passed == first
                return
            assert part.ts.tolist() == list(range(passed, passed + len(part)))
            passed += len(part)
        due = sum(Fraction(row, rate) * SECOND <= clock.now for row in range(first))
        overdue = sum(
            Fraction(row, rate) * SECOND <= clock.now - max(linger, SLICE) - 1 for row in range(first)
        )
        assert overdue <= passed <= due + 1


def test_pace_passes_heartbeats_of_the_generator_after_their_rows(clock):
    rows_and_beats = Arrivals(0, np.array([1, 2, 9]), beats=Beats((0, 2), [0, 5]))
    source = Paced(iter([rows_and_beats]), rate=1000, time=LiveTime(0, elapsed=clock), batch_rows=9)
    assert next(source).beats == Beats((0,), [0])
    clock.now = MS
    assert next(source).beats == Beats((1,), [5])
    clock.now = 2 * MS
    assert next(source).beats.before == ()
    assert next(source, None) is None


def test_pace_begins_where_a_run_resumes(clock):
    source = paced(clock, range(20), pace="100/s")
    source.skip_to(OrderKey(12, 0, 12))
    assert 12 <= len(read_due(source)[0]) <= 13
    clock.now = 10 * MS
    _, frontier = read_due(source)
    assert frontier == OrderKey(13, 0, 14)


BEATS = {"every": "10ms", "max_delay": "0"}


@pytest.mark.parametrize(
    "base", [OrderKey(12, 0, 12), OrderKey(12, 0, 0), OrderKey(12, 3, 700), OrderKey(11, 3, 1)]
)
def test_resumed_pace_waits_for_no_row_that_is_in_the_state(clock, base):
    """Whether the checkpoint is after an event, after a heartbeat, or at an event of another stream."""
    source = paced(clock, range(20), pace="1/m")
    source.skip_to(base)
    first_new = 12 if base.rank == 0 else base.ts + 1
    found, _ = read_due(source)
    assert found[:first_new] == list(range(first_new))
    assert len(found) <= first_new + 1
    clock.now += 60 * SECOND
    assert read_due(source)[0] == [len(found)]


def test_resumed_pace_begins_when_the_known_rows_have_been_read(clock):
    """Reading them again takes time, which later rows do not catch up with."""
    source = paced(clock, range(100), pace="10/s")
    source.skip_to(OrderKey(50, 0, 0))
    while source.wait <= 0 and source.read().frontier.ts < 50:
        clock.now += SECOND
    began = clock.now
    read_due(source)
    clock.now = began + SECOND
    assert len(read_due(source)[0]) <= 10


def test_heartbeats_of_a_pace_go_evenly_from_row_to_row(clock):
    source = paced(clock, [1000, 2000, 5000], pace="10/s", heartbeat=BEATS)
    assert read_due(source)[0] == [0]
    assert source.wait == pytest.approx(0.010)
    clock.now = 25 * MS
    assert read_due(source) == ([], OrderKey(1250, 0, 0))
    clock.now = 99 * MS
    assert read_due(source) == ([], OrderKey(1990, 0, 0))
    clock.now = 100 * MS
    assert read_due(source)[0] == [1]
    clock.now = 150 * MS
    assert read_due(source) == ([], OrderKey(3500, 0, 0))


def test_heartbeats_of_a_pace_lag_by_max_delay(clock):
    source = paced(clock, [1000, 2000], pace="10/s", heartbeat={"every": "10ms", "max_delay": "300ms"})
    read_due(source)
    clock.now = 20 * MS
    assert read_due(source) == ([], OrderKey(1000, 0, 1))  # 900 says nothing new
    clock.now = 50 * MS
    assert read_due(source) == ([], OrderKey(1200, 0, 0))


def test_heartbeats_come_only_after_a_silence(clock):
    source = paced(clock, range(0, 100, 10), pace="200/s", heartbeat=BEATS)  # a row every 5 ms
    for clock.now in range(0, 40 * MS, MS):
        _, frontier = read_due(source)
        assert frontier is None or frontier.seq > 0  # behind a row, never behind a heartbeat


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=12),
    st.integers(1, 2000),
    st.lists(st.integers(1, 30 * MS), max_size=40),
)
def test_heartbeats_of_a_pace_never_make_disorder_of_rows_in_order(times, rate, steps):
    clock = Turned()
    source = paced(clock, sorted(times), pace=f"{rate}/s", heartbeat={"every": "1ms", "max_delay": "0"})
    found = []
    for step in [0, *steps]:
        clock.now += step
        payloads, frontier = read_due(source)
        found += payloads
        if frontier == END:
            break
    assert found == list(range(len(found)))


class Script(Live):
    """A live source with the rows that a test gives it."""

    def __init__(self) -> None:
        self.arrivals: list[Arrivals] = []

    def wait(self) -> float:
        return 0.0 if self.arrivals else 3600.0

    def __next__(self) -> Arrivals:
        return self.arrivals.pop(0)

    def close(self) -> None:
        self.arrivals.clear()


def test_heartbeats_of_the_clock_are_now_minus_max_delay(clock):
    beating = Heartbeats(
        Script(),
        every=SECOND,
        max_delay=delay_in("ms", 1_500_000),
        clock=clock,
        reached=Wall("ms", clock=clock),
    )
    assert beating.wait() == 1.0
    clock.now = SECOND + 7 * MS + 1
    assert beating.wait() == 0.0
    assert list(next(beating).beats.ts) == [1007 - 2 - 1]  # an event at 1005 is just in time
    assert beating.wait() == 1.0


def test_heartbeats_never_go_back_with_the_clock(clock):
    wall = Turned()
    beating = Heartbeats(Script(), every=MS, max_delay=0, clock=clock, reached=Wall("ms", clock=wall))
    beats = []
    for elapsed, now in itertools.pairwise([0, 9, 12, 4, 13]):
        del elapsed
        beating.wait()
        clock.now += MS
        wall.now = now * MS
        beats += list(next(beating).beats.ts)
    assert beats == [8, 11, 12]


@pytest.mark.parametrize(("policy", "drops"), [("drop", 1), ("error", None), (1000, None)])
def test_row_below_a_heartbeat_is_disorder(clock, policy, drops):
    """Under every policy a heartbeat that was sent stays valid."""
    script = Script()
    wall = Wall("ms", clock=clock)
    beating = Heartbeats(script, every=10 * MS, max_delay=0, clock=clock, reached=wall)
    order = ordering(policy, stream="s", rank=0)
    source = PipelineSource(beating, order, stream="s", impl_streams=("s",), batch_rows=10)
    assert source.wait == pytest.approx(0.010)
    clock.now = 50 * MS
    assert read_due(source) == ([], OrderKey(50, 0, 0))
    script.arrivals = [Arrivals(0, np.array([49, 50]), (Tag("value"),))]
    if drops is None:
        with pytest.raises(OutOfOrderError) as late:
            read_due(source)
        assert (late.value.row, late.value.ts, late.value.previous) == (0, 49, 49)
    else:
        assert read_due(source)[1] == OrderKey(50, 0, 2)
        assert source.drops == drops


def test_live_source_has_nothing_to_wait_for_after_its_end(clock):
    source = paced(clock, [3])
    assert read_due(source) == ([0], END)
    assert source.wait == 0.0
    assert nothing(3).first == 3
