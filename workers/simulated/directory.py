"""The real store of checkpoints on a simulated disk, which knows whether its damage exceeds what the store promises to survive.

>>> storage = DirectoryStorage(ProgramIdentity("Sums", 1, {}), Faults(), random.Random(1))
>>> store = storage.open(lambda files: None)
>>> store.begin().generation, storage.is_beyond_promise(), list(storage.own_damage())
(1, False, [])
>>> storage.disk.create(FOLDER / "state-1.dgs", b"nonsense")
>>> next(storage.own_damage())
'state-1.dgs: it is cut off, or was never written to its end'
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dgs.errors import CheckpointError
from dgs.model.identity import ProgramIdentity
from dgs.workers.checkpoints.directory import CheckpointDirectory
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.checkpoints.saved import RECORDS, epoch_of, read_record
from dgs.workers.recovery.checkpoint import CheckpointStore, Publish
from dgs.workers.simulated.disk import DiskFaults, SimulatedDisk
from dgs.workers.simulated.faults import Faults

FOLDER = Path("/checkpoints")
RUIN = 0.05
"""The chance that, when a file turns bad, both copies of the record do. Then the run must be refused."""

MOST_OPERATIONS = 60
"""A machine that is to stop at an operation of its disk does so within this many operations."""


class PromisedDisk(SimulatedDisk):
    """A disk that damages or hides a copy of the record only while the other one is the same. The promise covers one loss."""

    def read(self, path: Path) -> bytes:
        if path.name not in RECORDS or not (self.faults.read or self.faults.flip) or self.is_twice():
            return super().read(path)
        faults, self.faults = self.faults, replace(self.faults, read=0.0, flip=0.0)
        try:
            return super().read(path)
        finally:
            self.faults = faults

    def is_twice(self) -> bool:
        """Return whether both copies of the record are whole and durable and have the same content."""
        if any(self._durable.get(FOLDER / name) is not self._names.get(FOLDER / name) for name in RECORDS):
            return False
        with self.quiet():
            try:
                one, other = (read_record(self, FOLDER / name) for name in RECORDS)
            except (OSError, CheckpointError):
                return False
            return (one.checkpoint.epoch, one.generation) == (other.checkpoint.epoch, other.generation)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Let the disk be read without faults."""
        before = self.faults, self.crash_at, self.operations
        self.faults, self.crash_at = DiskFaults(), None
        try:
            yield
        finally:
            self.faults, self.crash_at, self.operations = before


class AsWritten(SimulatedDisk):
    """A read-only view of another disk without turned bits."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__(disk.random)
        self._disk = disk

    def read(self, path: Path) -> bytes:
        return self._disk.as_written(path)

    def names(self, directory: Path) -> list[str]:
        return self._disk.names(directory)

    def exists(self, path: Path) -> bool:
        return self._disk.exists(path)


class DirectoryStorage:
    """The real store on a simulated disk. `sinks`: the descriptions of the next process's sinks."""

    def __init__(self, identity: ProgramIdentity, faults: Faults, rnd: random.Random) -> None:
        self._identity, self._faults, self._random = identity, faults, rnd
        self._keep = rnd.choice([1, 2, 3, 5])
        self.sinks: tuple[str, ...] = ()
        self.disk = PromisedDisk(rnd, faults.disk or DiskFaults())

    def open(self, publish: Publish) -> CheckpointStore:
        """Return the store for another generation."""
        return DirectoryStore(
            FOLDER,
            self.disk,
            identity=self._identity,
            publish=publish,
            keep=self._keep,
            sinks=self.sinks,
            clock=lambda: 0,
        )

    def threaten(self) -> None:
        """Draw faults: damage a file, mostly the newest state, and choose the operation at which the machine stops."""
        rnd, files = self._random, self.disk.names(FOLDER)
        if files and rnd.random() < self._faults.rot:
            if rnd.random() < RUIN:
                for name in RECORDS:
                    self._spoil(name)
            states = sorted((epoch, name) for name in files if (epoch := epoch_of(name)) is not None)
            name = states[-1][1] if states and rnd.random() < 0.8 else rnd.choice(files)  # noqa: PLR2004
            is_last = not self.disk.is_twice() if name in RECORDS else len(states) == 1
            if not is_last or (rnd.random() < RUIN and name not in RECORDS):
                self._spoil(name)
        if rnd.random() < self._faults.disk_crash:
            self.disk.crash_at = self.disk.operations + rnd.randrange(MOST_OPERATIONS)

    def _spoil(self, name: str) -> None:
        """Turn one bit of a file."""
        with self.disk.quiet():
            size = len(self.disk.read(FOLDER / name)) if self.disk.exists(FOLDER / name) else 0
        if size:
            self.disk.flip(FOLDER / name, self._random.randrange(8 * size))

    def crash(self) -> None:
        """Stop the process. Half of the time, and always if the disk has stopped, stop the machine, too."""
        stopped = self.disk.crash_at is not None and self.disk.operations >= self.disk.crash_at
        if stopped or self._random.random() < 0.5:  # noqa: PLR2004 - as often as not
            self.disk.crash()
        self.disk.crash_at = None

    def heal(self) -> None:
        """End all faults."""
        self._faults = Faults()
        self.disk.faults, self.disk.crash_at = DiskFaults(), None

    def is_full(self) -> bool:
        """Return whether there is no space for a file of outputs, this time."""
        return self.disk.faults.full > 0 and self._random.random() < self.disk.faults.full

    def own_damage(self) -> Iterator[str]:
        """Yield the files that are damaged or missing even without turned bits."""
        directory = CheckpointDirectory(FOLDER, AsWritten(self.disk))
        yield from (f"{name}: {problem}" for name, problem in directory.verify() if problem is not None)
        if directory.committed() is None and any(epoch_of(name) for name in self.disk.names(FOLDER)):
            yield "there are states, but no record"

    def is_beyond_promise(self) -> bool:
        """Return whether both records, or all states that they name, are damaged, on a disk that reads without errors."""
        with self.disk.quiet():
            directory = CheckpointDirectory(FOLDER, self.disk)
            committed = directory.committed()
            if committed is None:
                names = self.disk.names(FOLDER)
                return any(name in RECORDS or epoch_of(name) is not None for name in names)
            return bool(committed.states) and not any(
                self._is_whole(directory, *one) for one in committed.states.items()
            )

    def _is_whole(self, directory: CheckpointDirectory, epoch: int, digest: str) -> bool:
        try:
            return directory.load(epoch).file_digest == digest
        except CheckpointError:
            return False
