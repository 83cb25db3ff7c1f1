"""CSV, JSON lines and Parquet: their events, and errors for wrong files."""

import datetime as dt
import gzip
import json
import os
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs import codec
from dgs.errors import MalformedRowError, MissingInputError, OutOfOrderError, UnknownColumnError
from dgs.model.tags import Tag
from dgs.workers.sources.readers import csv as csv_reader
from dgs.workers.sources.readers.files import MOST_LINES, FileProblemError, TextFile
from tests.workers.reading import events, opened, read_all, readings, stream

VALUE = Tag("value")
RECORDED = Path(__file__).parents[3].parent / "shared"


def csv(path="data.csv", **options):
    return {"csv": {"path": path, **options}}


def jsonl(path="data.jsonl", **options):
    return {"jsonl": {"path": path, **options}}


def parquet(path="data.parquet", **options):
    return {"parquet": {"path": path, **options}}


def of_csv(tmp_path, text, config=None, **options):
    (tmp_path / "data.csv").write_text(text)
    return events(config or stream(csv()), base_dir=tmp_path, **options)


def of_lines(tmp_path, lines, config=None, **options):
    (tmp_path / "data.jsonl").write_text(
        "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    )
    return events(config or stream(jsonl()), base_dir=tmp_path, **options)


# -- every format ------------------------------------------------------------------------------------------------------

table = st.lists(
    st.tuples(
        st.integers(-5, 5),
        st.none() | st.integers(),
        st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\r\x00")),
    ),
    max_size=20,
)


@given(
    rows=table,
    batch_rows=st.integers(1, 30),
    form=st.sampled_from(["csv", "jsonl", "parquet"]),
    gz=st.booleans(),
)
def test_formats_give_the_rows_that_were_written(tmp_path_factory, rows, batch_rows, form, gz):
    rows = sorted(
        ((ts, n if n is None or abs(n) < 2**63 else 0, t) for ts, n, t in rows), key=lambda row: row[0]
    )
    folder = tmp_path_factory.mktemp("rows")
    path = folder / f"data.{form}"
    if form == "csv":
        quoted = [
            (ts, "NA" if n is None else n, "" if t is None else '"' + t.replace('"', '""') + '"')
            for ts, n, t in rows
        ]
        path.write_bytes(("ts,n,t\n" + "".join(f"{ts},{n},{t}\n" for ts, n, t in quoted)).encode())
    elif form == "jsonl":
        path.write_text("".join(json.dumps({"ts": ts, "n": n, "t": t}) + "\n" for ts, n, t in rows))
    else:
        named = {name: [row[i] for row in rows] for i, name in enumerate(("ts", "n", "t"))}
        schema = pa.schema({"ts": pa.int64(), "n": pa.int64(), "t": pa.string()})
        pq.write_table(pa.table(named, schema=schema), path, row_group_size=7)
    if gz and form != "parquet":
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path = path.with_name(path.name + ".gz")
    types = {"columns": {"n": "int", "t": "str"}, "nulls": ["NA", ""]} if form == "csv" else {}
    config = stream({form: {"path": path.name, **types}}, payload=["n", "t"])
    expected = [(VALUE, ts, {"n": n, "t": t}) for ts, n, t in rows]
    assert events(config, base_dir=folder, batch_rows=batch_rows) == expected


def test_glob_is_one_stream_in_the_order_of_names(tmp_path):
    (tmp_path / "b.csv").write_text("ts,v\n2,b\n3,c\n")
    (tmp_path / "a.csv").write_text("ts,v\n1,a\n")
    (tmp_path / "c.csv").write_text("ts,v\n")
    found = read_all(stream(csv("*.csv"), payload="v"), base_dir=tmp_path)
    assert [(ts, seq, v) for _, _, ts, seq, v in found] == [(1, 0, "a"), (2, 1, "b"), (3, 2, "c")]


def test_rows_of_later_files_are_counted_on_in_errors(tmp_path):
    (tmp_path / "a.csv").write_text("ts\n1\n2\n")
    (tmp_path / "b.csv").write_text("ts\n3\n1\n")
    with pytest.raises(OutOfOrderError) as caught:
        events(stream(csv("*.csv")), base_dir=tmp_path)
    assert (caught.value.row, caught.value.ts, caught.value.previous) == (3, 1, 3)


@pytest.mark.parametrize("source", [csv("none.csv"), jsonl("*.jsonl"), parquet("none/data.parquet")])
def test_missing_file_is_named_at_once(tmp_path, source):
    path = next(iter(source.values()))["path"]
    with pytest.raises(MissingInputError) as caught:
        opened(stream(source), base_dir=tmp_path)
    assert str(caught.value).startswith(f"stream 's': no file at {tmp_path / path}")


@pytest.mark.parametrize(
    ("form", "sections"),
    [
        ("csv", {"payload": ["no"]}),
        ("parquet", {"payload": "no"}),
        ("csv", {"tags": {"kind": "view", "key": {"column": "no"}}}),
    ],
)
def test_unknown_column_error_lists_the_columns(tmp_path, form, sections):
    pq.write_table(pa.table({"ts": [1], "a": [2]}), tmp_path / "data.parquet")
    (tmp_path / "data.csv").write_text("ts,a\n1,2\n")
    with pytest.raises(UnknownColumnError) as caught:
        events(stream({form: {"path": f"data.{form}"}}, **sections), base_dir=tmp_path)
    said = f"stream 's': there is no column 'no' in {tmp_path}/data.{form}; its columns are ts, a. Correct the name"
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_truncated_gzip_is_an_error_with_the_rows_before_it(tmp_path, form):
    lines = ["ts\n"] * (form == "csv") + [
        f"{i}\n" if form == "csv" else f'{{"ts": {i}}}\n' for i in range(50_000)
    ]
    whole = gzip.compress("".join(lines).encode())
    (tmp_path / f"data.{form}.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(MalformedRowError, match=rf"data.{form}.gz"):
        events(stream({form: {"path": f"data.{form}.gz"}}, payload=[]), base_dir=tmp_path)


# -- CSV ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", [{}, {"a": "int", "b": "str"}])
def test_csv_na_and_empty_are_null_but_in_columns_of_text(tmp_path, types):
    found = of_csv(tmp_path, 'ts,a,b\n1,NA,x\n2,,""\n3,5,NA\n4,"",\n', stream(csv(columns=types)))
    assert [payload for _, _, payload in found] == [
        {"ts": 1, "a": None, "b": "x"}, {"ts": 2, "a": None, "b": ""}, {"ts": 3, "a": 5, "b": "NA"},
        {"ts": 4, "a": None, "b": ""},
    ]  # fmt: skip


def test_csv_nulls_are_null_in_columns_of_every_type_unless_in_quotes(tmp_path):
    types = {"a": "int", "b": "str", "c": "datetime", "d": "float"}
    config = stream(csv(columns=types, nulls=["-", "?"]), payload=list(types))
    found = of_csv(tmp_path, 'ts,a,b,c,d\n1,-,-,-,?\n2,5,"-",2020-01-02,1\n3,6,,?,2\n', config)
    assert [tuple(payload.values()) for _, _, payload in found] == [
        (None, None, None, None), (5, "-", dt.datetime(2020, 1, 2), 1.0), (6, "", None, 2.0),  # noqa: DTZ001
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8-sig", "utf-16", "UTF-16-LE", "utf-32"])
@pytest.mark.parametrize("gz", [False, True])
def test_text_files_are_read_in_their_encoding(tmp_path, encoding, gz):
    ending, pack = (".gz", gzip.compress) if gz else ("", bytes)
    (tmp_path / f"a.csv{ending}").write_bytes(pack("ts,größe\n1,süß\n2,é\n".encode(encoding)))
    (tmp_path / f"a.jsonl{ending}").write_bytes(
        pack('{"ts": 1, "größe": "süß"}\n{"ts": 2, "größe": "é"}\n'.encode(encoding))
    )
    expected = [(VALUE, 1, "süß"), (VALUE, 2, "é")]
    for source in (csv(f"a.csv{ending}", encoding=encoding), jsonl(f"a.jsonl{ending}", encoding=encoding)):
        assert events(stream(source, payload="größe"), base_dir=tmp_path) == expected


@pytest.mark.parametrize(
    ("text", "form", "iso"),
    [
        ("31.12.1969 23:59", "%d.%m.%Y %H:%M", "1969-12-31T23:59Z"),
        ("20200229", "%Y%m%d", "2020-02-29"),
        ("2/29/20 1:05 PM +0130", "%m/%d/%y %I:%M %p %z", "2020-02-29T13:05+01:30"),
    ],
)
def test_times_are_read_in_the_form_that_the_plan_gives(tmp_path, text, form, iso):
    ts = {"column": "at", "format": form}
    (tmp_path / "data.csv").write_text(f"at,a\n{text},1\n")
    (tmp_path / "data.jsonl").write_text(json.dumps({"at": text, "a": 1}) + "\n")
    pq.write_table(pa.table({"at": [text], "a": [1]}), tmp_path / "data.parquet")
    expected = events(stream(payload="a"), [{"ts": [iso], "a": [1]}], unit="ms")
    for source in (csv(ts=ts), jsonl(ts=ts), parquet(ts=ts)):
        assert events(stream(source, payload="a"), base_dir=tmp_path, unit="ms") == expected


def test_csv_numbers_without_nulls_come_as_numpy(tmp_path):
    (tmp_path / "data.csv").write_text("ts,a\n1,2.5\n")
    (batch,) = readings(opened(stream(csv(), payload="a"), base_dir=tmp_path))[0].batches
    assert isinstance(batch.payload, np.ndarray)


def test_csv_columns_have_the_types_that_columns_says(tmp_path):
    types = {"a": "str", "b": "float", "c": "bool", "d": "datetime"}
    config = stream(csv(columns=types), payload=["a", "b", "c", "d"])
    found = of_csv(tmp_path, "ts,a,b,c,d\n1,007,1,true,2020-01-02T03:04:05+01:00\n2,08,2,false,NA\n", config)
    assert [tuple(payload.values()) for _, _, payload in found] == [
        ("007", 1.0, True, dt.datetime(2020, 1, 2, 2, 4, 5)),  # noqa: DTZ001 - in UTC, as documented
        ("08", 2.0, False, None),
    ]
    assert isinstance(found[0][2]["b"], float)


def test_csv_key_column_has_the_type_of_the_kind_of_keys(tmp_path):
    views = stream(csv(), tags={"kind": "view", "key": {"column": "k"}}, payload=[])
    assert [tag for tag, _, _ in of_csv(tmp_path, "ts,k\n1,007\n", views)] == [Tag("view", "007")]
    cells = stream(csv(), tags={"kind": "cell", "key": {"column": "k"}}, payload=[])
    assert [tag for tag, _, _ in of_csv(tmp_path, "ts,k\n1,007\n", cells)] == [Tag("cell", 7)]


def test_csv_without_header_and_with_another_delimiter(tmp_path):
    config = stream(csv(header=["a", "ts"], delimiter=" "), payload="a")
    assert of_csv(tmp_path, "x 1\ny 2\n", config) == [(VALUE, 1, "x"), (VALUE, 2, "y")]


def test_csv_quoted_line_breaks_belong_to_the_field(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 64)
    text = "ts,a\n" + "".join(f'{i},"{"x" * (i % 9)}\n\n,y"\n' for i in range(50))
    found = of_csv(tmp_path, text, stream(csv(), payload="a"))
    assert [payload for _, _, payload in found] == ["x" * (i % 9) + "\n\n,y" for i in range(50)]


def test_csv_byte_order_mark_is_no_part_of_a_name(tmp_path):
    assert of_csv(tmp_path, "\ufeffts,a\n1,2\n", stream(csv(), payload="a")) == [(VALUE, 1, 2)]


@pytest.mark.parametrize("text", ["", "ts", "ts,a\n"])
def test_csv_without_rows_is_an_empty_stream(tmp_path, text):
    assert of_csv(tmp_path, text) == []


@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("40,1,2", "3 fields, but the header has 2: '40,1,2'"),
        ("40", "1 fields, but the header has 2: '40'"),
        (
            "40,x",
            "column 'a': invalid value 'x' does not fit the type int64 of the column; say `columns: {a: str}`",
        ),
        ("4.5,1", "column 'ts': invalid value '4.5' does not fit the type int64"),
        (",1", "the timestamp is missing or null"),
    ],
)
def test_csv_broken_row_is_named(tmp_path, monkeypatch, block, line, problem):
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", block)
    typed = stream(csv(columns={"ts": "int", "a": "int"}))
    with pytest.raises(MalformedRowError) as caught:
        of_csv(tmp_path, "ts,a\n" + "".join(f"{i},{i}\n" for i in range(40)) + line + "\n41,1\n", typed)
    assert caught.value.row == 40
    assert str(caught.value).startswith(f"stream 's', row 40: {problem}")


def test_csv_broken_row_is_numbered_after_the_files_before(tmp_path):
    (tmp_path / "a.csv").write_text("ts,a\n1,1\n2,2\n")
    (tmp_path / "b.csv").write_text("ts,a\n3,1\n4\n")
    with pytest.raises(MalformedRowError, match=r"row 3: 1 fields, .* \(b.csv, line 3\)"):
        events(stream(csv("*.csv")), base_dir=tmp_path)


def test_csv_column_that_begins_with_nulls_has_the_type_of_its_first_values(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 64)
    found = of_csv(tmp_path, "ts,a\n" + "".join(f"{i},NA\n" for i in range(40)) + "41,5\n")
    assert [payload["a"] for _, _, payload in found] == [None] * 40 + [5]


def test_csv_wrong_values_in_unused_columns_do_no_harm(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 64)
    text = "ts,a,b\n" + "".join(f"{i},{i},{i}\n" for i in range(40)) + "41,41,oops\n"
    assert len(of_csv(tmp_path, text, stream(csv(), payload="a"))) == 41


# -- JSON lines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_jsonl_payload_is_the_payload_field(tmp_path, batch_rows):
    lines = [{"ts": 1, "payload": [1, {"x": None}]}, {"ts": 2, "payload": "text"}, {"ts": 3}]
    assert [p for _, _, p in of_lines(tmp_path, lines, batch_rows=batch_rows)] == [
        [1, {"x": None}],
        "text",
        None,
    ]


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_jsonl_payload_without_such_a_field_is_the_line(tmp_path, batch_rows):
    lines = [{"ts": 1, "a": 1}, {"ts": 2, "b": {"c": 1.5}}, {"ts": 3, "a": 2**70}, {"ts": 4, "a": True}]
    assert [p for _, _, p in of_lines(tmp_path, lines, batch_rows=batch_rows)] == lines


def test_jsonl_values_keep_their_types_whatever_the_batch(tmp_path):
    lines = [{"ts": i, "payload": value} for i, value in enumerate([1, 2.0, True, None, "1", [1], 2**63])]
    for batch_rows in (1, 3, 100):
        found = [p for _, _, p in of_lines(tmp_path, lines, batch_rows=batch_rows)]
        assert [(type(p), p) for p in found] == [(type(line["payload"]), line["payload"]) for line in lines]


def test_jsonl_numbers_of_one_type_come_as_numpy(tmp_path):
    (tmp_path / "data.jsonl").write_text('{"ts": 1, "payload": {"a": 5}}\n{"ts": 2, "payload": {"a": 6}}\n')
    (batch,) = readings(opened(stream(jsonl()), base_dir=tmp_path))[0].batches
    assert batch.payload["a"].dtype == np.int64


def test_jsonl_heartbeats_are_read_only_when_asked_for(tmp_path):
    lines = [{"kind": "heartbeat", "ts": 5, "tag": "x"}, {"kind": "event", "ts": 5, "payload": 1}]
    assert len(of_lines(tmp_path, lines)) == 2
    with pytest.raises(OutOfOrderError):
        of_lines(tmp_path, lines, stream(jsonl(heartbeats=True)))


def test_jsonl_heartbeats_move_the_frontier_and_take_no_row_number(tmp_path):
    lines = [{"kind": "heartbeat", "ts": 5}, {"ts": 6}, "\n", {"kind": "heartbeat", "ts": 8}]
    (tmp_path / "data.jsonl").write_text(
        "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    )
    first, _ = readings(opened(stream(jsonl(heartbeats=True), payload=[]), base_dir=tmp_path))
    assert first.frontier[:3] == (9, 0, 0)
    assert [batch.seq.tolist() for batch in first.batches] == [[0]]


def test_jsonl_tags_are_read_from_the_lines_in_the_list_form(tmp_path):
    config = stream(jsonl(), tags=["barrier", "view", {"kind": "cell", "key": 3}], payload=[])
    lines = [{"ts": 1, "tag": "barrier"}, {"ts": 2, "tag": ["view", "home"]}, {"ts": 3, "tag": ["cell", 3]}]
    assert [tag for tag, _, _ in of_lines(tmp_path, lines, config)] == [
        Tag("barrier"),
        Tag("view", "home"),
        Tag("cell", 3),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"ts": 3', "the line is not JSON"),
        ("[1, 2]\n", "the line is not a JSON object (data.jsonl, line 4)"),
        ('{"a": 3}\n', "the timestamp is missing or null"),
        ('{"ts": "yesterday"}\n', "'yesterday' is not an ISO-8601 time"),
        ('{"ts": true}\n', "true and false are not timestamps"),
        ('{"ts": [3]}\n', "[3] "),
        (
            '{"ts": 9223372036854775807}\n',
            "timestamp 9223372036854775807 is reserved for the end of a stream",
        ),
        ('{"ts": 9223372036854775808}\n', "9223372036854775808 is not a timestamp"),
        ('{"ts": 3.5}\n', "timestamp 3.5 is not an integer"),
        ("[" * 100_000 + "\n", "the line is nested too deeply (data.jsonl, line 4)"),
        (
            '{"ts": 3, "a": ' + "1" * 5000 + "}\n",
            "the line holds a number of more than 4,300 digits",
        ),
    ],
)
def test_jsonl_broken_line_is_named(tmp_path, line, problem):
    with pytest.raises(MalformedRowError) as caught:
        of_lines(tmp_path, [{"ts": 1}, "\n", {"ts": 2}, line, {"ts": 9}], stream(jsonl(), payload=[]))
    assert caught.value.row == 2
    assert str(caught.value).startswith(f"stream 's', row 2: {problem}")


def test_jsonl_line_beyond_the_limit_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("dgs.workers.sources.readers.jsonl.LONGEST_LINE", 100)
    with pytest.raises(MalformedRowError, match="row 1: the line is longer than 100 bytes"):
        of_lines(tmp_path, [{"ts": 1, "payload": "x" * 60}, {"ts": 2, "payload": "x" * 100}])


@pytest.mark.parametrize(
    "data",
    [b"plain text", gzip.compress(b'{"ts": 1}\n' * 99, mtime=0)[:-20], b"\x1f\x8b\x08" + b"\0" * 50],
    ids=["plain text", "cut off", "zeros"],
)
def test_jsonl_damaged_gzip_is_named(tmp_path, data):
    (tmp_path / "data.jsonl.gz").write_bytes(data)
    with pytest.raises(MalformedRowError, match=r"data.jsonl.gz, line \d+"):
        events(stream(jsonl("data.jsonl.gz"), payload=[]), base_dir=tmp_path)


# -- Parquet -----------------------------------------------------------------------------------------------------------


def test_parquet_timestamps_dictionaries_and_nested_values(tmp_path):
    when = [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 2, tzinfo=dt.UTC)]
    columns = {
        "ts": pa.array(when, pa.timestamp("us", "UTC")),
        "k": pa.array(["a", "b"]).dictionary_encode(),
        "payload": pa.array([{"x": [1]}, None]),
    }
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    config = stream(parquet(), tags={"kind": "view", "key": {"column": "k"}})
    assert events(config, base_dir=tmp_path, unit="s") == [
        (Tag("view", "a"), 1577836800, {"x": [1]}),
        (Tag("view", "b"), 1577923200, None),
    ]


@pytest.mark.parametrize(
    ("kind", "wrap"),
    [
        (lambda ns: ns, lambda at: at),
        (lambda ns: pa.struct({"at": ns, "n": pa.int64()}), lambda at: {"at": at, "n": 1}),
        (lambda ns: pa.list_(pa.struct({"at": ns})), lambda at: [{"at": at}, None]),
        (lambda ns: pa.map_(pa.string(), ns), lambda at: [("at", at)]),
    ],
)
def test_parquet_nanoseconds_are_python_times_also_inside(tmp_path, kind, wrap):
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    column = pa.array([wrap(at)], kind(pa.timestamp("ns", "UTC")))
    pq.write_table(pa.table({"ts": [1], "x": column}), tmp_path / "data.parquet")
    ((_, _, payload),) = events(stream(parquet(), payload="x"), base_dir=tmp_path)
    assert codec.decode(codec.encode(payload)) == wrap(at)


def test_parquet_file_that_is_none_is_an_error(tmp_path):
    (tmp_path / "data.parquet").write_bytes(b"no parquet")
    with pytest.raises(MalformedRowError, match=r"cannot be read as Parquet.*\(data\.parquet\)"):
        events(stream(parquet()), base_dir=tmp_path)


# -- recorded data -----------------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded cases are not beside the checkout")
def test_recorded_inputs_are_read_as_they_were_written():
    path = RECORDED / "cases" / "ab_example1" / "input_2.jsonl.gz"
    config = stream(jsonl(str(path), heartbeats=True), tags=["b"])
    written = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    expected = [(Tag("b"), line["ts"], line["payload"]) for line in written if line["kind"] == "event"]
    assert events(config) == expected


def test_a_file_is_closed_once_it_is_not_being_read(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'"\n' + b"x\n" * (MOST_LINES + 1))
    order, reads, goes_on = [], threading.Event(), threading.Event()

    def check_quotes():
        reads.set()
        goes_on.wait()
        order.append("read")

    file = TextFile(tmp_path / "a.csv", "utf-8", longest=1, check_quotes=check_quotes)
    reader = threading.Thread(target=file.read)
    closer = threading.Thread(target=lambda: (file.close(), order.append("closed")))
    reader.start()
    reads.wait()
    closer.start()
    goes_on.set()
    reader.join()
    closer.join()
    assert (order, file.read()) == (["read", "closed"], b"")


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_file_that_becomes_shorter_while_it_is_read_is_no_end_of_its_rows(tmp_path, name):
    path, rows = tmp_path / name, b"ts,a\n" + b"".join(b"%d,2\n" % ts for ts in range(300_000))
    path.write_bytes(gzip.compress(rows) if name.endswith("gz") else rows)
    with TextFile(path, "utf-8") as file:
        file.read(5)
        os.truncate(path, path.stat().st_size // 2)
        said = r"it has become shorter|it cannot be read any further"
        with pytest.raises(FileProblemError, match=said):
            list(iter(lambda: file.read(100_000), b""))
