"""Plans and arrival orders that broke earlier protocols, each as a named test (design: R3, R4, R6)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dgs.errors import StalledError
from dgs.model.dependence import ALWAYS, Dependence
from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import END, after_heartbeat
from dgs.model.outputs import OutputBatch
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.planner.plan import Plan, PlanNode
from dgs.semantics import sequential
from dgs.workers.protocol.bounds import BOUNDS
from dgs.workers.protocol.host import Host, make_worker
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.mailbox import Mailbox
from dgs.workers.protocol.messages import Snapshot
from dgs.workers.simulated.simulation import simulate
from tests.programs import INC, READ, Counters, History

SEEDS = 200


def node(name: str, children: tuple[PlanNode, ...] = (), **streams: Tag) -> PlanNode:
    tags = ImplTagSet.of({stream: TagSet.of(tag) for stream, tag in streams.items()})
    return PlanNode(name, tags, children=children)


def events(stream: str, rank: int, tag: Tag, ts: list[int], payload: list[int]) -> list[EventBatch]:
    return [EventBatch.of(stream, rank=rank, tags=[tag], ts=ts, payload=payload)]


DEADLOCK_PLAN = Plan(node("root", (node("reads", r=READ(0)), node("other", x=READ(1))), a=INC(0), b=INC(0)))
"""The root owns independent increments of two streams, and a child the reads that depend on both."""


def deadlock_streams() -> dict[str, list[EventBatch]]:
    return {
        "r": events("r", 0, READ(0), [2, 6], [1, 1]),
        "a": events("a", 1, INC(0), [5, 7], [10, 20]),
        "b": events("b", 2, INC(0), [1, 4], [1, 2]),
        "x": events("x", 3, READ(1), [3], [1]),
    }


def test_deadlock_plan_gives_the_sequential_outputs():
    for seed in range(SEEDS):
        run = simulate(Counters(), DEADLOCK_PLAN, deadlock_streams(), seed=seed, validates=True)
        assert sorted(run.values()) == [(0, 1), (0, 12), (1, 0)]


def test_deadlock_plan_without_rule_six_stalls(monkeypatch):
    def by_dependence_only(self: Lanes, node_id: str) -> dict[int, tuple[int, ...]]:
        mailbox = [lane.id for lane in (*self.of(node_id), *self.above(node_id))]
        return {i: tuple(j for j in mailbox if j != i and j in self._neighbours[i]) for i in mailbox}

    monkeypatch.setattr(Lanes, "ordered", by_dependence_only)
    stalled = 0
    for seed in range(SEEDS):
        try:
            simulate(Counters(), DEADLOCK_PLAN, deadlock_streams(), seed=seed)
        except StalledError:
            stalled += 1
    assert stalled > 0


JOIN_ORDER_PLAN = Plan(
    node(
        "root",
        (node("A", ia1=INC(1), ia2=INC(2)), node("B", ib1=INC(1), ib2=INC(2))),
        r1=READ(1),
        r2=READ(2),
    )
)
JOIN_ORDER_STREAMS = ("r1", "r2", "ia1", "ia2", "ib1", "ib2")


def one_host(plan: Plan, streams: tuple[str, ...]) -> Host:
    program = Counters()
    lanes = Lanes(plan, program.dependence)
    workers = [make_worker(n.id, program, lanes) for n in plan.nodes()]
    home = {n.id: 0 for n in plan.nodes()}
    host = Host(
        0,
        workers,
        lanes,
        home,
        hosts=1,
        sources={stream: (stream,) for stream in streams},
        buffer_bytes=10**9,
    )
    host.workers[plan.root.id].start(program.init())
    host.wake(plan.root.id)
    return host


@pytest.mark.parametrize("last", ["ib2", "ib1", "ia1", "r1"])
def test_join_order_plan_gives_the_sequential_outputs_whichever_heartbeat_is_last(last):
    host = one_host(JOIN_ORDER_PLAN, JOIN_ORDER_STREAMS)
    rank = {stream: i for i, stream in enumerate(JOIN_ORDER_STREAMS)}
    arrivals = [
        ("r2", events("r2", rank["r2"], READ(2), [1], [0])),
        ("r1", events("r1", rank["r1"], READ(1), [2], [0])),
        ("ib1", events("ib1", rank["ib1"], INC(1), [3], [7])),
    ]
    outputs = []

    def pump() -> None:
        for _, effect in host.pump():
            outputs.extend(effect.to_list() if isinstance(effect, OutputBatch) else [])
        host.validate_state()

    for stream, batches in arrivals:
        host.ingest(stream, batches, batches[0].key(0))
        pump()
    for ts in (10, None):
        for stream in [*(s for s in JOIN_ORDER_STREAMS if s != last), last]:
            host.ingest(stream, [], END if ts is None else after_heartbeat(ts, rank[stream]))
            pump()
    assert sorted(outputs) == [(1, 0), (2, 0)]


def test_join_order_plan_gives_the_sequential_outputs_under_any_schedule():
    streams = {stream: [] for stream in JOIN_ORDER_STREAMS}
    streams["r2"] = events("r2", 1, READ(2), [1], [0])
    streams["r1"] = events("r1", 0, READ(1), [2], [0])
    streams["ib1"] = events("ib1", 4, INC(1), [3], [7])
    for seed in range(SEEDS):
        run = simulate(Counters(), JOIN_ORDER_PLAN, streams, seed=seed, validates=True)
        assert sorted(run.values()) == [(1, 0), (2, 0)]


X, Y, Z, FAR = Tag("x"), Tag("y"), Tag("z"), Tag("far")
OVERTAKING_PLAN = Plan(
    node("root", (node("inner", (node("leaf", s=X), node("side", w=Z)), q=Z), node("far", v=FAR)), p=Y)
)
"""Requests for y wait at the inner worker while it joins for a z, and the x of the leaf depend on y."""


def overtaking_runs(*, validates: bool) -> Iterator[tuple[list[object], list[object]]]:
    program = History(Dependence(("x", "y", ALWAYS), ("z", "z", ALWAYS)))
    streams = {
        "p": events("p", 0, Y, [1, 4, 5], [1, 4, 5]),
        "q": events("q", 1, Z, [0, 3, 5], [100, 103, 105]),
        "s": events("s", 2, X, [2, 6, 7], [12, 16, 17]),
        "v": events("v", 3, FAR, [1], [200]),
        "w": [],
    }
    expected = sequential.run(program, list(streams.values()))
    for seed in range(SEEDS):
        run = simulate(program, OVERTAKING_PLAN, streams, seed=seed, validates=validates)
        yield sorted(map(repr, run.values())), sorted(repr(output.value) for output in expected.outputs)


@pytest.mark.slow
def test_progress_does_not_overtake_a_request_that_waits_at_an_inner_worker():
    for got, expected in overtaking_runs(validates=True):
        assert got == expected


def test_progress_that_overtakes_waiting_requests_is_noticed(monkeypatch):
    """The mutant of R3: relay the frontier, although a join request below it has not been sent down."""
    monkeypatch.setattr(
        Mailbox, "below", lambda box, lane: min(box._frontier[lane], box._heads.get(lane, END))
    )
    assert any(got != expected for got, expected in overtaking_runs(validates=False))


@pytest.mark.parametrize("root_stream", [{}, {"r": READ(0)}])
def test_checkpoints_go_on_after_all_streams_of_the_root_have_ended(root_stream):
    """The last request waits for everything, so it must not be made while other streams go on."""
    leaves = (node("A", a=INC(1)), node("B", b=INC(2)))
    host = one_host(Plan(node("root", leaves, **root_stream)), (*root_stream, "a", "b"))
    for stream in root_stream:
        host.ingest(stream, [], END)
    seen = []

    def snapshots() -> list[bool]:
        seen.extend(effect for _, effect in host.pump() if isinstance(effect, Snapshot))
        host.validate_state()
        return [snapshot.is_final for snapshot in seen]

    host.ingest("a", events("a", 0, INC(1), [1], [5]), END)
    assert snapshots() == []
    for count in (1, 2):
        host.workers["root"].snapshot()
        host.wake("root")
        assert snapshots() == [False] * count
    host.ingest("b", events("b", 1, INC(2), [1], [7]), END)
    assert snapshots() == [False, False, True]
    assert [snapshot.epoch for snapshot in seen] == [1, 2, 3]


def test_checkpoint_does_not_wait_for_a_stream_of_the_root_that_was_read_ahead():
    """A keyless request is answered after those before it: their number is bounded by the children's answers."""
    host = one_host(
        Plan(node("root", (node("A", a=INC(0)), node("B", b=INC(1))), r=READ(0))), ("r", "a", "b")
    )
    host.ingest("r", events("r", 0, READ(0), list(range(1, 1001)), [1] * 1000), END)
    assert list(host.pump()) == []
    host.workers["root"].snapshot()
    host.wake("root")
    host.ingest("a", [], after_heartbeat(100, rank=1))
    host.ingest("b", [], after_heartbeat(100, rank=2))
    effects = [effect for _, effect in host.pump()]
    host.validate_state()
    assert [effect.is_final for effect in effects if isinstance(effect, Snapshot)] == [False]
    assert sum(len(effect) for effect in effects if isinstance(effect, OutputBatch)) >= BOUNDS.first_in_flight
