"""The stores of a run's checkpoints, opened with the identity of its program and its migration of older states.

A run without checkpoints has a store in memory. A request to stop or to move opens a durable one.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dgs.errors import InternalError
from dgs.job.schema import CheckpointConfig, SinkConfig
from dgs.job.schema_runtime import SINKS_WITHOUT_OPTIONS
from dgs.model.identity import identity_of, migration
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.checkpoints.memory_store import MemoryStore
from dgs.workers.recovery.checkpoint import CheckpointStore, Publish, StagedFile, StagedOutput
from dgs.workers.runtime.outputs_there import places_of
from dgs.workers.sinks.files.owned import adopt
from dgs.workers.sinks.files.publishing import remove_earlier, with_digest

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
    about = sink.details.model_dump(mode="json", exclude_defaults=True, exclude={"mode"})
    if (path := about.get("path")) is not None:
        about["path"] = os.path.relpath(base_dir / path, base_dir)
    return " ".join([sink.kind, *(f"{name}={value}" for name, value in sorted(about.items()))])


@contextmanager
def opened_store(job: Job, publish: Publish) -> Iterator[tuple[str, CheckpointStore]]:
    """Give the id of the run and its store."""
    if not job.is_kept or job.checkpoint_dir is None:
        yield uuid.uuid4().hex, MemoryStore(publish)
        return
    with closing(open_directory(job, publish)) as store:
        store.hold()  # before anything is written there
        known = store.committed() if job.resumes else None
        if known is not None and known.sinks is None:
            adopt(places_of(job))
        yield store.name_run(resumes=job.resumes), store


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
            store = open_directory(job, self._publish_with_digests)
            store.hold()
            store.name_run(resumes=False, run=job.run_id)
            store.begin()
            self._durable = store
            remove_earlier(places_of(job))
        return self._durable

    def _publish_with_digests(self, files: Sequence[StagedOutput]) -> None:
        """Publish files of a run without checkpoints: its hosts leave digests out, and whoever resumes it needs them."""
        self._publish([with_digest(file) if isinstance(file, StagedFile) else file for file in files])

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
