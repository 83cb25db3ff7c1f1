"""Delivery of batches: each becomes segments once, even if it is repeated, cut off, or claimed by another query."""

import json

import pyarrow as pa
import pytest

from dgs.errors import OwnedLogError, ReplayMismatchError
from dgs.spark_bridge.data_source.log_delivery import Delivery
from dgs.spark_bridge.data_source.query_owner import Query
from dgs.workers.event_log import LogReader, owner, summary
from tests.spark_bridge.writing import batches_in


def rows(*times):
    return pa.table({"ts": pa.array(times, pa.int64())})


def delivery(log, query="id-1", *, checkpoint=None, delay=0, length=2):
    where = None if checkpoint is None else str(checkpoint)
    return Delivery(log, Query(query, where), ts="ts", delay=delay, rows=length)


def begun(checkpoint, query):
    """Make a checkpoint directory as Spark does."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": query}))
    return checkpoint


def test_large_batch_is_cut_into_segments_of_which_the_last_has_the_frontier(tmp_path):
    delivery(tmp_path, delay=3).deliver("s", 0, [rows(1, 5, 9), rows(2, 7)], high=9)
    found = list(summary.segments(tmp_path, "s"))
    assert [(s.batch, s.low, s.high, s.frontier) for s in found] == [
        (0, 1, 2, None),
        ("0.1", 5, 7, None),
        ("0.2", 9, 9, 5),
    ]


def test_row_that_is_exactly_max_delay_late_is_in_time(tmp_path):
    delivery(tmp_path, delay=3).deliver("s", 0, [rows(9)], high=9)
    [segment] = summary.segments(tmp_path, "s")
    assert segment.frontier < 9 - 3


def test_batch_that_was_cut_off_is_completed(tmp_path):
    delivery(tmp_path).deliver("s", 0, [rows(1, 5), rows(7, 9), rows(11)], high=11)
    whole = batches_in(tmp_path)
    last = max((tmp_path / "s" / "0000000").iterdir())
    last.unlink()
    delivery(tmp_path).deliver("s", 0, [rows(1, 5, 7), rows(9, 11)], high=11)
    assert batches_in(tmp_path) == whole == [(0, 2), ("0.1", 2), ("0.2", 1)]


@pytest.mark.parametrize("again", [(1, 2), (1, 2, 3, 4, 5), (1, 2, 3), (), (1, 2, 3, 5)])
@pytest.mark.parametrize("is_last", [True, False])
def test_batch_repeated_with_other_rows_is_refused(tmp_path, again, is_last):
    delivery(tmp_path).deliver("s", 0, [rows(1, 2, 3, 4)], high=4)
    if not is_last:
        delivery(tmp_path).deliver("s", 1, [rows(9)], high=9)
    before = batches_in(tmp_path)
    with pytest.raises(ReplayMismatchError) as caught:
        delivery(tmp_path).deliver("s", 0, [rows(*again)], high=9)
    assert str(caught.value.batch).partition(".")[0] == "0"
    assert batches_in(tmp_path) == before


def test_batch_whose_segment_was_deleted_is_not_written_as_a_new_one(tmp_path):
    for batch in range(3):
        delivery(tmp_path).deliver("s", batch, [rows(batch)], high=batch)
    min((tmp_path / "s" / "0000000").iterdir()).unlink()
    with pytest.raises(ReplayMismatchError, match="not in the log"):
        delivery(tmp_path).deliver("s", 0, [rows(0)], high=2)


def test_frontier_of_a_stream_without_rows_advances(tmp_path):
    delivery(tmp_path).deliver("quiet", 0, [rows()], high=9)
    segment, _ = LogReader(tmp_path, "quiet").poll()
    assert (segment.rows, segment.frontier) == (0, 8)


def test_later_stream_is_left_out_of_earlier_repeated_batches(tmp_path):
    delivery(tmp_path).deliver("s", 3, [rows(1)], high=1)
    delivery(tmp_path).deliver("s", 2, [rows()], high=1)
    assert batches_in(tmp_path) == [(3, 1)]


def test_second_query_is_refused_while_the_checkpoint_directory_of_the_first_exists(tmp_path):
    first = begun(tmp_path / "first", "id-1")
    delivery(tmp_path / "log", checkpoint=first).deliver("s", 0, [rows(1)], high=1)
    with pytest.raises(OwnedLogError):
        delivery(tmp_path / "log", "id-2").deliver("s", 0, [rows(1)], high=1)


@pytest.mark.parametrize("again", [True, False])
def test_query_after_a_lost_checkpoint_directory_continues_when_it_has_repeated_every_batch(tmp_path, again):
    log, place = tmp_path / "log", begun(tmp_path / "place", "id-1")
    for batch in range(2):
        delivery(log, checkpoint=place).deliver("s", batch, [rows(batch)], high=batch)
    begun(place, "id-2")
    second = delivery(log, "id-2", checkpoint=place)
    if again:
        second.deliver("s", 0, [rows(0)], high=1)
        second.deliver("s", 1, [rows(1)], high=1)
        assert owner.owner(log / "s") == "spark:id-1"
        second.deliver("s", 2, [rows(2)], high=2)
        assert owner.owner(log / "s") == "spark:id-2"
        assert batches_in(log) == [(0, 1), (1, 1), (2, 1)]
    else:
        with pytest.raises(OwnedLogError):
            second.deliver("s", 2, [rows(2)], high=2)


def test_query_after_a_lost_checkpoint_directory_is_refused_when_a_batch_differs(tmp_path):
    log, place = tmp_path / "log", begun(tmp_path / "place", "id-1")
    delivery(log, checkpoint=place).deliver("s", 0, [rows(0)], high=0)
    begun(place, "id-2")
    with pytest.raises(ReplayMismatchError):
        delivery(log, "id-2", checkpoint=place).deliver("s", 0, [rows(7)], high=7)


def test_query_with_an_invisible_checkpoint_directory_does_not_count_as_lost(tmp_path):
    delivery(tmp_path, checkpoint="s3://bucket/checkpoint").deliver("s", 0, [rows(1)], high=1)
    with pytest.raises(OwnedLogError):
        delivery(tmp_path, "id-2").deliver("s", 0, [rows(1)], high=1)
