"""Checkpoints in a directory, written by one run at a time. They survive crashes, full disks and damage.

A commit writes the state and then two copies of the record; the rename of the first copy is the commit. Then the outputs get
their final names. `begin` trusts the record: it resumes from the newest whole state that the record names.

>>> import tempfile
>>> from dgs.workers.recovery.positions import Positions
>>> identity = ProgramIdentity("Sums", 1, {})
>>> store = DirectoryStore(tempfile.mkdtemp(), identity=identity, publish=lambda files: None)
>>> point = store.begin()
>>> store.commit(Checkpoint(epoch=point.epoch + 1, state=b"seven", positions=Positions()))
>>> store.close()
>>> point = store.begin()
>>> point.generation, point.epoch, point.state
(2, 1, b'seven')
>>> [info.file for info in store.list()], store.verify()
(['state-1.dgs'], [('record-a.dgs', None), ('record-b.dgs', None), ('state-1.dgs', None)])
>>> store.close()
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dgs import codec
from dgs.errors import (
    CheckpointFailedError,
    CorruptFileError,
    FencedError,
    IncompatibleCheckpointError,
    InternalError,
    OutputUnwritableError,
)
from dgs.errors.hidden_values import masked
from dgs.model.identity import Migrate, ProgramIdentity
from dgs.workers.checkpoints.directory import NOT_COMMITTED, CheckpointDirectory, said
from dgs.workers.checkpoints.saved import (
    RECORDS,
    Committed,
    Saved,
    epoch_of,
    located,
    pack_record,
    pack_state,
    relative,
    state_name,
    with_files,
)
from dgs.workers.recovery.checkpoint import (
    Checkpoint,
    Publish,
    ResumePoint,
    StagedOutput,
    most,
    resume_point,
)
from dgs.workers.storage.disk import Disk
from dgs.workers.storage.sealed_file import digest_of

FRESH = "Begin anew in an empty directory (`--fresh`), or restore the files from a copy"
ACCEPT = (
    "Restore the files from a copy, or resume with `--accept-duplicates`: some outputs may then appear twice"
)


SAME_SINKS = "Resume with the same sinks as before, or start again without the checkpoint (`--fresh`)"


class DirectoryStore(CheckpointDirectory):
    """A CheckpointStore. `publish` gives files their final names, and may do so again. `keep`: the number of states to keep.

    Law: after a crash or an error in `commit` or `begin`, the previous checkpoint or the one being committed is there, whole. After
    `commit` has returned, the new one is. Files are published only once the first copy of their record is durable and the second has been
    tried.

    `base`: an absolute path; files below it are saved with relative paths. `sinks`: a description that identifies each sink.
    `migrate`: turns states of another version of the program into states of this one. `clock`: nanoseconds since 1970.
    `rejected`: the files that the last `begin` could not use, and copies of the record that could not be written.
    """

    def __init__(
        self,
        path: Path | str,
        disk: Disk | None = None,
        *,
        identity: ProgramIdentity,
        publish: Publish,
        base: Path | None = None,
        keep: int = 5,
        accept_duplicates: bool = False,
        migrate: Migrate | None = None,
        job: str = "",
        sinks: Sequence[str] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__(path, disk)
        self._identity = identity
        self._publish = publish
        self._base = base
        self._keep = max(keep, 1)
        self._accepts_duplicates = accept_duplicates
        self._migrate = migrate
        self._job = job
        self._sinks = None if sinks is None else tuple(sinks)
        self._run = ""
        self._clock = clock
        self._known: Committed | None = None
        self._unpublished: tuple[StagedOutput, ...] = ()
        self._doubtful: set[int] = set()

    def hold(self) -> None:
        """Lock the directory. Raises CheckpointBusyError if another run has it, CheckpointRefusedError if that fails."""
        with self._refusing():
            self.disk.make_directory(self.path)
            self._take_lock()

    def name_run(self, *, resumes: bool, run: str | None = None) -> str:
        """Return the id of the run that owns these checkpoints: the record's, or for a new run `run` or a fresh id.

        Raises CheckpointRefusedError if a resumed run has no id: sinks would take it for another run, and clear their tables.
        """
        with self._refusing():
            known = (self.committed() or self._without_record()) if resumes else None
            if known is not None and (known.run or known.checkpoint.epoch):
                self._run = known.run or self._run_of_version_0_1()
            else:
                self._run = run or uuid.uuid4().hex
        return self._run

    def _run_of_version_0_1(self) -> str:
        """Return the run id that version 0.1.0 kept in a separate file."""
        found = ""
        with suppress(OSError):
            found = self.disk.read(self.path / "run-id").decode("ascii", "replace")
        if not re.fullmatch("[0-9a-f]{32}", found):
            self._refuse("the file run-id, which names their run, is damaged or missing", FRESH)
        return found

    def begin(self) -> ResumePoint:
        """Begin a generation: see CheckpointStore. Another call begins the next generation of the same run.

        Raises CheckpointBusyError if another run has the directory, CheckpointRefusedError if no state can be used
        (IncompatibleCheckpointError if only a version differs), OutputUnwritableError if committed files cannot be published.
        """
        self.rejected.clear()
        was_open = self._lock is not None
        try:
            return self._begin()
        except BaseException:
            if not was_open:
                self.close()
            raise

    def _begin(self) -> ResumePoint:
        """Begin a generation: record it, finish the files of the last commit, and return the newest whole state to resume from."""
        self.hold()
        with self._refusing():
            known = self.committed() or self._without_record()
            if known.checkpoint.epoch:
                self._refuse_others(known.identity, RECORDS[0])
                self._refuse_other_sinks(known)
            used, damaged = self._newest_whole(known)
            if used is None and damaged and not self._accepts_duplicates:
                self._refuse("no committed state can be read", ACCEPT)
            start = None if used is None else self._as_of_this_version(used)
            states = {epoch: digest for epoch, digest in known.states.items() if epoch not in damaged}
            self._known = replace(
                known,
                generation=known.generation + 1,
                states=states,
                run=self._run or known.run,
                sinks=known.sinks if self._sinks is None else self._sinks,
            )
            self.write_record(self._known)
        self._doubtful.clear()
        self._sweep(known.states)
        self._unpublished = located(known.checkpoint.files, self._base)
        self._publish_all()
        point = resume_point(self._known.generation, known.checkpoint, start)
        return replace(point, published=self._located(known.published), holds=known.checkpoint.holds)

    def commit(self, checkpoint: Checkpoint) -> None:
        """Commit the next epoch: see CheckpointStore.

        Files of an epoch whose commit failed belong to the next checkpoint. Raises OutputUnwritableError if committed files
        cannot get their final names; the next commit or `begin` tries again.
        """
        before = self._begun(checkpoint)
        self._fence(before)
        files = (*self._unpublished, *checkpoint.files)
        checkpoint = replace(checkpoint, files=relative(checkpoint.files, self._base))
        now = replace(before, job=self._job, identity=self._identity, created_at=self._clock())
        try:
            states = {**before.states, **self._save(now, checkpoint)}
            kept = {epoch: states[epoch] for epoch in sorted(states)[-self._keep :]}
            self._fence(before)  # again, since writing a large state takes time
            # these are higher if an older state is used
            committed = checkpoint.positions.over(before.checkpoint.positions)
            named = relative(files, self._base)
            holds = most(before.checkpoint.holds, checkpoint.holds)
            recorded = replace(checkpoint, state=None, files=named, positions=committed, holds=holds)
            published = with_files(before.published, checkpoint.files)
            now = replace(now, checkpoint=recorded, states=kept, published=published)
            self.write_record(now)
        except OSError as error:
            self._fence(before)
            self._tidy_after_failure(before, now)
            raise CheckpointFailedError(
                epoch=checkpoint.epoch, path=self.path, problem=said(error)
            ) from error
        self._known, self._unpublished = now, files
        self._doubtful.clear()
        self._publish_all()
        self._sweep(kept)

    def prune(self, keep: int) -> list[str]:
        """Remove all but the newest `keep` states that are whole: see CheckpointDirectory."""
        removed = super().prune(keep)
        if self._known is not None:
            self._known = replace(self._known, states=self._named())
        return removed

    def close(self) -> None:
        """Let other runs open the directory."""
        self._known = None
        super().close()

    def _located(self, published: Mapping[str, int] | None) -> Mapping[str, int] | None:
        if published is None or self._base is None:
            return published
        return {str(self._base / directory): count for directory, count in published.items()}

    def _begun(self, checkpoint: Checkpoint) -> Committed:
        if self._known is None:
            raise InternalError(problem="commit to a store of checkpoints that has not begun or is closed")
        last = self._known.checkpoint.epoch
        if checkpoint.epoch <= last:
            raise InternalError(problem=f"commit of epoch {checkpoint.epoch} after epoch {last}")
        return self._known

    def _fence(self, mine: Committed) -> None:
        """Refuse to overwrite a newer generation (R10). Copies that cannot be read are ignored, and written again."""
        newest = self.committed()
        if newest is not None and newest.generation > mine.generation:
            raise FencedError(path=self.path, generation=mine.generation, newest=newest.generation)

    def _save(self, now: Committed, checkpoint: Checkpoint) -> dict[int, str]:
        """Write the state, if there is one; return the digest of its file by epoch."""
        if checkpoint.state is None:
            return {}
        data = pack_state(now, checkpoint, checkpoint.state)
        self.disk.write_new(self.path / state_name(checkpoint.epoch), data)
        return {checkpoint.epoch: digest_of(data)}

    def _tidy_after_failure(self, before: Committed, failed: Committed) -> None:
        """Remove files of the failed commit, if the record can be read.

        A record whose rename or fsync failed may still survive a crash, until another one is durable. So its states stay.
        """
        if self._may_be_there(failed):
            self._doubtful.update(failed.states)
        if self.committed() is not None:
            self._sweep(self._doubtful.union(before.states))

    def _may_be_there(self, record: Committed) -> bool:
        first = self.path / RECORDS[0]
        try:
            return self.disk.read(first) == pack_record(first.name, record)
        except OSError:
            return True

    def _publish_all(self) -> None:
        try:
            self._publish(self._unpublished)
        except OSError as error:
            raise OutputUnwritableError(path=error.filename or self.path, problem=said(error)) from error
        self._unpublished = ()

    def _without_record(self) -> Committed:
        """Return what is known without a record: nothing in a new directory, else the states, if duplicates are accepted."""
        epochs = [epoch for name in self.disk.names(self.path) if (epoch := epoch_of(name)) is not None]
        if not epochs and not self.rejected:
            return Committed(self._job, self._identity, published={})
        if not self._accepts_duplicates:
            self._refuse("both copies of the record of committed outputs are damaged or missing", ACCEPT)
        found: dict[int, Saved] = {}
        for epoch in sorted(epochs):
            with self._rejecting(self.path / state_name(epoch)):
                found[epoch] = self.load(epoch)
        if not found:
            return Committed(self._job, self._identity)
        newest = found[max(found)].manifest
        generation = max(saved.manifest.generation for saved in found.values())
        digests = {epoch: saved.file_digest for epoch, saved in found.items()}
        return Committed(self._job, newest.identity, generation, newest.checkpoint, digests, run=newest.run)

    def _refuse_other_sinks(self, known: Committed) -> None:
        """Refuse other sinks than before: the outputs of one run would be in two places."""
        if known.sinks is None or self._sinks is None:
            return
        if tuple(map(masked, known.sinks)) != self._sinks:
            there, here = (", ".join(sinks) or "none" for sinks in (known.sinks, self._sinks))
            self._refuse(f"the outputs so far are in other sinks ({there}) than now: {here}", SAME_SINKS)

    def _newest_whole(self, known: Committed) -> tuple[Saved | None, Collection[int]]:
        """Return the newest whole state, and the epochs of newer states, which are damaged."""
        damaged: list[int] = []
        for epoch in sorted(known.states, reverse=True):
            path = self.path / state_name(epoch)
            with self._rejecting(path):
                saved = self.load(epoch)
                if saved.file_digest != known.states[epoch]:
                    raise CorruptFileError(path=path, problem=NOT_COMMITTED)
                return saved, damaged
            damaged.append(epoch)
        return None, damaged

    def _refuse_others(self, there: ProgramIdentity, name: str) -> None:
        """Refuse a checkpoint of another program, or of another version without `migrate`."""
        if there == self._identity:
            return
        if not there.is_other_version_of(self._identity):
            lines = "".join(f"\n  {line}" for line in there.difference(self._identity))
            self._refuse(f"they are of {there}, but this is {self._identity}:{lines}\n", FRESH)
        if self._migrate is None:
            raise IncompatibleCheckpointError(
                path=self.path / name,
                what=f"program {there.name}",
                found=there.version,
                expected=self._identity.version,
                advice=f"Give the program `migrate(state, from_version)`. Or: {FRESH[0].lower()}{FRESH[1:]}",
            )

    def _as_of_this_version(self, saved: Saved) -> Checkpoint:
        there = saved.manifest.identity
        self._refuse_others(there, state_name(saved.checkpoint.epoch))
        if there == self._identity or self._migrate is None:
            return saved.checkpoint
        state = codec.encode(self._migrate(codec.decode(saved.state), there.version), keeps_order=True)
        return replace(saved.checkpoint, state=state)
