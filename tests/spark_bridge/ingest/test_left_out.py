"""Rows that do not enter the log, under each policy: the log equals that of the same plan without these rows."""

import os
import threading
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dgs
from dgs.errors import MalformedRowError
from dgs.job.schema import SparkSource, StreamConfig
from dgs.spark_bridge.ingest import micro_batches
from dgs.spark_bridge.ingest.feed import Feed
from dgs.spark_bridge.ingest.left_out import letters_of
from dgs.spark_bridge.ingest.queries import queries_of
from dgs.workers.event_log import failure
from tests.spark_bridge.writing import tables_in

ROWS = [(5, "home", "1"), (None, "home", "2"), (6, None, "3"), (7, "shop", "four"), (8, "shop", None)]
SOUND = [{"ts": 5, "page": "home", "v": 1}, {"ts": 8, "page": "shop", "v": None}]


def put(path, rows):
    """Write a file. Spark reads files in the order of their times, here the order of their numbers."""
    path.parent.mkdir(exist_ok=True)
    columns = [
        pa.array([row[i] for row in rows], kind)
        for i, kind in enumerate((pa.int64(), pa.string(), pa.string()))
    ]
    pq.write_table(pa.table(columns, names=["ts", "page", "text"]), path)
    os.utime(path, (1_000_000 + int(path.stem),) * 2)


def fed(spark, tmp_path, *, on_disorder="error", **source):
    """Run a query over the files in `in`, in the order of their names; return its sentences and its error."""
    given = {"format": "parquet", "path": "in", "select": ["ts", "page", "CAST(text AS INT) AS v"], **source}
    stream = StreamConfig(
        id="s", tags={"kind": "n", "key": {"column": "page"}}, source={"spark": SparkSource(**given)},
        on_disorder=on_disorder,
    )  # fmt: skip
    [query] = queries_of([stream], unit="ms")
    said = []
    feed = Feed(query, tmp_path / "log", base_dir=tmp_path, notify=said.append)
    feed.begin()
    feed.run(spark, threading.Event())
    return said, failure.found(tmp_path / "log" / "s")


def logged(tmp_path):
    return [row for table in tables_in(tmp_path / "log") for row in table.to_pylist()]


def letters(tmp_path, query="s"):
    place = letters_of(tmp_path / "log", query)
    return pq.read_table(place, partitioning="hive").to_pylist() if place.exists() else []


@pytest.mark.parametrize("policy", ["drop", "dead_letter"])
def test_rows_that_cannot_be_events_are_left_out_and_counted(spark, tmp_path, policy):
    put(tmp_path / "in" / "0.parquet", ROWS)
    said, error = fed(spark, tmp_path, on_malformed=policy)
    assert error is None
    assert logged(tmp_path) == SOUND
    for files in ("*.parquet.crc", "offsets/*.crc", "commits/*.crc"):  # Hadoop runs `chmod` for each file
        assert not list(tmp_path.rglob(files))
    assert "1 (cast fails: CAST(text AS INT)); 1 (column page is null); 1 (column ts is null)" in said[-1]
    kept = {(row["reason"], row["dead_letter_row"], row["dead_letter_value"]) for row in letters(tmp_path)}
    assert kept == (
        {
            ("cast fails: CAST(text AS INT)", 3, "four"),
            ("column page is null", 2, None),
            ("column ts is null", 1, None),
        }
        if policy == "dead_letter"
        else set()
    )
    assert all(row["dead_letter_file"].endswith("in/0.parquet") for row in letters(tmp_path))


@pytest.mark.parametrize("name", ["dead_letter_row", "Dead_Letter_File", "__dgs_part"])
def test_column_with_a_name_of_ours_is_refused_and_not_left_out(spark, tmp_path, name):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"ts": [1], "page": ["home"], name: ["x"]}), tmp_path / "in" / "0.parquet")
    _, error = fed(spark, tmp_path, select=[])
    assert (
        f"the name of column '{name}' is one that dgs gives itself: name the columns under `select:`"
        in str(error)
    )
    assert logged(tmp_path) == []


@pytest.mark.parametrize(
    ("table", "select", "advice"),
    [
        (pa.table({"ts": pa.array([1], pa.timestamp("ns")), "page": ["a"]}), [], "unit: ns"),
        (
            pa.table({"ts": [1], "page": ["a"]}),
            ["ts", "page", "parse_json('1') AS v"],
            "select to_json(v) AS v",
        ),
    ],
)
def test_types_that_a_log_cannot_have_are_refused_with_what_to_write_instead(
    spark, tmp_path, table, select, advice
):
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "0.parquet")
    _, error = fed(spark, tmp_path, select=select)
    assert advice in str(error)


@pytest.mark.parametrize("policy", ["stop", "drop"])
def test_column_of_a_tag_may_be_null_in_streams_without_it(spark, tmp_path, policy):
    put(tmp_path / "in" / "0.parquet", [(1, None, "ends"), (2, "home", "views"), (3, None, "views")])
    source = SparkSource(format="parquet", path="in", query="q", key="text", on_malformed=policy)
    tags = {"views": {"kind": "view", "key": {"column": "page"}}, "ends": {"kind": "end"}}
    streams = [StreamConfig(id=id_, tags=tag, source={"spark": source}) for id_, tag in tags.items()]
    [query] = queries_of(streams, unit="ms")
    feed = Feed(query, tmp_path / "log", base_dir=tmp_path)
    assert feed.begin()
    feed.run(spark, threading.Event())
    if policy == "stop":
        assert "row 2: column 'page' is null" in str(failure.found(tmp_path / "log" / "views"))
    else:
        found = {
            id_: [row["ts"] for table in tables_in(tmp_path / "log", id_) for row in table.to_pylist()]
            for id_ in tags
        }
        assert found == {"views": [2], "ends": [1]}


@pytest.mark.parametrize("wrong", ROWS[1:4])
def test_row_that_cannot_be_an_event_ends_the_query_without_a_policy(spark, tmp_path, wrong):
    put(tmp_path / "in" / "0.parquet", [ROWS[0], wrong])
    _, error = fed(spark, tmp_path)
    assert isinstance(error, MalformedRowError)
    assert logged(tmp_path) == []


BRANCHES = {
    "CASE WHEN page = 'n' THEN CAST(text AS INT) WHEN text IS NULL THEN 0 ELSE length(text) END": lambda page, text: (
        int(text) if page == "n" else len(text or "")
    ),
    "CASE page WHEN 'n' THEN CAST(text AS INT) WHEN 'm' THEN -CAST(text AS INT) END": lambda page, text: {
        "n": int,
        "m": lambda text: -int(text),
    }.get(page, lambda _: None)(text),
    "IF(page = 'n' OR page = 'm', CAST(text AS INT), 7)": lambda page, text: int(text) if page in "nm" else 7,
    "coalesce(nullif(length(text), 1), CAST(text AS INT))": lambda _, text: (
        len(text) if len(text) > 1 else int(text)
    ),
}
"""Casts in branches, and their results in a row."""


@pytest.mark.parametrize("expression", BRANCHES)
def test_cast_in_a_branch_leaves_out_the_rows_that_come_there(spark, tmp_path, expression):
    rows = [(ts, page, text) for ts, (page, text) in enumerate(product("nmo", ["1", "x", "23", "yz"]))]
    wanted, letters_of_casts = {}, set()
    for ts, page, text in rows:
        try:
            wanted[ts] = BRANCHES[expression](page, text)
        except ValueError:
            letters_of_casts.add(ts)
    put(tmp_path / "in" / "0.parquet", rows)
    _, error = fed(spark, tmp_path, on_malformed="dead_letter", select=["ts", "page", f"{expression} AS v"])
    assert error is None
    assert {row["ts"]: row["v"] for row in logged(tmp_path)} == wanted
    assert {row["ts"] for row in letters(tmp_path)} == letters_of_casts


@pytest.mark.parametrize("policy", ["stop", "drop", "dead_letter"])
def test_late_rows_are_left_out_before_the_log(spark, tmp_path, policy):
    files = [
        [(10, "a", "1"), (20, "a", "2")],
        [(14, "a", "3"), (15, "a", "4"), (30, "a", "5")],
        [(21, "a", "6")],
    ]
    for number, rows in enumerate(files):
        put(tmp_path / "in" / f"{number}.parquet", rows)
    policies = {"sort_within": "5ms", "late": policy}
    said, error = fed(spark, tmp_path, on_disorder=policies, options={"maxFilesPerTrigger": 1})
    assert error is None
    times = [row["ts"] for row in logged(tmp_path)]
    if policy == "stop":  # the readers decide
        assert sorted(times) == [10, 14, 15, 20, 21, 30]
        return
    assert times == [10, 20, 15, 30]
    assert "2 (late for stream s)" in said[-1]
    assert sorted(row["ts"] for row in letters(tmp_path)) == ([14, 21] if policy == "dead_letter" else [])


@pytest.mark.parametrize("wrong", [None, (None, "a", "6"), (16, None, "6"), (14, "a", "6")])
def test_rows_are_divided_from_the_first_one_on_that_is_no_event(spark, tmp_path, monkeypatch, wrong):
    files = [
        [(10, "a", "1"), (20, "a", "2")],
        [(15, "a", "3"), *([wrong] if wrong else []), (30, "a", "4")],
        [(31, "a", "5")],
    ]
    for number, rows in enumerate(files):
        put(tmp_path / "in" / f"{number}.parquet", rows)
    divided = []

    def written(*given, **way):
        divided.append(found := micro_batches_written(*given, **way))
        return found

    micro_batches_written = micro_batches.written
    monkeypatch.setattr(micro_batches, "written", written)
    late = {"sort_within": "5ms", "late": "dead_letter"}
    given = {"select": ["ts", "page", "text"], "on_malformed": "dead_letter"}
    _, error = fed(spark, tmp_path, on_disorder=late, options={"maxFilesPerTrigger": 1}, **given)
    assert error is None
    assert [row["text"] for row in logged(tmp_path)] == ["1", "2", "3", "4", "5"]
    assert [row["text"] for row in letters(tmp_path)] == (["6"] if wrong else [])
    assert len(divided) == (2 if wrong else 0)


PROGRAM = """
import dgs


class Count(dgs.Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        return state + event.payload
"""

PLAN = """
version: 1
name: counted
time: {unit: ms}
program: {ref: "program.py:Count"}
streams:
  - id: left
    tags: {kind: n, key: {column: page}}
    payload: v
    source:
      spark: {format: parquet, path: in, select: [ts, page, CAST(text AS INT) AS v], where: text IS NOT NULL, on_malformed: dead_letter}
  - id: right
    tags: {kind: n, key: {column: page}}
    payload: v
    source:
      spark: {format: parquet, path: others, select: [ts, page, CAST(text AS INT) AS v], on_malformed: dead_letter}
runtime: {kind: local}
"""


def test_report_of_a_run_counts_rows_left_out_with_the_letters_of_each_query(spark, tmp_path):
    """Both queries leave out rows for the same reasons, from micro-batches of the same number."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan.yaml").write_text(PLAN)
    put(tmp_path / "in" / "0.parquet", ROWS)
    put(tmp_path / "others" / "0.parquet", [(9, "home", "9"), (None, "home", "8"), (None, "home", "7")])
    run = dgs.run(tmp_path / "plan.yaml", run_dir=tmp_path / "run", verify=True)
    assert run.verified
    assert run.state == 1 + 9
    assert run.report["skipped"] == 5
    found = {one["streams"][0]: one for one in run.report["left_out"]}
    assert {name: one["rows"] for name, one in found.items()} == {"left": 3, "right": 2}
    assert found["right"]["reasons"] == {"column ts is null": 2}
    kept = {name: pq.read_table(one["dead_letters"]).num_rows for name, one in found.items()}
    assert kept == {"left": 3, "right": 2}
