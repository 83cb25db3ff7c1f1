"""Row files: the order of their rows does not depend on the order in the files and on the files."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.errors import CorruptFileError
from dgs.workers.event_log import row_files
from dgs.workers.event_log.segments import Segment

ROWS = st.lists(st.tuples(st.integers(-9, 9), st.sampled_from("abc"), st.integers(0, 3)), max_size=40)
SCHEMA = pa.schema([("ts", pa.int64()), ("name", pa.string()), ("v", pa.int64())])


def put(path, rows, *, group):
    columns = zip(*rows, strict=True)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    pq.write_table(pa.table(arrays, schema=SCHEMA), path, row_group_size=group, write_page_checksum=True)
    return path


def read(directory, paths, order_by=("name",)):
    files = tuple(row_files.described(directory, path, "ts") for path in paths)
    rows = sum(file.rows for file in files)
    segment = Segment("s", 0, 0, 7, rows, "w", "", "ts", frontier=9, files=files, order_by=order_by)
    parts = list(row_files.slices(directory, segment, SCHEMA.empty_table()))
    assert [part.first for part, _ in parts] == [
        7 + sum(len(t) for _, t in parts[:i]) for i in range(len(parts))
    ]
    assert [part.frontier for part, _ in parts] == [None] * (len(parts) - 1) + [9] * bool(parts)
    return [tuple(row.values()) for _, table in parts for row in table.to_pylist()]


@settings(max_examples=60)
@given(ROWS, st.integers(1, 3), st.integers(1, 9), st.randoms(use_true_random=False))
def test_rows_in_any_order_are_read_in_the_order_of_the_log(tmp_path_factory, rows, files, group, random):
    directory = tmp_path_factory.mktemp("s")
    dealt = [[] for _ in range(files)]
    for row in rows:
        random.choice(dealt).append(row)
    paths = [put(directory / f"{i}.parquet", run, group=group) for i, run in enumerate(dealt) if run]
    assert read(directory, paths) == sorted(rows)


@pytest.mark.parametrize("cut", [True, False])
def test_rows_of_a_large_row_group_out_of_order_are_damage(tmp_path, monkeypatch, cut):
    monkeypatch.setattr(row_files, "READ_ROWS", 3)
    path = put(tmp_path / "0.parquet", [(ts, "a", 0) for ts in (1, 2, 8, 5, 9)], group=3 if cut else 5)
    if cut:
        assert [row[0] for row in read(tmp_path, [path])] == [1, 2, 5, 8, 9]
    else:
        with pytest.raises(CorruptFileError, match="not in order of time"):
            read(tmp_path, [path])


def test_runs_are_as_few_as_the_footer_shows(tmp_path):
    path = put(tmp_path / "0.parquet", [(ts, "a", 0) for ts in (2, 1, 2, 9, 3, 4)], group=2)
    file = row_files.described(tmp_path, path, "ts")
    runs = row_files.runs_of(tmp_path, file, SCHEMA, "ts")
    times = [[ts for table in run.tables for ts in table.column("ts").to_pylist()] for run in runs]
    assert times == [[1, 2, 2, 9], [3, 4]]


@pytest.mark.parametrize(
    ("times", "group", "is_mergeable"),
    [
        (range(40), 1, True),
        ([*range(20), *range(20)], 1, True),
        ([0, 9] * 3, 2, True),
        ([0, 9] * 4, 2, False),
        (range(9), 5, False),
    ],
    ids=["in order", "two runs", "three at once", "four at once", "large row groups"],
)
def test_files_are_mergeable_if_few_small_row_groups_are_of_one_time(
    tmp_path, monkeypatch, times, group, is_mergeable
):
    monkeypatch.setattr(row_files, "READ_ROWS", 2)
    monkeypatch.setattr(row_files, "MOST_HELD", 3)
    path = put(tmp_path / "0.parquet", [(ts, "a", 0) for ts in times], group=group)
    assert row_files.are_mergeable([path], "ts") == is_mergeable


def test_damaged_page_is_damage_and_not_an_unreadable_disk(tmp_path):
    path = put(tmp_path / "0.parquet", [(ts, "a", 0) for ts in range(100)], group=50)
    data = bytearray(path.read_bytes())
    data[pq.read_metadata(path).row_group(1).column(1).dictionary_page_offset - 1] ^= (
        1  # the end of the times
    )
    file = row_files.described(tmp_path, path, "ts")
    path.write_bytes(data)
    [run] = row_files.runs_of(tmp_path, file, SCHEMA, "ts")
    with pytest.raises(CorruptFileError, match=r"0\.parquet"):
        list(run.tables)
