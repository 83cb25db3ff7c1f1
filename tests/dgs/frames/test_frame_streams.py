"""Streams from data frames of any library: the values of events, and errors for wrong frames."""

from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dgs
from dgs.errors import MalformedRowError, OutOfOrderError, ProgramError, UsageError
from dgs.flow import FlowError, flow
from dgs.frames.tables import FrameColumnError, FrameError, FrameKindError, MixedTimesError
from dgs.model import columns

READING = dgs.kind("reading", key=str)
LIMIT = dgs.kind("limit")


class Seen(dgs.Program):
    """Emits its events as they arrive."""

    kinds = (READING,)
    depends = dgs.Dependence((READING, READING, dgs.SAME_KEY))

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit([event.tag.key, event.ts, event.payload])
        return state


class SeenInColumns(Seen):
    def update_batch(self, state, batch, emit):
        rows = zip(batch.tag_list(), batch.ts.tolist(), columns.to_list(batch.payload), strict=True)
        for i, (tag, ts, payload) in enumerate(rows):
            emit(i, [tag.key, ts, payload])
        return state


class TwoKinds(dgs.Program):
    kinds = (READING, LIMIT)

    def init(self):
        return 0


def of_duckdb(table):
    return duckdb.from_arrow(table)


LIBRARIES = {
    "pandas": lambda table: table.to_pandas(),
    "pandas with Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "lazy polars": lambda table: pl.from_arrow(table).lazy(),
    "arrow": lambda table: table,
    "arrow in chunks": lambda table: pa.concat_tables(
        [table.slice(0, len(table) // 2), table.slice(len(table) // 2)]
    ),
    "duckdb": of_duckdb,
    "columns": lambda table: table.to_pydict(),
    "records": lambda table: table.to_pylist(),
}

COLUMNS = ("whole", "part", "text", "flag", "colour")
START = datetime(2024, 2, 29)  # noqa: DTZ001 - without a zone
ROWS = st.lists(
    st.tuples(
        st.integers(0, 10**9),
        st.sampled_from(["a", "b", "ä"]),
        st.integers(-(2**40), 2**40),
        st.floats(allow_nan=False, width=32),
        st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)),
        st.booleans(),
        st.sampled_from(["red", "blue"]),
    ),
    min_size=1,
    max_size=12,
)


def table_of(rows):
    at, sensor, whole, part, text, flag, colour = zip(*sorted(rows, key=lambda row: row[0]), strict=True)
    times = [START + timedelta(microseconds=n) for n in at]
    return pa.table(
        {
            "at": pa.array(times, pa.timestamp("us")),
            "sensor": pa.array(sensor),
            "whole": pa.array(whole),
            "part": pa.array(part),
            "text": pa.array(text, pa.string()),
            "flag": pa.array(flag),
            "colour": pa.array(colour).dictionary_encode(),
            "day": pa.array([one.date() for one in times]),
        }
    )


def ran(program, frame, **said):
    said = {"key": "sensor", "ts": "at", "payload": [*COLUMNS]} | said
    return dgs.run(program, streams={"readings": dgs.stream(frame, **said)}).outputs


@settings(max_examples=12)
@given(rows=ROWS)
def test_every_library_gives_the_same_values(rows):
    table = table_of(rows)
    since = datetime(1970, 1, 1)  # noqa: DTZ001
    expected = [
        [
            row["sensor"],
            (row["at"] - since) // timedelta(microseconds=1) * 1000,
            {name: row[name] for name in COLUMNS},
        ]
        for row in table.to_pylist()
    ]
    for library, made in LIBRARIES.items():
        for program in (Seen, SeenInColumns):
            assert ran(program, made(table)) == expected, library


def test_times_in_zones_are_instants():
    zoned = pd.DataFrame(
        {"at": pd.to_datetime(["2024-01-01T01:00+01:00", "2024-01-01T02:00+01:00"]), "sensor": "a"}
    )
    utc = [datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in (0, 1)]
    outputs = ran(Seen, zoned, payload=[])
    assert [ts for _, ts, _ in outputs] == [int(at.timestamp()) * 10**9 for at in utc]


def test_integers_count_in_their_unit():
    frames = [
        dgs.stream({"ts": [1, 3], "sensor": ["a", "a"], "payload": [1, 2]}, key="sensor", unit="s", id="x"),
        dgs.stream({"ts": [2000], "sensor": ["b"], "payload": [3]}, key="sensor", unit="ms", id="y"),
    ]
    assert dgs.run(Seen, streams=frames).outputs == [["a", 1000, 1], ["b", 2000, 3], ["a", 3000, 2]]


def test_arrow_columns_are_not_copied():
    for frame in (
        pl.DataFrame({"ts": range(9)}),
        pa.table({"ts": range(9)}),
        pd.DataFrame({"ts": range(9)}).astype("int64[pyarrow]"),
    ):
        given = pa.table(frame)["ts"].chunk(0).buffers()[1].address
        assert dgs.stream(frame).table["ts"].buffers()[1].address == given


def test_sort_puts_rows_in_order_and_keeps_equal_times():
    frame = {"ts": [2, 1, 2, 1], "sensor": ["a", "b", "c", "d"], "payload": [1, 2, 3, 4]}
    outputs = dgs.run(Seen, streams={"x": dgs.stream(frame, key="sensor", sort=True)}).outputs
    assert [payload for _, _, payload in outputs] == [2, 4, 1, 3]


def test_a_frame_of_one_kind_needs_no_arguments():
    assert dgs.run(
        Seen, streams={"x": pl.DataFrame({"tag": [["reading", "a"]], "ts": [1], "payload": [5]})}
    ).outputs == [["a", 1, 5]]


def test_kinds_and_constant_keys_as_in_a_plan_file():
    frame = pd.DataFrame({"ts": [1, 2], "what": ["limit", "reading"], "payload": [1, 2]})

    class Both(TwoKinds):
        def update(self, state, event, emit):
            emit([event.tag.kind, event.tag.key])
            return state

    said = dgs.stream(frame, kind={"column": "what"}, key={"value": "k"})
    assert dgs.run(Both, streams={"x": said}).outputs == [["limit", None], ["reading", "k"]]


def test_a_flow_takes_a_frame_with_its_own_columns():
    doubled = flow()(lambda rows: rows.map(lambda _, value: value * 2))
    said = dgs.stream(pl.DataFrame({"when": [1, 2], "n": [10, 20]}), ts="when", payload="n")
    assert dgs.run(doubled, streams={"rows": said}).outputs == doubled.denote({"rows": said}) == [20, 40]
    with pytest.raises(FrameKindError, match="Leave out `kind` and `key`"):
        dgs.run(doubled, streams={"rows": dgs.stream({"ts": [1]}, kind="item")})


def test_a_plan_file_reads_a_frame_with_its_own_columns(tmp_path):
    (tmp_path / "seen.py").write_text(
        "import dgs\nclass Seen(dgs.Program):\n    kinds = (dgs.kind('reading', key=str),)\n    def init(self): return 0\n"
        "    def update(self, state, event, emit):\n        emit([event.tag.key, event.ts, event.payload])\n        return state\n"
    )
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "version: 1\nname: seen\nprogram: {ref: seen.py:Seen}\n"
        "streams: [{id: x, tags: {kind: reading, key: nobody}, source: {memory: data}}]\nruntime: {kind: local}\n"
    )
    said = dgs.stream(pl.DataFrame({"at": [4], "who": ["ann"], "n": [7]}), key="who", ts="at", payload="n")
    run = dgs.run(plan, streams={"data": said})
    assert run.outputs == [["ann", 4, 7]]
    bare = dgs.run(plan, streams={"data": pl.DataFrame({"ts": [4], "payload": [7]})}, fresh=True)
    assert bare.outputs == [["nobody", 4, 7]]


class Raising:
    def __init__(self, error):
        self._error = error

    def __arrow_c_stream__(self, requested_schema=None):
        raise self._error


FIELD_TWICE = pa.table(
    {
        "at": [1],
        "sensor": ["a"],
        "n": pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"]),
    }
)
WRONG = [
    (lambda: dgs.stream({"at": [1]}), FrameColumnError, "`ts` is 'ts', which is no column of the frame; its columns are at"),
    (lambda: dgs.stream({"ts": [1], "amount": [1]}, payload="amuont"), FrameColumnError, "did you mean 'amount'"),
    (lambda: dgs.stream({"ts": [1], "sensor": [1]}, key="sensr"), FrameColumnError, "did you mean 'sensor'"),
    (lambda: dgs.stream({"ts": [1]}, kind={"column": "what"}), FrameColumnError, "`kind` is 'what'"),
    (lambda: dgs.stream(pd.DataFrame({"n": [1]}, index=pd.Index([5], name="at")), ts="at"), FrameColumnError, "reset_index"),
    (lambda: dgs.stream({"ts": [1], "n": [1, 2]}), FrameError, "differ in length"),
    (lambda: dgs.stream([{"ts": 1}, 5]), FrameError, "row 1 of the list is a int"),
    (lambda: dgs.stream(5), FrameError, "a int is no table"),
    (lambda: dgs.stream({"ts": [2, None, 1]}, sort=True), FrameError, "null in row 1"),
    (lambda: dgs.stream({"ts": ["b", "a"]}, sort=True), FrameError, "cannot be sorted"),
    (lambda: dgs.stream({"ts": [1], "k": "a"}), FrameError, "column 'k' of the dictionary is 'a'"),
    (lambda: dgs.stream(pd.DataFrame), FrameError, "a type is no table"),
    (lambda: dgs.stream(Raising(ValueError)), FrameError, "a Raising is no table"),
    (lambda: dgs.stream(Raising(SystemExit)), FrameError, "a Raising is no table: reading it raised SystemExit"),
    (lambda: dgs.stream({"ts": [1]}, ts=["ts"]), FrameColumnError, r"`ts` is \['ts'\], which is no column"),
    (lambda: dgs.stream({"ts": [1]}, payload=5), FrameColumnError, "`payload` is 5, which is no column"),
    (lambda: ran(Seen, FIELD_TWICE, payload="n"), MalformedRowError, "row 0: the value is a struct.* which has a field twice"),
    (lambda: dgs.run(Seen, streams={"x": [(dgs.Tag("reading", [1]), 1, 1)]}), ProgramError, "cannot be a list"),
    (lambda: dgs.stream(pd.Series([1])), FrameError, "a Series is no table"),
    (lambda: dgs.stream(pl.Series([1])), FrameError, "a Series is no table"),
    (lambda: dgs.stream(pd.DataFrame([[1, 2]], columns=["ts", "ts"])), FrameError, "two columns 'ts'"),
    (lambda: dgs.stream({"ts": [START]}, unit="s"), UsageError, "times of the calendar: leave it out"),
    (lambda: dgs.stream({"ts": [1]}, unit="h"), UsageError, "the units are s, ms, us, ns"),
    (lambda: dgs.run(TwoKinds, streams={"x": {"ts": [1]}}), FrameKindError, r"dgs.stream\(frame, kind='limit'"),
    (lambda: dgs.run(Seen, streams={"x": dgs.stream({"ts": [1]}, kind="raeding")}), FrameKindError, "did you mean 'reading'"),
    (lambda: dgs.run(Seen, streams={"x": dgs.stream({"ts": [1]})}), FrameKindError, "no column is named for them"),
    (lambda: dgs.run(TwoKinds, streams={"x": dgs.stream({"ts": [1]}, kind="limit", key="ts")}), FrameKindError, "no keys"),
    (lambda: dgs.run(Seen, streams=[dgs.stream({"ts": [1]})]), UsageError, "id="),
    (lambda: dgs.run(Seen, streams={"x": dgs.stream({"ts": [1]}, id="y")}), UsageError, "has the id 'y'"),
    (lambda: ran(Seen, {"at": [1, None], "sensor": ["a", "a"]}, payload=[]), MalformedRowError, "row 1.*null.*'at'"),
    (lambda: ran(Seen, {"at": [1, 2], "sensor": ["a", None]}, payload=[]), MalformedRowError, "row 1.*key.*null.*'sensor'"),
    (lambda: ran(Seen, {"at": [True], "sensor": ["a"]}, payload=[]), MalformedRowError, "row 0.*not timestamps"),
    (lambda: ran(Seen, {"at": [2, 1], "sensor": ["a", "a"]}, payload=[]), OutOfOrderError, "row 1.*sort the input"),
    (lambda: ran(Seen, {"at": [1], "sensor": [7]}, payload=[]), MalformedRowError, "row 0.*must be str, not int"),
    (lambda: flow()(lambda rows: rows).denote({"rows": dgs.stream({"ts": ["x"]})}), FlowError, "no integer"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_wrong_frames_name_a_fix(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_times_of_the_calendar_and_bare_numbers_are_not_mixed():
    streams = {
        "a": dgs.stream({"ts": [1], "sensor": ["a"]}, key="sensor"),
        "b": dgs.stream(pl.DataFrame({"ts": [START], "sensor": ["b"]}), key="sensor"),
    }
    with pytest.raises(
        MixedTimesError, match="stream 'b' has times of the calendar, and stream 'a' has bare numbers"
    ):
        dgs.run(Seen, streams=streams)


def test_a_streaming_frame_of_spark_is_refused():
    class Frame:
        isStreaming = True  # noqa: N815 - as Spark has it

        def toArrow(self):
            raise AssertionError("a stream without end")

    with pytest.raises(FrameError, match=r"source: \{spark:"):
        dgs.stream(Frame())


def test_a_bounded_frame_of_spark_comes_as_arrow():
    class Frame:
        isStreaming = False  # noqa: N815 - as Spark has it

        def toArrow(self):
            return pa.table({"ts": [1], "sensor": ["a"], "payload": [np.int64(3)]})

    assert dgs.run(Seen, streams={"x": dgs.stream(Frame(), key="sensor")}).outputs == [["a", 1, 3]]


@pytest.mark.parametrize("values", [[1, "b", None], [10**30, 1, -1], ["\ud800", "b", None]])
def test_objects_of_pandas_without_a_common_type_stay_what_they_are(values):
    frame = pd.DataFrame({"ts": [1, 2, 3], "sensor": "a", "payload": pd.Series(values, dtype=object)})
    run = dgs.run(Seen, streams={"x": dgs.stream(frame, key="sensor")}, runtime="local")
    assert [payload for _, _, payload in run.outputs] == values
