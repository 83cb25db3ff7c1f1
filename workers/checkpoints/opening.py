"""The store of a job: its directory, the identity of its program, and what becomes of states of older versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dgs.config import CheckpointConfig
from dgs.errors import InternalError
from dgs.program_identity import identity_of, migration
from workers.checkpoints.contract import StagedFile
from workers.checkpoints.directory_store import DirectoryStore

if TYPE_CHECKING:
    from workers.job import Job


def open_directory(job: Job, publish: Callable[[Sequence[StagedFile]], None]) -> DirectoryStore:
    """Return the store in `job.checkpoint_dir`. Nothing is touched before `begin`."""
    if job.checkpoint_dir is None:
        raise InternalError(problem="the job has no directory for checkpoints")
    return DirectoryStore(
        job.checkpoint_dir,
        identity=identity_of(job.program, [config.id for config in job.streams]),
        publish=publish,
        keep=(job.checkpoint or CheckpointConfig()).keep,
        accept_duplicates=job.accepts_duplicates,
        migrate=migration(job.program),
    )
