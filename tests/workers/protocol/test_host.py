"""Hosts: frames (R1), the source to read next (R11), and events to the owners of their tags."""

from __future__ import annotations

import pytest

from dgs.errors import FrameGapError, UnownedTagError
from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import BEGIN, END, OrderKey
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.protocol.host import Host, make_worker
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.messages import Events, ForkedState, Frame, Frontiers, Prepare
from tests.programs import BARRIER, VALUE, EventWindow

PLAN = Plan(
    PlanNode(
        "root",
        ImplTagSet.of(b=TagSet.of(BARRIER)),
        children=tuple(PlanNode(f"leaf{i}", ImplTagSet.of({f"v{i}": TagSet.of(VALUE(i))})) for i in range(2)),
    )
)
HOME = {"root": 0, "leaf0": 0, "leaf1": 1}


class Ordinary(EventWindow):
    """Event windows whose leaves wait for a state before they process anything."""

    accumulates = ()

    def fork(self, state, left, right):
        return state, 0


def make_host(
    index: int, sources: tuple[str, ...], buffer_bytes: int = 10**6, program: Program | None = None
) -> Host:
    program = program or Ordinary()
    lanes = Lanes(PLAN, program.dependence)
    workers = [make_worker(node, program, lanes) for node, host in HOME.items() if host == index]
    streams = {source: (source,) for source in sources}
    return Host(
        index, workers, lanes, HOME, hosts=2, sources=streams, buffer_bytes=buffer_bytes, generation=3
    )


def values(stream: int, ts: list[int]) -> EventBatch:
    return EventBatch.of(f"v{stream}", rank=1 + stream, tags=[VALUE(stream)], ts=ts, payload=ts)


def frame(sequence: int, *, generation: int = 3, lowest_frontier: OrderKey = BEGIN, load: int = 0) -> Frame:
    message = ("leaf0", Frontiers(((1, OrderKey(sequence, 1, 0)),)))
    return Frame(1, generation, sequence, (message,), lowest_frontier, load)


def pump(host: Host, **options: bool) -> None:
    list(host.pump(**options))
    host.validate_state()


def test_host_drops_repeated_frames_and_those_of_older_generations():
    host = make_host(0, ("b",))
    host.receive(frame(1))
    host.receive(frame(1))
    host.receive(frame(2, generation=2))
    host.receive(frame(2))
    assert [key.ts for _, message in host._queue for _, key in message.by_lane] == [1, 2]


def test_host_refuses_a_gap_between_frames():
    host = make_host(0, ("b",))
    host.receive(frame(1))
    with pytest.raises(FrameGapError) as gap:
        host.receive(frame(3))
    assert (gap.value.expected, gap.value.got) == (2, 3)


def test_host_numbers_its_frames_and_keeps_the_order_of_messages():
    host = make_host(0, ("v1",))
    host.ingest("v1", [values(1, [1, 2])], OrderKey(2, 2, 2))
    host.ingest("v1", [values(1, [3])], OrderKey(3, 2, 3))
    ((target, first),) = host.frames()
    assert (target, first.sequence, first.generation) == (1, 1, 3)
    assert [type(message).__name__ for _, message in first.messages] == ["Events", "Frontiers"] * 2
    assert first.lowest_frontier == OrderKey(3, 2, 3)
    assert list(host.frames()) == []


def test_host_names_stream_row_and_tag_of_an_event_without_an_owner():
    host = make_host(0, ("v0",))
    batch = EventBatch.of(
        "v0", rank=1, tags=[VALUE(0), VALUE(7)], codes=[0, 0, 1], ts=[1, 2, 3], seq=[10, 11, 12]
    )
    with pytest.raises(UnownedTagError) as unowned:
        host.ingest("v0", [batch], END)
    assert (unowned.value.stream, unowned.value.row, unowned.value.tag) == ("v0", 12, VALUE(7))


def test_host_reads_the_source_that_is_furthest_behind():
    host = make_host(0, ("b", "v0"))
    host.ingest("b", [], OrderKey(5, 0, 0))
    assert host.next_source() == "v0"
    host.ingest("v0", [], OrderKey(9, 1, 0))
    assert host.next_source() == "b"
    host.ingest("b", [], END)
    host.ingest("v0", [], END)
    assert host.next_source() is None


def test_host_that_is_full_reads_only_if_it_is_furthest_behind_of_all():
    host = make_host(0, ("b", "v0"), buffer_bytes=10)
    host.ingest("b", [], OrderKey(50, 0, 0))
    host.ingest("v0", [values(0, [1, 2, 3])], OrderKey(3, 1, 3))
    pump(host)
    assert host.load > 10
    host.receive(frame(1, lowest_frontier=OrderKey(2, 2, 0)))
    assert host.next_source() is None
    host.receive(frame(2, lowest_frontier=OrderKey(30, 2, 0)))
    assert host.next_source() == "v0"
    assert host.starved_reads == 1


def test_host_reads_others_while_the_source_that_is_furthest_behind_has_nothing():
    host = make_host(0, ("b", "v0"))
    host.ingest("b", [], OrderKey(5, 0, 0))
    assert host.next_source(lambda source: source != "v0") == "b"
    assert host.next_source(lambda source: False) is None


def test_host_that_is_full_reads_no_other_source_while_the_lowest_has_nothing():
    host = make_host(0, ("b", "v0"), buffer_bytes=10)
    host.receive(frame(1, lowest_frontier=OrderKey(30, 2, 0)))
    host.ingest("b", [], OrderKey(2, 0, 0))
    host.ingest("v0", [values(0, [3, 4, 5])], OrderKey(5, 1, 3))
    pump(host)
    assert host.load > 10
    assert host.next_source(lambda source: source != "b") is None
    assert host.starved_reads == 0
    assert host.next_source() == "b"


def test_host_does_not_feed_a_host_that_is_full():
    host = make_host(0, ("v1",), buffer_bytes=10)
    host.receive(frame(1, lowest_frontier=BEGIN, load=11))
    host.ingest("v1", [], OrderKey(1, 2, 0))
    assert host.next_source() is None
    host.receive(frame(2, lowest_frontier=BEGIN, load=3))
    assert host.next_source() == "v1"


@pytest.mark.parametrize("keys", [3, 40])
def test_host_gives_every_event_of_a_mixed_batch_to_its_owner(keys):
    """Few lanes and many lanes are split by different methods."""
    leaves = tuple(PlanNode(f"leaf{i}", ImplTagSet.of(v=TagSet.of(VALUE(i)))) for i in range(keys))
    plan = Plan(PlanNode("root", ImplTagSet.of(b=TagSet.of(BARRIER)), children=leaves))
    program = Ordinary()
    lanes = Lanes(plan, program.dependence)
    home = {node.id: 0 for node in plan.nodes()}
    workers = [make_worker(node.id, program, lanes) for node in plan.nodes()]
    host = Host(0, workers, lanes, home, hosts=1, sources={"v": ("v",)}, buffer_bytes=10**6)
    codes = [i * 7 % keys for i in range(200)]
    batch = EventBatch.of(
        "v", rank=1, tags=[VALUE(i) for i in range(keys)], codes=codes, ts=range(200), payload=codes
    )
    host.ingest("v", [batch], END)
    got = {}
    for target, message in host._queue:
        if isinstance(message, Events):
            got[target] = [(e.tag, e.ts, e.payload) for e in message.batch.events()]
    assert got == {
        f"leaf{k}": [(VALUE(k), ts, k) for ts in range(200) if codes[ts] == k] for k in range(keys)
    }


def test_host_lets_parts_of_a_state_leave_before_its_own_workers_go_on():
    host = make_host(0, ("b", "v0"))
    host.workers["root"].start(Ordinary().init())
    host.wake("root")
    host.ingest("b", [], END)
    host.ingest("v0", [values(0, [1])], END)
    pump(host, until_awaited=True)
    ((target, sent),) = host.frames()
    assert (target, host.workers["leaf0"].events) == (1, 0)
    assert isinstance(sent.messages[0][1], ForkedState)
    pump(host, until_awaited=True)
    assert host.workers["leaf0"].events == 1


def test_host_lets_requests_leave_before_its_own_workers_go_on():
    host = make_host(0, ("b", "v0"), program=EventWindow())
    host.workers["root"].start(EventWindow().init())
    host.ingest("v0", [values(0, [1, 2])], END)
    barrier = EventBatch.of("b", rank=0, tags=[BARRIER()], ts=[3], payload=[0])
    host.ingest("b", [barrier], END)
    pump(host, until_awaited=True)
    ((target, sent),) = host.frames()
    assert (target, host.workers["leaf0"].events) == (1, 0)
    assert any(isinstance(message, Prepare) for _, message in sent.messages)
    pump(host, until_awaited=True)
    assert host.workers["leaf0"].events == 2


def test_host_lets_events_leave_before_its_own_workers_go_on():
    host = make_host(0, ("v0", "v1"), program=EventWindow())
    host.ingest("v0", [values(0, [1, 2])], END)
    host.ingest("v1", [values(1, [1, 2])], END)
    pump(host, until_awaited=True)
    ((target, sent),) = host.frames()
    assert (target, host.workers["leaf0"].mailbox.held, host.is_behind) == (1, 0, True)
    assert any(isinstance(message, Events) for _, message in sent.messages)
    pump(host, until_awaited=True)
    assert not host.is_behind
