"""The stores of a run's checkpoints, opened with the identity of its program and its migration of older states.

A run without checkpoints has a store in memory. A request to stop or to move opens a durable one.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dgs.errors import InternalError, OutputUnwritableError
from dgs.job.schema import CheckpointConfig, SinkConfig
from dgs.job.schema_runtime import SINKS_WITHOUT_OPTIONS
from dgs.model.identity import identity_of, migration
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.checkpoints.memory_store import MemoryStore
from dgs.workers.recovery.checkpoint import CheckpointStore, Publish
from dgs.workers.sinks.files.part_file import ANOTHER_RUN
from dgs.workers.sinks.files.places import Place, output_places
from dgs.workers.sinks.files.publishing import claim, remove_earlier
from dgs.workers.storage.locks import BusyError, FileLock
from dgs.workers.storage.whole_files import refusing

if TYPE_CHECKING:
    from dgs.workers.runtime.job import Job


def open_directory(job: Job, publish: Publish) -> DirectoryStore:
    """Return the store in `job.checkpoint_dir`. The directory is not touched before `hold` or `begin`."""
    if job.checkpoint_dir is None:
        raise InternalError(problem="the job has no directory for checkpoints")
    return DirectoryStore(
        job.checkpoint_dir,
        identity=identity_of(job.program, [config.id for config in job.streams]),
        publish=publish,
        base=job.base_dir.absolute(),
        keep=(job.checkpoint or CheckpointConfig()).keep,
        accept_duplicates=job.accepts_duplicates,
        migrate=migration(job.program),
        sinks=[
            _described(sink, job.base_dir) for sink in job.sinks if sink.kind not in SINKS_WITHOUT_OPTIONS
        ],
    )


def _described(sink: SinkConfig, base_dir: Path) -> str:
    """Return a text that identifies a sink: its kind and its options, with its path relative to `base_dir`."""
    about = sink.details.model_dump(mode="json", exclude_defaults=True)
    if (path := about.get("path")) is not None:
        about["path"] = os.path.relpath(base_dir / path, base_dir)
    return " ".join([sink.kind, *(f"{name}={value}" for name, value in sorted(about.items()))])


@contextmanager
def opened_store(job: Job, publish: Publish) -> Iterator[tuple[str, CheckpointStore]]:
    """Yield the id of the run and its store. If checkpoints are durable, keep other runs out of the outputs, too."""
    if not job.is_kept:
        yield uuid.uuid4().hex, MemoryStore(publish)  # the hosts keep other runs out
        return
    with claim(places_of(job)):
        if job.checkpoint_dir is None:
            yield uuid.uuid4().hex, MemoryStore(publish)
            return
        with closing(open_directory(job, publish)) as store:
            store.hold()  # before anything is written in the directory
            yield store.name_run(resumes=job.resumes), store


@contextmanager
def claimed_tables(job: Job) -> Iterator[None]:
    """Keep other runs out of the database tables of a job. Raises OutputUnwritableError if another run writes there."""
    with ExitStack() as held:
        for sink in job.sinks:
            if sink.kind == "sqlite":
                path = job.base_dir / sink.details.path
                with refusing(path):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    lock = _lock_of(path, sink.details.table)
                held.callback(lock.release)
        yield


def _lock_of(database: Path, table: str) -> FileLock:
    try:
        return FileLock(database.with_name(f".{database.name}-{table}.lock"))
    except BusyError as error:
        raise OutputUnwritableError(path=database, problem=ANOTHER_RUN) from error


def places_of(job: Job) -> tuple[Place, ...]:
    """Return the places of all output files of a job."""
    return output_places(
        job.sinks,
        output_dir=job.output_dir,
        base_dir=job.base_dir,
        dead_letters=job.dead_letter_dir is not None,
    )


class RunStores:
    """The stores of a run's checkpoints: `store`, and a durable one for a stop or a move, if the run has a directory for it."""

    def __init__(self, job: Job, store: CheckpointStore, publish: Publish) -> None:
        self.store = store
        self._job, self._publish = job, publish
        self._is_durable = job.is_kept
        self._durable: CheckpointStore | None = None

    def for_request(self) -> CheckpointStore:
        """Return the store for the checkpoint of a request. It is opened now if the run has kept no checkpoints so far."""
        job = self._job
        if self._is_durable or job.checkpoint_dir is None:
            return self.store
        if self._durable is None:
            store = open_directory(job, self._publish)
            store.hold()
            store.name_run(resumes=False, run=job.run_id)
            store.begin()
            self._durable = store
            remove_earlier(places_of(job))
        return self._durable

    def move(self) -> bool:
        """Use the durable store from now on; return whether that is a change."""
        if self._durable is None:
            return False
        self.store.close()
        self.store, self._durable, self._is_durable = self._durable, None, True
        return True

    def close(self) -> None:
        """Let other runs open the stores."""
        self.store.close()
        if self._durable is not None:
            self._durable.close()
