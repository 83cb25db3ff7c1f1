"""Sinks: files hold the emitted outputs, and get final names only when the run is complete."""

import csv
import datetime as dt
import enum
import json
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.errors import CodecError, OutputUnwritableError
from dgs.job.schema import SinkConfig
from dgs.model.outputs import OutputBatch
from dgs.model.tags import Tag
from dgs.workers.sinks import is_central, open_sink
from dgs.workers.sinks.files import file_sink
from dgs.workers.sinks.files.owned import LIST
from dgs.workers.sinks.files.publishing import publish
from dgs.workers.sinks.formats import json_text
from dgs.workers.sinks.formats.json_text import as_json, as_json_texts

FILES = ("jsonl", "csv", "parquet")


def batch(values):
    count = len(next(iter(values.values()))) if isinstance(values, dict) else len(values)
    numbers = list(range(count))
    return OutputBatch.of(
        "s", rank=0, tags=[Tag("a")], ts=numbers, seq=numbers, index=[0] * count, values=values
    )


def sink(form, folder, host=0):
    config = SinkConfig.model_validate({form: {"path": "out"}} if form in FILES else form)
    return open_sink(config, output_dir=folder / "elsewhere", base_dir=folder, host=host)


def write(form, folder, *columns, host=0):
    one = sink(form, folder, host)
    for values in columns:
        one.write(batch(values), epoch=1)
    finish(one)


def finish(*sinks):
    """End a run without checkpoints as its hosts do."""
    for one in sinks:
        publish(one.stage(1).files)
        one.close()


def names(folder):
    return sorted(path.name for path in (folder / "out").iterdir() if path.name != LIST)


def lines(folder, name="part-0.jsonl"):
    return [json.loads(line) for line in (folder / "out" / name).read_text().splitlines()]


# -- JSON --------------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (("a", (1, None)), ["a", [1, None]]),
        ({"a": {1: True}}, {"a": {"1": True}}),
        ({("k", 1): 2, None: 3, Tag("t"): 4}, {'["k",1]': 2, "null": 3, "t": 4}),
        ([Tag("view", 7), Tag("barrier")], [["view", 7], "barrier"]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (b"\x00\xff", "AP8="),
        (dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC), "2020-01-02T03:00:00+00:00"),
        (dt.date(2020, 1, 2), "2020-01-02"),
        (dt.timedelta(seconds=1, milliseconds=500), 1.5),
        (Decimal("1.10"), "1.10"),
        ([np.int64(3), np.float32(0.5), np.bool_(True), np.str_("x")], [3, 0.5, True, "x"]),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.datetime64("2020-01-02"), "2020-01-02"),
        ([Colour.RED, Point(1, 2.5)], ["red", {"x": 1, "y": 2.5}]),
        (pa.scalar(5), 5),
        (pa.array(["a", None]), ["a", None]),
        ("héé \u2028 \ud800", "héé \u2028 \ud800"),
        (2**80, 2**80),
    ],
)
def test_json_of_every_type_reads_back_as_documented(value, expected):
    assert json.loads(as_json(value)) == expected


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), np.float64("nan"), np.datetime64("NaT"), pd.NaT]
)
def test_json_has_null_for_values_that_are_no_numbers(value):
    assert as_json([value, {"x": value}, 1.5]) == '[null,{"x":null},1.5]'


def test_json_is_one_line():
    assert "\n" not in as_json({"a\n": "b\r\n"})


def test_json_refuses_what_it_cannot_write():
    with pytest.raises(CodecError, match="an output of type object cannot be written as JSON"):
        as_json([object()])
    with pytest.raises(CodecError, match="4300 digits"):
        as_json([10**5000])
    loop = []
    loop.append(loop)
    with pytest.raises(CodecError, match="contains itself"):
        as_json(loop)


ODD_TEXTS = st.sampled_from(
    ["\x85", "é\x85", "\u2028", "…\u2029", "\ud800", "\x7f\x00", "Å", '"\\/', "9" * 4301]
)
ODD_FLOATS = st.sampled_from([9e-5, 1e-4, 1e16, 9999999999999998.0, -0.0, float("nan"), float("inf"), 5e-324])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | ODD_TEXTS | ODD_FLOATS
KEYS = st.text() | ODD_TEXTS | st.integers() | st.none() | st.booleans()
OTHER = (
    st.dates()
    | st.binary()
    | st.frozensets(st.integers())
    | st.sampled_from([Colour.RED, Point(1, 2.5), Tag("a", 3)])
)


def nested(inner):
    few = st.lists(inner, max_size=3)
    named = st.dictionaries(st.text() | ODD_TEXTS, inner, max_size=3)
    return few | few.map(tuple) | named | st.dictionaries(KEYS, inner, max_size=2)


@given(st.lists(st.recursive(SCALARS, nested) | st.recursive(SCALARS | OTHER, nested), max_size=4))
def test_many_values_together_have_the_json_of_each(values):
    assert as_json_texts(values) == [as_json(value).encode() for value in values]


@pytest.mark.parametrize("deep", [98, 99, 100, 101, 102, 300])
def test_deep_values_together_have_the_json_of_each(deep):
    value = 0.5
    for _ in range(deep):
        value = [value]
    assert as_json_texts([value, {"a": value}]) == [as_json(value).encode(), as_json({"a": value}).encode()]


def test_values_that_hold_themselves_are_refused_together_too():
    loop, twice = [], {}
    loop += [loop] * 1000
    twice |= {"a": twice, "b": [twice]}
    for value in (loop, twice):
        with pytest.raises(CodecError, match="contains itself"):
            as_json_texts([1, value])
    with pytest.raises(CodecError, match="4300 digits"):
        as_json_texts([1, [-(10**5000)]])


def test_plain_values_are_not_written_one_by_one(monkeypatch):
    monkeypatch.setattr(json_text, "as_json", None)
    assert as_json_texts([{"a": [1, (2.5, None)], "é": True}, "x", float("nan")]) == [
        '{"a":[1,[2.5,null]],"é":true}'.encode(),
        b'"x"',
        b"null",
    ]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@settings(max_examples=20)
@given(st.lists(st.lists(json_values, max_size=4), max_size=4))
def test_jsonl_holds_every_value_once_in_order(tmp_path_factory, batches):
    folder = tmp_path_factory.mktemp("sink")
    write("jsonl", folder, *batches)
    values = [value for values in batches for value in values]
    assert (lines(folder) if values else []) == values


# -- tables ------------------------------------------------------------------------------------------------------------


def tables(folder):
    """Return the rows of all Parquet files of host 0, file by file."""
    return [pq.read_table(folder / "out" / name).to_pylist() for name in names(folder)]


def cells(folder, name="part-0.csv"):
    with (folder / "out" / name).open(newline="") as file:
        return list(csv.reader(file))


def test_records_become_columns(tmp_path):
    for values in (
        [{"a": 1, "b": "x"}, {"a": 2, "b": None}],
        {"a": np.array([1, 2]), "b": pa.array(["x", None])},
    ):
        write("parquet", tmp_path, values)
        assert tables(tmp_path) == [[{"a": 1, "b": "x"}, {"a": 2, "b": None}]]
        write("csv", tmp_path, values)
        assert cells(tmp_path) == [["a", "b"], ["1", "x"], ["2", ""]]
        (tmp_path / "out" / "part-0.csv").unlink()


def test_other_values_are_one_column(tmp_path):
    write("parquet", tmp_path, np.array([1, 2]), [3], [None])
    assert tables(tmp_path) == [[{"value": 1}, {"value": 2}, {"value": 3}, {"value": None}]]


def test_values_of_mixed_types_are_json_text(tmp_path):
    write("parquet", tmp_path, [("home", 1), "plain", None, {"a": {1, 2}}])
    assert tables(tmp_path) == [
        [{"value": '["home",1]'}, {"value": "plain"}, {"value": None}, {"value": '{"a":[1,2]}'}]
    ]


def test_csv_holds_nested_values_as_json_text_and_quotes_what_it_must(tmp_path):
    write("csv", tmp_path, [{"a": [1, 2], "b": 'x,"y"\nz', "c": b"\x00"}, {"a": None, "b": "", "c": None}])
    assert cells(tmp_path) == [["a", "b", "c"], ["[1,2]", 'x,"y"\nz', "AA=="], ["", "", ""]]


def test_tables_are_written_block_by_block(tmp_path, monkeypatch):
    monkeypatch.setattr(file_sink, "ROWS_PER_BLOCK", 10)
    write("parquet", tmp_path, *[[i, i + 1, i + 2] for i in range(0, 30, 3)])
    file = pq.ParquetFile(tmp_path / "out" / "part-0.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [12, 12, 6]
    assert file.read().column("value").to_pylist() == list(range(30))


def test_other_columns_or_types_begin_another_file(tmp_path, monkeypatch):
    monkeypatch.setattr(file_sink, "ROWS_PER_BLOCK", 1)
    write("parquet", tmp_path, [{"a": 1}], [{"a": None}], [{"a": "x"}], [{"a": "y", "b": 2}], [{"a": "z"}])
    assert names(tmp_path) == ["part-0-1.parquet", "part-0-2.parquet", "part-0.parquet"]
    assert tables(tmp_path) == [
        [{"a": "x"}], [{"a": "y", "b": 2}, {"a": "z", "b": None}], [{"a": 1}, {"a": None}],
    ]  # fmt: skip


def test_numbers_that_a_column_cannot_hold_begin_another_file(tmp_path, monkeypatch):
    monkeypatch.setattr(file_sink, "ROWS_PER_BLOCK", 1)
    write("parquet", tmp_path, [1], [2.5], [3], [2**60 + 1])
    assert tables(tmp_path) == [
        [{"value": 2.5}, {"value": 3.0}], [{"value": 2**60 + 1}], [{"value": 1}],
    ]  # fmt: skip


record = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "f": st.floats(allow_nan=False),
        "t": st.none() | st.text(st.characters(codec="utf-8")),
    }
)


@settings(max_examples=20)
@given(st.lists(st.lists(record, max_size=4), max_size=4), st.integers(1, 6))
def test_parquet_holds_every_record_once_in_order(tmp_path_factory, batches, rows_per_block):
    folder = tmp_path_factory.mktemp("sink")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_sink, "ROWS_PER_BLOCK", rows_per_block)
        write("parquet", folder, *batches)
    parts = dict(zip(names(folder), tables(folder), strict=True))
    order = sorted(
        parts, key=lambda name: int(name.removesuffix(".parquet").split("-")[2]) if name.count("-") > 1 else 0
    )
    assert [row for name in order for row in parts[name]] == [row for rows in batches for row in rows]


# -- files and runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FILES)
def test_files_are_partial_until_the_run_is_complete(tmp_path, form):
    one = sink(form, tmp_path, host=3)
    one.write(batch([1, 2]), epoch=1)
    assert names(tmp_path) == [f"part-3.{form}.partial"]
    finish(one)
    assert names(tmp_path) == [f"part-3.{form}"]


@pytest.mark.parametrize("form", FILES)
def test_abort_leaves_partial_files_with_what_was_written(tmp_path, form):
    write(form, tmp_path, [7])
    one = sink(form, tmp_path)
    one.write(batch([1, 2]), epoch=1)
    one.abort()
    assert names(tmp_path) == [f"part-0.{form}", f"part-0.{form}.partial"]
    assert (tmp_path / "out" / f"part-0.{form}.partial").stat().st_size > 0


def test_new_run_replaces_the_files_of_an_earlier_one_also_of_more_hosts(tmp_path):
    for host in range(4):
        write("jsonl", tmp_path, [f"old {host}"], host=host)
    assert len(names(tmp_path)) == 1  # one after the other they are four runs
    hosts = [sink("jsonl", tmp_path, host) for host in range(4)]
    for host, one in enumerate(hosts):
        one.write(batch([f"old {host}"]), epoch=1)
    for one in hosts:
        finish(one)
    assert names(tmp_path) == [f"part-{host}.jsonl" for host in range(4)]
    hosts = [sink("jsonl", tmp_path, host) for host in range(2)]
    for host, one in enumerate(hosts):
        one.write(batch([f"new {host}"]), epoch=1)
    for one in reversed(hosts):
        finish(one)
    assert names(tmp_path) == ["part-0.jsonl", "part-1.jsonl"]
    assert lines(tmp_path) + lines(tmp_path, "part-1.jsonl") == ["new 0", "new 1"]


def test_earlier_file_of_a_host_that_still_writes_is_left_to_that_host(tmp_path):
    hosts = [sink("jsonl", tmp_path, host) for host in range(2)]
    for one in hosts:
        one.write(batch(["old"]), epoch=1)
        finish(one)
    first, second = (sink("jsonl", tmp_path, host) for host in range(2))
    second.write(batch(["new"]), epoch=1)
    finish(first)
    assert lines(tmp_path, "part-1.jsonl") == ["old"]
    second.abort()
    assert lines(tmp_path, "part-1.jsonl") == ["old"]


def test_failed_run_leaves_the_files_of_an_earlier_one(tmp_path):
    write("jsonl", tmp_path, ["old"])
    one = sink("jsonl", tmp_path)
    one.write(batch(["new"]), epoch=1)
    one.abort()
    assert lines(tmp_path) == ["old"]


def test_complete_run_removes_the_leavings_of_failed_ones(tmp_path):
    hosts = [sink("jsonl", tmp_path, host) for host in range(3)]
    for one in hosts:
        one.write(batch(["failed"]), epoch=1)
        one.abort()
    write("jsonl", tmp_path, ["good"])
    assert names(tmp_path) == ["part-0.jsonl"]


@pytest.mark.parametrize("form", FILES)
def test_host_without_outputs_leaves_no_file(tmp_path, form):
    write(form, tmp_path, ["old"])
    write(form, tmp_path)
    assert names(tmp_path) == []


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    for name in ("notes.txt", "part-0.csv", "other.jsonl"):
        (tmp_path / "out" / name).write_text("mine")
    write("jsonl", tmp_path, [1])
    assert names(tmp_path) == ["notes.txt", "other.jsonl", "part-0.csv", "part-0.jsonl"]


def test_two_runs_cannot_write_to_one_directory(tmp_path):
    one = sink("jsonl", tmp_path)
    one.write(batch([1]), epoch=1)
    with pytest.raises(OutputUnwritableError, match="another run is writing to it"):
        sink("jsonl", tmp_path)
    finish(one)
    assert lines(tmp_path) == [1]


DIE_WRITING = """
import os, signal, sys
from pathlib import Path
from dgs.workers.sinks.files.owned import PartFile
folder = Path(sys.argv[1])
folder.mkdir()
part = PartFile(folder / "part-0.jsonl", folder / "part-0.jsonl.partial")
part.file.write(b"1")
part.file.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_host_holds_nothing_back(tmp_path):
    killed = subprocess.run([sys.executable, "-c", DIE_WRITING, str(tmp_path / "out")], check=False)
    assert killed.returncode == -9
    assert names(tmp_path) == ["part-0.jsonl.partial"]
    write("jsonl", tmp_path, [2])
    assert names(tmp_path) == ["part-0.jsonl"]
    assert lines(tmp_path) == [2]


@pytest.mark.parametrize("form", FILES)
def test_directory_that_cannot_be_made_is_refused_at_once(tmp_path, form):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OutputUnwritableError, match=f"cannot write to {tmp_path}/out: File exists"):
        sink(form, tmp_path)


@pytest.mark.parametrize("form", FILES)
def test_disk_that_is_full_is_an_output_error(tmp_path, form, monkeypatch):
    one = sink(form, tmp_path)

    part = one._open[0][1]._part

    class Full:
        closed = False

        def write(self, _):
            raise OSError(28, "No space left on device")

    part.file.close()
    monkeypatch.setattr(part, "file", Full())
    with pytest.raises(OutputUnwritableError, match="No space left on device"):
        one.write(batch(list(range(100_000))), epoch=1)


def test_text_that_utf8_cannot_hold_is_written_escaped(tmp_path):
    for form in FILES:
        write(form, tmp_path / form, ["a\ud800", "b"])
    assert lines(tmp_path / "jsonl") == ["a\ud800", "b"]
    assert tables(tmp_path / "parquet") == [[{"value": '"a\\ud800"'}, {"value": "b"}]]


def test_file_sinks_without_a_path_write_to_the_output_directory(tmp_path):
    one = open_sink(
        SinkConfig(jsonl={"path": ""}), output_dir=tmp_path / "out", base_dir=tmp_path / "no", host=0
    )
    one.write(batch([1]), epoch=1)
    finish(one)
    assert lines(tmp_path) == [1]


# -- without files -----------------------------------------------------------------------------------------------------


def test_none_counts(tmp_path):
    one = sink("none", tmp_path)
    one.write(batch([1, 2]), epoch=1)
    one.write(batch([3]), epoch=1)
    one.abort()
    assert one.count == 3


def test_central_sinks_are_those_of_the_callers_process():
    central = {form: is_central(SinkConfig.model_validate(form)) for form in ("memory", "stdout", "none")}
    assert central == {"memory": True, "stdout": True, "none": False}
    assert not any(is_central(SinkConfig.model_validate({form: {"path": "out"}})) for form in FILES)
