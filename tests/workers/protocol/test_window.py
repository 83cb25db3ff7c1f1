"""Work in flight is bounded by time: a checkpoint waits about a quarter of a second, however many synchronisations are pending."""

from __future__ import annotations

from typing import Any

import pytest

from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import END, after_heartbeat
from dgs.model.outputs import OutputBatch
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.protocol.bounds import BOUNDS, Window
from dgs.workers.protocol.host import Host, make_worker
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.messages import Snapshot
from tests.programs import INC, READ, Counters
from tests.workers.protocol.test_protocol import events

READS = 1000
MOST = 20
"""The number of successive snapshots."""


def node(name: str, children: tuple[PlanNode, ...] = (), **streams: Tag) -> PlanNode:
    tags = ImplTagSet.of({stream: TagSet.of(tag) for stream, tag in streams.items()})
    return PlanNode(name, tags, children=children)


class Slow(Counters):
    """Counters whose reads and increments each take some virtual time."""

    def __init__(self, read: float, *, accumulates: bool, increment: float = 0.0) -> None:
        self.now, self.seconds = 0.0, {READ: read, INC: increment}
        self.accumulates = (INC,) if accumulates else ()

    def identity(self) -> Any:
        return self.init()

    def update(self, state: Any, event: Any, emit: Any) -> Any:
        self.now += self.seconds[event.tag.kind]
        return super().update(state, event, emit)


FLAT = Plan(node("root", (node("A", a=INC(0)), node("B", b=INC(0))), r=READ(0)))
NESTED = Plan(
    node("root", (node("mid", (node("A", a=INC(0)), node("B", b=INC(0))), r=READ(0)), node("C", c=INC(1))))
)


def host_of(plan: Plan, program: Slow) -> Host:
    lanes = Lanes(plan, program.dependence)
    workers = [make_worker(n.id, program, lanes, clock=lambda: program.now) for n in plan.nodes()]
    streams = [stream for n in plan.nodes() for stream, _ in n.tags]
    sources = {stream: (stream,) for stream in streams}
    home = {n.id: 0 for n in plan.nodes()}
    host = Host(0, workers, lanes, home, hosts=1, sources=sources, buffer_bytes=10**9)
    host.workers["root"].start(program.init())
    host.wake("root")
    return host


@pytest.mark.parametrize("seconds", [0.0001, 0.01, 0.06, 1.0])
@pytest.mark.parametrize("plan", [FLAT, NESTED], ids=["flat", "nested"])
@pytest.mark.parametrize("accumulates", [True, False])
def test_checkpoint_waits_for_a_bounded_time(plan: Plan, accumulates: bool, seconds: float):
    """All reads have arrived and are released. The reads that are admitted before the snapshot take a bounded time."""
    program = Slow(seconds, accumulates=accumulates)
    host = host_of(plan, program)
    host.ingest("r", events("r", 0, READ(0), list(range(1, READS + 1)), [1] * READS), END)
    for rank, stream in enumerate(["a", "b", *(["c"] if plan is NESTED else [])], start=1):
        host.ingest(stream, [], after_heartbeat(READS, rank))
    asked, waits, read = None, [], 0
    for _, effect in host.pump():
        if isinstance(effect, OutputBatch):
            read += len(effect)
            if asked is None and len(waits) < MOST:
                asked = program.now
                host.workers["root"].snapshot()
                host.wake("root")
        elif isinstance(effect, Snapshot) and asked is not None:
            waits.append(program.now - asked)
            asked = None
    assert waits
    assert read == READS
    assert max(waits) <= (BOUNDS.growth + 1) * max(BOUNDS.seconds_in_flight, seconds)


def test_checkpoint_goes_before_the_events_that_a_leaf_has():
    program = Slow(1.0, accumulates=False)
    host = host_of(Plan(node("root", r=READ(0))), program)
    host.ingest("r", events("r", 0, READ(0), [1, 2, 3], [1] * 3), END)
    host.workers["root"].snapshot()
    kinds = [type(effect) for _, effect in host.pump()]
    assert kinds.index(Snapshot) < kinds.index(OutputBatch)


@pytest.mark.parametrize("accumulates", [True, False])
def test_leaf_lets_its_host_look_at_what_has_arrived_before_it_goes_on(accumulates: bool):
    """One pump takes a bounded time, although thousands of events are ready. All are folded in the end, in order."""
    program = Slow(0.01, accumulates=accumulates)
    host = host_of(Plan(node("root", (node("A", a=READ(0)), node("B", b=INC(1))), c=INC(2))), program)
    host.ingest("a", events("a", 0, READ(0), list(range(1, READS + 1)), list(range(READS))), END)
    for rank, stream in enumerate("bc", start=1):
        host.ingest(stream, [], after_heartbeat(READS, rank))
    longest, snapshots, outputs, pumps = 0.0, 0, 0, 0
    while outputs < READS:
        began = program.now
        for _, effect in host.pump():
            outputs += len(effect) if isinstance(effect, OutputBatch) else 0
            snapshots += isinstance(effect, Snapshot)
        host.validate_state()
        longest, pumps = max(longest, program.now - began), pumps + 1
        assert host.is_behind == (outputs < READS)
        assert host.load > 0 or not host.is_behind
        host.workers["root"].snapshot()
        host.wake("root")
    assert longest <= 2 * BOUNDS.seconds_in_flight + 0.02
    assert snapshots >= pumps - 2


def test_window_grows_while_rounds_are_fast_and_shrinks_at_once_when_they_are_slow():
    now = [0.0]
    window = Window(lambda: now[0])
    for _ in range(6):
        count = max(window.room, 1)
        window.announce(count)
        now[0] += 0.0001 * count
        window.complete(count)
    assert (
        BOUNDS.seconds_in_flight / 0.0001 / BOUNDS.growth < window.room <= BOUNDS.seconds_in_flight / 0.0001
    )
    count = window.room
    window.announce(count)
    now[0] += 0.06 * count
    window.complete(count)
    assert window.room == int(BOUNDS.seconds_in_flight / 0.06)
    assert not list(window.broken_invariants())


MANY = 200
"""Increments of a leaf between two rare reads."""

TIME_OF_ONE = 0.05
"""Seconds of an increment."""


def ask_in_between(host: Host, program: Slow) -> tuple[list[float], int]:
    """Request a snapshot after the previous one, whenever the host makes an output or a step; return the waits and the number of reads."""
    asked, waits, read = None, [], 0
    while True:
        for _, effect in host.pump():
            read += len(effect) if isinstance(effect, OutputBatch) else 0
            if isinstance(effect, Snapshot) and asked is not None:
                waits.append(program.now - asked)
                asked = None
        host.validate_state()
        if asked is None and host.is_behind:
            asked = program.now
            host.workers["root"].snapshot()
            host.wake("root")
        elif not host.is_behind:
            return waits, read


@pytest.mark.parametrize("often", [0, 2000], ids=["rare", "rare after many"])
@pytest.mark.parametrize("plan", [FLAT, NESTED], ids=["flat", "nested"])
@pytest.mark.parametrize("accumulates", [True, False])
def test_checkpoint_does_not_wait_for_the_events_before_a_rare_synchronisation(
    plan: Plan, accumulates: bool, often: int
):
    """Reads arrive long before the increments ahead of them are folded, which takes ten seconds per window and leaf."""
    program = Slow(0.02, accumulates=accumulates, increment=TIME_OF_ONE)
    host = host_of(plan, program)
    rare = [often + MANY * i for i in range(1, 7)]
    reads = [*range(2, often, 2), *rare]
    host.ingest("r", events("r", 0, READ(0), reads, [1] * len(reads)), END)
    before = list(range(often + 1, rare[-1]))
    for rank, stream in enumerate(["a", "b"], start=1):
        host.ingest(stream, events(stream, rank, INC(0), before, [1] * len(before)), END)
    if plan is NESTED:
        host.ingest("c", [], END)
    waits, read = ask_in_between(host, program)
    assert read == len(reads)
    assert len(waits) > MANY * TIME_OF_ONE
    assert max(waits) <= 5 * BOUNDS.seconds_in_flight


def test_leaf_forgets_no_event_that_is_released_while_it_is_behind():
    """Events that arrive while a leaf is behind are folded after the held events, although nothing more arrives."""
    program = Slow(0.1, accumulates=False)
    host = host_of(Plan(node("root", r=READ(0))), program)
    host.ingest("r", events("r", 0, READ(0), list(range(1, 11)), [1] * 10), after_heartbeat(10, 0))
    outputs = [effect for _, effect in host.pump() if isinstance(effect, OutputBatch)]
    assert host.is_behind
    host.ingest("r", events("r", 0, READ(0), [11], [1]), END)
    while host.is_behind:
        outputs += [effect for _, effect in host.pump() if isinstance(effect, OutputBatch)]
    assert sum(map(len, outputs)) == 11
