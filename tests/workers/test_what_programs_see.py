"""A program sees the same events, field by field, on every runtime, under every split, over every transport."""

import json
import socket
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dgs
from dgs import vectorised
from dgs.model import columns
from dgs.model.events import EventBatch
from dgs.semantics import sequential
from dgs.workers.event_log.event_tables import event_table, events_of, from_bytes, to_bytes
from dgs.workers.protocol.messages import Events, Frame
from dgs.workers.simulated.case import Case
from dgs.workers.simulated.faults import Faults
from dgs.workers.simulated.simulation import simulate
from dgs.workers.transport.frames import decoded, encoded

RATED, ASK = dgs.kind("rated", key=str), dgs.kind("ask", key=str)
KEYS = "ab"


def described(value):
    """Return a full description of a value, with its type and order. Sets have no order, and all NaN are equal."""
    one = type(value)
    if isinstance(value, dict):
        return f"{one.__name__}({', '.join(f'{described(k)}: {described(v)}' for k, v in value.items())})"
    if isinstance(value, (set, frozenset)):
        return f"{one.__name__}({sorted(map(described, value))})"
    if isinstance(value, (list, tuple)):
        return f"{one.__name__}({', '.join(map(described, value))})"
    return f"{one.__module__}.{one.__name__} {value!r}"


def described_column(column):
    """Return a full description of a column, also whether it is writable."""
    if isinstance(column, dict):
        return f"dict({', '.join(f'{name}: {described_column(part)}' for name, part in column.items())})"
    if isinstance(column, np.ndarray):
        return f"{column.dtype} writeable={column.flags.writeable}"
    return str(column.type) if isinstance(column, pa.Array) else type(column).__name__


class Witness(dgs.Program):
    """Emits a description of every event that it sees."""

    depends = dgs.Dependence((RATED, ASK, dgs.SAME_KEY), (ASK, ASK, dgs.SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event, emit):
        emit(described(event))
        return state

    def fork(self, state, left, right):
        return {}, {}

    def join(self, left, right):
        return {}


class BatchWitness(Witness):
    """Emits a description of every event, and of the columns of the batch that it is in."""

    def update_batch(self, state, batch, emit_batch):
        columns_seen = (
            f"{batch.stream} {batch.rank} {batch.ts.flags.writeable} {described_column(batch.payload)}"
        )
        emit_batch([f"{described(event)} {columns_seen}" for event in batch.events()])
        return state


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(codec="utf-8"), max_size=3),
    st.binary(max_size=3),
    st.sampled_from(
        [
            np.int64(3),
            np.int8(3),
            np.float32(0.5),
            np.str_("x"),
            np.bool_(True),
            -0.0,
            1,
            True,
            date(2024, 2, 29),
            datetime(2024, 1, 1, tzinfo=UTC),
            datetime(2024, 1, 1, 5),  # noqa: DTZ001 - a naive one comes back naive
            timedelta(days=-1, microseconds=5),
            pd.Timestamp("2024-07-01 05:00:00.123456789", tz="Europe/Berlin"),
            pd.Timestamp("2024-07-01"),
            pd.Timedelta(5, "ns"),
            pd.NaT,
            pd.NA,
            np.datetime64("NaT", "s"),
            Decimal("1.10"),
            Decimal("NaN"),
        ]
    ),
)
names = st.sampled_from(["source", "rating", "a", "z", "B", "_"])
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(names, inner, max_size=4),
        st.dictionaries(st.integers(0, 9), inner, max_size=3),
        st.sets(st.text("xyz", max_size=2), max_size=3),
    ),
    max_leaves=6,
)
ARRAYS = [
    np.arange,
    lambda n: np.arange(n, dtype=np.int8),
    lambda n: np.linspace(0, 1, n),
    lambda n: np.arange(n).astype(">i4"),
    lambda n: np.arange(n) % 2 == 0,
    lambda n: np.array([f"text {i}" for i in range(n)]),
    lambda n: np.arange(n).astype("datetime64[us]"),
    lambda n: pa.array(np.arange(n).astype("datetime64[ns]"), pa.timestamp("ns", "Europe/Berlin")),
    lambda n: pa.array([None if i % 3 else f"text {i}" for i in range(n)]),
    lambda n: pa.array([{"z": i, "a": None} for i in range(n)]),
    lambda n: pa.array([None, 1.5, float("nan"), -0.0] * n)[:n],
    lambda n: pa.array([[i, None] for i in range(n)]),
    lambda n: pa.array([None, *(datetime(2024, 1, 1 + i % 9, tzinfo=UTC) for i in range(n))])[:n],
    lambda n: pa.array(["x", None, "y"] * n)[:n].dictionary_encode(),
    lambda n: np.array([None, Decimal("1.10"), "x", {"z": 1, "a": 2}] * n, dtype=object)[:n],
    lambda n: np.array([f"text {i}" for i in range(n)], dtype=np.dtypes.StringDType()),
]


@st.composite
def payloads(draw, rows):
    """Draw a column: Python values, one array, or a record of columns in any order."""
    form = draw(st.sampled_from(["values", "rows", "array", "record"]))
    if form == "values":
        return draw(st.lists(values, min_size=rows, max_size=rows))
    if form == "rows":  # of one shape, as from JSON, with the names in the same or a different order
        order = draw(st.permutations(["source", "rating", "at"]))
        row = st.fixed_dictionaries(dict.fromkeys(order, leaves))
        some = draw(st.lists(row, min_size=rows, max_size=rows))
        return some if draw(st.booleans()) else [dict(reversed(one.items())) for one in some[:1]] + some[1:]
    if form == "array":
        return draw(st.sampled_from(ARRAYS))(rows)
    named = draw(st.permutations(["source", "rating", "at"]))
    return {name: draw(st.sampled_from(ARRAYS))(rows) for name in named}


@st.composite
def batches(draw):
    """Draw a batch of ratings."""
    rows = draw(st.sampled_from([1, 3, 9, 40]))
    tags = [RATED(key) for key in KEYS]
    return EventBatch.of(
        "ratings-2",
        rank=0,
        tags=tags,
        codes=[i % 2 for i in range(rows)],
        ts=range(1, 2 * rows, 2),
        payload=draw(payloads(rows)),
    )


def streams_of(batch):
    last = int(batch.ts[-1])
    asks = EventBatch.of("asks", rank=1, tags=[ASK("a"), ASK("b")], codes=[0, 1, 0], ts=[0, 0, last])
    return {"ratings-2": [batch], "asks": [asks]}


def seen(program, streams):
    """Return the descriptions that the sequential program emits."""
    return Counter(output.value for output in sequential.run(program, list(streams.values())).outputs)


def seen_simulated(program, streams, seed):
    """Return the descriptions when events cross hosts and streams are split, under faults."""
    case = Case(program, streams)
    return Counter(case.check_with(seed, Faults(crashes=2, crash_chance=0.02)).values())


@given(batches(), st.integers(0, 30))
def test_program_sees_the_same_on_simulated_hosts(batch, seed):
    streams = streams_of(batch)
    assert seen_simulated(Witness(), streams, seed) == seen(Witness(), streams)


@given(batches())
def test_program_sees_the_same_of_a_batch_that_came_in_a_frame(batch):
    frame = Frame(0, 0, 1, (("w", Events(0, batch)),), batch.key(0), 0)
    ((_, message),) = decoded(encoded(frame), 0).messages
    there, here = message.batch.read_only().seen(), batch.read_only().seen()
    assert list(map(described, there.events())) == list(map(described, here.events()))
    assert described_column(there.payload) == described_column(here.payload)
    assert [there.ts.flags.writeable, here.ts.flags.writeable] == [False, False]


@given(batches())
def test_program_sees_the_same_of_events_that_the_event_log_has_kept(batch):
    table = event_table(batch.ts, batch.tags, batch.codes, batch.payload)
    ts, tags, codes, payload = events_of(from_bytes(to_bytes(table)))
    back = EventBatch(batch.stream, batch.rank, ts, batch.seq, tags, codes, payload)
    assert list(map(described, back.events())) == list(map(described, batch.events()))
    again = events_of(from_bytes(to_bytes(event_table(ts, tags, codes, payload))))
    assert described_column(again[3]) == described_column(payload)


@given(batches())
def test_program_sees_the_same_in_batches_and_one_by_one(batch):
    rows = columns.to_list(batch.seen().payload)
    assert list(map(described, rows)) == [described(event.payload) for event in batch.events()]


@given(
    st.lists(st.dictionaries(names, st.dictionaries(names, leaves, max_size=3), max_size=3), min_size=1),
    st.data(),
)
def test_columns_made_of_rows_keep_the_order_of_the_names_in_each(rows, data):
    turned = [dict(reversed(row.items())) if data.draw(st.booleans()) else row for row in rows * 2]
    wanted = list(map(described, turned))
    assert list(map(described, columns.to_list(columns.as_column(turned)))) == wanted
    cut = data.draw(st.integers(1, len(turned) - 1))
    parts = [columns.as_column(turned[:cut]), columns.as_column(turned[cut:])]
    assert list(map(described, columns.to_list(columns.concat(parts)))) == wanted
    spread = vectorised.spread(turned, np.arange(len(turned)), len(turned))
    assert list(map(described, columns.to_list(spread))) == wanted


PROGRAM = """\
import dgs

RATED, ASK = dgs.kind("rated", key=str), dgs.kind("ask", key=str)


class Witness(dgs.Program):
    depends = dgs.Dependence((RATED, ASK, dgs.SAME_KEY), (ASK, ASK, dgs.SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event, emit):
        emit([repr(event), *(f"{type(one).__name__} {one!r}" for one in (event.payload or {}).values())])
        return state

    def fork(self, state, left, right):
        return {}, {}

    def join(self, left, right):
        return {}
"""
PLAN = """\
version: 1
name: witness
program: {{ref: "program.py:Witness"}}
streams:
  - id: ratings-2
    tags: {{kind: rated, key: {{column: page}}}}
    source: {{{kind}: {{path: ratings.{kind}}}}}
    payload: [source, rating, at]
    split: {split}
  - id: asks
    tags: {{kind: ask, key: {{column: page}}}}
    source: {{csv: {{path: asks.csv}}}}
runtime: {runtime}
optimizer: {{name: random}}
"""
RATINGS = [
    {"ts": i, "page": "ab"[i % 2], "at": i * 0.5, "rating": None if i % 5 else i, "source": "web"}
    for i in range(1, 3000)
]


def write_witness(folder, kind, split, runtime):
    """Write a plan whose program describes the rows of files."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "plan.yaml").write_text(PLAN.format(kind=kind, split=split, runtime=runtime))
    (folder / "asks.csv").write_text("ts,page\n100,a\n200,b\n")
    rows = [",".join("" if cell is None else str(cell) for cell in row.values()) for row in RATINGS]
    (folder / "ratings.csv").write_text("\n".join(["ts,page,at,rating,source", *rows]) + "\n")
    (folder / "ratings.jsonl").write_text("\n".join(map(json.dumps, RATINGS)) + "\n")
    return folder / "plan.yaml"


@pytest.mark.parametrize(
    ("kind", "split", "runtime"),
    [
        ("csv", 2, "{kind: local}"),
        ("jsonl", 3, "{kind: local}"),
        pytest.param("csv", 2, "{kind: ray, hosts: 2}", marks=pytest.mark.ray),
    ],
)
def test_program_sees_the_same_of_files_on_every_runtime_and_split(tmp_path, request, kind, split, runtime):
    if "ray" in runtime:
        request.getfixturevalue("ray_cluster")
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    alone = dgs.run(write_witness(tmp_path / "one", kind, 1, "{kind: local}"), optimizer="sequential")
    apart = dgs.run(write_witness(tmp_path / "many", kind, split, runtime))
    assert sorted(apart.outputs) == sorted(alone.outputs)
    assert len(apart.outputs) == len(RATINGS) + 2


@pytest.mark.parametrize("rows", [7, 4096])
def test_program_sees_the_names_of_a_payload_in_the_order_of_its_line(tmp_path, rows):
    plan = write_witness(tmp_path, "jsonl", 1, f"{{kind: local, batch_rows: {rows}}}")
    plan.write_text(plan.read_text().replace("payload: [source, rating, at]", "payload: at"))
    nested = [({"a": i, "b": 0.5} if i % 2 else {"b": 0.5, "a": i}) for i in range(1, 40)]
    lines = [json.dumps({"ts": i, "page": "a", "at": at}) for i, at in enumerate(nested, 1)]
    (tmp_path / "ratings.jsonl").write_text("\n".join(lines) + "\n")
    shown = [one for one, *_ in dgs.run(plan).outputs if "rated" in one]
    assert [repr(at) in one for one, at in zip(shown, nested, strict=True)] == [True] * len(nested)


def test_batch_program_sees_the_same_columns_wherever_they_came_from():
    rows = 80
    payload = {"z": np.arange(rows), "a": pa.array(["x"] * rows), "m": [1, "b"] * (rows // 2)}
    batch = EventBatch.of("ratings-2", rank=0, tags=[RATED("a")], ts=range(1, rows + 1), payload=payload)
    asks = EventBatch.of("asks", rank=1, tags=[ASK("b")], ts=[1])
    streams = {"ratings-2": [batch], "asks": [asks]}
    case = Case(BatchWitness(), streams)
    runs = [simulate(BatchWitness(), case.layout_of, streams, seed=seed) for seed in range(20)]
    columns_seen = {
        value.rpartition(") ")[2] for run in runs for value in run.values() if "writeable" in value
    }
    assert len(columns_seen) == 1


@pytest.mark.parametrize("form", ["column", "batch", "payload"])
def test_program_sees_lists_in_place_of_arrays_of_objects(form):
    """Such an array cannot be sent to another process: it would end a run on two hosts, and no other."""
    values, ts = [None, Decimal("1.10"), [1]] * 100, np.arange(300)
    given = np.array(values, dtype=object)

    class Columns(Witness):
        def update_batch(self, state, batch, emit_batch):
            emit_batch([described_column(batch.payload)] * len(batch))
            return state

    if form == "column":
        stream = dgs.stream({"ts": ts, "x": given}, kind="rated", key={"value": "a"}, payload=["x"])
    else:
        payload = given if form == "payload" else {"x": given}
        stream = [EventBatch("s", 0, ts, ts, (RATED("a"),), None, payload)]
    seen = dgs.run(Columns(), streams={"s": stream}, runtime="local").outputs
    in_batches = {one for one in seen if not one.startswith("Event(")}
    assert in_batches == {"list" if form == "payload" else "dict(x: list)"}


ROW_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=3), st.sampled_from([2**63, -(2**63), 2**64, 2**53 + 1, -0.0, 1.0]),
)  # fmt: skip
ROW_VALUES = st.recursive(
    ROW_LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=4)
@given(st.lists(st.dictionaries(names, ROW_VALUES, max_size=4), min_size=1, max_size=40))
def test_program_sees_the_same_of_lines_from_a_socket_as_of_a_file(rows):
    lines = [json.dumps({"ts": i, "page": "ab"[i % 2], **row}) for i, row in enumerate(rows)]
    with tempfile.TemporaryDirectory() as space:
        found = [lines_seen(Path(space) / kind, kind, lines) for kind in ("jsonl", "socket")]
    assert found[0] == found[1]
    assert len(found[0]) == len(rows)


def lines_seen(folder, kind, lines):
    """Return what the program describes of lines in a file, or sent to a port in two pieces and read in two splits."""
    folder.mkdir()
    plan = write_witness(folder, "jsonl", 1 if kind == "jsonl" else 2, "{kind: local}")
    text = plan.read_text().replace("    payload: [source, rating, at]\n", "")
    text = text if kind == "jsonl" else text.replace("jsonl: {path: ratings.jsonl}", "socket: {port: 0}")
    plan.write_text(text)
    (folder / "program.py").write_text(PROGRAM.replace("(event.payload or {}).values()", "[event.payload]"))
    (folder / "ratings.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "asks.csv").write_text("ts,page\n")
    with ThreadPoolExecutor(1) as sender:
        if kind == "socket":
            sender.submit(send, folder / "run" / "logs" / "ratings-2" / "listening", lines)
        return sorted(dgs.run(plan, run_dir=folder / "run").outputs)


def send(listening, lines):
    """Send lines to the port that a file names, as soon as it is there."""
    patience = time.monotonic() + 240
    while not listening.exists() and time.monotonic() < patience:
        time.sleep(0.01)
    host, _, port = listening.read_text().strip().rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=60) as connection,
        connection.makefile("rwb") as file,
    ):
        for text in (*lines, '{"kind": "end"}'):
            file.write(text.encode() + b"\n")
        file.flush()
        file.readline()
