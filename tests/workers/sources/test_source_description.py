"""Descriptions of sources: which changes a resumed run allows, and which it refuses. Also starts after the first rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs import codec
from dgs.errors import OutOfOrderError, SourceChangedError
from dgs.model.events import EventBatch
from dgs.model.order import Heartbeat, OrderKey
from dgs.model.tags import Tag
from dgs.workers.event_log import LogWriter
from dgs.workers.sources.description import BLOCK_BYTES, WHOLE_BYTES, fingerprint
from tests.workers.reading import opened, readings, rows, stream

RANK = 2
OK = None


def csv_text(times):
    return "ts,value\n" + "".join(f"{ts},{ts}\n" for ts in times)


def described(config, items=None, **options):
    source = opened(config, items, rank=RANK, unit="ms", **options)
    readings(source)
    return source.description


def change(config, before, items=None, **options):
    """Return the problem of resuming, or None."""
    try:
        opened(config, items, rank=RANK, unit="ms", **options).resume(before)
    except SourceChangedError as error:
        return error.problem
    return OK


FILES = stream({"csv": {"path": "*.csv"}}, payload="value")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "b.csv").write_text(csv_text([1, 2, 3]))
    (tmp_path / "c.csv").write_text(csv_text([3, 4]))
    return tmp_path


def test_description_is_plain_data(folder):
    found = described(FILES, base_dir=folder)
    assert codec.decode(codec.encode(dict(found))) == found
    assert (found["rows"], found["end"]) == (5, OrderKey(4, RANK, 5))
    assert [file["path"] for file in found["files"]] == ["b.csv", "c.csv"]


def test_description_has_only_what_has_been_opened(folder):
    source = opened(FILES, base_dir=folder, rank=RANK, unit="ms")
    assert (source.description["files"], source.description["end"]) == ([], None)
    source.read()
    assert [file["path"] for file in source.description["files"]] == ["b.csv"]
    assert (source.description["rows"], source.description["end"]) == (3, None)
    source.close()


def rewritten(name, text):
    return lambda folder: (folder / name).write_text(text)


CHANGES = [
    ("nothing", lambda _: None, OK),
    ("the last file grows", rewritten("c.csv", csv_text([3, 4, 5])), OK),
    ("a file follows", rewritten("d.csv", csv_text([9])), OK),
    ("another file grows", rewritten("b.csv", csv_text([1, 2, 3, 3])), "b.csv has grown"),
    ("a file comes before", rewritten("a.csv", csv_text([0])), "a.csv comes before b.csv"),
    (
        "a file is missing",
        lambda folder: (folder / "c.csv").unlink(),
        "c.csv had been read, and is missing now",
    ),
    ("a file is shorter", rewritten("c.csv", csv_text([3])), "bytes, and has"),
    (
        "a file is another",
        rewritten("c.csv", csv_text([3, 7])),
        "the part of c.csv that had been read is different",
    ),
    (
        "a file grows and is another",
        rewritten("c.csv", csv_text([3, 7, 8])),
        "that had been read is different",
    ),
]


@pytest.mark.parametrize(("what", "make", "problem"), CHANGES, ids=[what for what, *_ in CHANGES])
def test_change_of_files(folder, what, make, problem):
    before = codec.decode(codec.encode(dict(described(FILES, base_dir=folder))))
    make(folder)
    found = change(FILES, before, base_dir=folder)
    assert (found is None) == (problem is None), (what, found)
    assert problem is None or problem in found


def test_files_may_move_with_their_plan(folder):
    before = described(FILES, base_dir=folder)
    moved = folder.rename(folder.with_name("moved"))
    assert change(FILES, before, base_dir=moved) is OK


def test_error_names_the_stream(folder):
    before = described(FILES, base_dir=folder)
    (folder / "c.csv").unlink()
    with pytest.raises(SourceChangedError, match="stream 's': the source has changed") as caught:
        opened(FILES, base_dir=folder, rank=RANK).resume(before)
    assert caught.value.exit_code == 6


@settings(max_examples=20)
@given(
    size=st.sampled_from([0, 1, WHOLE_BYTES - 1, WHOLE_BYTES, WHOLE_BYTES + 1, 3 * WHOLE_BYTES]),
    block=st.integers(0, 15),
    inside=st.integers(0, BLOCK_BYTES - 1),
)
def test_fingerprint_sees_changes_in_small_files_and_in_the_blocks_of_large_ones(
    tmp_path_factory, size, block, inside
):
    path = tmp_path_factory.getbasetemp() / "file"
    data = bytearray(size)
    path.write_bytes(data)
    before = fingerprint(path, size)
    path.write_bytes(bytes(data) + b"more")
    assert fingerprint(path, size) == before
    assert fingerprint(path, size + 1) != before
    place = (size - BLOCK_BYTES) * block // 15 + inside if size > WHOLE_BYTES else inside
    if place < size:
        data[place] ^= 1
        path.write_bytes(data)
        assert fingerprint(path, size) != before


def test_change_of_memory_and_generators():
    three = [("value", ts, None) for ts in range(3)]
    before = described(stream(), three)
    assert (before["rows"], before["end"]) == (3, OrderKey(2, RANK, 3))
    assert change(stream(), before, [*three, ("value", 9, None)]) is OK
    assert "it had 3 items, and has 2 now" in change(stream(), before, three[:2])
    numbers = {"generator": {"ref": "itertools:repeat", "args": {"object": ("value", 1, 2), "times": 2}}}
    made = {"generator": {"ref": "itertools:repeat", "args": {"object": ("value", 1, 2), "times": 3}}}
    found = opened(stream(numbers)).description
    assert change(stream(numbers), found) is OK
    assert "its `args` was" in change(stream(made), found)
    assert change(stream(), found, three) == "it was of kind generator, and is now of kind memory"


@pytest.mark.parametrize(
    ("until", "end"),
    [
        (None, OrderKey(2, RANK, 3)),
        (OrderKey(9, 0, 0), OrderKey(2, RANK, 3)),
        (OrderKey(2, RANK, 1), OrderKey(2, RANK, 1)),
        (OrderKey(2, RANK - 1, 700), OrderKey(2, RANK, 0)),  # row 700 of another stream
        (OrderKey(1, RANK + 1, 700), OrderKey(2, RANK, 0)),
    ],
)
def test_end_is_after_the_last_event_or_where_the_run_was_cut(until, end):
    items = [("value", 1, 0), ("value", 2, 0), ("value", 2, 0)]
    assert described(stream(), items, until=until)["end"] == end


def test_end_is_that_of_the_whole_stream_whichever_splits_are_wanted():
    items = [("value", ts, 0) for ts in range(3000)]
    found = described(stream(split=2), items, streams=["s/1"])
    assert (found["rows"], found["end"]) == (3000, OrderKey(2999, RANK, 3000))


def test_new_rows_before_processed_ones_are_disorder():
    sorting = stream(on_disorder={"sort_within": "10ms"})
    old = [("value", 20, 0), ("value", 19, 1)]
    before = described(sorting, old)
    assert before["end"] == OrderKey(20, RANK, 2)
    for ts, is_late in ((19, True), (20, False), (25, False)):
        source = opened(sorting, [*old, ("value", ts, 2)], rank=RANK, unit="ms")
        source.resume(before)
        if is_late:
            with pytest.raises(OutOfOrderError) as caught:
                readings(source)
            assert (caught.value.row, caught.value.ts, caught.value.previous) == (2, 19, 20)
        else:
            readings(source)


def test_change_of_a_log(tmp_path):
    logged = stream({"log": {"path": "log"}})
    writer = LogWriter(tmp_path / "log", "s", "w")
    for batch in range(3):
        writer.append(batch, {"ts": [batch], "payload": [batch]})
    before = described(logged, base_dir=tmp_path)
    assert (before["writer"], before["segment"]["number"]) == ("w", 2)
    writer.append(3, {"ts": [3], "payload": [0]})
    assert change(logged, before, base_dir=tmp_path) is OK
    writer.truncate(4)
    assert change(logged, before, base_dir=tmp_path) is OK
    (tmp_path / "log").rename(tmp_path / "old")
    (tmp_path / "log").mkdir()
    assert "the log has fewer segments now" in change(logged, before, base_dir=tmp_path)
    writer = LogWriter(tmp_path / "log", "s", "w")
    for batch in range(3):
        writer.append(batch, {"ts": [batch + 1], "payload": [batch]})
    assert "segment 2 of" in change(logged, before, base_dir=tmp_path)


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "not_read"])
def test_log_that_was_closed_and_has_lost_the_mark_of_its_end(tmp_path, is_read):
    """A run would wait for further rows forever."""
    logged = stream({"log": {"path": "log"}})
    writer = LogWriter(tmp_path / "log", "s", "w")
    writer.append(0, {"ts": [0], "payload": [0]})
    writer.close()
    source = opened(logged, base_dir=tmp_path)
    if is_read:
        readings(source)
    before = source.description
    source.close()
    assert change(logged, before, base_dir=tmp_path) is OK
    next((tmp_path / "log" / "s").glob("*/*-end.dgs")).unlink()
    assert f"dgs log close {tmp_path / 'log'} --stream s" in change(logged, before, base_dir=tmp_path)


# beginning behind the first rows

pieces = st.lists(st.integers(0, 5), max_size=5)


def items_of(sizes, kinds):
    """Return a memory source of single events, tables and batches, in order, with heartbeats between."""
    found, row = [], 0
    for size, kind in zip(sizes, kinds, strict=False):
        ts = [r // 2 for r in range(row, row + size)]
        if kind == "table":
            found.append({"ts": ts, "payload": list(range(row, row + size))})
        elif kind == "batch":
            found.append(
                EventBatch.of("x", rank=0, tags=[Tag("value")], ts=ts, payload=list(range(row, row + size)))
            )
        else:
            found += [("value", t, row + r) for r, t in enumerate(ts)]
        row += size
        if row % 2 == 0 and row:
            found.append(Heartbeat("s", row // 2 - 1))
    return found


def check_skip(config, row, items=None, **options):
    """Skipping drops only rows that are not needed, and changes nothing else."""
    whole = opened(config, items, rank=RANK, unit="ms", **options)
    expected = rows(b for r in readings(whole) for b in r.batches)
    part = opened(config, items, rank=RANK, unit="ms", **options)
    part.skip_to(OrderKey(0, RANK, row))
    found = rows(b for r in readings(part) for b in r.batches)
    assert found == expected[len(expected) - len(found) :]
    assert [r for r in expected if r[3] >= row] == [r for r in found if r[3] >= row]
    assert (part.description["end"], part.description["rows"]) == (
        whole.description["end"],
        whole.description["rows"],
    )
    return len(expected) - len(found)


@settings(max_examples=20)
@given(
    pieces,
    st.lists(st.sampled_from(["single", "table", "batch"]), min_size=5, max_size=5),
    st.integers(0, 30),
    st.integers(1, 4),
)
def test_skip_in_memory(sizes, kinds, row, batch_rows):
    row = min(row, sum(sizes))
    items = items_of(sizes, kinds)
    skipped = check_skip(stream(), row, items, batch_rows=batch_rows)
    assert skipped == max(row - 1, 0)


@settings(max_examples=20)
@given(pieces, st.integers(1, 3), st.integers(0, 30), st.integers(1, 4))
def test_skip_in_parquet(tmp_path_factory, sizes, group, row, batch_rows):
    folder = tmp_path_factory.mktemp("parquet")
    start = 0
    for number, size in enumerate(sizes):
        table = pa.table(
            {
                "ts": pa.array([r // 2 for r in range(start, start + size)], pa.int64()),
                "payload": pa.array(range(start, start + size), pa.int64()),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=group)
        start += size
    if sizes:
        config = stream({"parquet": {"path": "*.parquet"}})
        row = min(row, start)
        assert check_skip(config, row, base_dir=folder, batch_rows=batch_rows) == max(row - 1, 0)


@settings(max_examples=20)
@given(pieces, st.integers(0, 30), st.integers(1, 4))
def test_skip_in_a_log(tmp_path_factory, sizes, row, batch_rows):
    folder = tmp_path_factory.mktemp("log")
    writer, start = LogWriter(folder / "log", "s", "w"), 0
    for number, size in enumerate(sizes):
        ts = [r // 2 for r in range(start, start + size)]
        writer.append(
            number,
            {"ts": pa.array(ts, pa.int64()), "payload": pa.array(range(start, start + size), pa.int64())},
        )
        start += size
    check_skip(stream({"log": {"path": "log"}}), min(row, start), base_dir=folder, batch_rows=batch_rows)


@pytest.mark.parametrize("policy", ["drop", {"sort_within": "5ms"}])
def test_nothing_is_skipped_where_decisions_depend_on_earlier_rows(policy):
    items = [("value", ts, ts) for ts in (5, 3, 4, 8)]
    assert check_skip(stream(on_disorder=policy), 3, items) == 0


def test_skip_leaves_out_no_heartbeats():
    items = [("value", 1, 0), Heartbeat("s", 9), ("value", 5, 0)]
    source = opened(stream(), items, rank=RANK, unit="ms")
    source.skip_to(OrderKey(1, RANK, 1))
    with pytest.raises(OutOfOrderError):
        readings(source)


def test_csv_is_read_from_its_start(folder):
    assert check_skip(FILES, 3, base_dir=folder) == 0
    assert Path(folder / "b.csv").exists()
