"""The tables of a SQLite sink: their writers, the marks of their outputs, and the check that rows have not changed.

Besides the tables of outputs, the database has two tables of ours. `dgs_writers` has the job, the run and the generation that write each table.
An older generation is refused (R8, R10). A run that starts from the beginning takes the table over, and deletes the rows of
earlier runs. With `mode: append` each run has its own line. `dgs_marks` has the marks that identify repeats.

A line of `dgs_writers` also counts the outputs and adds up the checksums of outputs and marks, so that a resumed run finds rows
that were damaged or changed meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from dgs.errors import FencedError, OutputUnwritableError, SinkChangedError
from dgs.job.schema_runtime import OutputMode
from dgs.workers.sinks.files.owned import (
    OthersOutputsError,
    OutputsChangedError,
    OutputsThereError,
    seen_from,
)

LOCKED_SECONDS = 2.0
"""Seconds that a write waits for a lock. The host does nothing else meanwhile, so waiting outputs do not pile up."""

GLANCE_SECONDS = 0.1
"""Seconds of such a wait that SQLite spends at once: nothing interrupts it, no signal either."""

LOG_SECONDS = 0.1
"""Seconds that emptying the log of the database waits for readers."""

RETRY_SECONDS = 0.05
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

COLUMNS = ("ts", "stream", "seq", "idx", "kind", "key", "value")
_OUTPUTS = """
CREATE TABLE IF NOT EXISTS "{table}" (
    ts INTEGER NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL, idx INTEGER NOT NULL,
    kind TEXT NOT NULL, key TEXT, value TEXT
)"""
_MARKS = """
CREATE TABLE IF NOT EXISTS dgs_marks (
    sink TEXT, stream TEXT, splits INTEGER, split INTEGER, kind TEXT, key BLOB,
    ts INTEGER NOT NULL, rank INTEGER NOT NULL, seq INTEGER NOT NULL, idx INTEGER NOT NULL,
    PRIMARY KEY (sink, stream, splits, split, kind, key)
) WITHOUT ROWID"""
_WRITERS = """
CREATE TABLE IF NOT EXISTS dgs_writers (
    sink TEXT PRIMARY KEY, run TEXT, generation INTEGER, job TEXT, rows INTEGER, checksum INTEGER, marks INTEGER
)"""
_FIRST = frozenset({"sink", "run", "generation"})
_ADDED = ({"job": "TEXT", "rows": "INTEGER", "checksum": "INTEGER"}, {"marks": "INTEGER"})
"""The columns of `dgs_writers` in version 0.1.0, and those that later versions have added."""

_MODULUS = 1 << 62


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a table. `run` stays the same when a run is resumed; `generation` counts its restarts.

    `continues`: the run has committed outputs, so the table must hold them. `appends`: rows of others stay. `job`: the run's job.
    `may_go_on`: the run takes checkpoints, so it can go on from its rows if it fails.
    """

    run: str
    generation: int
    continues: bool = False
    appends: bool = False
    job: Path | None = None
    may_go_on: bool = True

    def sink(self, table: str) -> str:
        """Return the name of the line in `dgs_writers`, and of the marks."""
        return f"{table}#{self.run}" if self.appends else table


@dataclass(frozen=True, slots=True)
class Line:
    """A line of `dgs_writers`. `rows`, `checksum`: of the outputs of this run, None if version 0.1.0 wrote it.

    `marks`: the part of the marks in the checksum, None if an older version wrote it.
    """

    run: str
    generation: int
    job: str | None = None
    rows: int | None = None
    checksum: int | None = None
    marks: int | None = None


def enter(db: sqlite3.Connection, table: str, writer: Writer, *, path: Path) -> None:
    """Make the tables, and note the new writer. Call this inside a transaction.

    Raises FencedError if a newer generation of the run writes, OutputUnwritableError if the table is not one of ours,
    SinkChangedError if the run continues but its outputs are missing.

    >>> db = sqlite3.connect(":memory:", isolation_level=None)
    >>> enter(db, "outputs", Writer(run="a", generation=1), path=Path("out.db"))
    >>> _ = db.execute("INSERT INTO outputs VALUES (7, 's', 0, 0, 'view', NULL, '1')")
    >>> enter(db, "outputs", Writer(run="a", generation=2), path=Path("out.db"))      # resumed
    >>> enter(db, "outputs", Writer(run="b", generation=1, appends=True), path=Path("out.db"))
    >>> db.execute("SELECT count(*) FROM outputs").fetchone()
    (1,)
    >>> enter(db, "outputs", Writer(run="c", generation=1), path=Path("out.db"))      # another run
    >>> db.execute("SELECT count(*) FROM outputs").fetchone()
    (0,)
    """
    _make_own_tables(db)
    sink, is_there = writer.sink(table), _columns(db, table)
    found, is_ours = line_of(db, sink), any(_lines(db, table))
    if is_there and (is_there != COLUMNS or not (is_ours or writer.appends)):
        raise OutputUnwritableError(
            path=path, problem=f"it has a table {table!r} that does not hold outputs of dgs"
        )
    if found is not None and found.run == writer.run and found.generation > writer.generation:
        raise FencedError(path=path, generation=writer.generation, newest=found.generation)
    if writer.continues and (found is None or found.run != writer.run or not is_there):
        raise SinkChangedError(path=path, table=table)
    db.execute(_OUTPUTS.format(table=table))
    is_new = found is None or found.run != writer.run or not is_there
    if is_new and not writer.appends:
        db.execute(f'DELETE FROM "{table}"')  # noqa: S608 - a name of letters and digits, says the plan file's schema
        for name in ("dgs_marks", "dgs_writers"):
            db.execute(f"DELETE FROM {name} WHERE sink = ? OR sink GLOB ?", (table, f"{table}#*"))  # noqa: S608 - our own names
    sums = (0, 0, 0) if is_new or found is None else (found.rows, found.checksum, found.marks)
    job = None if writer.job is None else seen_from(path.parent, writer.job)
    line = (sink, writer.run, writer.generation, job, *sums)
    names = "sink, run, generation, job, rows, checksum, marks"
    db.execute(f"INSERT OR REPLACE INTO dgs_writers ({names}) VALUES (?, ?, ?, ?, ?, ?, ?)", line)  # noqa: S608 - our own names


def check(db: sqlite3.Connection, table: str, writer: Writer, *, path: Path) -> Line:
    """Return the line of the writer. Call this inside a transaction (R8). Raises FencedError if another generation or run writes now."""
    found = line_of(db, writer.sink(table))
    if found is None or (found.run, found.generation) != (writer.run, writer.generation):
        newest = "of another run" if found is None or found.run != writer.run else found.generation
        raise FencedError(path=path, generation=writer.generation, newest=newest)
    return found


def count(db: sqlite3.Connection, sink: str, line: Line, added: Sums, gone: Sums) -> None:
    """Note the outputs and marks that a transaction adds to a sink and removes from it."""
    if line.rows is None or line.checksum is None:
        return
    checksum = (line.checksum + added.checksum - gone.checksum) % _MODULUS
    marks = None if line.marks is None else (line.marks + added.marks - gone.marks) % _MODULUS
    db.execute(
        "UPDATE dgs_writers SET rows = ?, checksum = ?, marks = ? WHERE sink = ?",
        (line.rows + added.outputs, checksum, marks, sink),
    )


@dataclass
class Sums:
    """The number of outputs, and the sum of the checksums of outputs and marks, which does not depend on their order.

    `marks`: the sum of those of marks alone.
    """

    outputs: int = 0
    checksum: int = 0
    marks: int = 0

    def add_outputs(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows of the table of outputs."""
        for row in rows:
            self.outputs += 1
            self.checksum += _spread(row)

    def add_marks(self, marks: Iterable[tuple[Any, ...]]) -> None:
        """Add rows of `dgs_marks`, without the name of the sink."""
        found = sum(map(_spread, marks))
        self.checksum += found
        self.marks += found

    def fits(self, line: Line) -> bool:
        """Return whether these are the outputs and marks of a line."""
        return (self.outputs, self.checksum % _MODULUS) == (line.rows, line.checksum)

    def has_marks(self, line: Line) -> bool:
        """Return whether these are the marks of a line, if it has a sum of them."""
        return line.marks is None or self.marks % _MODULUS == line.marks


def _spread(row: tuple[Any, ...]) -> int:
    """Return a checksum that changes with every bit. A factor makes equal sums of several rows unlikely."""
    return crc32(repr(row).encode("utf-8", "surrogatepass")) * 0x9E3779B1


def check_table_free(path: Path, table: str, mode: OutputMode | None, job: Path) -> None:
    """Raise OutputsThereError or OthersOutputsError if a table holds outputs that a run of a job may not replace."""
    if not path.is_file() or mode in ("replace-own", "append"):
        return
    with refusing_database(path), closing(connected(path)) as db:
        if not _columns(db, table):
            return
        where, names = f"table {table!r} of {path}", f"{_rows(db, table)} rows"
        if mode == "error":
            raise OutputsThereError(where=where, names=names)
        own = seen_from(path.parent, job)
        jobs = {line.job for line in _lines(db, table)} if _columns(db, "dgs_writers") else set()
        if others := sorted(name for name in jobs if name not in (None, own)):
            found = os.path.normpath(path.parent.resolve() / others[0])
            raise OthersOutputsError(where=where, job=found, names=names)


def check_table_kept(path: Path, table: str, writer: Writer, held: int = 0) -> None:
    """Raise OutputsChangedError if a table does not hold the rows of a run, SinkChangedError if there is no table.

    `held`: how many rows the run had written to it by its last checkpoint. If outputs are appended, others may add and remove rows.
    Then only `held` is checked.
    """
    if not path.is_file():
        raise SinkChangedError(path=path, table=table)
    where = f"table {table!r} of {path}"
    try:
        with closing(connected(path)) as db, transaction(db):
            _make_own_tables(db)
            if (said := db.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
                raise OutputsChangedError(where=where, problem=said)
            line, found = line_of(db, writer.sink(table)), _columns(db, table)
            if line is None or line.run != writer.run or found != COLUMNS:
                raise SinkChangedError(path=path, table=table)
            problem = _older(line, held) or _change_of(db, table, writer, line)
    except sqlite3.Error as error:
        if is_locked(error) or not os.access(path, os.W_OK):
            raise OutputUnwritableError(path=path, problem=str(error)) from error
        raise OutputsChangedError(where=where, problem=str(error)) from error
    if problem is not None:
        raise OutputsChangedError(where=where, problem=problem)


def _older(line: Line, held: int) -> str | None:
    """Return how a line is older than the checkpoints, None if it is not, or if that cannot be known."""
    if line.rows is None or line.rows >= held:
        return None
    return (
        f"the run had written {held} rows to it, and it knows of {line.rows}: an older copy is in its place"
    )


def _change_of(db: sqlite3.Connection, table: str, writer: Writer, line: Line) -> str | None:
    """Return how a table differs from its line, None if it does not, or if that cannot be known."""
    if (line.rows is None) != (line.checksum is None):
        return "its line in dgs_writers was changed"
    if line.rows is None:
        return None
    sums = Sums()
    sums.add_outputs(db.execute(f'SELECT * FROM "{table}"'))  # noqa: S608 - letters and digits
    sums.add_marks(marks_of(db, writer.sink(table)))
    if not sums.has_marks(line):
        return "the marks of its outputs were changed"
    is_alone = len(_lines(db, table)) == 1 and sums.outputs == line.rows
    if sums.fits(line) or (writer.appends and not is_alone):
        return None
    if sums.outputs != line.rows:
        return f"it has {sums.outputs} rows and had {line.rows}"
    return "its rows were changed"


def rows_in(path: Path, table: str) -> int:
    """Return the number of rows of a table, 0 if it cannot be read."""
    if not path.is_file():
        return 0
    try:
        with closing(connected(path)) as db:
            return _rows(db, table)
    except sqlite3.Error:
        return 0


def _rows(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])  # noqa: S608 - letters and digits


def marks_of(db: sqlite3.Connection, sink: str) -> Iterable[tuple[Any, ...]]:
    """Return the rows of `dgs_marks` for a sink, without its name."""
    query = "SELECT stream, splits, split, kind, key, ts, rank, seq, idx FROM dgs_marks WHERE sink = ?"
    return db.execute(query, (sink,))


def _make_own_tables(db: sqlite3.Connection) -> None:
    db.execute(_WRITERS)
    db.execute(_MARKS)
    there, known = set(_columns(db, "dgs_writers")), set(_FIRST)
    if not there >= known:
        raise sqlite3.DatabaseError("its table dgs_writers was changed")
    for added in _ADDED:
        if not there > known:
            for name, kind in added.items():
                db.execute(f"ALTER TABLE dgs_writers ADD COLUMN {name} {kind}")
            there |= added.keys()
        known |= added.keys()
    if there != known:
        raise sqlite3.DatabaseError("its table dgs_writers was changed")


def line_of(db: sqlite3.Connection, sink: str) -> Line | None:
    """Return the line of a sink in `dgs_writers`."""
    row = db.execute(
        "SELECT run, generation, job, rows, checksum, marks FROM dgs_writers WHERE sink = ?", (sink,)
    ).fetchone()
    return None if row is None else Line(*row)


def _lines(db: sqlite3.Connection, table: str) -> list[Line]:
    """Return the lines of all runs that write a table or have appended to it."""
    names = ", ".join(
        name if name in _columns(db, "dgs_writers") else "NULL" for name in ("run", "generation", "job")
    )
    query = f"SELECT {names} FROM dgs_writers WHERE sink = ? OR sink GLOB ?"  # noqa: S608 - our own names
    return [Line(*row) for row in db.execute(query, (table, f"{table}#*"))]


def _columns(db: sqlite3.Connection, table: str) -> tuple[str, ...]:
    return tuple(name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,)))


def connected(path: Path, *, locked_seconds: float = LOCKED_SECONDS) -> sqlite3.Connection:
    """Return a connection with explicit transactions only. Raises sqlite3.Error."""
    return sqlite3.connect(path, timeout=locked_seconds, isolation_level=None, check_same_thread=False)


@contextmanager
def refusing_database(path: Path) -> Iterator[None]:
    """Turn errors of the database into OutputUnwritableError."""
    try:
        yield
    except sqlite3.Error as error:
        raise OutputUnwritableError(path=path, problem=str(error)) from error


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit all changes made inside this context, or none of them."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def in_wal(db: sqlite3.Connection, deadline: float) -> bool:
    """Switch to a write-ahead log, if the file system allows it, so that readers need not wait. Retry while locked."""
    while True:
        try:
            return bool(db.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal")
        except sqlite3.OperationalError as error:
            if not is_locked(error) or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_SECONDS)


def wait_for_locks(db: sqlite3.Connection, seconds: float) -> None:
    """Let each statement wait for locks of others for so long."""
    db.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


def empty_log(db: sqlite3.Connection, *, wait: float, normally: float) -> None:
    """Move the content of the log into the database, unless a reader keeps it for longer than `wait` seconds."""
    try:
        wait_for_locks(db, wait)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as error:
        if not is_locked(error):
            raise
    finally:
        wait_for_locks(db, normally)


def is_locked(error: sqlite3.Error) -> bool:
    """Return whether another connection has the database locked."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _LOCKED
