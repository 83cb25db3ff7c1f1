"""Staged runs: the sorted rows of one task and one stream as a file, which a message announces to the commit.

Staged files are not durable and not part of the log. Files of a failed batch are deleted with those of the query's next batch.

>>> import tempfile
>>> place = Staging(Path(tempfile.mkdtemp()), "query-1")
>>> path = place.put(0, pa.table({"ts": [5, 6]}))
>>> read(path).column("ts").to_pylist()
[5, 6]
>>> place.clear()
>>> path.exists()
False
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dgs.workers.storage.disk import make_directory

DIRECTORY = ".staged"


@dataclass(frozen=True)
class StagedRows:
    """A staged file: the rows of one stream from one task, sorted. `high`: the greatest time, raw."""

    stream: str
    path: str
    rows: int
    high: int


class Staging:
    """The directory of the staged files of one query in a log."""

    def __init__(self, log: Path, query: str) -> None:
        name = hashlib.blake2b(query.encode(), digest_size=8).hexdigest()
        self.directory = log / DIRECTORY / name

    def put(self, partition: int, table: pa.Table) -> Path:
        """Write a table under a new name and return its path: a repeated task does not disturb the first attempt."""
        make_directory(self.directory)
        path = self.directory / f"{partition}-{os.getpid()}-{secrets.token_hex(4)}.arrow"
        try:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table.combine_chunks())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def clear(self) -> None:
        """Delete all staged files of the query."""
        shutil.rmtree(self.directory, ignore_errors=True)


def read(path: Path | str) -> pa.Table:
    """Return the rows of a staged file, mapped into memory."""
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()
