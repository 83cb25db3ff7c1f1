"""Text files through Spark have the same rows as through the sources `csv` and `jsonl`."""

import json

import pytest

import dgs
from dgs.errors import MalformedRowError, PlanFileError
from dgs.job.schema import StreamConfig
from dgs.spark_bridge.ingest.queries import queries_of

PROGRAM = """
import dgs


class Rows(dgs.Program):
    kinds = (dgs.kind("row"),)

    def init(self):
        return []

    def update(self, state, event, emit):
        return [*state, (event.ts, tuple(event.payload.values()))]
"""
CSV = "at;name;n\n31.12.1969 23:59;NA;1\n1.1.1970 00:01;;-\n02.01.1970 10:00;é;3\n03.01.1970 10:00;-;4\n"
LINES = [{"at": "31.12.1969 23:59", "name": "é", "n": 1}, {"at": "1.1.1970 00:01", "name": "", "n": None}]
TS = {"column": "at", "format": "%d.%m.%Y %H:%M"}


def rows_of(folder, source, name):
    plan = {
        "version": 1, "name": name, "time": {"unit": "s"}, "program": {"ref": "program.py:Rows"},
        "streams": [{"id": "s", "tags": {"kind": "row"}, "source": source, "payload": ["name", "n"]}],
        "runtime": {"kind": "local"},
    }  # fmt: skip
    (folder / "program.py").write_text(PROGRAM)
    (folder / f"{name}.yaml").write_text(json.dumps(plan))
    return dgs.run(folder / f"{name}.yaml", run_dir=folder / name).state


@pytest.mark.parametrize(
    ("encoding", "nulls"), [("utf-8", ["-"]), ("latin-1", ["", "NA", "-"]), ("utf-16", ["-"])]
)
def test_csv_files_give_the_same_rows_through_spark(spark, tmp_path, encoding, nulls):
    (tmp_path / "a.csv").write_bytes(CSV.encode(encoding))
    common = {"path": "a.csv", "ts": TS, "nulls": nulls, "encoding": encoding}
    local = {"csv": {**common, "delimiter": ";", "columns": {"name": "str", "n": "int"}}}
    options = {"header": True, "sep": ";"}
    columns = {"at": "string", "name": "string", "n": "bigint"}
    through = {"spark": {**common, "format": "csv", "options": options, "columns": columns}}
    expected = rows_of(tmp_path, local, "local")
    assert len(expected) == 4
    assert rows_of(tmp_path, through, "through") == expected


def test_misspelt_mode_is_refused():
    source = {"spark": {"format": "csv", "path": "a.csv", "options": {"Mode": "FAILFAS"}}}
    stream = StreamConfig.model_validate({"id": "s", "tags": {"kind": "row"}, "source": source})
    with pytest.raises(PlanFileError, match="`mode: FAILFAS` is none of FAILFAST, PERMISSIVE"):
        queries_of([stream], unit="ms")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_json_files_give_the_same_rows_through_spark(spark, tmp_path, encoding):
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in LINES)
    (tmp_path / "a.jsonl").write_bytes(text.encode(encoding))
    common = {"path": "a.jsonl", "ts": TS, "encoding": encoding}
    columns = {"at": "string", "name": "string", "n": "bigint"}
    expected = rows_of(tmp_path, {"jsonl": common}, "local")
    assert len(expected) == 2
    assert (
        rows_of(tmp_path, {"spark": {**common, "format": "json", "columns": columns}}, "through") == expected
    )


def test_a_text_of_csv_is_not_null_through_spark_either(spark, tmp_path):
    (tmp_path / "a.csv").write_text("ts,name,n\n1,NA,1\n2,,2\n")
    options = {"header": True}
    columns = {"ts": "bigint", "name": "string", "n": "bigint"}
    local = rows_of(tmp_path, {"csv": {"path": "a.csv", "columns": {"name": "str"}}}, "local")
    source = {"spark": {"format": "csv", "path": "a.csv", "options": options, "columns": columns}}
    assert rows_of(tmp_path, source, "through") == local == [(1, ("NA", 1)), (2, ("", 2))]


@pytest.mark.parametrize(
    ("form", "text", "said"),
    [
        ("csv", "ts,name,n\n1,a,1\n1,a,x\n", "the record '1,a,x' in a.csv does not fit"),
        ("csv", "ts,name,n\n1,a\n", "the record '1,a' in a.csv"),
        ("json", '{"ts": 1, "name": "a", "n": NaN}\n', 'the record \'{"ts": 1, '),
        ("json", "{\n", "the record '{' in a.json"),
    ],
)
def test_wrong_text_is_an_error_of_the_input_through_spark(spark, tmp_path, form, text, said):
    (tmp_path / f"a.{form}").write_text(text)
    options = {"header": True} if form == "csv" else {}
    columns = {"ts": "bigint", "name": "string", "n": "bigint"}
    source = {"format": form, "path": f"a.{form}", "options": options, "columns": columns}
    with pytest.raises(MalformedRowError) as caught:
        rows_of(tmp_path, {"spark": source}, "x")
    assert said in str(caught.value)


def test_wrong_cell_beside_nulls_is_an_error_of_the_input_through_spark(spark, tmp_path):
    """The columns are read as text then, and cast."""
    (tmp_path / "a.csv").write_text("ts,name,n\n1,a,x\n")
    columns = {"ts": "bigint", "name": "string", "n": "bigint"}
    source = {
        "format": "csv",
        "path": "a.csv",
        "options": {"header": True},
        "columns": columns,
        "nulls": ["-"],
    }
    with pytest.raises(MalformedRowError, match="'x'"):
        rows_of(tmp_path, {"spark": source}, "x")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "parquet", "nulls": ["-"]}, "`nulls:` are those of files of format csv"),
        ({"format": "orc", "encoding": "latin-1"}, "`encoding:` is that of files"),
        ({"format": "csv", "encoding": "cp1252"}, "Spark reads no cp1252"),
        ({"format": "csv", "ts": {"column": "a", "format": "%Y week %W"}}, "Spark reads no %W"),
    ],
)
def test_input_that_spark_cannot_read_is_refused_before_it_starts(options, said):
    source = {"spark": {"path": "a", **options}}
    config = StreamConfig.model_validate({"id": "s", "tags": {"kind": "n"}, "source": source})
    with pytest.raises(PlanFileError, match=said):
        queries_of([config], unit="ms")
