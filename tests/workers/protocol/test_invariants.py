"""Workers, mailboxes and hosts notice broken invariants: each test corrupts one part of a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dgs
from dgs.errors import InternalError
from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import BEGIN, END, OrderKey
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.planner.plan import Plan, PlanNode
from dgs.planner.prediction.costs import Costs
from dgs.planner.topology import Stream, Topology
from dgs.workers.protocol.bounds import Bounds
from dgs.workers.protocol.edges import Peer
from dgs.workers.protocol.folding.joined_windows import NOTHING
from dgs.workers.protocol.host import Host, make_worker
from dgs.workers.protocol.inner import ForkingInner, KeepingInner
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.mailbox import Mailbox
from dgs.workers.protocol.messages import ForkedState, Frontiers, JoinRequest
from dgs.workers.protocol.pending import OwnEvents, ParentRequests
from dgs.workers.protocol.worker import Worker
from dgs.workers.simulated.simulation import simulate
from dgs.workers.virtual.virtual_figures import in_virtual_time
from tests.programs import BARRIER, VALUE, EventWindow
from tests.workers.protocol.test_host import Ordinary

Spoil = Callable[[Any], object]
"""Changes one part of a state."""


def spoils(*ways: tuple[Spoil, str]) -> Any:
    """Run a test with each way to corrupt a state, and with the expected problem."""
    return pytest.mark.parametrize(("spoil", "problem"), ways, ids=[problem for _, problem in ways])


def events(stream: str, rank: int, tag: Tag, ts: list[int]) -> EventBatch:
    return EventBatch.of(stream, rank=rank, tags=[tag], ts=ts, payload=ts)


def assert_noticed(checked: Mailbox | Worker | Host, spoilt: Any, spoil: Spoil, problem: str) -> None:
    """Assert that a valid state is accepted, and that the corrupted state is refused with this problem."""
    checked.validate_state()
    spoil(spoilt)
    assert any(problem in told for told in checked.broken_invariants()), list(checked.broken_invariants())
    with pytest.raises(InternalError):
        checked.validate_state()


# -- mailboxes ---------------------------------------------------------------------------------------------------------


def mailbox() -> Mailbox:
    """Return a mailbox that has released a part of a batch, and holds the rest and a request for a lane above."""
    box = Mailbox(own=[0], ordered={0: (1,), 1: (0,)})
    box.offer(0, events("v", 0, VALUE(0), [1, 2, 5]))
    box.offer(0, events("v", 0, VALUE(0), [8, 9]))
    box.request(JoinRequest(1, 1, events("b", 1, BARRIER(), [3, 4]).keys_only()))
    box.request(JoinRequest(3, 1, events("b", 1, BARRIER(), [7]).keys_only()))
    assert [len(release) for release in box.release()] == [2]
    assert len(box.take_requests() or ()) == 1
    return box


def renumbered(box: Mailbox, number: int, lane: int) -> None:
    box._requests[1] = JoinRequest(number, lane, box._requests[1].keys)


MAILBOX: list[tuple[Spoil, str]] = [
    (lambda box: setattr(box, "nbytes", box.nbytes - 1), "bytes"),
    (lambda box: box._start.update({0: 3}), "3 events of the first batch count as released"),
    (lambda box: box._heads.update({0: END}), "is not its first event"),
    (lambda box: box._events[0].rotate(1), "are not in order"),
    (lambda box: box._frontier.update({0: OrderKey(9, 0, 0)}), "is not below the frontier"),
    (lambda box: box._frontier.update({1: OrderKey(6, 0, 0)}), "is above the frontier of its lane"),
    (lambda box: box._frontier.update({1: BEGIN}), "lane 1 went back"),
    (lambda box: box._requests.clear(), "1 requests of the first entry count as answered"),
    (lambda box: setattr(box, "_answered", 0), "is not the key of its first join request"),
    (lambda box: box._asked.update({1: END}), "is not the key of its first join request"),
    (lambda box: box._asked.update({1: BEGIN}), "lane 1 went back"),
    (lambda box: renumbered(box, 4, 1), "request 4 comes after 1"),
    (lambda box: renumbered(box, 3, 0), "is for lane 0, which is no ancestor's"),
]


@spoils(*MAILBOX)
def test_mailbox_notices_a_corrupted_state(spoil, problem):
    box = mailbox()
    assert_noticed(box, box, spoil, problem)


# -- workers -----------------------------------------------------------------------------------------------------------

LEAVES = tuple(PlanNode(f"leaf{i}", ImplTagSet.of({f"v{i}": TagSet.of(VALUE(i))})) for i in range(2))
FLAT = PlanNode("root", ImplTagSet.of(b=TagSet.of(BARRIER)), children=LEAVES)
BESIDE = PlanNode("beside", ImplTagSet.of(v2=TagSet.of(VALUE(2))))
DEEP = PlanNode("top", ImplTagSet.of(c=TagSet.of(BARRIER)), children=(FLAT, BESIDE))
STREAMS = ("b", "c", "v0", "v1")


def host_of(program: EventWindow, root: PlanNode = FLAT, home: dict[str, int] | None = None) -> Host:
    """Return a host whose root has requested its children's states before two events, and has received one of them."""
    plan = Plan(root)
    lanes = Lanes(plan, program.dependence)
    home = home or {node.id: 0 for node in plan.nodes()}
    bounds = Bounds(first_in_flight=4)
    workers = [make_worker(node, program, lanes, bounds=bounds) for node, host in home.items() if host == 0]
    sources = {stream: (stream,) for stream in STREAMS}
    host = Host(0, workers, lanes, home, hosts=1 + max(home.values()), sources=sources, buffer_bytes=10**6)
    host.workers[root.id].start(program.init())
    host.wake(root.id)
    host.ingest("b", [events("b", 0, BARRIER(), [3, 6])], OrderKey(6, 0, 2))
    if root is DEEP:
        host.ingest("c", [events("c", 1, BARRIER(), [4])], OrderKey(6, 1, 1))
    host.ingest("v0", [events("v0", 2, VALUE(0), [1, 2, 4])], OrderKey(4, 2, 3))
    host.ingest("v1", [], OrderKey(1, 3, 0))
    list(host.pump())
    host.validate_state()
    return host


def worker(program: EventWindow, name: str, root: PlanNode = FLAT) -> Any:
    return host_of(program, root).workers[name]


def release_twice(inner: Any) -> None:
    (own, *_) = inner._pending
    inner._pending.add(own)


def go_on_behind_a_hand_over(inner: Any) -> None:
    inner._pending.add(ParentRequests(JoinRequest(1, None, None)))
    inner._pending.add(OwnEvents(0, events("b", 0, BARRIER(), [8]), needs_children=True))


LEAF: list[tuple[Spoil, str]] = [
    (lambda leaf: setattr(leaf, "_state", NOTHING), "it accumulates, but has no state"),
    (lambda leaf: leaf.finish(), "it is not the root"),
    (lambda leaf: setattr(leaf, "_is_finished", True), "before all sources had ended"),
    (lambda leaf: setattr(leaf.mailbox, "nbytes", 1), "bytes"),
]
INNER: list[tuple[Spoil, str]] = [
    (lambda inner: setattr(inner._pending, "_done", 9), "9 of the first synchronisation count as complete"),
    (lambda inner: setattr(inner._pending, "_asked", 9), "are in flight"),
    (lambda inner: inner._pending._queue.pop(), "are in flight"),
    (lambda inner: inner._pending._answered.update(leaf0=9), "leaf0 has answered 9 requests"),
    (lambda inner: inner._pending._states["leaf1"].append(0), "there are 1 states of leaf1, not 0"),
    (lambda inner: inner._pending._marks["leaf0"].clear(), "the positions of leaf0"),
    (lambda inner: inner._relayed.update({0: END}), "children were told that lane 0"),
    (lambda inner: inner._relayed.update({0: BEGIN}), "children were not told that lane 0"),
    (lambda inner: inner.mailbox._frontier.update({0: BEGIN}), "is still to come"),
    (release_twice, "is released after"),
]
KEEPING: list[tuple[Spoil, str]] = [
    (lambda inner: setattr(inner, "_state", NOTHING), "although its state is at the parent"),
]
FORKING: list[tuple[Spoil, str]] = [
    (lambda inner: setattr(inner, "_is_below", False), "although its state is at the parent"),
    (lambda inner: setattr(inner, "_state", 0), "its state is here, and at the children"),
]


@spoils(*LEAF)
def test_leaf_notices_a_corrupted_state(spoil, problem):
    leaf = worker(EventWindow(), "leaf0")
    assert_noticed(leaf, leaf, spoil, problem)


@spoils(*INNER, *KEEPING)
def test_worker_that_keeps_the_base_notices_a_corrupted_state(spoil, problem):
    inner = worker(EventWindow(), "root")
    assert isinstance(inner, KeepingInner)
    assert_noticed(inner, inner, spoil, problem)


@spoils(*INNER, *FORKING)
def test_worker_that_forks_notices_a_corrupted_state(spoil, problem):
    inner = worker(Ordinary(), "root")
    assert isinstance(inner, ForkingInner)
    assert_noticed(inner, inner, spoil, problem)


def test_worker_notices_events_in_flight_after_a_request_that_takes_its_state():
    inner = worker(Ordinary(), "root", DEEP)
    assert_noticed(inner, inner, go_on_behind_a_hand_over, "behind a request that takes the state")


# -- hosts -------------------------------------------------------------------------------------------------------------

HOST: list[tuple[Spoil, str]] = [
    (lambda host: setattr(host.workers["leaf1"].mailbox, "nbytes", 1), "worker leaf1: it counts 1 bytes"),
    (lambda host: setattr(host.workers["leaf0"], "_state", 0), "the state of leaf0 is in 2 places"),
    (lambda host: setattr(host.workers["leaf1"], "_state", NOTHING), "the state of leaf1 is in 0 places"),
    (lambda host: host._queue.append(("leaf1", ForkedState(0))), "the state of leaf1 is in 2 places"),
    (lambda host: host._queue.append(("far", Frontiers(()))), "far is to act here"),
    (lambda host: host.wake("far"), "far is to act here"),
    (lambda host: host._gate._frontiers.update(b=BEGIN), "source 'b' went back"),
    (lambda host: host._gate.advance("v0", END), "leaf0 does not know that source 'v0'"),
]


@spoils(*HOST)
def test_host_notices_a_corrupted_state(spoil, problem):
    host = host_of(Ordinary())
    assert_noticed(host, host, spoil, problem)


EDGES: list[tuple[Spoil, str]] = [
    (lambda edges: edges.put(1, "root", Frontiers(())), "a message for root is on the way to host 1"),
    (lambda edges: setattr(edges._to[1], "peer", Peer(END)), "came from host 1 without a frame"),
    (lambda edges: setattr(edges._to[1], "told", Peer(END)), "without a frame"),
]


@spoils(*EDGES)
def test_host_notices_a_corrupted_state_of_its_edges(spoil, problem):
    host = host_of(Ordinary(), home={"root": 0, "leaf0": 0, "leaf1": 1})
    assert_noticed(host, host._edges, spoil, problem)


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _miscounts(monkeypatch):
    """Let every mailbox count a byte too many for each batch."""
    original = Mailbox.offer

    def miscounting(box: Mailbox, lane: int, batch: EventBatch) -> None:
        original(box, lane, batch)
        box.nbytes += 1

    monkeypatch.setattr(Mailbox, "offer", miscounting)


def few_streams() -> dict[str, list[EventBatch]]:
    return {"b": [events("b", 0, BARRIER(), [3])], "v0": [events("v0", 1, VALUE(0), [1])], "v1": []}


@pytest.mark.usefixtures("_miscounts")
def test_simulation_looks_at_hosts_and_workers_after_every_step():
    with pytest.raises(InternalError, match="bytes"):
        simulate(EventWindow(), Plan(FLAT), few_streams(), seed=1, validates=True)


@pytest.mark.usefixtures("_miscounts")
def test_simulation_does_not_look_unless_asked_to():
    simulate(EventWindow(), Plan(FLAT), few_streams(), seed=1)


@pytest.mark.usefixtures("_miscounts")
def test_local_runs_of_tests_look_after_every_step():
    with pytest.raises(InternalError, match="bytes"):
        dgs.run(EventWindow(), streams=few_streams())


@pytest.mark.usefixtures("_miscounts")
def test_runs_of_tests_in_virtual_time_look_after_every_step():
    topology = Topology([Stream("v0", TagSet.of(VALUE(0)), {VALUE(0): 9.0})])
    plan = Plan(PlanNode("w0", ImplTagSet.of(v0=TagSet.of(VALUE(0)))))
    with pytest.raises(InternalError, match="bytes"):
        in_virtual_time(plan, EventWindow(), topology, Costs(kinds={"value": 1e-3}))
