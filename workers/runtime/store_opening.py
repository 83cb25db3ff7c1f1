"""The stores of a run's checkpoints, opened with the identity of its program and its migration of older states; and locks on outputs.

A run without checkpoints has a store in memory. A request to stop or to move opens a durable one. One run at a time writes to a
directory, a table of a database, or a sink of the user's own (`claimed_outputs`); existing outputs are checked before a run replaces or
continues them.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dgs.errors import CheckpointRefusedError, DgsError, InternalError, OutputUnwritableError
from dgs.errors.hidden_values import masked_data
from dgs.job.schema import CheckpointConfig, SinkConfig
from dgs.job.schema_runtime import SINKS_WITHOUT_OPTIONS
from dgs.model.identity import Migrate, identity_of, migration
from dgs.workers.checkpoints.directory import CheckpointDirectory
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.checkpoints.saved import RECORDS
from dgs.workers.recovery.checkpoint import (
    CheckpointStore,
    MemoryStore,
    Publish,
    ResumePoint,
    StagedFile,
    StagedOutput,
    of_sink,
)
from dgs.workers.sinks.files.owned import adopt, check_free, check_kept, locked
from dgs.workers.sinks.files.places import FILE_KINDS, LAKE_KINDS, Place, output_places, sink_place
from dgs.workers.sinks.files.publishing import (
    LOCK,
    claim,
    discard_leftovers,
    note_run,
    remove_earlier,
    with_digest,
)
from dgs.workers.sinks.opening import check_no_collisions, named_sinks, targets, unshared
from dgs.workers.storage.disk import refusing

if TYPE_CHECKING:
    from dgs.workers.runtime.job import Job
    from dgs.workers.sinks.lake.lake_sink import LakeSink
    from dgs.workers.sinks.opening import Publisher


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
        migrate=_migrate_of_directory(job),
        sinks=[
            _described(sink, job.base_dir) for sink in job.sinks if sink.kind not in SINKS_WITHOUT_OPTIONS
        ],
    )


def _migrate_of_directory(job: Job) -> Migrate | None:
    """Return the migration of the states in the directory; None with a store of the user's, since the directory then has no states."""
    migrate = migration(job.program)
    is_elsewhere = job.checkpoint is not None and job.checkpoint.custom is not None
    return (lambda state, _version: state) if is_elsewhere and migrate is not None else migrate


def _described(sink: SinkConfig, base_dir: Path) -> str:
    """Return a text that identifies a sink: its kind and its options, with its path relative to `base_dir`."""
    about = masked_data(sink.details.model_dump(mode="json", exclude_defaults=True, exclude={"mode"}))
    if (path := about.get("path")) is not None:
        about["path"] = os.path.relpath(base_dir / path, base_dir)
    return " ".join([sink.kind, *(f"{name}={value}" for name, value in sorted(about.items()))])


@contextmanager
def opened_store(job: Job, publish: Publish) -> Iterator[tuple[str, CheckpointStore]]:
    """Yield the id of the run and its store."""
    if not job.is_kept or job.checkpoint_dir is None:
        yield uuid.uuid4().hex, MemoryStore(publish)
        return
    with closing(open_directory(job, publish)) as store:
        store.hold()  # before anything is written there
        known = store.committed() if job.resumes else None
        if known is not None and known.sinks is None:
            adopt(places_of(job))
        run = store.name_run(resumes=job.resumes)
        yield run, _connected(job, run, store)


def _connected(job: Job, run: str, directory: DirectoryStore) -> CheckpointStore:
    """Return the store of `checkpoint: {custom: ...}` over the directory; without that section, the directory."""
    if job.checkpoint is None or job.checkpoint.custom is None:
        return directory
    from dgs.workers.checkpoints.custom_store import ConnectedStore, load_store

    config, base = job.checkpoint.custom, job.base_dir.absolute()
    return ConnectedStore(
        load_store(config, base),
        directory,
        ref=config.ref,
        run=run,
        program=job.program,
        base=base,
        migrate=migration(job.program),
    )


def check_store(job: Job, point: ResumePoint) -> None:
    """Raise CheckpointRefusedError if the states of a resumed run are in a user's store that the job no longer names."""
    from dgs.workers.checkpoints.custom_store import kept_elsewhere

    has_store = job.checkpoint is not None and job.checkpoint.custom is not None
    if not has_store and (found := kept_elsewhere(point.state)) is not None:
        problem = f"the states of this run are in the store {found['store']}"
        advice = "Name it under `checkpoint:` as `custom:` again, or begin anew with `--fresh`"
        raise CheckpointRefusedError(path=job.checkpoint_dir, problem=problem, advice=advice)


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
            settle_rows(job)
            self._durable = store
            remove_earlier(places_of(job))
        return self._durable

    def _publish_with_digests(self, files: Sequence[StagedOutput]) -> None:
        """Publish files of a run without checkpoints: its hosts leave digests out, and resuming it needs them."""
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


def places_of(job: Job) -> tuple[Place, ...]:
    """Return the places of all output files of a job."""
    return output_places(
        job.sinks,
        output_dir=job.output_dir,
        base_dir=job.base_dir,
        dead_letters=job.dead_letter_dir is not None,
        run=job.run_id,
    )


@contextmanager
def claimed_outputs(job: Job, publisher: Publisher) -> Iterator[None]:
    """Keep other runs out of the places of a job's outputs, and keep the job from writing where it reads.

    Raises OutputUnwritableError if another run writes there, OutputIsInputError, SharedOutputError.
    """
    has_letters = job.dead_letter_dir is not None
    found = targets(job.sinks, output_dir=job.output_dir, base_dir=job.base_dir, dead_letters=has_letters)
    check_no_collisions(found, job.streams, job.base_dir)
    with ExitStack() as held:
        places = places_of(job)
        held.enter_context(claim(places))
        for _, path, sink in _databases(job):
            if path.is_dir():
                raise OutputUnwritableError(path=path, problem="it is a directory, and a database is a file")
            with refusing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            lock = path.with_name(f".{path.name}-{sink.details.table}.lock")
            held.enter_context(locked(lock, of=path))
        for ref, place in unshared(publisher.places):
            name = hashlib.blake2b(place.encode(), digest_size=16).hexdigest()
            said = place.removeprefix("place ")
            shown = said if said.startswith(ref) else f"{ref} {said}"  # the kind is in the options of a lake
            held.enter_context(locked(_locks() / f"{name}.lock", of=Path(shown)))
        for directory in _delta_directories(job) - {place.directory.resolve() for place in places}:
            with refusing(directory):
                directory.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(directory / LOCK, of=directory))
        yield


def check_free_outputs(job: Job) -> None:
    """Check existing outputs before a run begins: see `check_free`, `check_table_free` and `LakeSink.check_free`."""
    check_free(places_of(job), job.owner)
    for _, path, sink in _databases(job):
        from dgs.workers.sinks.sqlite_tables import check_table_free

        check_table_free(path, sink.details.table, sink.details.mode, job.owner or job.base_dir)
    for _, lake in _lakes(job):
        lake.check_free()


def check_outputs(job: Job, point: ResumePoint) -> None:
    """Check existing outputs before a run resumes: its own outputs, or those that it would replace if it has committed none."""
    if not point.epoch:
        check_free_outputs(job)
        return
    check_kept(places_of(job), point.published)
    for name, path, sink in _databases(job):
        from dgs.workers.sinks.sqlite_tables import Writer, check_table_kept

        writer = Writer(job.run_id, point.generation, appends=sink.details.mode == "append")
        check_table_kept(path, sink.details.table, writer, sum(of_sink(point.holds, name).values()))
    for name, lake in _lakes(job):
        lake.check_kept(job.run_id, point.epoch, of_sink(point.holds, name))


def tidy_appended(job: Job) -> None:
    """Note the run in directories that it appends files to; remove unpublished files there that earlier runs left and no longer need."""
    for config in job.sinks:
        if config.kind in FILE_KINDS and config.details.mode == "append" and job.checkpoint_dir is not None:
            place = sink_place(config, output_dir=job.output_dir, base_dir=job.base_dir)
            note_run(place.directory, job.run_id, job.checkpoint_dir)
            discard_leftovers(place, _is_needed)


def _is_needed(checkpoints: Path, name: str) -> bool:
    """Return whether a run can go on from its checkpoints, or has committed a file without giving it its final name."""
    if not checkpoints.is_dir():
        return False
    try:
        committed = CheckpointDirectory(checkpoints).committed()
    except DgsError:  # only a user who can read it can decide
        return True
    if committed is None:
        return any((checkpoints / record).exists() for record in RECORDS)
    last = committed.checkpoint
    is_unpublished = any(Path(file.path).name == name for file in last.files if isinstance(file, StagedFile))
    return is_unpublished or (last.epoch > 0 and not last.is_final)


def settle_rows(job: Job) -> None:
    """Keep the rows that a run without checkpoints has appended to databases, since the run has ended or can go on."""
    for path, table in _appended(job):
        from dgs.workers.sinks.sqlite_appended import settle

        settle(path, table, job.run_id)


def withdraw_rows(job: Job, run: str | None = None) -> None:
    """Remove the rows that a failed run without checkpoints has appended to databases, or those of all such runs that were killed."""
    for path, table in _appended(job):
        from dgs.workers.sinks.sqlite_appended import withdraw

        withdraw(path, table, run)


def _appended(job: Job) -> Iterator[tuple[Path, str]]:
    """Yield the files and tables of databases that a job appends to."""
    for _, path, sink in _databases(job):
        if sink.details.mode == "append":
            yield path, sink.details.table


def _lakes(job: Job) -> Iterator[tuple[str, LakeSink]]:
    for name, sink in named_sinks(job.sinks):
        if sink.kind in LAKE_KINDS:
            from dgs.workers.sinks.lake.lake_sink import LakeSink

            yield name, LakeSink(sink.kind, sink.details, job.base_dir, job.owner)


def _delta_directories(job: Job) -> set[Path]:
    """Return the directories of Delta tables, whose files a sink of Parquet files would take for its own."""
    return {(job.base_dir / sink.details.path).resolve() for sink in job.sinks if sink.kind == "delta"}


def _databases(job: Job) -> Iterator[tuple[str, Path, SinkConfig]]:
    """Yield the names of sinks that are databases, their files, with links resolved, and their sections."""
    for name, sink in named_sinks(job.sinks):
        if sink.kind == "sqlite":
            yield name, (job.base_dir / sink.details.path).resolve(), sink


def _locks() -> Path:
    """Return a directory of this user for locks without a file of outputs. Raises OutputUnwritableError."""
    path = Path(tempfile.gettempdir()) / f"dgs-locks-{os.getuid()}"
    with refusing(path):
        path.mkdir(mode=0o700, exist_ok=True)
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            raise OutputUnwritableError(path=path, problem="it belongs to another user")
    return path
