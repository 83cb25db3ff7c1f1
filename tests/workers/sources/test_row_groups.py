"""Row groups: the parts of a stream are whole, disjoint, and read the same events as the whole stream."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.job.schema import StreamConfig
from dgs.model.program import Program
from dgs.workers.sources import END, SourceContext, open_source
from dgs.workers.sources.row_groups import parts, row_groups


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(0, 100), st.integers(1, 10))
def test_parts_are_all_rows_in_whole_groups(groups, least, most):
    found = parts(groups, least=least, most=most)
    ends = {sum(groups[:i]) for i in range(len(groups) + 1)}
    assert [row for part in found for row in part] == list(range(sum(groups)))
    assert all(part.stop in ends for part in found)
    assert len(found) <= most
    assert all(found)


def stream(tmp_path, *, files=2, rows=10, group=3, **about):
    for number in range(files):
        ts = [number * rows + i for i in range(rows)]
        table = pa.table({"ts": ts, "payload": [7 * one for one in ts]})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=group)
    source = {"parquet": {"path": "*.parquet"}}
    return StreamConfig(id="s", tags={"kind": "value"}, source=source, payload="payload", **about)


def events(config, tmp_path, batch_rows, rows=None):
    source = open_source(
        config, SourceContext(Program(), base_dir=tmp_path), rank=0, batch_rows=batch_rows, rows=rows
    )
    found, frontier = [], None
    while frontier != END:
        reading = source.read()
        frontier = reading.frontier
        for batch in reading.batches:
            found += zip(batch.seq, batch.events(), strict=True)
    return found


@pytest.mark.parametrize("most", [1, 2, 3, 8])
@pytest.mark.parametrize("batch_rows", [1, 4, 100])
def test_parts_have_the_events_of_the_whole_stream(tmp_path, most, batch_rows):
    config = stream(tmp_path)
    groups = row_groups(config, SourceContext(Program(), base_dir=tmp_path))
    found = [events(config, tmp_path, batch_rows, rows) for rows in parts(groups, least=1, most=most)]
    assert groups == (3, 3, 3, 1) * 2
    assert len(found) == most
    assert [one for part in found for one in part] == events(config, tmp_path, 100)


def test_a_part_opens_no_later_file(tmp_path):
    config = stream(tmp_path)
    source = open_source(
        config, SourceContext(Program(), base_dir=tmp_path), rank=0, batch_rows=100, rows=range(3, 6)
    )
    while source.read().frontier != END:
        pass
    assert [file["path"] for file in source.description["files"]] == ["0.parquet"]
    assert source.description["rows"] == 6


@pytest.mark.parametrize("about", [{"on_disorder": "drop"}, {"on_disorder": {"sort_within": "1s"}}])
def test_streams_whose_events_depend_on_earlier_rows_have_no_groups(tmp_path, about):
    config = stream(tmp_path, **about)
    assert row_groups(config, SourceContext(Program(), base_dir=tmp_path)) == ()


def test_files_that_are_not_parquet_have_no_groups(tmp_path):
    config = stream(tmp_path)
    (tmp_path / "9.parquet").write_text("no Parquet")
    assert row_groups(config, SourceContext(Program(), base_dir=tmp_path)) == ()
