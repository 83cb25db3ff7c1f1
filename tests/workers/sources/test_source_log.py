"""Event logs as sources: the same events as from memory, also live and after rows were deleted."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.errors import CorruptFileError, MissingInputError, OutOfOrderError, UnknownColumnError
from dgs.model.order import END, OrderKey
from dgs.model.program import Program
from dgs.model.tags import Tag
from dgs.workers.event_log import LogWriter
from dgs.workers.event_log.event_tables import event_table
from dgs.workers.event_log.reader import LogReader
from dgs.workers.sources.live.log import LogArrivals, LogRowsGoneError
from dgs.workers.sources.rows import LiveTime
from dgs.workers.sources.shaping.mapping import Mapping
from tests.workers.reading import opened, readings, rows, stream

LIVE = LiveTime(linger=0, elapsed=lambda: 0)
VALUES = {"log": {"path": "log"}}


def found_in(source):
    return rows(batch for reading in readings(source) for batch in reading.batches)


def outcome(source):
    """Return the rows, or where reading them fails."""
    try:
        return found_in(source)
    except OutOfOrderError as late:
        return late.row, late.ts


@settings(max_examples=20)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=5), max_size=5),
    st.sampled_from(["error", "drop", {"sort_within": "4ms"}]),
    st.integers(1, 6),
)
def test_log_equals_memory(batches, policy, batch_rows):
    """Segments are sorted: the reference reads the sorted batches one after the other from memory."""
    config = {"on_disorder": policy, "tags": {"kind": "cell", "key": {"column": "k"}}, "payload": "k"}
    with tempfile.TemporaryDirectory() as name:
        writer = LogWriter(Path(name) / "log", "s", "w")
        for number, batch in enumerate(batches):
            cells = np.array(batch, dtype=np.int64).reshape(-1, 2)
            writer.append(number, {"ts": cells[:, 0], "k": cells[:, 1]})
        logged = opened(stream(VALUES, **config), base_dir=Path(name), unit="ms", batch_rows=batch_rows)
        in_order = [row for batch in batches for row in sorted(batch)]
        memory = opened(
            stream(**config), {"ts": [ts for ts, _ in in_order], "k": [k for _, k in in_order]}, unit="ms"
        )
        assert outcome(logged) == outcome(memory)
        assert logged.drops == memory.drops


def test_events_come_with_their_tags_and_heartbeats(tmp_path):
    writer = LogWriter(tmp_path / "log", "s", "w")
    tags = (Tag("cell", 1), Tag("barrier"))
    table = event_table(np.array([5, 9, 9]), tags, np.array([0, 1, 0], dtype=np.int32), ["a", None, {"b": 1}])
    writer.append(0, table, 12, beats=[(1, 7)], keep_order=True)
    source = opened(stream(VALUES, tags=["cell", "barrier"]), base_dir=tmp_path, rank=1, time=LIVE)
    reading = source.read()
    assert rows(reading.batches) == [
        ("s", tags[0], 5, 0, "a"), ("s", tags[1], 9, 1, None), ("s", tags[0], 9, 2, {"b": 1}),
    ]  # fmt: skip
    assert reading.frontier == OrderKey(13, 1, 0)


def test_event_below_a_heartbeat_inside_a_segment_is_disorder(tmp_path):
    writer = LogWriter(tmp_path / "log", "s", "w")
    table = event_table(np.array([5, 7]), (Tag("value"),), None, None)
    writer.append(0, table, beats=[(1, 7)], keep_order=True)
    with pytest.raises(OutOfOrderError) as caught:
        found_in(opened(stream(VALUES), base_dir=tmp_path))
    assert (caught.value.row, caught.value.previous) == (1, 7)


def test_live_log_brings_rows_as_they_are_written_and_ends_when_closed(tmp_path):
    (tmp_path / "log").mkdir()
    source = opened(stream(VALUES, payload="x"), base_dir=tmp_path, time=LIVE)
    assert (source.wait, source.read().batches) == (0, ())
    assert 0 < source.wait < 0.1
    writer = LogWriter(tmp_path / "log", "s", "w")
    writer.append(0, {"ts": [1], "x": ["a"]}, frontier=4)
    reading = source.read()
    assert (rows(reading.batches), reading.frontier) == ([("s", Tag("value"), 1, 0, "a")], OrderKey(1, 0, 1))
    assert source.wait == 0
    assert source.read().frontier == OrderKey(5, 0, 0)
    writer.append(1, {"ts": [5], "x": ["b"]})
    writer.close()
    assert found_in(source) == [("s", Tag("value"), 5, 1, "b")]
    assert source.description["end"] == OrderKey(5, 0, 2)


def test_log_without_clocks_ends_where_it_is_now(tmp_path):
    LogWriter(tmp_path / "log", "s", "w").append(0, {"ts": [1, 2]})
    assert len(found_in(opened(stream(VALUES, payload=[]), base_dir=tmp_path))) == 2


def test_times_with_dates_are_those_of_the_mapping(tmp_path):
    writer = LogWriter(tmp_path / "log", "s", "w", ts="when")
    day = 86_400_000
    writer.append(0, {"when": pa.array([0, day], pa.timestamp("ms")), "n": [1, 2]}, frontier=2 * day)
    config = stream({"log": {"path": "log", "ts": "when"}}, payload="n")
    source = opened(config, base_dir=tmp_path, unit="s", time=LIVE)
    found = source.read()
    assert [row[2] for row in rows(found.batches)] == [0, 86_400]
    assert source.read().frontier == OrderKey(2 * 86_400 + 1, 0, 0)


def test_log_that_is_not_there_is_a_missing_input(tmp_path):
    with pytest.raises(MissingInputError):
        opened(stream(VALUES), base_dir=tmp_path)


def test_column_that_is_not_there_is_named(tmp_path):
    LogWriter(tmp_path / "log", "s", "w").append(0, {"ts": [1]}, frontier=1)
    with pytest.raises(UnknownColumnError, match="there is no column 'when'"):
        found_in(opened(stream({"log": {"path": "log", "ts": "when"}}), base_dir=tmp_path))


def test_damage_ends_the_reading(tmp_path):
    LogWriter(tmp_path / "log", "s", "w").append(0, {"ts": [1]})
    (path,) = (tmp_path / "log" / "s" / "0000000").iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptFileError):
        found_in(opened(stream(VALUES), base_dir=tmp_path))


def deleted_log(tmp_path):
    """Rows 0-6, of which 0-2 are deleted: at times 1, 5, 5, 4, 5, 6, 7; after row 1 a heartbeat at 2."""
    writer = LogWriter(tmp_path / "log", "s", "w")
    for batch, (times, beat) in enumerate([([1, 5], 2), ([5], None), ([4, 5], None), ([6, 7], None)]):
        writer.append(batch, {"ts": times}, beat)
    writer.truncate(4)
    return tmp_path


@pytest.mark.parametrize("policy", ["error", "drop", {"sort_within": "9ms"}])
def test_deleted_rows_are_missed_unless_they_are_not_needed(tmp_path, policy):
    source = opened(stream(VALUES, on_disorder=policy), base_dir=deleted_log(tmp_path), unit="ms")
    with pytest.raises(LogRowsGoneError, match=r"rows 0 to 2 of the event log .* are gone"):
        found_in(source)


def test_decisions_are_the_same_when_earlier_rows_have_been_deleted(tmp_path):
    source = opened(stream(VALUES, on_disorder="drop", payload=[]), base_dir=deleted_log(tmp_path), unit="ms")
    source.skip_to(OrderKey(5, 0, 4))
    assert [(ts, seq) for _, _, ts, seq, _ in found_in(source)] == [(5, 4), (6, 5), (7, 6)]
    assert source.drops == 1


@pytest.mark.parametrize("policy", ["error", "drop"])
def test_checkpoint_at_an_event_of_another_stream_says_nothing_of_rows(tmp_path, policy):
    """Its row number counts rows of that stream, and is greater than those of all rows still to be read."""
    LogWriter(tmp_path / "log", "s", "w").append(0, {"ts": np.arange(4)})
    LogWriter(tmp_path / "log", "s", "w").append(1, {"ts": np.arange(4, 8)})
    source = opened(stream(VALUES, on_disorder=policy, payload=[]), base_dir=tmp_path, unit="ms")
    source.skip_to(OrderKey(2, 1, 5000))
    assert [ts for _, _, ts, _, _ in found_in(source)][-5:] == [3, 4, 5, 6, 7]


def test_deleted_rows_that_are_in_the_state_are_not_missed_after_an_event_of_another_stream(tmp_path):
    writer = LogWriter(tmp_path / "log", "s", "w")
    for batch in range(3):
        writer.append(batch, {"ts": np.arange(4) + 4 * batch})
    writer.truncate(5)
    source = opened(stream(VALUES, payload=[]), base_dir=tmp_path, unit="ms")
    source.skip_to(OrderKey(6, 1, 0))
    assert [ts for _, _, ts, _, _ in found_in(source)][-5:] == [7, 8, 9, 10, 11]


def test_sorting_works_after_earlier_rows_have_been_deleted(tmp_path):
    config = stream(VALUES, on_disorder={"sort_within": "9ms"}, payload=[])
    source = opened(config, base_dir=deleted_log(tmp_path), unit="ms")
    source.skip_to(OrderKey(5, 0, 4))
    assert [(ts, seq) for _, _, ts, seq, _ in found_in(source)] == [(4, 3), (5, 4), (6, 5), (7, 6)]


def test_split_log_is_dealt_by_row_number(tmp_path):
    LogWriter(tmp_path / "log", "s", "w").append(0, {"ts": np.arange(2048)})
    config = stream(VALUES, split=2, payload=[])
    source = opened(config, base_dir=tmp_path, streams=["s/1"])
    assert {(row[0], row[3] // 1024) for row in found_in(source)} == {("s/1", 1)}
    assert readings(opened(config, base_dir=tmp_path))[-1].frontier == END


def test_looks_for_segments_are_rarer_while_a_log_is_quiet_and_frequent_again_after_rows(tmp_path):
    now = 0.0
    config = stream(VALUES, payload="k")
    mapping = Mapping(config, Program(), plan_unit="none")
    source = LogArrivals(LogReader(tmp_path, "s"), mapping, batch_rows=9, clock=lambda: now)
    writer, waits = LogWriter(tmp_path, "s", "w"), []
    for _ in range(200):
        next(source)
        waits.append(round(source.wait(), 9))
        now += waits[-1]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (0.01, 0.05)
    writer.append(0, {"ts": [1], "k": [2]})
    assert len(next(source)) == 1
    next(source)
    assert source.wait() == pytest.approx(0.01)
