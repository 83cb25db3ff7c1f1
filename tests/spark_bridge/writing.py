"""Helpers of the tests of the event log writer: files of rows, a query over them, the content of the log."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dgs.spark_bridge.data_source.log_options import LogOptions
from dgs.spark_bridge.ingest.division import Division
from dgs.spark_bridge.ingest.left_out import LeftOut
from dgs.spark_bridge.ingest.micro_batches import MicroBatches
from dgs.workers.event_log import LogReader, failure, summary


def put_file(directory, number, rows):
    """Write rows as (ts, v) to a file; files are read in the order of their numbers."""
    directory.mkdir(parents=True, exist_ok=True)
    path = Path(directory) / f"{number}.parquet"
    # Spark ignores such names: a query may look while the file is written
    draft = path.with_name(f"_{number}.draft")
    table = pa.table({"ts": [ts for ts, _ in rows], "v": [v for _, v in rows]})
    pq.write_table(table.cast(pa.schema([("ts", pa.int64()), ("v", pa.int64())])), draft)
    os.utime(draft, (1_000_000 + number, 1_000_000 + number))
    return draft.replace(path)


def unchanged(rows):
    return rows


def write(spark, files, log, checkpoint, *, at_once=1, through=unchanged, **options):
    """Run a query over all files, one in each micro-batch, to its end. `through`: a transformation of the rows."""
    rows = spark.readStream.schema("ts bigint, v bigint").option("maxFilesPerTrigger", at_once)
    query = (
        through(rows.parquet(str(files)))
        .writeStream.format("dgs")
        .options(log=str(log), stream="s", errors=str(checkpoint.with_suffix(".errors")), **options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return query


def put(spark, files, log, checkpoint, *, at_once=1, through=unchanged, **options):
    """Run a query that a plan file describes over all files to its end, but leave the log open."""
    where = {} if "key" in options else {"stream": "s", "streams": "s"}
    given = {"log": log, "errors": checkpoint.with_suffix(".errors"), **where, **options}
    chosen = LogOptions.parsed({name: str(value) for name, value in given.items()})
    rows = spark.readStream.schema("ts bigint, v bigint").option("maxFilesPerTrigger", at_once)
    writer = through(rows.parquet(str(files))).writeStream.foreachBatch(
        MicroBatches(LeftOut(Division(chosen)), checkpoint)
    )
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return query


def error_of(checkpoint):
    return failure.found(checkpoint.with_suffix(".errors"))


def tables_in(log, stream="s"):
    reader = LogReader(log, stream)
    return [table for _, table in iter(reader.poll, None)]


def rows_in(log, stream="s"):
    tables = tables_in(log, stream)
    return [(row["ts"], row["v"]) for table in tables for row in table.to_pylist()]


def batches_in(log, stream="s"):
    return [(segment.batch, segment.rows) for segment in summary.segments(log, stream)]
