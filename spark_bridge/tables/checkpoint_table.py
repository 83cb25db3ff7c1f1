"""The checkpoint table: one row for every committed epoch, beside the usual checkpoint store, as files here or through Spark.

The store stays the truth: a commit is atomic there, and a run resumes from there. The table follows behind. A thread appends
committed epochs in order while the run continues, and the end of the run waits for it. After a crash, the epochs that the table
lacks are appended from the checkpoint directory, which keeps every one that may be missing: a commit waits while `keep` rows wait.

>>> from dgs.workers.recovery.checkpoint import MemoryStore
>>> from dgs.workers.recovery.positions import Positions
>>> table: list[int] = []
>>> def append(rows): table.extend(row["epoch"] for row in rows)
>>> store = SparkStore(MemoryStore(), Follower(append), run="r1", keep=5)
>>> point = store.begin()
>>> store.commit(Checkpoint(epoch=1, state=b"", positions=Positions()))
>>> store.close()
>>> table
[1]
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dgs.errors import CheckpointFailedError, CorruptFileError
from dgs.job.run_directory import RunDirectory
from dgs.job.schema import CheckpointConfig
from dgs.spark_bridge.data_source.checkpoint_rows import (
    SCHEMA,
    Row,
    row_of,
    row_of_saved,
    saved_files,
    table_of_rows,
)
from dgs.spark_bridge.session.java_errors import first_line
from dgs.spark_bridge.session.session import session
from dgs.spark_bridge.session.settings_advice import absent
from dgs.spark_bridge.tables.epoch_table import EpochTable, missing_from
from dgs.spark_bridge.tables.table_files import FilesAppend, is_of_files
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.recovery.checkpoint import Checkpoint, CheckpointStore, ResumePoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dgs.workers.runtime.job import Job

Append = Callable[[Sequence[Row]], None]
"""Appends rows in order. It may raise anything; then it gets the same rows again, and skips those that are in the table."""

OpenSession = Callable[[], "AbstractContextManager[SparkSession]"]

Notify = Callable[[str], None]

PATIENCE = 120.0
"""Seconds that the end of a run waits for Spark."""

PAUSE = 1.0
"""Seconds before a failed append is repeated."""


def _silent(_sentence: str) -> None:
    """Say nothing."""


class TableAppend:
    """An Append to a table of Spark: it skips the epochs of its run that are in the table.

    `session` is entered at the first append, and left at `close`.
    """

    def __init__(self, table: EpochTable, session: OpenSession, run: str) -> None:
        self._table, self._session, self._run = table, session, run
        self._entered = ExitStack()
        self._spark: SparkSession | None = None
        self._known: frozenset[int] | None = None

    def __call__(self, rows: Sequence[Row]) -> None:
        """Append the rows whose epochs are not in the table."""
        if self._spark is None:
            self._spark = self._entered.enter_context(self._session())
        if self._known is None:
            self._known = self._table.epochs(self._spark, SCHEMA, self._run)
        missing = missing_from(rows, self._known)
        if not missing:
            return
        known, self._known = self._known, None  # after a failure the table must be read again
        self._table.append(self._spark, table_of_rows(missing))
        self._known = known.union(int(row["epoch"]) for row in missing)

    def close(self) -> None:
        """Leave the session."""
        self._entered.close()


class Follower:
    """A queue of rows that a thread appends to a table. A failed append is repeated until it succeeds or the run ends."""

    def __init__(self, append: Append, *, notify: Notify = _silent) -> None:
        self._append, self._notify = append, notify
        self._rows: list[Row] = []
        self._changed = threading.Condition()
        self._problem: Exception | None = None
        self._ending = False
        self._thread: threading.Thread | None = None

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows to the queue."""
        with self._changed:
            self._rows += rows
            self._changed.notify_all()
            if rows and self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="checkpoint-table", daemon=True)
                self._thread.start()

    def wait_below(self, count: int) -> None:
        """Wait until fewer than `count` rows wait. Raises the error that keeps them from being appended."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._rows) < count or self._problem is not None)
            if len(self._rows) >= count and self._problem is not None:
                raise self._problem

    def close(self) -> Exception | None:
        """Wait until all rows are appended, or one more attempt has failed; return the error of a failure."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(PATIENCE)
            if self._thread.is_alive():
                return TimeoutError(f"Spark has not answered for {PATIENCE:g} s")
        return self._problem

    def _follow(self) -> None:
        while (rows := self._taken()) is not None:
            try:
                self._append(rows)
            except Exception as error:  # noqa: BLE001 - no error here may stop the run before a commit has to wait
                self._failed(error)
                if self._ending:
                    return
            else:
                with self._changed:
                    del self._rows[: len(rows)]
                    self._problem = None
                    self._changed.notify_all()

    def _taken(self) -> list[Row] | None:
        with self._changed:
            if self._problem is not None and not self._ending:
                self._changed.wait(PAUSE)
            self._changed.wait_for(lambda: self._rows or self._ending)
            return list(self._rows) or None

    def _failed(self, error: Exception) -> None:
        with self._changed:
            is_news, self._problem = self._problem is None, error
            self._changed.notify_all()
        if is_news:
            self._notify(f"the table of checkpoints falls behind, the run continues: {told(error)}")


class SparkStore:
    """A CheckpointStore around another one that copies each commit to a table. `closing` is called by `close`.

    Law: the table has exactly one row for every epoch that was committed with a state: after `close` if the run ended well, otherwise
    after the first row of the next run. A table that cannot be written makes commits fail once `keep` rows wait.
    """

    def __init__(
        self,
        store: CheckpointStore,
        follower: Follower,
        *,
        run: str,
        keep: int,
        name: str = "",
        notify: Notify = _silent,
        closing: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._follower, self._run, self._name = store, follower, run, name
        self._closing = closing
        self._keep = max(keep, 1)
        self._notify = notify
        self._generation = 0
        self._told: set[int] = set()

    def begin(self) -> ResumePoint:
        """Begin a generation, and queue the epochs of the store that the table may lack."""
        point = self._store.begin()
        self._generation = point.generation
        if isinstance(self._store, DirectoryStore):
            self._catch_up(self._store)
        return point

    def commit(self, checkpoint: Checkpoint) -> None:
        """Commit, and queue the row. Waits while `keep` rows wait, because the store keeps only `keep` states."""
        try:
            self._follower.wait_below(self._keep)
        except Exception as error:
            raise CheckpointFailedError(
                epoch=checkpoint.epoch, path="the table of checkpoints", problem=told(error)
            ) from error
        self._store.commit(checkpoint)
        if checkpoint.state is not None:
            row = row_of(
                checkpoint,
                run=self._run,
                generation=self._generation,
                created_at=time.time_ns(),
                state=checkpoint.state,
                name=self._name,
                saved=self._files(checkpoint.epoch),
            )
            self._tell(checkpoint.epoch, row)

    def close(self) -> None:
        """Wait for the table, then close the store, even if the wait is interrupted."""
        try:
            problem = self._follower.close()
            if problem is not None:
                self._notify(
                    "the table of checkpoints lacks the last epochs, which are in the directory of checkpoints: "
                    f"{told(problem)}"
                )
        finally:
            try:
                self._store.close()
            finally:
                self._closing()

    def _catch_up(self, store: DirectoryStore) -> None:
        committed = store.committed()
        if committed is None:
            return
        for epoch in sorted(committed.states):
            if epoch not in self._told:
                with suppress(CorruptFileError):  # `begin` has reported it
                    saved = store.load(epoch)
                    files = self._files(epoch) if epoch == committed.checkpoint.epoch else None
                    self._tell(epoch, row_of_saved(saved, self._run, name=self._name, files=files))

    def _files(self, epoch: int) -> bytes | None:
        """Return the files of the newest checkpoint, None if they cannot be read: then `begin` or the next commit says so."""
        if not isinstance(self._store, DirectoryStore):
            return None
        try:
            return saved_files(self._store, epoch)
        except OSError:
            return None

    def _tell(self, epoch: int, row: Row) -> None:
        self._told.add(epoch)
        self._follower.add([row])


def told(error: Exception) -> str:
    """Return advice on an error, or the first line of its message: messages of Spark fill pages."""
    return absent(str(error)) or first_line(error)


def following(store: CheckpointStore, job: Job, notify: Notify = _silent) -> CheckpointStore:
    """Return a store that copies its commits to the table under `checkpoint: {spark: ...}`; without that section, the store itself."""
    config = job.checkpoint or CheckpointConfig()
    if config.spark is None:
        return store
    table = EpochTable.of(config.spark, job.base_dir)
    append: FilesAppend | TableAppend
    if is_of_files(table, job.spark):
        append = FilesAppend(Path(table.location), job.run_id)
    else:
        work_dir = job.output_dir.absolute() / "spark"
        append = TableAppend(table, lambda: session(job.spark, work_dir, notify=notify), job.run_id)
    follower = Follower(append, notify=notify)
    RunDirectory(job.output_dir).note(run=job.run_id)  # to find the rows of this run if the directory is lost
    return SparkStore(
        store,
        follower,
        run=job.run_id,
        keep=config.keep,
        name=job.output_dir.absolute().name,
        notify=notify,
        closing=append.close,
    )
