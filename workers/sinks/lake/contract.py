"""The contract between the sink of lake tables and a table format.

>>> DataFile("part-1.parquet", size=120, rows=3).rows
3
"""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from dgs.errors import DgsError, OutputUnwritableError

JOB = "dgs_job"
"""The property of a table that names the job which made it."""

RUN, EPOCH = "dgs_run", "dgs_epoch"
"""The entry of a table's history for each commit."""

BEGUN = 0
"""The epoch of a run that has begun in a table and has no rows there yet."""


class DataFile(NamedTuple):
    """A Parquet file in the directory of a table's data. `size`: bytes. `partition`: the values of its partition, as text.

    `digest`: that of its bytes, empty in checkpoints of older versions.
    """

    name: str
    size: int
    rows: int
    partition: tuple[str | None, ...] = ()
    digest: str = ""


class LakeTable(Protocol):
    """A table of a lake. Every change is one transaction of the table, so a reader sees all of it or nothing.

    Law: `committed(run)` is the epoch of the run's last change, so a change that was made is not made again.
    All methods raise OutputUnwritableError.
    """

    @property
    def data(self) -> Path:
        """The directory of the table's data files."""

    def is_there(self) -> bool:
        """Return whether the table exists."""

    def job(self) -> str | None:
        """Return the job that made the table, None if dgs did not make it."""

    def schema(self) -> pa.Schema:
        """Return the columns of an existing table."""

    def partitions(self) -> list[str]:
        """Return the columns that divide the files of an existing table."""

    def committed(self, run: str) -> int | None:
        """Return the last epoch that a run has committed to an existing table, None if it has not begun there."""

    def files(self) -> list[tuple[Path, int]]:
        """Return the data files of an existing table, with their sizes in bytes."""

    def create(self, schema: pa.Schema, run: str, job: str | None, partition_by: Sequence[str]) -> None:
        """Make the table without rows, in place of an existing one, whose history stays if the format allows it."""

    def begin(self, run: str) -> None:
        """Note that a run begins to add rows to an existing table."""

    def widen(self, schema: pa.Schema) -> None:
        """Add the columns that the table lacks, at its end."""

    def append(self, files: Sequence[DataFile], run: str, epoch: int) -> None:
        """Add files of an epoch, and note the epoch."""

    def newest_log(self) -> list[Path]:
        """Return the files that the newest change has added to the format's own log. They never change."""


@contextmanager
def lake_errors(place: Path | str) -> Iterator[None]:
    """Turn errors of a library, and of the operating system, into OutputUnwritableError with the place of the table."""
    try:
        yield
    except DgsError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        problem = f"{type(error).__name__}: {lines[0]}"
        raise OutputUnwritableError(path=Path(place), problem=problem) from error


_SYSTEM = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)
"""Errors of SQLite about the system and other processes, not about the content of a database."""

_NUMBER = re.compile(r"\(os error (\d+)\)")
"""The number that Rust adds to an error of the operating system."""


def is_damage(error: OutputUnwritableError) -> bool:
    """Return whether an error means that a file of a table is damaged or gone, and not that the system or another writer refused.

    >>> try:
    ...     with lake_errors("lake"):
    ...         raise PermissionError(13, "Permission denied")
    ... except OutputUnwritableError as error:
    ...     is_damage(error)
    False
    """
    cause = error.__cause__
    if isinstance(cause, FileNotFoundError):
        return True
    if type(cause).__name__.startswith("CommitFailed"):  # another writer committed first
        return False
    if (found := _NUMBER.search(str(cause))) is not None:
        return int(found[1]) == errno.ENOENT
    code = getattr(getattr(cause, "orig", cause), "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF not in _SYSTEM
    # Arrow raises a plain OSError for a damaged file. Errors of the system have a number, those of network libraries a class of their own.
    return not isinstance(cause, OSError) or (type(cause) is OSError and cause.errno is None)
