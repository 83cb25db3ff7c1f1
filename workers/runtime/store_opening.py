"""The stores of a run: its directory, the identity of its program, and what becomes of states of older versions.

A run without checkpoints has a store in memory, and a durable one from when it is to stop or to move.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dgs.errors import InternalError
from dgs.job.schema import CheckpointConfig
from dgs.model.identity import identity_of, migration
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.checkpoints.memory_store import MemoryStore
from dgs.workers.recovery.checkpoint import CheckpointStore, StagedFile
from dgs.workers.sinks.files.places import Place, output_places
from dgs.workers.sinks.files.publishing import claim, publish, remove_earlier
from dgs.workers.storage.whole_files import refusing

if TYPE_CHECKING:
    from dgs.workers.runtime.job import Job


RUN_ID = "run-id"


def run_id(job: Job) -> str:
    """Return what tells this run from all others: kept beside its checkpoints, for as long as it can be resumed."""
    fresh = uuid.uuid4().hex
    if job.checkpoint_dir is None:
        return fresh
    path = job.checkpoint_dir / RUN_ID
    if job.resumes and path.exists():
        return path.read_text(encoding="utf-8")
    if job.checkpoint is not None:
        remember(job.checkpoint_dir, fresh)
    return fresh


def remember(directory: Path, run: str) -> None:
    """Keep the id of a run beside its checkpoints. Raises OutputUnwritableError."""
    with refusing(directory):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (directory / RUN_ID).write_text(run, encoding="utf-8")


def open_directory(job: Job, publish: Callable[[Sequence[StagedFile]], None]) -> DirectoryStore:
    """Return the store in `job.checkpoint_dir`. Nothing is touched before `hold` or `begin`."""
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
    )


@contextmanager
def opened_store(job: Job) -> Iterator[CheckpointStore]:
    """Open the store of a run; where it is a directory, keep other runs out of the outputs, too."""
    if not job.is_kept:
        yield MemoryStore(publish)  # its hosts keep other runs out
        return
    with claim(places_of(job)):
        if job.checkpoint_dir is None:
            yield MemoryStore(publish)
            return
        with closing(open_directory(job, publish)) as store:
            store.hold()  # before anything is written there
            yield store


def places_of(job: Job) -> tuple[Place, ...]:
    """Return where the outputs of a job go that are files."""
    return output_places(
        job.sinks,
        output_dir=job.output_dir,
        base_dir=job.base_dir,
        dead_letters=job.dead_letter_dir is not None,
    )


class RunStores:
    """Where the checkpoints of a run go: to `store`, and that of a stop or a move to a durable one in any case, if it has a place."""

    def __init__(self, job: Job, store: CheckpointStore) -> None:
        self.store = store
        self._job = job
        self._is_durable = job.is_kept
        self._durable: CheckpointStore | None = None

    def for_request(self) -> CheckpointStore:
        """Return the store for the checkpoint of a request; open it, where the run has kept no checkpoints so far."""
        job = self._job
        if self._is_durable or job.checkpoint_dir is None:
            return self.store
        if self._durable is None:
            remember(job.checkpoint_dir, job.run_id)
            self._durable = open_directory(job, publish)
            self._durable.begin()
            remove_earlier(places_of(job))
        return self._durable

    def move(self) -> bool:
        """Let the durable store be the store from now on; return whether it was not so before."""
        if self._durable is None:
            return False
        self.store.close()
        self.store, self._durable, self._is_durable = self._durable, None, True
        return True

    def close(self) -> None:
        """Let others open them."""
        self.store.close()
        if self._durable is not None:
            self._durable.close()
