"""Rows that a run without checkpoints appends to a table of a database: if the run fails, they are deleted.

Such a run cannot be resumed. It notes the places of its rows in `dgs_appended`, in the transaction that inserts them, and
deletes the notes at its end (`settle`). If it fails, the rows are deleted at once (`withdraw`); if its process was killed, they are deleted
when the next run begins.

>>> db = sqlite3.connect(":memory:", isolation_level=None)
>>> note(db, "outputs#a", 1, 3), note(db, "outputs#a", 4, 4), note(db, "outputs#a", 9, 9)
(None, None, None)
>>> db.execute("SELECT first, last FROM dgs_appended").fetchall()
[(1, 4), (9, 9)]
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from dgs.workers.sinks.sqlite_tables import Sums, connected, line_of, marks_of, refusing_database, transaction

_APPENDED = """
CREATE TABLE IF NOT EXISTS dgs_appended (
    sink TEXT, first INTEGER, last INTEGER, PRIMARY KEY (sink, first)
) WITHOUT ROWID"""
_OF_SINK = """ FROM "{table}" WHERE EXISTS (
    SELECT 1 FROM dgs_appended WHERE sink = ? AND "{table}".rowid BETWEEN first AND last
)"""


def newest_row(db: sqlite3.Connection, table: str) -> int:
    """Return the largest row id of a table."""
    return int(db.execute(f'SELECT coalesce(max(rowid), 0) FROM "{table}"').fetchone()[0])  # noqa: S608 - letters and digits


def note(db: sqlite3.Connection, sink: str, first: int, last: int) -> None:
    """Note that the rows from `first` to `last` are those of a sink. Call this in the transaction that inserts them."""
    db.execute(_APPENDED)
    joined = db.execute(
        "UPDATE dgs_appended SET last = ? WHERE sink = ? AND last = ?", (last, sink, first - 1)
    )
    if not joined.rowcount:
        db.execute("INSERT INTO dgs_appended VALUES (?, ?, ?)", (sink, first, last))


def settle(path: Path, table: str, run: str) -> None:
    """Keep the rows of a run for good. Raises OutputUnwritableError."""
    with refusing_database(path), closing(connected(path)) as db, transaction(db):
        if _open_sinks(db, table, run):
            _forget(db, f"{table}#{run}")


def withdraw(path: Path, table: str, run: str | None = None) -> None:
    """Remove the rows of a run that has failed; without `run`, those of all that were killed. No other run may be writing.

    Rows that were moved or changed meanwhile stay, since they can no longer be told from others. Raises OutputUnwritableError.
    """
    if not path.is_file():
        return
    with refusing_database(path), closing(connected(path)) as db, transaction(db):
        for sink in _open_sinks(db, table, run):
            if _are_unchanged(db, table, sink):
                db.execute("DELETE" + _OF_SINK.format(table=table), (sink,))
                for name in ("dgs_marks", "dgs_writers"):
                    db.execute(f"DELETE FROM {name} WHERE sink = ?", (sink,))  # noqa: S608 - our own names
            _forget(db, sink)


def _open_sinks(db: sqlite3.Connection, table: str, run: str | None) -> list[str]:
    db.execute(_APPENDED)
    wanted = f"{table}#{'*' if run is None else run}"
    found = db.execute("SELECT DISTINCT sink FROM dgs_appended WHERE sink GLOB ?", (wanted,))
    return [sink for (sink,) in found]


def _are_unchanged(db: sqlite3.Connection, table: str, sink: str) -> bool:
    line, sums = line_of(db, sink), Sums()
    sums.add_outputs(db.execute("SELECT *" + _OF_SINK.format(table=table), (sink,)))
    sums.add_marks(marks_of(db, sink))
    return line is not None and sums.fits(line)


def _forget(db: sqlite3.Connection, sink: str) -> None:
    db.execute("DELETE FROM dgs_appended WHERE sink = ?", (sink,))
