"""The socket source: acknowledged rows are never lost, only durable rows are read, and bad lines are reported."""

import contextlib
import json
import os
import socket
import struct
import time
from pathlib import Path

import pytest

from dgs.errors import CheckpointBusyError, MalformedRowError, OutputUnwritableError, ResourceError
from dgs.job.schema import StreamConfig
from dgs.model.order import END, OrderKey
from dgs.model.tags import Tag
from dgs.workers.event_log import LogReader, LogWriter
from dgs.workers.sources.live import line_server, socket_source
from dgs.workers.sources.live.line_intake import LineIntake
from dgs.workers.sources.rows import LiveTime
from dgs.workers.sources.shaping.mapping import Mapping
from tests.workers.reading import Kinds, opened, rows

LIVE = LiveTime(linger=0, elapsed=lambda: 0)
PATIENCE = 60.0


def config(**sections):
    options = sections.pop("socket", {})
    return StreamConfig.model_validate(
        {
            "id": "s",
            "tags": {"kind": "view", "key": {"column": "page"}},
            "payload": "n",
            "source": {"socket": {"port": 0, "log": "log", **options}},
            **sections,
        }
    )


@contextlib.contextmanager
def listening(base_dir, **sections):
    source = opened(config(**sections), base_dir=base_dir, unit="ms", time=LIVE)
    try:
        yield source
    finally:
        source.close()


class Client:
    def __init__(self, base_dir):
        host, _, port = (base_dir / "log" / "s" / "listening").read_text().strip().rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, *lines):
        self.socket.sendall(
            b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        )

    def answer(self):
        return json.loads(self.file.readline())

    def ask_nothing_and_wait(self, base_dir, rows):
        """Wait until so many rows are in the log."""
        log, deadline = LogReader(base_dir / "log", "s"), time.monotonic() + PATIENCE
        while log.row < rows and time.monotonic() < deadline:
            log.poll() or time.sleep(0.01)

    def ask(self):
        self.send({"kind": "ack?"})
        return self.answer()


def row(ts, page="home", n=0):
    return {"ts": ts, "page": page, "n": n}


def read_rows(source, count):
    """Read until `count` rows have arrived."""
    found, deadline = [], time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += rows(source.read().batches)
        time.sleep(source.wait)
    return found


def read_to_end(source):
    found, deadline = [], time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < deadline, found
        reading = source.read()
        found += rows(reading.batches)
        if reading.frontier == END:
            return found
        time.sleep(source.wait)


def test_lines_become_events(tmp_path):
    with listening(tmp_path) as source, Client(tmp_path) as client:
        client.send(row(5, "home", 1), b"\n", row(6, "shop", 2.5))
        assert read_rows(source, 2) == [
            ("s", Tag("view", "home"), 5, 0, 1),
            ("s", Tag("view", "shop"), 6, 1, 2.5),
        ]


def test_acknowledged_rows_are_in_the_log(tmp_path):
    with listening(tmp_path), Client(tmp_path) as client:
        client.send(*(row(ts) for ts in range(100)))
        assert client.ask() == {"durable": 100}
        log = LogReader(tmp_path / "log", "s")
        while log.poll() is not None:
            pass
        assert log.row == 100


def test_end_ends_the_stream_and_closes_the_port(tmp_path):
    with listening(tmp_path) as source:
        with Client(tmp_path) as client:
            client.send(row(5), {"kind": "end"})
            assert client.answer() == {"durable": 1}
            assert client.file.readline() == b""
        assert [found[2] for found in read_to_end(source)] == [5]
        with pytest.raises(OSError):
            Client(tmp_path)


def test_end_of_a_connection_does_not_end_the_stream_and_its_last_line_counts(tmp_path):
    with listening(tmp_path) as source:
        with Client(tmp_path) as client:
            client.send(row(5), json.dumps(row(6)).encode())
        assert len(read_rows(source, 2)) == 2
        with Client(tmp_path) as client:
            client.send(row(7))
            assert read_rows(source, 1)[0][2:4] == (7, 2)


def test_socket_continues_its_log_after_a_restart(tmp_path):
    with listening(tmp_path), Client(tmp_path) as client:
        client.send(row(5), row(6))
        assert client.ask() == {"durable": 2}
    with listening(tmp_path) as source, Client(tmp_path) as client:
        assert client.ask() == {"durable": 2}
        client.send(row(7), {"kind": "end"})
        assert [found[2:4] for found in read_to_end(source)] == [(5, 0), (6, 1), (7, 2)]
    with listening(tmp_path) as source:
        assert len(read_to_end(source)) == 3


def test_rows_are_as_those_of_json_lines(tmp_path):
    lines = [
        {"ts": "2013-01-01T00:00:01Z", "page": "a"},
        {"ts": "2013-01-01T00:00:02Z", "page": "b", "x": [1, None]},
    ]
    with listening(tmp_path, payload=None) as source, Client(tmp_path) as client:
        client.send(*lines)
        assert [(found[2], found[4]) for found in read_rows(source, 2)] == [
            (1356998401000, lines[0]),
            (1356998402000, lines[1]),
        ]


def test_heartbeats_are_those_of_the_lines(tmp_path):
    with listening(tmp_path, socket={"heartbeats": True}) as source, Client(tmp_path) as client:
        client.send({"kind": "heartbeat", "ts": 3}, row(4), {"kind": "heartbeat", "ts": 9})
        assert client.ask() == {"durable": 1}
        read_rows(source, 1)
        assert source.read().frontier == OrderKey(10, 0, 0)


BAD = [
    (b"{\n", "the line is not JSON: "),
    (b"[1]\n", "the line is not a JSON object"),
    (b"\xff\xfe\n", "the line is not JSON in utf-8: "),
    (b"[" * 100_000 + b"\n", "the line is nested too deeply"),
    (
        b'{"ts": 1, "payload": ' + b"[" * 150 + b"]" * 150 + b"}\n",
        "the line is nested too deeply: more than 100 levels",
    ),
    (b'{"ts": 1, "payload": NaN}\n', "the line holds NaN, which is not JSON"),
    (b'{"ts": 1, "payload": 1e999}\n', "the line holds a number that no float holds: 1e999"),
    (b'{"ts": 1, "payload": 1, "ts": 2}\n', "the line has the field 'ts' twice"),
    (b'{"ts": 1, "payload": "\\ud800"}\n', "the line holds half of a surrogate pair"),
    (b'{"ts": 1, "payload": ' + b"9" * 5000 + b"}\n", "the line holds a number of more than 4,300 digits"),
    (b'{"ts": null, "page": "a"}\n', "the timestamp is missing or null"),
    (b'{"ts": 5, "page": 7}\n', "key 7 of kind 'view' must be str"),
]


@pytest.mark.parametrize(("line", "problem"), BAD, ids=range(len(BAD)))
def test_malformed_line_is_answered_and_ends_the_run_after_the_earlier_rows(tmp_path, line, problem):
    with listening(tmp_path) as source, Client(tmp_path) as client:
        client.send(row(4), line, row(5))
        answer = client.answer()
        assert answer["line"] == 2
        assert answer["error"].startswith(problem)
        with pytest.raises(MalformedRowError) as caught:
            read_to_end(source)
        assert caught.value.row == 1
        assert problem in str(caught.value)
    log = LogReader(tmp_path / "log", "s")
    assert [log.poll()[0].stop, log.poll()] == [1, None]


@pytest.mark.parametrize(("line", "problem"), BAD, ids=range(len(BAD)))
def test_malformed_line_is_answered_counted_and_left_out_with_drop(tmp_path, line, problem):
    with listening(tmp_path, on_disorder="drop") as source, Client(tmp_path) as client:
        client.send(row(4), line, row(5))
        assert client.ask()["error"].startswith(problem)
        assert client.answer() == {"durable": 2}
        assert [found[2] for found in read_rows(source, 2)] == [4, 5]
        assert source.drops == 1


def test_malformed_heartbeat_is_the_one_that_is_answered(tmp_path):
    with (
        listening(tmp_path, socket={"heartbeats": True}, on_disorder="drop") as source,
        Client(tmp_path) as client,
    ):
        client.send(row(4), {"kind": "heartbeat", "ts": 4}, {"kind": "heartbeat", "ts": "x"}, row(5))
        assert client.ask()["line"] == 3
        assert client.answer() == {"durable": 2}
        assert [found[2] for found in read_rows(source, 2)] == [4, 5]


def test_line_that_is_too_long_is_refused_and_its_connection_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(line_server, "LONGEST_LINE", 100)
    with listening(tmp_path, on_disorder="drop") as source, Client(tmp_path) as client:
        client.send(row(4), b"x" * 101)
        assert client.answer() == {"error": "the line has more than 100 bytes", "line": 2}
        assert client.file.readline() == b""
        assert len(read_rows(source, 1)) == 1


def test_idle_connections_block_no_new_one(tmp_path):
    """As many connections as a port accepts, from one address: a new one is accepted, and no sending one is closed for it."""
    with listening(tmp_path, socket={"per_peer": 1000}) as source, contextlib.ExitStack() as stack:
        busy = stack.enter_context(Client(tmp_path))
        idle = [stack.enter_context(Client(tmp_path)) for _ in range(line_server.MOST_CONNECTIONS - 1)]
        idle[-1].ask()  # all before it have been accepted
        busy.send(row(4))
        assert busy.ask() == {"durable": 1}
        newcomer = stack.enter_context(Client(tmp_path))
        newcomer.send(row(5))
        assert newcomer.ask() == {"durable": 2}
        assert "the port is full" in idle[0].answer()["error"]
        assert busy.ask() == {"durable": 2}
        assert len(read_rows(source, 2)) == 2


def test_connections_from_one_address_are_limited(tmp_path):
    with listening(tmp_path, socket={"per_peer": 1}), Client(tmp_path) as first:
        assert first.ask() == {"durable": 0}
        with Client(tmp_path) as second:
            assert second.ask() == {"durable": 0}
            assert "its address has too many" in first.answer()["error"]


def test_quiet_connections_are_closed_and_those_that_speak_are_not(tmp_path):
    with listening(tmp_path, socket={"idle": "300ms"}), Client(tmp_path) as quiet, Client(tmp_path) as client:
        while not (said := quiet_answer(quiet)):
            client.ask()
        assert said == {"error": "this connection is closed: no line came for 0.3 s"}
        assert client.ask() == {"durable": 0}


def quiet_answer(client):
    """Return a message that a client gets without asking, within a moment; None if there is none."""
    client.socket.settimeout(0.05)
    try:
        return json.loads(client.socket.recv(1000))
    except TimeoutError:
        return None


TOKEN = "the-right-token"


def test_token_comes_first_and_is_not_in_the_log(tmp_path):
    with listening(tmp_path, socket={"token": TOKEN}) as source, Client(tmp_path) as client:
        client.send({"kind": "token", "token": TOKEN}, row(5), {"kind": "end"})
        assert [client.answer(), client.answer()] == [{"token": "accepted"}, {"durable": 1}]
        assert [found[2] for found in read_to_end(source)] == [5]
    assert not [
        path for path in tmp_path.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()
    ]


@pytest.mark.parametrize(
    "said",
    [
        row(5),
        {"kind": "end"},
        {"kind": "token", "token": "the-wrong-token"},
        {"kind": "token"},
        {"kind": "token", "token": 7},
        {"kind": "token", "token": "\ud800"},
        b"x" * 200 + b"\n",
        b"\xff\x00\n",
        b"[" * 100_000 + b"\n",
        b"",
    ],
    ids=str,
)
def test_stranger_is_refused_and_the_stream_goes_on(tmp_path, said, monkeypatch):
    monkeypatch.setattr(line_server, "LONGEST_LINE", 150_000 if b"[" in bytes(str(said), "utf-8") else 150)
    with listening(tmp_path, socket={"token": TOKEN}) as source:
        with Client(tmp_path) as stranger:
            stranger.send(said, row(6))
            if said:
                stranger.file.read()  # it is closed
        with Client(tmp_path) as client:
            client.send({"kind": "token", "token": TOKEN}, row(7))
            assert client.answer() == {"token": "accepted"}
            assert [found[2] for found in read_rows(source, 1)] == [7]
            assert client.ask() == {"durable": 1}


def test_silent_strangers_do_not_keep_out_clients_with_the_token(tmp_path):
    with listening(tmp_path, socket={"token": TOKEN}), contextlib.ExitStack() as stack:
        client = stack.enter_context(Client(tmp_path))
        client.send({"kind": "token", "token": TOKEN})
        assert client.answer() == {"token": "accepted"}
        for _ in range(300):
            stack.enter_context(Client(tmp_path))
        assert client.ask() == {"durable": 0}


def test_end_needs_a_token_on_a_port_that_others_reach(tmp_path):
    with listening(tmp_path, socket={"host": "0.0.0.0"}) as source, Client(tmp_path) as client:
        client.send({"kind": "end"}, row(5))
        assert "needs a `token`" in client.answer()["error"]
        assert len(read_rows(source, 1)) == 1


@pytest.mark.parametrize("is_reset", [False, True])
def test_client_that_dies_in_the_middle_of_a_line_loses_that_line(tmp_path, is_reset):
    """Whether the client closes its connection or its machine resets it."""
    with listening(tmp_path) as source:
        with Client(tmp_path) as client:
            client.send(*(row(ts) for ts in range(2000)), b'{"ts": 2000, "page": "ho')
            client.ask_nothing_and_wait(tmp_path, 2000)
            if is_reset:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with Client(tmp_path) as other:
            other.send(row(3000))
            assert other.ask() == {"durable": 2001}
        assert len(read_rows(source, 2001)) == 2001
        assert source.drops == 1


def is_cut_off(client):
    """Return whether the port disconnects a client that sends nonsense and reads no answer."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            client.send(b"{\n" * 1000)
        except ConnectionError:
            return True
    return False


def test_client_that_does_not_take_its_answers_is_cut_off_and_others_are_served(tmp_path, monkeypatch):
    monkeypatch.setattr(line_server, "MOST_UNSENT", 1000)
    with listening(tmp_path, on_disorder="drop"), Client(tmp_path) as deaf, Client(tmp_path) as client:
        assert is_cut_off(deaf)
        assert client.ask() == {"durable": 0}


def test_log_that_cannot_be_written_ends_the_run(tmp_path, monkeypatch):
    def append(*_, **__):
        raise OutputUnwritableError(path=tmp_path, problem="No space left on device")

    with listening(tmp_path) as source, Client(tmp_path) as client:
        monkeypatch.setattr(LogWriter, "append", append)
        client.send(row(5))
        with pytest.raises(OutputUnwritableError, match="No space left"):
            read_to_end(source)
        assert client.file.readline() == b""


def test_port_reads_no_more_while_the_reader_is_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(socket_source, "MOST_BEHIND", 10)
    with listening(tmp_path) as source, Client(tmp_path) as client:
        rows_and_question = [*(row(ts) for ts in range(20)), {"kind": "ack?"}]
        client.send(*rows_and_question)  # at once: the port would not take a question that comes later
        assert client.answer() == {"durable": 20}
        client.send(row(20), {"kind": "ack?"})
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)
        assert len(read_rows(source, 20)) == 20
        assert len(read_rows(source, 1)) == 1


def test_port_that_is_taken_is_a_resource_error(tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ResourceError, match=r"cannot listen on 127\.0\.0\.1:"),
    ):
        opened(config(socket={"port": taken.getsockname()[1]}), base_dir=tmp_path, time=LIVE)


@pytest.mark.parametrize("host", ["ü" * 70, "a..b", "no host"])
def test_host_that_is_none_is_a_resource_error(tmp_path, host):
    with pytest.raises(ResourceError, match="cannot listen on "):
        opened(config(socket={"port": 0, "host": host}), base_dir=tmp_path, time=LIVE)


def test_only_the_host_of_the_first_split_listens(tmp_path):
    other = opened(config(split=2), base_dir=tmp_path, unit="ms", time=LIVE, streams=["s/1"])
    assert not (tmp_path / "log").exists()
    first = opened(config(split=2), base_dir=tmp_path, unit="ms", time=LIVE, streams=["s/0"])
    with Client(tmp_path) as client:
        client.send(*(row(ts) for ts in range(1030)), {"kind": "end"})
        assert client.answer() == {"durable": 1030}
    assert (len(read_to_end(first)), len(read_to_end(other))) == (1024, 6)
    first.close()


def test_without_clocks_no_port_is_opened(tmp_path):
    assert opened(config(), base_dir=tmp_path).read().frontier == END


def test_description_is_that_of_the_log(tmp_path):
    with listening(tmp_path) as source, Client(tmp_path) as client:
        client.send(row(4))
        read_rows(source, 1)
        found = source.description
        assert (found["kind"], found["writer"], found["rows"]) == ("socket", "socket:s", 1)
    with listening(tmp_path) as source:
        source.resume(found)


@pytest.fixture
def intake(tmp_path):
    mapping = Mapping(config(payload="n"), Kinds(), plan_unit="ms")
    return LineIntake(mapping, LogWriter(Path(tmp_path), "s", "w"), drops_malformed=True)


def test_intake_leaves_out_every_bad_line_and_only_those(intake):
    good = {3, 4, 7}
    for number in range(9):
        fields = row(number) if number in good else {"ts": number, "page": None if number % 2 else 3}
        assert not list(intake.take(1, number, json.dumps(fields).encode()))
    answers = list(intake.flush())
    assert {answer["line"] for _, answer in answers} == set(range(9)) - good
    assert (intake.refused, intake.writer.rows, len(intake)) == (6, 3, 0)


def test_intake_keeps_the_order_of_lines_and_the_places_of_heartbeats(intake):
    intake.heartbeats = True
    lines = [row(7), {"ts": None}, {"kind": "heartbeat", "ts": 2}, row(5), {"kind": "heartbeat", "ts": 3}]
    for number, fields in enumerate(lines):
        assert not list(intake.take(1, number, json.dumps(fields).encode()))
    assert [answer["line"] for _, answer in intake.flush()] == [1]
    segment, table = LogReader(intake.writer.path, "s").poll()
    assert table.column("ts").to_pylist() == [7, 5]
    assert (segment.beats, segment.frontier) == (((1, 2),), 3)


def test_second_port_on_one_log_is_refused_while_the_first_is_open(tmp_path, monkeypatch):
    """Both took rows: each wrote under the numbers of the other, and `listening` named the port of whichever came last."""
    monkeypatch.setattr(socket_source, "LOCKED_SECONDS", 0.0)
    with listening(tmp_path), Client(tmp_path) as client:
        with pytest.raises(CheckpointBusyError, match=rf"log/s is in use by process {os.getpid()} on"):
            opened(config(), base_dir=tmp_path, unit="ms", time=LIVE)
        client.send({"ts": 1, "page": "home", "n": 1}, {"kind": "ack?"})
        assert client.answer() == {"durable": 1}
    with listening(tmp_path), Client(tmp_path) as client:
        client.send({"ts": 2, "page": "home", "n": 2}, {"kind": "ack?"})
        assert client.answer() == {"durable": 2}
