"""Tables of Parquet files on this machine, to which epochs are appended without Spark, whose first write takes as long as a small run.

Each append writes one file, which gets its name once it is durable. Until then its name begins with `_`, which Spark ignores.

>>> import tempfile
>>> from dgs.spark_bridge.data_source.checkpoint_rows import row_of
>>> from dgs.workers.recovery.checkpoint import Checkpoint
>>> from dgs.workers.recovery.positions import Positions
>>> place = Path(tempfile.mkdtemp()) / "saved"
>>> rows = [row_of(Checkpoint(epoch, None, Positions()), run="r1", generation=1, created_at=0, state=b"") for epoch in (1, 2)]
>>> FilesAppend(place, "r1")(rows[:1])
>>> FilesAppend(place, "r1")(rows)                          # as after a crash
>>> [path.name for path in sorted(place.iterdir())]
['part-r1-000001.parquet', 'part-r1-000002.parquet']
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from dgs.job import private_files
from dgs.job.schema import SparkConfig
from dgs.spark_bridge.data_source.checkpoint_rows import Row, table_of_rows
from dgs.spark_bridge.session.reachability import is_on_this_machine
from dgs.spark_bridge.tables.epoch_table import EPOCH, RUN, EpochTable, missing_from
from dgs.spark_bridge.tables.output_tables import outlives_session
from dgs.workers.storage.disk import refusing, sync_directory, sync_file

_OF_SPARK = ("parquet", "fs.defaultFS", "commitProtocol")
"""Parts of the names of settings that decide where and how Spark writes Parquet."""


def is_of_files(table: EpochTable, config: SparkConfig) -> bool:
    """Return whether a table is only Parquet files here: no lasting catalog and no setting of Spark affects it."""
    is_here = config.remote is None and is_on_this_machine(config.master) and "://" not in table.location
    is_plain = table.format == "parquet" and not any(
        part in name for name in config.conf for part in _OF_SPARK
    )
    return (
        is_here
        and is_plain
        and "HADOOP_CONF_DIR" not in os.environ
        and (table.name is None or not outlives_session(config))
    )


class FilesAppend:
    """Appends rows of a run to a directory of Parquet files, except epochs that are there. Raises OutputUnwritableError."""

    def __init__(self, place: Path, run: str) -> None:
        self._place, self._run = place, run
        self._known: frozenset[int] | None = None

    def __call__(self, rows: Sequence[Row]) -> None:
        """Append the rows whose epochs are not in the table."""
        if self._known is None:
            self._known = self._epochs()
        missing = missing_from(rows, self._known)
        if not missing:
            return
        name = f"part-{self._run}-{int(missing[-1][EPOCH]):06d}.parquet"
        draft, path = self._place / f"_{name}", self._place / name
        with refusing(path):
            self._place.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                pq.write_table(table_of_rows(missing), file)
                sync_file(file)
            draft.replace(path)
            sync_directory(self._place)
        self._known = self._known.union(int(row[EPOCH]) for row in missing)

    def close(self) -> None:
        """Do nothing: every append is complete."""

    def _epochs(self) -> frozenset[int]:
        found: set[int] = set()
        with refusing(self._place):
            for path in self._place.glob("[!._]*.parquet"):
                private_files.check_file(path)
                rows = pq.read_table(path, columns=[RUN, EPOCH], partitioning=None).to_pylist()
                found.update(row[EPOCH] for row in rows if row[RUN] == self._run)
        return frozenset(found)
