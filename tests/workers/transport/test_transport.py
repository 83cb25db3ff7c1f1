"""Transports: frames arrive in order without loss, strangers are kept out, and the bytes in flight are bounded."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import ChannelUnavailableError, CodecError, WorkerLostError
from dgs.job.schema import RuntimeConfig, StreamConfig
from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import BEGIN
from dgs.model.tag_sets import TagSet
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.protocol.messages import ForkedState, Frame
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.engine import Engine
from dgs.workers.runtime.job import Job
from dgs.workers.transport import zeromq
from dgs.workers.transport.contract import Credits
from dgs.workers.transport.frames import encoded
from dgs.workers.transport.ray_calls import RayTransport
from dgs.workers.transport.unix_sockets import LocalTransport
from dgs.workers.transport.zeromq import HEADER, DirectTransport, new_secret
from tests.programs import BARRIER, VALUE, EventWindow

zmq = pytest.importorskip("zmq")

LOOPBACK = "127.0.0.1"
PATIENCE = 60.0


def frame(sender, sequence, state=None):
    return Frame(sender, 0, sequence, (("w1", ForkedState(state)),), BEGIN, 0)


def direct(hosts, *, bound=1000, secret=None):
    secret = secret or new_secret()
    ends = [DirectTransport(i, hosts, secret, interface=LOOPBACK, bound=bound) for i in range(hosts)]
    for end in ends:
        end.connect([other.address for other in ends])
    return ends


def through_ray(hosts, *, bound=1000):
    ends = []
    posts = [lambda *letter, to=i: ends[to].deliver(*letter) for i in range(hosts)]
    ends += [RayTransport(i, posts, bound=bound) for i in range(hosts)]
    return ends


def local(hosts, *, bound=1000, token=b"token"):
    ends = [LocalTransport(i, hosts, token, bound=bound) for i in range(hosts)]
    for end in ends:
        end.connect([other.address for other in ends])
    return ends


@pytest.fixture(params=[direct, through_ray, local], ids=["direct", "ray", "local"])
def connected(request):
    with ExitStack() as stack:

        def make(hosts, **options):
            ends = request.param(hosts, **options)
            for end in ends:
                stack.enter_context(closing(end))
            return ends

        yield make


def received(end, count):
    """Receive that many frames."""
    frames, deadline = [], time.monotonic() + PATIENCE
    while len(frames) < count and time.monotonic() < deadline:
        frames += end.receive(1.0)
    return frames


def settled(end, host, most):
    """Receive until at most `most` bytes are in flight to a host; return how many are."""
    deadline = time.monotonic() + PATIENCE
    while end.in_flight(host) > most and time.monotonic() < deadline:
        end.receive(0.1)
    return end.in_flight(host)


@given(st.lists(st.tuples(st.integers(1, 400), st.booleans())), st.integers(4, 1000))
def test_credits_a_sender_hears_of_all_but_a_quarter_of_its_bound(steps, bound):
    sender, receiver, on_the_way = Credits(hosts=2, bound=bound), Credits(hosts=2, bound=bound), deque()
    for size, takes in steps:
        sender.sent(1, size)
        on_the_way.append(size)
        while takes and on_the_way:
            receiver.received(0, on_the_way.popleft())
        for host in receiver.owed():
            sender.acknowledged(1, receiver.acknowledge(host))
        assert sum(on_the_way) <= sender.in_flight(1) <= sum(on_the_way) + bound / 4


def test_credits_ignore_acknowledgements_that_come_late():
    edge = Credits(hosts=2, bound=100)
    edge.sent(1, 50)
    edge.acknowledged(1, 50)
    edge.acknowledged(1, 20)
    assert edge.in_flight(1) == 0


def test_transport_keeps_the_order_of_each_sender(connected):
    zero, one, two = connected(3)
    for n in range(1, 200):
        one.send(0, frame(1, n))
        two.send(0, frame(2, n))
    frames = received(zero, 398)
    for sender in (1, 2):
        assert [f.sequence for f in frames if f.sender == sender] == list(range(1, 200))


@pytest.mark.parametrize("size", [0, 60_000, 70_000, 700_000])
def test_transport_carries_frames_of_any_size(connected, monkeypatch, size):
    monkeypatch.setattr(zeromq, "PART_BYTES", 100_000)
    monkeypatch.setattr(zeromq, "LONGEST_MESSAGE", 101_000)
    zero, one = connected(2, bound=10**6)
    state = bytes(range(256)) * (size // 256)
    one.send(0, frame(1, 1, state))
    one.send(0, frame(1, 2))
    assert received(zero, 2) == [frame(1, 1, state), frame(1, 2)]


def test_receive_returns_nothing_after_the_timeout(connected):
    zero, _ = connected(2)
    started = time.monotonic()
    assert zero.receive(0.05) == []
    assert time.monotonic() - started >= 0.04
    assert zero.receive(0) == []


def test_wake_ends_a_wait(connected):
    zero, _ = connected(2)
    timer = threading.Timer(0.05, zero.wake)
    timer.start()
    started = time.monotonic()
    assert zero.receive(PATIENCE) == []
    assert time.monotonic() - started < PATIENCE / 2
    timer.join()


def test_wake_before_the_wait_ends_it_and_costs_no_frame(connected):
    zero, one = connected(2)
    zero.wake()
    started = time.monotonic()
    assert zero.receive(PATIENCE) == []
    assert time.monotonic() - started < PATIENCE / 2
    zero.wake()
    one.send(0, frame(1, 1))
    assert received(zero, 1) == [frame(1, 1)]


def test_in_flight_counts_unacknowledged_bytes(connected):
    zero, one = connected(2, bound=1000)
    size = len(encoded(frame(1, 1, b"x" * 400)))
    for n in range(1, 4):
        one.send(0, frame(1, n, b"x" * 400))
    assert one.in_flight(0) == 3 * size
    assert len(received(zero, 3)) == 3
    assert settled(one, 0, 250) <= 250  # host 0 had no frame for host 1, but acknowledged


def test_in_flight_is_acknowledged_by_frames_that_go_back(connected):
    zero, one = connected(2, bound=10**6)
    one.send(0, frame(1, 1))
    received(zero, 1)
    assert one.in_flight(0) > 0
    zero.send(1, frame(0, 1))
    received(one, 1)
    assert one.in_flight(0) == 0


def test_ray_transport_puts_frames_back_in_order():
    zero = RayTransport(0, [None, None], bound=1000)
    for sequence in (2, 3, 1):
        zero.deliver(1, 0, encoded(frame(1, sequence)))
    assert [f.sequence for f in zero.receive(1.0)] == [1, 2, 3]


def test_transport_refuses_frames_that_are_not_of_the_sender(connected, monkeypatch):
    zero, one = connected(2)
    one.send(0, frame(0, 1))
    with pytest.raises(CodecError, match="from host 1"):
        received(zero, 1)


def client(context, address, **keys):
    """Return a sending socket that has the given CURVE keys."""
    made = context.socket(zmq.PUSH)
    made.linger = 0
    for name, value in keys.items():
        setattr(made, name, value)
    made.connect(address)
    return made


def forged():
    return HEADER.pack(1, 0) + encoded(frame(1, 1, "forged"))


@pytest.mark.parametrize("knows", ["nothing", "the public key"])
def test_strangers_frames_do_not_arrive(knows):
    secret = new_secret()
    zero, one = direct(2, secret=secret)
    with closing(zero), closing(one), zmq.Context() as context:
        public, private = zmq.curve_keypair()
        keys = {"curve_serverkey": secret.public, "curve_publickey": public, "curve_secretkey": private}
        stranger = client(context, zero.address, **({} if knows == "nothing" else keys))
        known = client(
            context,
            zero.address,
            **{**keys, "curve_publickey": secret.public, "curve_secretkey": secret.private},
        )
        stranger.send(forged())
        assert zero.receive(0.3) == []
        known.send(forged())  # the same bytes arrive from a sender with the key of the run
        assert received(zero, 1) == [frame(1, 1, "forged")]
        stranger.close()
        known.close()


def test_a_longer_message_than_any_of_ours_is_refused(monkeypatch):
    monkeypatch.setattr(zeromq, "LONGEST_MESSAGE", 10_000)
    secret = new_secret()
    zero, one = direct(2, secret=secret)
    with closing(zero), closing(one), zmq.Context() as context:
        public, private = secret.public, secret.private
        keys = {"curve_serverkey": public, "curve_publickey": public, "curve_secretkey": private}
        long = client(context, zero.address, **keys)
        long.send(HEADER.pack(1, 0) + encoded(frame(1, 1, bytes(20_000))))
        assert zero.receive(0.3) == []
        long.close()
        one.send(0, frame(1, 1))
        assert received(zero, 1) == [frame(1, 1)]


def test_bytes_of_any_other_protocol_are_ignored():
    zero, one = direct(2)
    with closing(zero), closing(one):
        port = int(zero.address.rpartition(":")[2])
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00CURVE".ljust(55, b"\0")
        for noise in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\xff" * 4096,
            greeting + b"\x06" + b"\x7f" * 8 + b"x" * 4096,
        ):
            with socket.create_connection((LOOPBACK, port)) as stranger:
                stranger.sendall(noise)
                assert zero.receive(0.1) == []
        one.send(0, frame(1, 1))
        assert received(zero, 1) == [frame(1, 1)]


def test_a_host_of_another_run_cannot_connect(monkeypatch):
    monkeypatch.setattr(zeromq, "CONNECT_SECONDS", 1.0)
    ends = [DirectTransport(i, 2, new_secret(), interface=LOOPBACK, bound=1000) for i in range(2)]
    with closing(ends[0]), closing(ends[1]), pytest.raises(ChannelUnavailableError) as error:
        ends[0].connect([end.address for end in ends])
    assert (error.value.code, error.value.exit_code, error.value.host) == ("DGS404", 4, 0)
    assert ends[1].address in str(error.value)


def test_a_host_that_does_not_answer_is_an_error(monkeypatch):
    monkeypatch.setattr(zeromq, "CONNECT_SECONDS", 0.2)
    with socket.create_server((LOOPBACK, 0)) as mute:
        zero = DirectTransport(0, 2, new_secret(), interface=LOOPBACK, bound=1000)
        address = f"tcp://{LOOPBACK}:{mute.getsockname()[1]}"
        with closing(zero), pytest.raises(ChannelUnavailableError, match="does not answer"):
            zero.connect([zero.address, address])


def test_an_address_that_cannot_be_listened_on_is_a_resource_error():
    with pytest.raises(ChannelUnavailableError, match=r"cannot listen on 192\.0\.2\.1"):
        DirectTransport(0, 2, new_secret(), interface="192.0.2.1", bound=1000)


def test_a_host_that_goes_away_is_a_lost_one():
    zero, one = direct(2)
    with closing(zero):
        one.close()
        with pytest.raises(WorkerLostError) as error:
            received(zero, 1)
        assert error.value.host == 1


def test_secret_does_not_show_its_private_key():
    secret = new_secret()
    assert repr(secret.private) not in repr(secret)


EVENTS, ROWS = 2000, 20


def job(tmp_path: Path, buffer_bytes: str) -> Job:
    """A stream that host 0 reads, since it is declared to be mostly of value 0, but whose events all go to host 1."""
    leaves = [PlanNode(f"leaf{i}", ImplTagSet.of(v=TagSet.of(VALUE(i)))) for i in range(2)]
    streams = [
        StreamConfig(id="b", tags={"kind": "barrier"}, source={"memory": "b"}),
        StreamConfig(id="v", tags={"kind": "value"}, source={"memory": "v"}),
    ]
    return Job(
        program=EventWindow(),
        plan=Plan(PlanNode("root", ImplTagSet.of(b=TagSet.of(BARRIER)), children=tuple(leaves))),
        streams=tuple(streams),
        base_dir=tmp_path,
        output_dir=tmp_path,
        runtime=RuntimeConfig(hosts=2, buffer_bytes=buffer_bytes, batch_rows=ROWS),
        memory={
            "b": [(BARRIER(), EVENTS + 1, 0)],
            "v": [(VALUE(1), ts, 1) for ts in range(1, EVENTS + 1)],
        },
        collect=True,
        rates={"v": {VALUE(0): 100.0, VALUE(1): 1.0}},
    )


def turn(engine, transport):
    """Do one turn of the loop of a host; return the outputs."""
    for arrived in transport.receive(0.001):
        engine.take(arrived)
    engine.step()
    for target, sent in engine.take_frames():
        transport.send(target, sent)
    return [value for _, batch in engine.take_outputs() for value in batch.values]


def test_a_source_waits_while_the_host_that_it_feeds_takes_nothing(connected, tmp_path):
    deployment = Deployment(job(tmp_path, "16KiB"), 2)
    ends = connected(2, bound=deployment.credit_bytes)
    engines = [Engine(deployment, i, in_flight=end.in_flight) for i, end in enumerate(ends)]
    outputs, most = [], 0
    for _ in range(50):  # host 1 is busy all the time
        turn(engines[0], ends[0])
        most = max(most, ends[0].in_flight(1))
    assert 0 < engines[0].events < EVENTS / 4
    rounds, deadline = 0, time.monotonic() + PATIENCE
    while engines[0].final is None and time.monotonic() < deadline:
        rounds += 1
        outputs += turn(engines[0], ends[0])
        most = max(most, ends[0].in_flight(1))
        if rounds % 5 == 0:  # and now slow
            outputs += turn(engines[1], ends[1])
    assert engines[0].events == EVENTS + 1
    assert outputs == [EVENTS]
    assert most < deployment.credit_bytes + 2000  # and one batch
