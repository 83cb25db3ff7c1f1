"""The two kinds of files in a directory of checkpoints: states, and the record of what is committed.

The record names its states by epoch and digest. So a whole state that was never committed, or that belongs to another history of
the run, is never mistaken for a committed one.

>>> epoch_of(state_name(12)), epoch_of("record-a.dgs")
(12, None)
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from dgs import codec
from dgs.errors import CorruptFileError
from dgs.model.identity import ProgramIdentity
from dgs.model.order import OrderKey
from dgs.workers.recovery.checkpoint import Checkpoint, Record, StagedFile, StagedOutput
from dgs.workers.recovery.positions import Positions
from dgs.workers.storage.disk import Disk
from dgs.workers.storage.sealed_file import RECORD, STATE, digest_of, pack, unpack

RECORDS = ("record-a.dgs", "record-b.dgs")
"""The copies of the record, in the order of writing. The rename of the first is the commit."""

_STATE_NAME = re.compile(r"state-(\d+)\.dgs")
Header = TypeVar("Header")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The header of a state file. `checkpoint`: the checkpoint without its state. `size`, `digest` (BLAKE2b-256): of the state.

    `watermark`: all events below it are in the state. `created_at`: nanoseconds since 1970. `run`: the id of the run.
    """

    job: str
    identity: ProgramIdentity
    generation: int
    checkpoint: Checkpoint
    watermark: OrderKey
    size: int
    digest: str
    created_at: int
    run: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """The content of a state file. `file_digest`: identifies the file."""

    manifest: Manifest
    state: bytes
    file_digest: str

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint with its state."""
        return replace(self.manifest.checkpoint, state=self.state)


@dataclass(frozen=True, slots=True)
class Committed:
    """The content of the record. `checkpoint`: the last committed one, without its state; epoch 0 means none yet.

    `states`: the digests of the state files to resume from, by epoch. `run`: the run's id. `sinks`: None from older versions.
    `published`: the number of files of outputs so far, by their directory, relative as `relative` makes it; None if it is not known.
    """

    job: str
    identity: ProgramIdentity
    generation: int = 0
    checkpoint: Checkpoint = field(default_factory=lambda: Checkpoint(0, None, Positions()))
    states: Mapping[int, str] = field(default_factory=dict)
    created_at: int = 0
    run: str = ""
    sinks: tuple[str, ...] | None = None
    published: Mapping[str, int] | None = None

    @property
    def record(self) -> Record:
        """The part that readers of committed outputs need."""
        last = self.checkpoint
        return Record(self.generation, last.epoch, last.positions, last.files, last.is_final)


def state_name(epoch: int) -> str:
    """Return the name of the state file of an epoch."""
    return f"state-{epoch}.dgs"


def epoch_of(name: str) -> int | None:
    """Return the epoch of a state file, None for other names."""
    found = _STATE_NAME.fullmatch(name)
    return int(found[1]) if found else None


def is_leftover(name: str) -> bool:
    """Return whether a file is an unfinished state or record."""
    return name.startswith(("state-", "record-")) and name.endswith(".tmp")


def pack_state(committed: Committed, checkpoint: Checkpoint, state: bytes) -> bytes:
    """Return the content of a state file. `committed`: the program, generation, run and time to note in it."""
    manifest = Manifest(
        committed.job,
        committed.identity,
        committed.generation,
        replace(checkpoint, state=None),
        checkpoint.positions.low,
        len(state),
        hashlib.blake2b(state, digest_size=32).hexdigest(),
        committed.created_at,
        committed.run,
    )
    return pack(STATE, state_name(checkpoint.epoch), manifest, state)


def read_state(disk: Disk, path: Path) -> Saved:
    """Read a state file. Raises OSError, CorruptFileError, IncompatibleCheckpointError."""
    data = disk.read(path)
    header, state = unpack(STATE, path, data)
    return Saved(_of(Manifest, path, header), state, digest_of(data))


def pack_record(name: str, committed: Committed) -> bytes:
    """Return the content of one copy of the record."""
    return pack(RECORD, name, committed)


def read_record(disk: Disk, path: Path) -> Committed:
    """Read one copy of the record. Raises OSError, CorruptFileError, IncompatibleCheckpointError."""
    header, _ = unpack(RECORD, path, disk.read(path))
    return _of(Committed, path, header)


def _of(one: type[Header], path: Path, header: object) -> Header:
    if not isinstance(header, one):
        raise CorruptFileError(path=path, problem=f"its header is no {one.__name__}")
    return header


for _part in (Manifest, Committed):
    codec.register(
        _part, name=f"dgs.{_part.__name__}", formerly=f"workers.checkpoints.saved.{_part.__name__}"
    )


def relative(files: Iterable[StagedOutput], base: Path | None) -> tuple[StagedOutput, ...]:
    """Return files with the paths to save: relative to `base`, the directory of the plan file, if they are below it. None changes nothing.

    So a project can be moved or copied with its run directories and go on there.

    >>> saved = relative((StagedFile("/project/out/a.partial", "/project/out/a", 3, "", 1),), Path("/project"))
    >>> saved[0].path, located(saved, Path("/copy"))[0].final
    ('out/a.partial', '/copy/out/a')
    """
    if base is None:
        return tuple(files)
    return tuple(
        replace(file, path=_below(file.path, base), final=_below(file.final, base))
        if isinstance(file, StagedFile)
        else file
        for file in files
    )


def located(files: Iterable[StagedOutput], base: Path | None) -> tuple[StagedOutput, ...]:
    """Return saved files with their current absolute paths. Law: `located(relative(files, b), b) == files`."""
    if base is None:
        return tuple(files)
    return tuple(
        replace(file, path=str(base / file.path), final=str(base / file.final))
        if isinstance(file, StagedFile)
        else file
        for file in files
    )


def with_files(
    published: Mapping[str, int] | None, files: Iterable[StagedOutput]
) -> Mapping[str, int] | None:
    """Return the numbers of files by directory when these are published, too.

    >>> with_files({"out": 2}, [StagedFile("out/a.partial", "out/a", 3, "", 1)])
    {'out': 3}
    """
    if published is None:
        return None
    new = Counter(str(Path(file.final).parent) for file in files if isinstance(file, StagedFile))
    return dict(Counter(published) + new)


def _below(path: str, base: Path) -> str:
    return str(Path(path).relative_to(base)) if Path(path).is_relative_to(base) else path
