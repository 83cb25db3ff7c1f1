"""Sockets of one machine: access, files that remain, frames in memory, and frames that wait for room."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from dgs.errors import ChannelUnavailableError, CodecError, WorkerLostError
from dgs.model.order import BEGIN
from dgs.workers.protocol.messages import ForkedState, Frame
from dgs.workers.transport.frames import encoded
from dgs.workers.transport.shared_memory import in_memory
from dgs.workers.transport.unix_door import HELLO
from dgs.workers.transport.unix_sockets import HEADER, INLINE_BYTES, LocalTransport

TOKEN = b"the token of the run"


def frame(sender, sequence, state=None):
    return Frame(sender, 0, sequence, (("w1", ForkedState(state)),), BEGIN, 0)


@pytest.fixture
def ends():
    with ExitStack() as stack:
        yield [stack.enter_context(closing(LocalTransport(i, 2, TOKEN, bound=10**6))) for i in range(2)]


def connect(ends):
    for end in ends:
        end.connect([other.address for other in ends])
    return ends


def client(end, hello):
    """Return a connected socket that has sent `hello`."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.connect(end.address)
    made.send(hello)
    return made


def record(body):
    return HEADER.pack(0, len(body)) + body


def test_only_the_user_may_enter_where_a_host_listens(ends):
    directory = Path(ends[0].address).parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert directory.stat().st_uid == os.geteuid()


def test_no_leftovers_stay_once_all_are_connected(ends):
    directories = [Path(end.address).parent for end in connect(ends)]
    for end in ends:
        end.receive(0.05)
    assert not any(directory.exists() for directory in directories)


def test_no_leftovers_stay_if_no_host_came():
    alone = LocalTransport(0, 2, TOKEN, bound=1000)
    alone.close()
    assert not Path(alone.address).parent.exists()


@pytest.mark.parametrize(
    "hello",
    [
        b"?",
        HELLO.pack(1),
        HELLO.pack(1) + TOKEN[:-1],
        HELLO.pack(1) + TOKEN + b"?",
        HELLO.pack(1) + TOKEN.upper(),
        HELLO.pack(0) + TOKEN,
        HELLO.pack(2) + TOKEN,
    ],
)
def test_strangers_are_refused_and_none_of_their_lines_is_read(ends, hello):
    zero, one = ends
    with closing(client(zero, hello)) as stranger:
        stranger.send(record(encoded(frame(1, 1, "forged"))))
        assert zero.receive(0.05) == []
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            stranger.send(b"?")
    connect(ends)
    one.send(0, frame(1, 1))
    assert zero.receive(1.0) == [frame(1, 1)]


def test_no_other_process_can_replace_a_connected_host(ends):
    zero = ends[0]
    with closing(client(zero, HELLO.pack(1) + TOKEN)) as known:
        zero.receive(0.01)
        known.send(record(encoded(frame(1, 1))))
        assert zero.receive(1.0) == [frame(1, 1)]
        with (
            pytest.raises(FileNotFoundError),
            closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as late,
        ):
            late.connect(zero.address)


def test_two_who_claim_to_be_one_host_are_not_both_let_in():
    with closing(LocalTransport(0, 3, TOKEN, bound=1000)) as zero:
        first, second = (client(zero, HELLO.pack(1) + TOKEN) for _ in range(2))
        with closing(first), closing(second):
            first.send(record(encoded(frame(1, 1))))
            second.send(record(encoded(frame(1, 1))))
            assert [f.sequence for _ in range(3) for f in zero.receive(0.02)] == [1]


@pytest.mark.parametrize(
    "sent",
    [b"?", HEADER.pack(0, 5), record(b"")[:-1], HEADER.pack(0, 2) + b"???", record(b"none of our frames")],
)
def test_a_record_that_is_none_of_ours_is_an_error(ends, sent):
    zero = ends[0]
    with closing(client(zero, HELLO.pack(1) + TOKEN)) as known:
        known.send(sent)
        with pytest.raises(CodecError):
            zero.receive(1.0)


def test_a_record_that_is_too_long_is_an_error(ends):
    with closing(client(ends[0], HELLO.pack(1) + TOKEN)) as known:
        known.send(record(bytes(INLINE_BYTES + 1)))
        with pytest.raises(CodecError, match="cut off"):
            ends[0].receive(1.0)


@pytest.mark.parametrize("claimed", [0, 1, 3])
def test_a_file_of_another_size_is_an_error(ends, claimed):
    with closing(client(ends[0], HELLO.pack(1) + TOKEN)) as known, in_memory(b"12") as descriptor:
        socket.send_fds(known, [HEADER.pack(0, claimed)], [descriptor])
        with pytest.raises(CodecError, match="sealed file"):
            ends[0].receive(1.0)


def test_a_file_that_could_be_changed_is_an_error(ends, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12")
    with closing(client(ends[0], HELLO.pack(1) + TOKEN)) as known, path.open() as file:
        socket.send_fds(known, [HEADER.pack(0, 2)], [file.fileno()])
        with pytest.raises(CodecError, match="sealed file"):
            ends[0].receive(1.0)


def open_frames():
    """Return the descriptors of this process that are frames in memory; others may come and go in other threads."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(descriptor.readlink()))
    return [name for name in found if name.startswith("/memfd:frame")]


def test_large_frames_leave_no_descriptor_open(ends):
    zero, one = connect(ends)
    with in_memory(b"12"):
        assert len(open_frames()) == 1
    for n in range(1, 20):
        one.send(0, frame(1, n, bytes(INLINE_BYTES)))
        assert zero.receive(1.0) == [frame(1, n, bytes(INLINE_BYTES))]
    assert not open_frames()


def test_frames_without_room_in_the_kernel_wait_and_keep_their_order(ends):
    zero, one = connect(ends)
    for n in range(1, 200):
        one.send(0, frame(1, n, bytes(30_000)))
    found = []
    while len(found) < 199:
        one.receive(0)
        found += zero.receive(1.0)
    assert [f.sequence for f in found] == list(range(1, 200))


def test_a_host_that_goes_away_is_a_lost_one(ends):
    zero, one = connect(ends)
    one.send(0, frame(1, 1))
    one.close()
    assert zero.receive(1.0) == [frame(1, 1)]
    with pytest.raises(WorkerLostError) as error:
        zero.receive(1.0)
    assert error.value.host == 1


def test_a_host_lost_during_a_send_shows_in_the_next_receive(ends):
    zero, one = connect(ends)
    zero.receive(0.01)
    one.close()
    zero.send(1, frame(0, 1))
    with pytest.raises(WorkerLostError):
        zero.receive(0)


def test_a_host_that_is_not_there_is_an_error(ends):
    zero, one = ends
    one.close()
    with pytest.raises(ChannelUnavailableError, match="host 1 does not answer"):
        zero.connect([zero.address, one.address])
