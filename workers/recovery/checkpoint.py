"""Checkpoints, and the promises of a store of checkpoints.

A checkpoint is a state and its positions: state = fold of `update` over the events below the positions. It is committed in one
step together with the outputs of its epoch: staged files, then the state, then the *record* of what is committed, twice. The
valid record with the highest (epoch, generation) is the truth: a state newer than it is ignored; if the newest state is
damaged an older one is used, and outputs of events below the record's positions are suppressed when they are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dgs import codec
from dgs.model.outputs import OutputBatch
from dgs.workers.recovery.positions import Positions


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file of outputs that is durable under `path` and gets its `final` name when its epoch is committed.

    Absolute paths; in what is saved, see `file_paths`. `digest`: BLAKE2b-256 of its content, hexadecimal; `rows`: how many outputs it holds.
    """

    path: str
    final: str
    size: int
    digest: str
    rows: int


@dataclass(frozen=True, slots=True)
class StagedPart:
    """The part of an epoch that a sink of the user's own has made durable: it is shown when the epoch is committed.

    `sink`, `args`: which sink it is, as the plan file says. `staged`: what its `stage` returned, as codec bytes. `rows`: as in a file.
    """

    sink: str
    args: Mapping[str, Any]
    staged: bytes
    rows: int

    @property
    def final(self) -> str:
        """The sink, in place of the name of a file."""
        return self.sink

    @property
    def size(self) -> int:
        """The bytes that are kept here."""
        return len(self.staged)


StagedOutput = StagedFile | StagedPart
"""Outputs that are durable and not to be seen before their epoch is committed."""

Publish = Callable[[Sequence[StagedOutput]], None]
"""Shows outputs that are committed; it may be called again with the same."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that is to be committed. `state`: codec bytes, None if only outputs are committed (nothing to resume from).

    `outbox`: outputs of idempotent sinks that these have not accepted yet (R7). `sources`: what each declared source was, as
    its reader describes it. `is_final`: all streams have ended. `events`: in the state.
    """

    epoch: int
    state: bytes | None
    positions: Positions
    files: tuple[StagedOutput, ...] = ()
    outbox: tuple[OutputBatch, ...] = ()
    sources: Mapping[str, Any] = field(default_factory=dict)
    events: int = 0
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """The committed part of a run: everything output below `positions`, `files` being those of the last epoch.

    `generation`: the last that was begun; commits of older ones are refused (R10).
    """

    generation: int
    epoch: int
    positions: Positions
    files: tuple[StagedOutput, ...]
    is_final: bool


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The start of a generation: from the initial state (`state` None, epoch 0) or from a checkpoint.

    `committed`: outputs of events below these positions are out already and must not be committed again. They equal
    `positions` unless a damaged state made an older one be used. `epoch`: the last one that was committed.
    """

    generation: int
    epoch: int = 0
    state: bytes | None = None
    positions: Positions = field(default_factory=Positions)
    committed: Positions = field(default_factory=Positions)
    outbox: tuple[OutputBatch, ...] = ()
    sources: Mapping[str, Any] = field(default_factory=dict)
    events: int = 0
    is_final: bool = False


BEGINNING = ResumePoint(generation=1)
"""Where a run begins that has nothing behind it."""


class CheckpointStore(Protocol):
    """Keeps the checkpoints of one job; one run at a time has it open.

    Laws, which `dgs.testing.check_store` checks (`resume_point` makes what `begin` returns):

    - newest: `begin` returns what was committed last, in any later process.
    - whole: all that was committed comes back as it was, states of any size. A checkpoint without a state leaves the state of an
      older one in use: `begin` returns it with its own positions, and with what the newest has committed.
    - alone: each `begin` has a greater generation. While one object has begun, a second one is refused (CheckpointBusyError), or
      from then on the first is (FencedError).
    - atomic: whatever happens during `commit` (a crash, a full disk, a torn write), `begin` afterwards returns either the
      checkpoint before or the one that was being committed, whole.
    """

    def begin(self) -> ResumePoint:
        """Begin a generation: fence the older ones, finish the files of a commit that was cut short, find the newest good state.

        Raises CheckpointRefusedError (exit 6) if the checkpoints are of another program or version, or nothing valid is left.
        """

    def commit(self, checkpoint: Checkpoint) -> None:
        """Make the next epoch durable, give its files their final names, and forget what retention no longer needs.

        Raises CheckpointFailedError if it could not be made durable: then the one before is still the newest; the run may go
        on and try again with the next epoch. Raises FencedError if a newer generation has begun.
        """

    def close(self) -> None:
        """Let others open it."""


for _part in (StagedFile, Checkpoint, Record):
    codec.register(
        _part, name=f"dgs.{_part.__name__}", formerly=f"workers.checkpoints.contract.{_part.__name__}"
    )
codec.register(StagedPart, name="dgs.StagedPart")
