"""A sink that writes to a table of a SQLite database: every output goes out at once, and exactly once.

Outputs and the marks that identify repeats are written in one transaction (R8). While another process has the database locked,
outputs wait here in order, up to a bound; beyond it `write` waits, too. `stage` returns them, so that they travel in the checkpoint (R7). Several hosts write to one database,
each the outputs of its own tags.

`sqlite_tables` has the tables of writers and marks, and the check of existing rows.

>>> import tempfile
>>> from dgs.model.tags import Tag
>>> path = Path(tempfile.mkdtemp()) / "out.db"
>>> sink = SqliteSink(path, "outputs", Writer("run", generation=1))
>>> batch = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[5, 6], seq=[0, 1], index=[0, 0], values=[{"n": 1}, {"n": 2}])
>>> sink.write(batch, epoch=1), sink.write(batch, epoch=1), sink.stage(1), sink.close()
(None, None, Staged(files=(), unaccepted=(), holds={'': 2}), None)
>>> sqlite3.connect(path).execute("SELECT ts, stream, seq, kind, value ->> 'n' FROM outputs").fetchall()
[(5, 's', 0, 'a', 1), (6, 's', 1, 'a', 2)]
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from dgs.errors import InternalError, OutputUnwritableError
from dgs.job import private_files
from dgs.model.outputs import OutputBatch
from dgs.workers.recovery.positions import declared
from dgs.workers.sinks.contract import Staged
from dgs.workers.sinks.custom_sink import WHOLE
from dgs.workers.sinks.formats.arrow_tables import text_of
from dgs.workers.sinks.formats.json_columns import json_lines
from dgs.workers.sinks.kept_outputs import bytes_of
from dgs.workers.sinks.marks import Mark, MarkKey, accept
from dgs.workers.sinks.sqlite_appended import newest_row, note
from dgs.workers.sinks.sqlite_tables import (
    GLANCE_SECONDS,
    LOCKED_SECONDS,
    LOG_SECONDS,
    Sums,
    Writer,
    check,
    connected,
    count,
    empty_log,
    enter,
    in_wal,
    is_locked,
    refusing_database,
    transaction,
    wait_for_locks,
)
from dgs.workers.storage.disk import refusing, sync_directory, sync_file


class SqliteSink:
    """Writes outputs to a table. `splits`: the number of splits of each declared stream (default 1). `bound`: the bytes of outputs that may wait.

    `meanwhile`: called again and again while the database is locked; it may end the wait by an exception.
    """

    def __init__(
        self,
        path: Path,
        table: str,
        writer: Writer,
        *,
        splits: Mapping[str, int] | None = None,
        locked_seconds: float = LOCKED_SECONDS,
        bound: int = 256 * 2**20,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self._path, self._table, self._writer = path, table, writer
        self._splits = splits or {}
        self._locked_seconds, self._bound, self._pending_bytes = locked_seconds, bound, 0
        self._pending: deque[tuple[int, OutputBatch]] = deque()
        self._marks: dict[MarkKey, Mark | None] = {}
        self._dealings: dict[str, tuple[int, ...]] = {}
        self._held = 0
        self._meanwhile = meanwhile
        self._locked_since: float | None = None
        self._glance = min(GLANCE_SECONDS, locked_seconds)
        with refusing_database(self._path):
            self._db = self._opened()

    def _opened(self) -> sqlite3.Connection:
        with refusing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        db = connected(self._path, locked_seconds=self._locked_seconds)
        try:
            is_wal = in_wal(db, time.monotonic() + self._locked_seconds)
            # `stage` makes the log durable
            db.execute(f"PRAGMA synchronous = {'NORMAL' if is_wal else 'FULL'}")
            with transaction(db):
                enter(db, self._table, self._writer, path=self._path)
            wait_for_locks(db, self._glance)
        except BaseException:
            db.close()
            raise
        return db

    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Write new outputs, or keep them while the database is locked. Raises FencedError."""
        if len(batch):
            self._pending.append((epoch, batch))
            self._pending_bytes += bytes_of(batch)
        self._flush()
        while self._pending and self._pending_bytes > self._bound:
            self._flush()

    @property
    def waiting(self) -> str | None:
        """Return the locked database and the seconds so far, None if the sink does not wait."""
        if self._locked_since is None:
            return None
        seconds, count = time.monotonic() - self._locked_since, sum(len(batch) for _, batch in self._pending)
        return f"{self._path}, which another process has locked for {seconds:.0f} s; {count:,} outputs wait"

    def stage(self, epoch: int) -> Staged:
        """Make written outputs durable; return those up to this epoch that could not be written.

        The database's log is moved into the database file, unless a reader prevents it: a damaged log would silently lose committed outputs.
        """
        self._flush()
        with refusing_database(self._path):
            empty_log(self._db, wait=min(self._locked_seconds, LOG_SECONDS), normally=self._glance)
        log = self._path.with_name(self._path.name + "-wal")
        # without a log, every transaction is durable already
        with refusing(log), suppress(FileNotFoundError):
            with open(log, "rb", opener=private_files.opener) as file:
                sync_file(file)
            sync_directory(log.parent)
        waiting = tuple(batch for of, batch in self._pending if of <= epoch)
        return Staged((), waiting, {WHOLE: self._held})

    def close(self) -> None:
        """Write the waiting outputs. Raises OutputUnwritableError if the database is still locked."""
        self._flush()
        self._db.close()
        if self._pending:
            missing = sum(len(batch) for _, batch in self._pending)
            problem = f"it was locked for more than {self._locked_seconds:g} s; {missing} outputs are missing"
            raise OutputUnwritableError(path=self._path, problem=problem)

    def abort(self) -> None:
        """Close the database, and leave the outputs in it."""
        self._db.close()

    def _flush(self) -> None:
        deadline = time.monotonic() + self._locked_seconds
        while self._pending:
            if self._has_inserted(self._pending[0][1]):
                self._pending_bytes -= bytes_of(self._pending.popleft()[1])
                self._locked_since = None
                continue
            now = time.monotonic()
            self._locked_since = self._locked_since or now
            if now > deadline:
                return
            self._meanwhile()

    def _has_inserted(self, batch: OutputBatch) -> bool:
        """Insert outputs; return False if the database is locked."""
        with refusing_database(self._path):
            try:
                self._insert(batch)
            except sqlite3.OperationalError as error:
                if not is_locked(error):
                    raise
                return False
        return True

    def _insert(self, batch: OutputBatch) -> None:
        with transaction(self._db):
            line = check(self._db, self._table, self._writer, path=self._path)
            stream, split = declared(batch.stream)
            splits = self._splits.get(stream, 1)
            if split >= splits:
                raise InternalError(problem=f"outputs of {batch.stream!r}, which is dealt to {splits}")
            new, marks = accept(batch, splits, known=self._mark, dealings=self._dealt(stream))
            rows, sink = list(_rows(new)), self._writer.sink(self._table)
            added, gone = Sums(), Sums()
            added.add_outputs(rows)
            added.add_marks((*key, *mark) for key, mark in marks.items())
            gone.add_marks((*key, *old) for key in marks if (old := self._mark(key)) is not None)
            self._insert_rows(rows, sink)
            self._db.executemany(
                "INSERT OR REPLACE INTO dgs_marks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                ((sink, *key, *mark) for key, mark in marks.items()),
            )
            count(self._db, sink, line, added, gone)
        self._marks.update(marks)
        self._held = (line.rows or 0) + added.outputs

    def _insert_rows(self, rows: list[tuple[object, ...]], sink: str) -> None:
        is_noted = rows and self._writer.appends and not self._writer.may_go_on
        before = newest_row(self._db, self._table) if is_noted else 0
        self._db.executemany(
            f'INSERT INTO "{self._table}" VALUES (?, ?, ?, ?, ?, ?, ?)',  # noqa: S608 - letters and digits
            rows,
        )
        if is_noted:
            note(self._db, sink, before + 1, newest_row(self._db, self._table))

    def _mark(self, key: MarkKey) -> Mark | None:
        """Return a mark. During a generation only this host changes the marks of its tags, so each is read once."""
        if key not in self._marks:
            self._marks[key] = self._db.execute(
                "SELECT ts, rank, seq, idx FROM dgs_marks"
                " WHERE sink = ? AND stream = ? AND splits = ? AND split = ? AND kind = ? AND key = ?",
                (self._writer.sink(self._table), *key),
            ).fetchone()
        return self._marks[key]

    def _dealt(self, stream: str) -> tuple[int, ...]:
        """Return the numbers of splits under which outputs of a stream were written."""
        if stream not in self._dealings:
            found = self._db.execute(
                "SELECT DISTINCT splits FROM dgs_marks WHERE sink = ? AND stream = ?",
                (self._writer.sink(self._table), stream),
            )
            self._dealings[stream] = tuple(splits for (splits,) in found)
        return self._dealings[stream]


def _rows(batch: OutputBatch) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the table: id, then the value as JSON."""
    stream = declared(batch.stream)[0]
    names = [(tag.kind, None if tag.key is None else text_of(tag.key)) for tag in batch.tags]
    codes = [0] * len(batch) if batch.codes is None else batch.codes.tolist()
    values = json_lines([batch.values]).decode().split("\n") if len(batch) else []
    numbers = (batch.ts.tolist(), np.asarray(batch.seq).tolist(), batch.index.tolist())
    for ts, seq, index, code, value in zip(*numbers, codes, values[:-1], strict=True):
        yield ts, stream, seq, index, *names[code], value
