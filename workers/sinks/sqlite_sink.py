"""A sink that writes to a table of a SQLite database: every output goes out at once, and exactly once.

Outputs and the marks that identify repeats are written in one transaction (R8). While another process has the database locked,
outputs wait here in order. `stage` returns them, so that they travel in the checkpoint (R7). Several hosts write to one database,
each the outputs of its own tags.

Besides the tables of outputs there are two of ours. `dgs_writers` has the run and the generation that write each table. An older
generation is refused (R8, R10). A run that starts from the beginning takes the table over, and deletes the rows of earlier runs.
`dgs_marks` has the marks.

>>> import tempfile
>>> from dgs.model.tags import Tag
>>> path = Path(tempfile.mkdtemp()) / "out.db"
>>> sink = SqliteSink(path, "outputs", Writer("run", generation=1))
>>> batch = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[5, 6], seq=[0, 1], index=[0, 0], values=[{"n": 1}, {"n": 2}])
>>> sink.write(batch, epoch=1), sink.write(batch, epoch=1), sink.stage(1), sink.close()
(None, None, Staged(files=(), unaccepted=()), None)
>>> sqlite3.connect(path).execute("SELECT ts, stream, seq, kind, value ->> 'n' FROM outputs").fetchall()
[(5, 's', 0, 'a', 1), (6, 's', 1, 'a', 2)]
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dgs.errors import FencedError, InternalError, OutputUnwritableError, SinkChangedError
from dgs.model.outputs import OutputBatch
from dgs.workers.recovery.positions import declared
from dgs.workers.sinks.contract import Staged
from dgs.workers.sinks.formats.arrow_tables import text_of
from dgs.workers.sinks.formats.json_columns import json_lines
from dgs.workers.sinks.marks import Mark, MarkKey, accept
from dgs.workers.storage.disk import sync_directory, sync_file
from dgs.workers.storage.whole_files import refusing

LOCKED_SECONDS = 2.0
"""Seconds that a write waits for a lock. The host does nothing else meanwhile, so waiting outputs do not pile up."""

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
_WRITERS = "CREATE TABLE IF NOT EXISTS dgs_writers (sink TEXT PRIMARY KEY, run TEXT, generation INTEGER)"


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a table. `run` stays the same when a run is resumed; `generation` counts its restarts.

    `continues`: the run has committed outputs, so the table must hold them.
    """

    run: str
    generation: int
    continues: bool = False


def enter(db: sqlite3.Connection, table: str, writer: Writer, *, path: str) -> None:
    """Make the tables, and note the new writer. Call this inside a transaction.

    Raises FencedError if a newer generation of the run writes, OutputUnwritableError if the table is not one of ours,
    SinkChangedError if the run continues but its outputs are missing.

    >>> db = sqlite3.connect(":memory:", isolation_level=None)
    >>> enter(db, "outputs", Writer(run="a", generation=1), path="out.db")
    >>> _ = db.execute("INSERT INTO outputs VALUES (7, 's', 0, 0, 'view', NULL, '1')")
    >>> enter(db, "outputs", Writer(run="a", generation=2), path="out.db")      # resumed
    >>> db.execute("SELECT count(*) FROM outputs").fetchone()
    (1,)
    >>> enter(db, "outputs", Writer(run="b", generation=1), path="out.db")      # another run
    >>> db.execute("SELECT count(*) FROM outputs").fetchone()
    (0,)
    """
    db.execute(_WRITERS)
    db.execute(_MARKS)
    found, is_there = _writer(db, table), _columns(db, table)
    if is_there and (found is None or is_there != COLUMNS):
        raise OutputUnwritableError(
            path=path, problem=f"it has a table {table!r} that does not hold outputs of dgs"
        )
    if found is not None and found.run == writer.run and found.generation > writer.generation:
        raise FencedError(path=path, generation=writer.generation, newest=found.generation)
    if writer.continues and (found is None or found.run != writer.run or not is_there):
        raise SinkChangedError(path=path, table=table)
    db.execute(_OUTPUTS.format(table=table))
    if found is None or found.run != writer.run or not is_there:
        db.execute(f'DELETE FROM "{table}"')  # noqa: S608 - a name of letters and digits, says the plan file's schema
        db.execute("DELETE FROM dgs_marks WHERE sink = ?", (table,))
    db.execute("INSERT OR REPLACE INTO dgs_writers VALUES (?, ?, ?)", (table, writer.run, writer.generation))


def check(db: sqlite3.Connection, table: str, writer: Writer, *, path: str) -> None:
    """Raise FencedError if another generation or another run writes now. Call this inside a transaction (R8)."""
    found = _writer(db, table)
    if found != Writer(writer.run, writer.generation):
        newest = "of another run" if found is None or found.run != writer.run else found.generation
        raise FencedError(path=path, generation=writer.generation, newest=newest)


def _writer(db: sqlite3.Connection, table: str) -> Writer | None:
    row = db.execute("SELECT run, generation FROM dgs_writers WHERE sink = ?", (table,)).fetchone()
    return None if row is None else Writer(*row)


def _columns(db: sqlite3.Connection, table: str) -> tuple[str, ...]:
    return tuple(name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,)))


class SqliteSink:
    """Writes outputs to a table. `splits`: the number of splits of each declared stream (default 1)."""

    def __init__(
        self,
        path: Path,
        table: str,
        writer: Writer,
        *,
        splits: Mapping[str, int] | None = None,
        locked_seconds: float = LOCKED_SECONDS,
    ) -> None:
        self._path, self._table, self._writer = path, table, writer
        self._splits = splits or {}
        self._locked_seconds = locked_seconds
        self._pending: deque[tuple[int, OutputBatch]] = deque()
        self._marks: dict[MarkKey, Mark | None] = {}
        self._dealings: dict[str, tuple[int, ...]] = {}
        with self._refusing():
            self._db = self._opened()

    def _opened(self) -> sqlite3.Connection:
        with refusing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(
            self._path, timeout=self._locked_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            is_wal = _in_wal(db, time.monotonic() + self._locked_seconds)
            db.execute(
                f"PRAGMA synchronous = {'NORMAL' if is_wal else 'FULL'}"
            )  # `stage` makes the log durable
            with _transaction(db):
                enter(db, self._table, self._writer, path=str(self._path))
        except BaseException:
            db.close()
            raise
        return db

    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Write new outputs, or keep them while the database is locked. Raises FencedError."""
        if len(batch):
            self._pending.append((epoch, batch))
        self._flush()

    def stage(self, epoch: int) -> Staged:
        """Make written outputs durable; return those up to this epoch that could not be written."""
        self._flush()
        log = self._path.with_name(self._path.name + "-wal")
        with (
            refusing(log),
            suppress(FileNotFoundError),
        ):  # without a log, every transaction is durable already
            with log.open("rb") as file:
                sync_file(file)
            sync_directory(log.parent)
        return Staged((), tuple(batch for of, batch in self._pending if of <= epoch))

    def close(self) -> None:
        """Write the waiting outputs. Raises OutputUnwritableError if the database is still locked."""
        self._flush()
        self._db.close()
        if self._pending:
            count = sum(len(batch) for _, batch in self._pending)
            problem = f"it was locked for more than {self._locked_seconds:g} s; {count} outputs are missing"
            raise OutputUnwritableError(path=self._path, problem=problem)

    def abort(self) -> None:
        """Close the database, and leave the outputs in it."""
        self._db.close()

    def _flush(self) -> None:
        with self._refusing():
            try:
                while self._pending:
                    self._insert(self._pending[0][1])
                    self._pending.popleft()
            except sqlite3.OperationalError as error:
                if not _is_locked(error):
                    raise

    def _insert(self, batch: OutputBatch) -> None:
        with _transaction(self._db):
            check(self._db, self._table, self._writer, path=str(self._path))
            stream, split = declared(batch.stream)
            splits = self._splits.get(stream, 1)
            if split >= splits:
                raise InternalError(problem=f"outputs of {batch.stream!r}, which is dealt to {splits}")
            new, marks = accept(batch, splits, known=self._mark, dealings=self._dealt(stream))
            self._db.executemany(
                f'INSERT INTO "{self._table}" VALUES (?, ?, ?, ?, ?, ?, ?)',  # noqa: S608 - letters and digits
                _rows(new),
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO dgs_marks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                ((self._table, *key, *mark) for key, mark in marks.items()),
            )
        self._marks.update(marks)

    def _mark(self, key: MarkKey) -> Mark | None:
        """Return a mark. During a generation only this host changes the marks of its tags, so each is read once."""
        if key not in self._marks:
            self._marks[key] = self._db.execute(
                "SELECT ts, rank, seq, idx FROM dgs_marks"
                " WHERE sink = ? AND stream = ? AND splits = ? AND split = ? AND kind = ? AND key = ?",
                (self._table, *key),
            ).fetchone()
        return self._marks[key]

    def _dealt(self, stream: str) -> tuple[int, ...]:
        """Return the numbers of splits under which outputs of a stream were written."""
        if stream not in self._dealings:
            found = self._db.execute(
                "SELECT DISTINCT splits FROM dgs_marks WHERE sink = ? AND stream = ?", (self._table, stream)
            )
            self._dealings[stream] = tuple(splits for (splits,) in found)
        return self._dealings[stream]

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Turn errors of the database into OutputUnwritableError."""
        try:
            yield
        except sqlite3.Error as error:
            raise OutputUnwritableError(path=self._path, problem=str(error)) from error


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _in_wal(db: sqlite3.Connection, deadline: float) -> bool:
    """Switch to a write-ahead log, if the file system allows it, so that readers need not wait. Retry while locked."""
    while True:
        try:
            return bool(db.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal")
        except sqlite3.OperationalError as error:
            if not _is_locked(error) or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_SECONDS)


def _is_locked(error: sqlite3.Error) -> bool:
    return (error.sqlite_errorcode & 0xFF) in _LOCKED


def _rows(batch: OutputBatch) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the table: id, then the value as JSON."""
    stream = declared(batch.stream)[0]
    names = [(tag.kind, None if tag.key is None else text_of(tag.key)) for tag in batch.tags]
    codes = [0] * len(batch) if batch.codes is None else batch.codes.tolist()
    values = json_lines([batch.values]).decode().split("\n") if len(batch) else []
    numbers = (batch.ts.tolist(), np.asarray(batch.seq).tolist(), batch.index.tolist())
    for ts, seq, index, code, value in zip(*numbers, codes, values[:-1], strict=True):
        yield ts, stream, seq, index, *names[code], value
