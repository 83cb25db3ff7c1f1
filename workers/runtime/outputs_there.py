"""The outputs that are there when a run begins or goes on: which of them it may replace, and whether its own are as they were.

One run at a time writes to a directory, a table of a database, or a sink of the user's own: `claimed_outputs`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dgs.errors import OutputUnwritableError
from dgs.workers.recovery.checkpoint import ResumePoint
from dgs.workers.sinks.collisions import check_no_collisions, targets
from dgs.workers.sinks.files.owned import check_free, check_kept
from dgs.workers.sinks.files.part_file import locked
from dgs.workers.sinks.files.places import Place, output_places
from dgs.workers.sinks.files.publishing import claim
from dgs.workers.storage.whole_files import refusing

if TYPE_CHECKING:
    from dgs.job.schema import SinkConfig
    from dgs.workers.runtime.job import Job
    from dgs.workers.sinks.publisher import Publisher


def places_of(job: Job) -> tuple[Place, ...]:
    """Return where the outputs of a job go that are files."""
    return output_places(
        job.sinks,
        output_dir=job.output_dir,
        base_dir=job.base_dir,
        dead_letters=job.dead_letter_dir is not None,
        run=job.run_id,
    )


@contextmanager
def claimed_outputs(job: Job, publisher: Publisher) -> Iterator[None]:
    """Keep other runs out of where the outputs of a job go, and keep the job from writing where it reads.

    Raises OutputUnwritableError if another run writes there, OutputIsInputError, SharedOutputError.
    """
    has_letters = job.dead_letter_dir is not None
    found = targets(job.sinks, output_dir=job.output_dir, base_dir=job.base_dir, dead_letters=has_letters)
    check_no_collisions(found, job.streams, job.base_dir)
    with ExitStack() as held:
        held.enter_context(claim(places_of(job)))
        for path, sink in _databases(job):
            with refusing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            lock = path.with_name(f".{path.name}-{sink.details.table}.lock")
            held.enter_context(locked(lock, of=path))
        for ref, place in publisher.places:
            name = hashlib.blake2b(place.encode(), digest_size=16).hexdigest()
            held.enter_context(locked(_locks() / f"{name}.lock", of=Path(ref)))
        yield


def check_free_outputs(job: Job) -> None:
    """Look at what is there before a run begins: see `check_free` and `check_table_free`."""
    check_free(places_of(job), job.owner)
    for path, sink in _databases(job):
        from dgs.workers.sinks.sqlite_tables import check_table_free

        check_table_free(path, sink.details.table, sink.details.mode, job.owner or job.base_dir)


def check_outputs(job: Job, point: ResumePoint) -> None:
    """Look at what is there before a run goes on: its own outputs, or, if it has committed nothing, what it would replace."""
    if not point.epoch:
        check_free_outputs(job)
        return
    check_kept(places_of(job))
    for path, sink in _databases(job):
        from dgs.workers.sinks.sqlite_tables import Writer, check_table_kept

        writer = Writer(job.run_id, point.generation, appends=sink.details.mode == "append")
        check_table_kept(path, sink.details.table, writer)


def _databases(job: Job) -> Iterator[tuple[Path, SinkConfig]]:
    """Yield the files of databases, whatever links lead to them, with their sinks."""
    for sink in job.sinks:
        if sink.kind == "sqlite":
            yield (job.base_dir / sink.details.path).resolve(), sink


def _locks() -> Path:
    """Return a directory of this user for locks that belong to no file. Raises OutputUnwritableError."""
    path = Path(tempfile.gettempdir()) / f"dgs-locks-{os.getuid()}"
    with refusing(path):
        path.mkdir(mode=0o700, exist_ok=True)
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            raise OutputUnwritableError(path=path, problem="it belongs to another user")
    return path
