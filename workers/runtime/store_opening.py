"""The store of a job: its directory, the identity of its program, and what becomes of states of older versions."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dgs.errors import InternalError
from dgs.job.schema import CheckpointConfig
from dgs.model.identity import identity_of, migration
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.recovery.checkpoint import StagedFile
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
