"""The key at which `--max-events` cuts, compared with sorting all events."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import UsageError
from dgs.job.schema import StreamConfig
from dgs.model.order import OrderKey
from dgs.model.program import Program
from dgs.workers.event_log import LogWriter
from dgs.workers.sources import SourceContext, first_events

STREAMS = st.lists(st.lists(st.integers(0, 6), max_size=8).map(sorted), min_size=1, max_size=4)


def cutoff(times: list[list[int]], count: int, **options: object) -> OrderKey | None:
    streams = [
        StreamConfig(id=f"s{i}", tags=["n"], source={"memory": f"s{i}"}, **options) for i in range(len(times))
    ]
    memory = {f"s{i}": [("n", ts, None) for ts in stream] for i, stream in enumerate(times)}
    return first_events.cutoff(streams, SourceContext(Program(), "ns", memory=memory), count)


@pytest.mark.parametrize(
    "options", [{}, {"split": 3}, {"on_disorder": {"sort_within": "2ns"}}], ids=["plain", "split", "sorted"]
)
@given(times=STREAMS, count=st.integers(0, 20), rows=st.integers(1, 5))
def test_cutoff_is_the_key_at_that_position_of_all_sorted(options, times, count, rows):
    keys = sorted(
        OrderKey(ts, rank, seq) for rank, stream in enumerate(times) for seq, ts in enumerate(stream)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_events, "BATCH_ROWS", rows)
        assert cutoff(times, count, **options) == (keys[count] if count < len(keys) else None)


def test_cutoff_reads_no_further_than_needed():
    read = []

    class Watched(list):
        def __iter__(self):
            for item in super().__iter__():
                read.append(item)
                yield item

    stream = StreamConfig(id="s", tags=["n"], source={"memory": "s"})
    memory = {"s": Watched(("n", ts, None) for ts in range(1000))}
    key = first_events.cutoff([stream], SourceContext(Program(), memory=memory), 3)
    assert key == OrderKey(3, 0, 3)
    assert len(read) < 20


def test_cutoff_of_a_log_needs_its_end(tmp_path):
    stream = StreamConfig(id="s", tags={"kind": "n"}, source={"log": {"path": "log"}})

    def cut() -> OrderKey | None:
        return first_events.cutoff([stream], SourceContext(Program(), base_dir=tmp_path), 1)

    log = LogWriter(tmp_path / "log", "s", "test", ts="ts")
    log.append(0, pa.table({"ts": [1, 5, 7]}), None)
    with pytest.raises(UsageError, match="stream 's' is still being written"):
        cut()
    log.close()
    assert cut() == OrderKey(5, 0, 1)


def test_cutoff_of_a_query_that_spark_has_not_read_is_refused(tmp_path):
    source = {"spark": {"format": "parquet", "path": "in"}}
    stream = StreamConfig(id="s", tags=["n"], source=source)
    with pytest.raises(UsageError, match=r"still being written \(spark\)"):
        first_events.cutoff([stream], SourceContext(Program(), base_dir=tmp_path), 1)
