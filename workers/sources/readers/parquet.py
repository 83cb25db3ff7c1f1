"""Parquet files, read in batches of rows, only the needed columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

from dgs.errors import DgsError
from dgs.workers.sources.rows import Place, RawRows
from dgs.workers.sources.shaping.mapping import Mapping, malformed

BATCH_BYTES = 1 << 26
"""About this many bytes of unpacked columns are read at once, however few rows they are."""
MOST_UNPACKED = 1000
"""A row group that unpacks to more than `BATCH_BYTES` may be at most this many times as large as the file."""


class ParquetReader:
    """Reads the files of one stream one after the other."""

    def __init__(self, mapping: Mapping, paths: Iterable[Path], batch_rows: int) -> None:
        self._mapping = mapping
        self._paths = paths
        self._batch_rows = batch_rows
        self._row = 0
        self._needed_from = 0

    def skip_to(self, row: int) -> None:
        """Leave out the rows before a row: whole row groups, and the first rows of its own group."""
        self._needed_from = row

    def rows(self) -> Iterator[RawRows]:
        """Yield the rows, at most `batch_rows` at a time. Raises MalformedRowError, UnknownColumnError."""
        for path in self._paths:
            try:
                yield from self._file(path)
            except DgsError:
                raise
            except Exception as error:  # noqa: BLE001 - damage shows in many ways, and no code of users runs here
                problem = f"the file cannot be read as Parquet: {str(error) or type(error).__name__}"
                raise malformed(self._mapping.stream, self._row, problem, Place(path.name)) from None

    def _file(self, path: Path) -> Iterator[RawRows]:
        begin = self._row
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            wanted = self._mapping.needed(file.schema_arrow.names, str(path))
            groups = self._groups_from(file)
            batch_rows = min(self._batch_rows, _rows_at_once(path, file, groups))
            for batch in file.iter_batches(batch_rows, row_groups=groups, columns=wanted, use_threads=False):
                before = min(max(self._needed_from - self._row, 0), batch.num_rows)
                self._row += before
                batch = batch.slice(before)  # noqa: PLW2901
                if not batch.num_rows:
                    continue
                columns = {name: batch.column(name) for name in wanted}
                yield RawRows(
                    self._row,
                    batch.num_rows,
                    columns,
                    str(path),
                    place=lambda row: Place(path.name, row - begin + 1, "row"),
                )
                self._row += batch.num_rows

    def _groups_from(self, file: pq.ParquetFile) -> list[int]:
        """Return the row groups with needed rows; count the groups before them as read."""
        groups = list(range(file.num_row_groups))
        while groups:
            rows = file.metadata.row_group(groups[0]).num_rows
            if self._row + rows > self._needed_from:
                break
            self._row += rows
            groups = groups[1:]
        return groups


def _rows_at_once(path: Path, file: pq.ParquetFile, groups: list[int]) -> int:
    """Return the number of rows to read at once, from the sizes of the row groups. Raises ValueError for a decompression bomb.

    Sizes of single columns are not looked at: Arrow aborts the process if those in a damaged footer, or of an encrypted column, are wrong.
    """
    least, packed = 2**31 - 1, path.stat().st_size
    for number in groups:
        group = file.metadata.row_group(number)
        unpacked = group.total_byte_size
        if unpacked > BATCH_BYTES and unpacked > MOST_UNPACKED * packed:
            raise ValueError(
                f"row group {number} unpacks to {unpacked:,} bytes, in a file of {packed:,}: write it with smaller row groups"
            )
        least = min(least, max(1, BATCH_BYTES * group.num_rows // max(unpacked, 1)))
    return least
