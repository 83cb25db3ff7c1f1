"""The Spark data source `dgs`: it writes event logs, and reads outputs and checkpoints of runs.

    events.writeStream.format("dgs").option("log", directory).option("stream", "clicks").option("ts", "at").start()
    spark.read.format("dgs").option("run", run_directory).load()

>>> DgsDataSource.name()
'dgs'
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from dgs.errors import UsageError

KEPT = 'format("dgs"): an event log keeps the rows it has'


class DgsDataSource(DataSource):
    """`format("dgs")`. Options for writing: `dgs.spark_bridge.data_source.log_options`; for reading: `dgs.spark_bridge.data_source.readers`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "dgs"

    def schema(self) -> StructType | str:
        """Return the columns of the rows read."""
        from dgs.spark_bridge.data_source import readers

        found: StructType | str = readers.schema(self.options)
        return found

    def reader(self, schema: StructType) -> Any:
        """Return a reader of the committed outputs or checkpoints of a run."""
        from dgs.spark_bridge.data_source import readers

        return readers.reader(self.options, schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        """Return a reader that follows a run's commits."""
        from dgs.spark_bridge.data_source import readers

        return readers.stream_reader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        """Return a writer of an event log, one batch per micro-batch."""
        from dgs.spark_bridge.data_source.log_writer import LogWrite, StreamWriter

        if overwrite:
            raise UsageError(message=f"{KEPT}: .outputMode('append'), not 'complete'")
        return StreamWriter(LogWrite.of(self.options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Return a writer of an event log, all rows as one batch."""
        from dgs.spark_bridge.data_source.log_writer import BatchWriter, LogWrite

        if overwrite:
            raise UsageError(message=f"{KEPT}: .mode('append'), not 'overwrite'")
        return BatchWriter(LogWrite.of(self.options, schema))
