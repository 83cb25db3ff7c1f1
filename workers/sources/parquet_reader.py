"""Parquet files, a batch of rows at a time, only the columns that are needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dgs.errors import MalformedRowError
from workers.sources.mapping import Mapping
from workers.sources.rows import RawRows


class ParquetReader:
    """Reads the files of one stream one after the other."""

    def __init__(self, mapping: Mapping, paths: tuple[Path, ...], batch_rows: int) -> None:
        self._mapping = mapping
        self._paths = paths
        self._batch_rows = batch_rows
        self._row = 0

    def rows(self) -> Iterator[RawRows]:
        """Yield the rows, at most `batch_rows` at a time. Raises MalformedRowError, UnknownColumnError."""
        for path in self._paths:
            try:
                yield from self._file(path)
            except (pa.ArrowException, OSError) as error:
                problem = f"{path.name} cannot be read as Parquet: {error}"
                raise MalformedRowError(stream=self._mapping.stream, row=self._row, problem=problem) from None

    def _file(self, path: Path) -> Iterator[RawRows]:
        with pq.ParquetFile(path) as file:
            wanted = self._mapping.needed(file.schema_arrow.names, str(path))
            for batch in file.iter_batches(self._batch_rows, columns=wanted, use_threads=False):
                columns = {name: batch.column(name) for name in wanted}
                yield RawRows(self._row, batch.num_rows, columns, str(path))
                self._row += batch.num_rows
