"""A directory of checkpoints, without its program: list the states, verify the files, and prune old states.

>>> import tempfile
>>> from dgs.workers.storage.disk import RealDisk
>>> directory = CheckpointDirectory(Path(tempfile.mkdtemp()), RealDisk())
>>> directory.list(), directory.verify(), directory.committed()
((), [], None)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from dgs.errors import (
    CheckpointBusyError,
    CheckpointError,
    CheckpointRefusedError,
    CorruptFileError,
    IncompatibleCheckpointError,
)
from dgs.workers.checkpoints.saved import (
    RECORDS,
    Committed,
    Manifest,
    Saved,
    epoch_of,
    is_leftover,
    pack_record,
    read_record,
    read_state,
    state_name,
)
from dgs.workers.storage.disk import Disk, Lock, RealDisk
from dgs.workers.storage.locks import BusyError

LOCK = "lock"
VERIFY = "Run `dgs checkpoint verify` to see which files are damaged"
WRITABLE = "Make the directory readable and writable, with space left, or name another one"
NOT_COMMITTED = "it is not the file that was committed"


@dataclass(frozen=True, slots=True)
class Rejected:
    """A file that could not be read or written, and the reason."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A state file. `manifest`: None if it is damaged; `problem` says how. `is_committed`: a run can resume from it."""

    file: str
    epoch: int
    manifest: Manifest | None
    is_committed: bool
    problem: str | None = None


class CheckpointDirectory:
    """Reads and tidies a directory of checkpoints. Raises CheckpointRefusedError where it cannot be read or written."""

    def __init__(self, path: Path | str, disk: Disk | None = None) -> None:
        self.path = Path(path).absolute()
        self.disk = RealDisk() if disk is None else disk
        self.rejected: list[Rejected] = []
        self._lock: Lock | None = None

    def committed(self) -> Committed | None:
        """Return the record, None if no copy is valid. The copy with the highest (epoch, generation) counts."""
        found: list[Committed] = []
        for name in RECORDS:
            if self.disk.exists(self.path / name):
                with self._rejecting(self.path / name):
                    found.append(read_record(self.disk, self.path / name))
        return max(found, key=lambda one: (one.checkpoint.epoch, one.generation), default=None)

    def load(self, epoch: int) -> Saved:
        """Return the state of an epoch with its manifest. Raises CorruptFileError if the file is damaged or missing."""
        path = self.path / state_name(epoch)
        try:
            return read_state(self.disk, path)
        except OSError as error:
            raise CorruptFileError(path=path, problem=said(error)) from error

    def verify(self) -> list[tuple[str, str | None]]:
        """Read every file, and look for missing ones; return each name with its problem, None if there is none."""
        names = self._names()
        records = [(name, self._problem(name)) for name in names if name in RECORDS]
        try:
            states = self._named()
        except IncompatibleCheckpointError:  # already in `records`
            states = {}
        epochs = {epoch for name in names if (epoch := epoch_of(name)) is not None} | set(states)
        found = [(epoch, self._problem(state_name(epoch), states.get(epoch))) for epoch in sorted(epochs)]
        return records + [
            (state_name(epoch), problem)
            for epoch, problem in found
            if problem is None or not self._was_swept(epoch)
        ]

    def prune(self, keep: int) -> list[str]:
        """Remove all but the newest `keep` whole states (at least one); return the names of the removed files.

        Raises CheckpointBusyError if a run has the directory open, CheckpointRefusedError if no state is whole.
        """
        with self._locked():
            committed = self._record_or_refuse()
            whole = [
                epoch
                for epoch in sorted(committed.states, reverse=True)
                if self._problem(state_name(epoch), committed.states[epoch]) is None
            ]
            if committed.states and not whole:
                self._refuse("no state is whole: nothing is removed", VERIFY)
            kept = {epoch: committed.states[epoch] for epoch in whole[: max(keep, 1)]}
            with self._refusing():
                if kept != committed.states:
                    self.write_record(replace(committed, states=kept))
            before = set(self._names())
            self._sweep(kept)
            return sorted(before - set(self._names()))

    def list(self) -> tuple[CheckpointInfo, ...]:
        """Return the states in the directory, the oldest first."""
        states = self._named()
        epochs = sorted(epoch for name in self._names() if (epoch := epoch_of(name)) is not None)
        infos = [self._info(epoch, states.get(epoch)) for epoch in epochs]
        return tuple(info for info in infos if info.problem is None or not self._was_swept(info.epoch))

    def write_record(self, committed: Committed) -> None:
        """Write both copies. Raises OSError if the first could not be written; a failure of the second goes into `rejected`."""
        first, second = (self.path / name for name in RECORDS)
        self.disk.write_new(first, pack_record(first.name, committed))
        try:
            self.disk.write_new(second, pack_record(second.name, committed))
        except OSError as error:
            self.rejected.append(
                Rejected(str(second), f"the second copy could not be written: {said(error)}")
            )

    def close(self) -> None:
        """Let other runs open the directory."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _named(self) -> Mapping[int, str]:
        committed = self.committed()
        return {} if committed is None else committed.states

    def _was_swept(self, epoch: int) -> bool:
        """Return whether a run with newer states has removed this one since the directory was listed."""
        try:
            return epoch not in self._named() and not self.disk.exists(self.path / state_name(epoch))
        except IncompatibleCheckpointError:
            return False

    def _info(self, epoch: int, digest: str | None) -> CheckpointInfo:
        name = state_name(epoch)
        try:
            saved = self.load(epoch)
        except CheckpointError as error:
            return CheckpointInfo(name, epoch, None, is_committed=False, problem=said(error))
        return CheckpointInfo(name, epoch, saved.manifest, is_committed=saved.file_digest == digest)

    def _problem(self, name: str, digest: str | None = None) -> str | None:
        """Return what is wrong with a file, None if nothing is. `digest`: the digest in the record, for a state."""
        try:
            if name in RECORDS:
                read_record(self.disk, self.path / name)
                return None
            found = read_state(self.disk, self.path / name).file_digest
        except (OSError, CheckpointError) as error:
            return said(error)
        return None if digest in (None, found) else NOT_COMMITTED

    def _sweep(self, states: Collection[int]) -> None:
        """Remove all other states, and unfinished files. A later sweep removes what cannot be removed now."""
        with suppress(OSError):
            for name in self.disk.names(self.path):
                epoch = epoch_of(name)
                if is_leftover(name) or (epoch is not None and epoch not in states):
                    with suppress(OSError):
                        self.disk.unlink(self.path / name)

    def _names(self) -> Collection[str]:
        with self._refusing():
            return self.disk.names(self.path)

    def _record_or_refuse(self) -> Committed:
        committed = self.committed()
        if committed is None:
            self._refuse("there is no valid record", VERIFY)
        return committed

    def _refuse(self, problem: str, advice: str) -> NoReturn:
        raise CheckpointRefusedError(path=self.path, problem=problem, advice=advice)

    def _take_lock(self) -> None:
        if self._lock is None:
            try:
                self._lock = self.disk.lock(self.path / LOCK)
            except BusyError as error:
                raise CheckpointBusyError(path=self.path, holder=error.holder) from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        was_open = self._lock is not None
        with self._refusing():
            self._take_lock()
        try:
            yield
        finally:
            if not was_open:
                self.close()

    @contextmanager
    def _rejecting(self, path: Path) -> Iterator[None]:
        """Note once that a file cannot be read, and go on without it."""
        try:
            yield
        except (OSError, CorruptFileError) as error:
            told = Rejected(str(path), said(error))
            if told not in self.rejected:
                self.rejected.append(told)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CheckpointRefusedError(path=self.path, problem=said(error), advice=WRITABLE) from error


def said(error: OSError | CheckpointError) -> str:
    """Return the problem, if possible without the name of the file."""
    if isinstance(error, CorruptFileError):
        return str(error.problem)
    return getattr(error, "strerror", None) or str(error)
