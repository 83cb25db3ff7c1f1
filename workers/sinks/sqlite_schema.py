"""The tables of the sqlite sink: outputs, marks, and who may write.

`dgs_writers` says of each table of outputs which run writes it and in which generation: an older generation is refused (R8, R10),
and a run that begins afresh takes the table over, without what earlier runs left in it. `dgs_marks` has the marks.

>>> import sqlite3
>>> db = sqlite3.connect(":memory:", isolation_level=None)
>>> enter(db, "outputs", Writer(run="a", generation=1), path="out.db")
>>> _ = db.execute("INSERT INTO outputs VALUES (7, 's', 0, 0, 'view', NULL, '1')")
>>> enter(db, "outputs", Writer(run="a", generation=2), path="out.db")      # resumed
>>> db.execute("SELECT count(*) FROM outputs").fetchone()
(1,)
>>> enter(db, "outputs", Writer(run="b", generation=1), path="out.db")      # begun afresh
>>> db.execute("SELECT count(*) FROM outputs").fetchone()
(0,)
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from dgs.errors import FencedError, OutputUnwritableError

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
    """Who writes. `run` stays the same when a run is resumed; `generation` counts its restarts."""

    run: str
    generation: int


def enter(db: sqlite3.Connection, table: str, writer: Writer, *, path: str) -> None:
    """Make the tables, and note who writes from now on; inside of a transaction.

    Raises FencedError if a newer generation of the run does, OutputUnwritableError if the table is somebody else's.
    """
    db.execute(_WRITERS)
    db.execute(_MARKS)
    found, is_there = _writer(db, table), _columns(db, table)
    if is_there and (found is None or is_there != COLUMNS):
        raise OutputUnwritableError(path=path, problem=f"it has a table {table!r} that is not one of outputs")
    if found is not None and found.run == writer.run and found.generation > writer.generation:
        raise FencedError(path=path, generation=writer.generation, newest=found.generation)
    db.execute(_OUTPUTS.format(table=table))
    if found is None or found.run != writer.run or not is_there:
        db.execute(f'DELETE FROM "{table}"')  # noqa: S608 - a name of letters and digits, says the plan file's schema
        db.execute("DELETE FROM dgs_marks WHERE sink = ?", (table,))
    db.execute("INSERT OR REPLACE INTO dgs_writers VALUES (?, ?, ?)", (table, writer.run, writer.generation))


def check(db: sqlite3.Connection, table: str, writer: Writer, *, path: str) -> None:
    """Raise FencedError if another generation, or another run, writes now; inside of a transaction (R8)."""
    found = _writer(db, table)
    if found != writer:
        newest = "of another run" if found is None or found.run != writer.run else found.generation
        raise FencedError(path=path, generation=writer.generation, newest=newest)


def _writer(db: sqlite3.Connection, table: str) -> Writer | None:
    row = db.execute("SELECT run, generation FROM dgs_writers WHERE sink = ?", (table,)).fetchone()
    return None if row is None else Writer(*row)


def _columns(db: sqlite3.Connection, table: str) -> tuple[str, ...]:
    return tuple(name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,)))
