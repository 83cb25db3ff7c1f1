"""The share of a bounded input that has been read."""

import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from dgs.job.schema import StreamConfig
from dgs.model.program import Program
from dgs.workers.sources import SourceContext, open_source
from dgs.workers.sources.readers.choosing import rows_of_text


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "memory"])
def test_bounded_input_has_a_share(kind, tmp_path):
    table = pa.table({"ts": list(range(2000)), "payload": [7] * 2000})
    pq.write_table(table, tmp_path / "in.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "in.csv")
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    source = {"memory": "in"} if kind == "memory" else {kind: {"path": f"in.{kind}"}}
    config = StreamConfig(id="s", tags={"kind": "a"}, source=source)
    memory = {"in": [("a", ts, 7) for ts in range(2000)]}
    opened = open_source(
        config, SourceContext(Program(), base_dir=tmp_path, memory=memory), rank=0, batch_rows=200
    )
    read = 0
    while read < 1000:
        read += sum(map(len, opened.read().batches))
    assert opened.counted.share == pytest.approx(read / 2000, rel=0.2)
    opened.close()


@pytest.mark.parametrize("is_reversed", [False, True])
def test_rows_of_text_that_become_longer_are_counted_within_a_tenth(tmp_path, is_reversed):
    rows = [f"{ts},{'1' * (1 + ts // 10_000)}\n" for ts in range(100_000)]
    (tmp_path / "a.csv").write_text("".join(reversed(rows) if is_reversed else rows))
    assert rows_of_text([tmp_path / "a.csv"]) == pytest.approx(len(rows), rel=0.1)


def test_packed_text_and_empty_files_have_no_share(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(b"")
    (tmp_path / "a.csv").write_bytes(b"")
    assert rows_of_text([tmp_path / "a.csv.gz"]) is None
    assert rows_of_text([tmp_path / "a.csv"]) == 0
    assert rows_of_text([tmp_path / "gone.csv"]) is None
