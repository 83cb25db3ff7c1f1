"""Event logs: written rows are read once after any crashes and repetitions, and damage is reported."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import (
    ClosedLogError,
    CorruptFileError,
    MalformedRowError,
    OutputUnwritableError,
    OwnedLogError,
    ReplayMismatchError,
    UsageError,
)
from dgs.model.columns import to_list
from dgs.model.tags import Tag
from dgs.workers.event_log import LogReader, LogWriter, close_stream, segments, summary
from dgs.workers.event_log.event_tables import (
    columns_of,
    event_table,
    events_of,
    from_bytes,
    row_table,
    to_bytes,
)
from dgs.workers.event_log.row_order import digest, sorted_rows
from dgs.workers.event_log.segments import SegmentName

ROOT = Path(__file__).parents[3]

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(codec="utf-8")),
    st.binary(),
    st.tuples(st.integers(), st.text(max_size=3)),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
same_typed = st.sampled_from(
    [st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans(), st.text(max_size=4)]
)


@st.composite
def column(draw, rows):
    kind = draw(st.sampled_from(["any", "one", "numpy", "arrow", "record"]))
    if kind == "any":
        return draw(st.lists(values, min_size=rows, max_size=rows))
    if kind == "record":
        return {name: draw(column(rows)) for name in draw(st.sets(st.sampled_from("abc"), min_size=1))}
    if kind == "numpy":
        numbers = draw(st.lists(st.integers(0, 100), min_size=rows, max_size=rows))
        return np.array(numbers, dtype=draw(st.sampled_from(["i1", "u2", "i8", "f2", "f8", "?"])))
    cells = draw(st.lists(draw(same_typed) | st.none(), min_size=rows, max_size=rows))
    return pa.array(cells) if kind == "arrow" else cells


def typed(value):
    """Return a form of a value whose equality sees types, the order of entries, and NaN, as repr does."""
    if isinstance(value, dict):
        return "dict", [(name, typed(part)) for name, part in value.items()]
    return type(value).__name__, repr(value)


@given(st.data())
def test_columns_come_back_with_values_and_types(data):
    rows = data.draw(st.integers(0, 6))
    columns = {"x": data.draw(column(rows)), "y": data.draw(column(rows))}
    found = columns_of(from_bytes(to_bytes(row_table(columns))))
    for name, written in columns.items():
        assert list(map(typed, to_list(found[name]))) == list(map(typed, to_list(written)))


def test_columns_of_numbers_stay_arrays():
    found = columns_of(from_bytes(to_bytes(row_table({"n": np.arange(9), "r": {"x": np.arange(9.0)}}))))
    assert (found["n"].dtype, found["r"]["x"].dtype) == (np.int64, np.float64)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc")), max_size=20))
def test_events_come_back(rows):
    tags = tuple(Tag("view", letter) for letter in "abc")
    codes = np.array(["abc".index(letter) for _, letter in rows], dtype=np.int32)
    payload = {"n": np.arange(len(rows)), "l": [letter for _, letter in rows]}
    table = event_table(np.array([ts for ts, _ in rows], dtype=np.int64), tags, codes, payload)
    ts, tags_found, codes_found, found = events_of(from_bytes(to_bytes(table)))
    assert [(t, tags_found[c].key) for t, c in zip(ts.tolist(), codes_found.tolist(), strict=True)] == rows
    assert to_list(found) == to_list(payload)


@given(st.data())
def test_digest_is_that_of_the_multiset_of_rows(data):
    cells = st.tuples(
        st.integers(0, 2), st.sampled_from([0.0, -0.0, float("nan"), None, 1.5]), st.text(max_size=1)
    )
    rows = data.draw(st.lists(cells, max_size=8))
    others = data.draw(st.permutations(rows) | st.lists(cells, max_size=8))

    def table(of):
        columns = [list(c) for c in zip(*of, strict=True)] or [[], [], []]
        types = (pa.int64(), pa.float64(), pa.string())
        arrays = [pa.array(c, kind) for c, kind in zip(columns, types, strict=True)]
        return pa.Table.from_arrays([*arrays, arrays[2].dictionary_encode()], names=["ts", "f", "s", "d"])

    same = sorted(map(repr, rows)) == sorted(map(repr, others))
    assert (digest(table(rows)) == digest(table(others))) == same
    assert digest(sorted_rows(table(rows), ["ts"])) == digest(table(rows))


def test_digest_tells_names_and_types_of_columns_apart():
    tables = [pa.table({"a": [1]}), pa.table({"b": [1]}), pa.table({"a": pa.array([1], pa.int32())})]
    assert len({digest(table) for table in tables}) == 3


def read_all(log, stream="s"):
    """Return (first row, rows as dictionaries) of every segment."""
    reader, found = LogReader(log, stream), []
    while (part := reader.poll()) is not None:
        found.append((part[0].first, part[1].to_pylist()))
    return found


def ts(*times):
    return {"ts": list(times)}


def test_segments_are_numbered_on_and_sorted(tmp_path):
    writer = LogWriter(tmp_path, "s", "w")
    writer.append("a", {"ts": [3, 1, 1], "x": ["c", "b", "a"], "y": [0, 0, 1]})
    writer.append("b", {"ts": [5, 5], "x": ["q", "p"], "y": [1, 2]}, order_by=["y"])
    assert [(first, [tuple(row.values()) for row in rows]) for first, rows in read_all(tmp_path)] == [
        (0, [(1, "a", 1), (1, "b", 0), (3, "c", 0)]),
        (3, [(5, "q", 1), (5, "p", 2)]),
    ]


def test_header_says_what_is_in_a_segment(tmp_path):
    writer = LogWriter(tmp_path, "s", "w")
    writer.append(7, ts(4, 2), frontier=3)
    segment = writer.append(8, ts(9, 8), frontier=1)
    assert (segment.number, segment.first, segment.rows, segment.low, segment.high) == (1, 2, 2, 8, 9)
    assert (segment.batch, segment.writer, segment.frontier) == (8, "w", 1)
    assert (segment.latest, segment.promised) == (4, 3)
    assert (segment.latest_so_far, segment.promised_so_far) == (9, 3)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=12))
def test_every_batch_is_there_once_whatever_is_repeated_and_restarted(steps):
    """The reference: a dictionary of batches in the order of their first appearance."""
    with tempfile.TemporaryDirectory() as name:
        writer, expected = LogWriter(Path(name), "s", "w"), {}
        for batch, restart in steps:
            if restart:
                writer = LogWriter(Path(name), "s", "w")
            writer.append(f"batch {batch}", ts(batch, batch + 1))
            expected.setdefault(batch, [{"ts": batch}, {"ts": batch + 1}])
        found = read_all(Path(name))
        assert found == [(2 * i, rows) for i, rows in enumerate(expected.values())]
        assert writer.rows == 2 * len(expected)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=14))
def test_numbers_increase_also_between_batches_in_parts(steps):
    """The reference: an existing batch is repeated and not written; a new number is greater than all earlier ones; a text is new or not."""
    with tempfile.TemporaryDirectory() as name:
        writer, expected = LogWriter(Path(name), "s", "w"), []
        for batch, part, restart in steps:
            if restart:
                writer = LogWriter(Path(name), "s", "w")
            id_ = f"{batch}.{part}" if part else batch
            is_too_small = not part and any(isinstance(old, int) and old > batch for old in expected)
            if id_ not in expected and is_too_small:
                with pytest.raises(ReplayMismatchError):
                    writer.append(id_, ts(batch, part))
                continue
            assert (writer.find(id_) is not None) == (id_ in expected)
            writer.append(id_, ts(batch, part))
            expected += [id_] * (id_ not in expected)
        assert [found.batch for found in summary.segments(Path(name), "s")] == expected


def test_a_batch_and_a_look_cost_the_same_however_long_the_log_is(tmp_path, monkeypatch):
    looked_at, parsed = [], SegmentName.parsed
    monkeypatch.setattr(segments, "PER_FOLDER", 10)
    monkeypatch.setattr(SegmentName, "parsed", lambda text: looked_at.append(text) or parsed(text))
    reader, costs = LogReader(tmp_path, "s"), []
    for batch in range(60):
        writer = LogWriter(tmp_path, "s", "w")  # as for each micro-batch of Spark
        if batch % 6 == 0:
            writer.append(f"{batch - 1}.1", ts(batch))  # a second part: its id is searched in all segments
        del looked_at[:]
        assert writer.find(batch) is None
        writer.append(batch, ts(batch))
        costs.append(len(looked_at))
        while reader.poll() is not None:
            pass
    assert max(costs[30:]) == max(costs[2:30]) < 10


def test_same_rows_in_another_order_are_the_same_batch(tmp_path):
    writer = LogWriter(tmp_path, "s", "w")
    first = writer.append(1, {"ts": [1, 1], "x": ["a", "b"]})
    assert writer.append(1, {"ts": [1, 1], "x": ["b", "a"]}) == first


@pytest.mark.parametrize("rows", [ts(1), ts(1, 3), ts(1, 2, 2), {"ts": [1, 2], "x": [0, 0]}])
def test_other_rows_for_a_batch_are_refused(tmp_path, rows):
    writer = LogWriter(tmp_path, "s", "w")
    writer.append(1, ts(1, 2))
    with pytest.raises(ReplayMismatchError) as caught:
        writer.append(1, rows)
    assert caught.value.batch == 1
    assert len(read_all(tmp_path)) == 1


def test_number_of_a_batch_that_was_deleted_is_not_written_again(tmp_path):
    writer = LogWriter(tmp_path, "s", "w")
    for batch in range(4):
        writer.append(batch, ts(batch))
    assert writer.truncate(below=4) == 3
    writer = LogWriter(tmp_path, "s", "w")
    with pytest.raises(ReplayMismatchError):
        writer.append(1, ts(1))
    assert writer.append(3, ts(3)).first == 3


def test_truncate_keeps_the_row_before_the_position_and_the_newest_segment(tmp_path):
    writer = LogWriter(tmp_path, "s", "w")
    for batch in range(5):
        writer.append(batch, ts(batch, batch))
    assert writer.truncate(below=4) == 1  # rows 2 and 3 stay: row 3 is the previous row
    assert [first for first, _ in read_all(tmp_path)] == [2, 4, 6, 8]
    assert writer.truncate(below=5) == 1
    assert writer.truncate(below=1000) == 2
    assert [first for first, _ in read_all(tmp_path)] == [8]
    assert writer.append(5, ts(9)).first == 10


def test_folders_are_filled_one_after_the_other_and_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "PER_FOLDER", 2)
    writer = LogWriter(tmp_path, "s", "w")
    for batch in range(7):
        writer.append(batch, ts(batch))
    assert [first for first, _ in read_all(tmp_path)] == list(range(7))
    assert segments.folders(tmp_path / "s") == ["0000000", "0000001", "0000002", "0000003"]
    writer.truncate(below=6)
    assert segments.folders(tmp_path / "s") == ["0000002", "0000003"]
    assert [first for first, _ in read_all(tmp_path)] == [5, 6]


def test_another_writer_is_refused_unless_it_takes_over_and_the_old_one_is_refused_then(tmp_path):
    old = LogWriter(tmp_path, "s", "old")
    old.append(1, ts(1))
    with pytest.raises(OwnedLogError) as caught:
        LogWriter(tmp_path, "s", "new")
    assert (caught.value.owner, caught.value.writer) == ("old", "new")
    new = LogWriter(tmp_path, "s", "new", takeover=True)
    for forbidden in (lambda: old.append(2, ts(2)), old.close, lambda: old.truncate(1)):
        with pytest.raises(OwnedLogError):
            forbidden()
    new.append(2, ts(2))
    assert [first for first, _ in read_all(tmp_path)] == [0, 1]


def test_streams_of_a_log_have_writers_of_their_own(tmp_path):
    LogWriter(tmp_path, "s", "one").append(1, ts(1))
    LogWriter(tmp_path, "t", "two").append(1, ts(2))
    assert read_all(tmp_path, "t") == [(0, [{"ts": 2}])]


def test_two_processes_of_one_writer_do_not_write_a_batch_twice(tmp_path):
    one, two = LogWriter(tmp_path, "s", "w"), LogWriter(tmp_path, "s", "w")
    one.append(1, ts(1))
    assert two.append(1, ts(1)).number == 0
    assert two.append(2, ts(2)).number == 1
    assert one.append(3, ts(3)).number == 2
    assert [first for first, _ in read_all(tmp_path)] == [0, 1, 2]


def test_closed_stream_accepts_only_repeats(tmp_path):
    writer = LogWriter(tmp_path, "s", "w")
    writer.append(1, ts(1))
    writer.close()
    writer.close()
    assert LogWriter(tmp_path, "s", "w").is_closed
    assert writer.append(1, ts(1)).number == 0
    with pytest.raises(ClosedLogError):
        writer.append(2, ts(2))


def test_close_stream_closes_for_any_writer_and_refuses_other_names(tmp_path):
    LogWriter(tmp_path, "s", "w").append(1, ts(1))
    close_stream(tmp_path, "s")
    reader = LogReader(tmp_path, "s")
    assert (reader.poll()[0].rows, reader.poll(), reader.has_ended) == (1, None, True)
    with pytest.raises(OwnedLogError):
        close_stream(tmp_path, "t")


@pytest.mark.parametrize(
    ("rows", "row"),
    [({"x": [1]}, 0), ({"ts": [1, None, 2]}, 1), ({"ts": ["2013-01-01"]}, 0), ({"ts": [1.5]}, 0)],
)
def test_times_that_cannot_be_ordered_are_refused(tmp_path, rows, row):
    writer = LogWriter(tmp_path, "s", "w")
    writer.append(0, ts(1))
    with pytest.raises(MalformedRowError) as caught:
        writer.append(1, rows)
    assert caught.value.row == 1 + row
    assert len(read_all(tmp_path)) == 1


def test_reader_sees_segments_as_they_come(tmp_path):
    reader = LogReader(tmp_path, "s")
    assert reader.poll() is None
    writer = LogWriter(tmp_path, "s", "w")
    for batch in range(3):
        assert reader.poll() is None
        writer.append(batch, ts(batch))
        assert reader.poll()[0].first == batch
    assert not reader.has_ended
    assert reader.row == 3


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(0, 20))
def test_seek_leaves_out_only_rows_before(sizes, row):
    with tempfile.TemporaryDirectory() as name:
        writer = LogWriter(Path(name), "s", "w")
        for batch, size in enumerate(sizes):
            writer.append(batch, {"ts": np.zeros(size, dtype=np.int64)})
        reader = LogReader(Path(name), "s")
        reader.seek(row)
        found = []
        while (part := reader.poll()) is not None:
            found += range(part[0].first, part[0].stop)
        total = sum(sizes)
        assert set(range(min(row, total), total)) <= set(found)
        assert not found or found[0] <= row
        assert found == list(range(total))[len(range(total)) - len(found) :]


def one_segment(tmp_path):
    writer = LogWriter(tmp_path, "s", "w")
    writer.append(1, {"ts": [1], "x": ["abc"]})
    (path,) = (tmp_path / "s" / "0000000").iterdir()
    return path


def test_torn_segment_is_an_error_that_names_it_at_every_length(tmp_path):
    path = one_segment(tmp_path)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(CorruptFileError) as caught:
            LogReader(tmp_path, "s").poll()
        assert path.name in str(caught.value)


def test_every_bit_that_is_flipped_is_found(tmp_path):
    path = one_segment(tmp_path)
    data = bytearray(path.read_bytes())
    for bit in range(0, 8 * len(data), 5):
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        with pytest.raises(CorruptFileError):
            LogReader(tmp_path, "s").poll()
        data[bit // 8] ^= 1 << bit % 8


def test_segment_under_another_name_is_damage(tmp_path):
    path = one_segment(tmp_path)
    path.rename(path.with_name(path.name.replace("0000000000-", "0000000001-", 1)))
    with pytest.raises(CorruptFileError):
        LogReader(tmp_path, "s").poll()


def test_missing_segment_is_damage(tmp_path):
    writer = LogWriter(tmp_path, "s", "w")
    for batch in range(3):
        writer.append(batch, ts(batch))
    sorted((tmp_path / "s" / "0000000").iterdir())[1].unlink()
    reader = LogReader(tmp_path, "s")
    assert reader.poll()[0].number == 0
    with pytest.raises(CorruptFileError, match="segment 1, which comes before it, is missing"):
        reader.poll()


def test_leftover_file_of_a_crash_is_ignored(tmp_path):
    path = one_segment(tmp_path)
    path.with_name(f"{path.name}.1a2b3c.tmp").write_bytes(b"torn")
    assert len(read_all(tmp_path)) == 1
    assert LogWriter(tmp_path, "s", "w").append(2, ts(2)).number == 1


def test_disk_that_fails_leaves_no_segment_and_no_temporary_file(tmp_path, monkeypatch):
    writer = LogWriter(tmp_path, "s", "w")
    writer.append(1, ts(1))

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", full)
        with pytest.raises(OutputUnwritableError, match="No space left"):
            writer.append(2, ts(2))
    assert len(list((tmp_path / "s" / "0000000").iterdir())) == 1
    assert writer.append(2, ts(2)).number == 1


KILLED = """
import sys
from pathlib import Path
from dgs.workers.event_log import LogWriter
writer = LogWriter(Path(sys.argv[1]), "s", "w")
print("ready", flush=True)
for batch in range(10_000):
    writer.append(batch, {"ts": [batch, batch]})
    print(batch, flush=True)
"""


def test_appended_lines_survive_a_kill(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    lines = [process.stdout.readline() for _ in range(20)]
    process.kill()
    lines += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    done = [int(line) for line in lines if line.strip().isdigit()]
    found = read_all(tmp_path)
    assert len(found) in (done[-1] + 1, done[-1] + 2)
    assert [first for first, _ in found] == [2 * batch for batch in range(len(found))]
    writer = LogWriter(tmp_path, "s", "w")
    assert writer.append(done[-1], ts(done[-1], done[-1])).number == done[-1]


def test_log_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputUnwritableError, match="file"):
        LogWriter(tmp_path / "file" / "log", "s", "w")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/tmp/x", "a/b", "a\0b"])
@pytest.mark.parametrize("use", [lambda log, name: LogWriter(log, name, "one"), LogReader, close_stream])
def test_a_stream_has_its_directory_inside_of_the_log(tmp_path, name, use):
    with pytest.raises(UsageError, match="cannot name a stream of the event log"):
        use(tmp_path / "log", name)
    assert not list(tmp_path.iterdir())
