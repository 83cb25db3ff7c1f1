"""Checkpoints, and the promises of a store of checkpoints.

A checkpoint is a state and its positions: state = fold of `update` over the events below the positions. It is committed in one
step together with the outputs of its epoch: staged files, then the state, then two copies of the *record* of what is committed.
The valid record with the highest (epoch, generation) counts; a state newer than it is ignored. If the newest state is damaged, an
older one is used; outputs of events below the record's positions are then computed again and not delivered again.

`MemoryStore` keeps the last checkpoint, so runs without a directory of checkpoints restart when a host dies.

>>> from dgs.workers.recovery.positions import Positions
>>> store = MemoryStore()
>>> store.begin().generation, store.begin().state
(1, None)
>>> store.commit(Checkpoint(epoch=1, state=b"seven", positions=Positions()))
>>> point = store.begin()
>>> point.generation, point.epoch, point.state
(3, 1, b'seven')
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dgs import codec
from dgs.errors import CodecError
from dgs.model.outputs import OutputBatch
from dgs.workers.recovery.positions import Positions


def encoded_state(state: Any) -> bytes:
    """Return the state of a program as codec bytes. Raises CodecError."""
    try:
        return codec.encode(state, keeps_order=True)
    except CodecError as error:
        raise CodecError(problem=f"the state that `update` returned cannot be saved: {error}") from error


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file of outputs that is durable under `path` and gets its `final` name when its epoch is committed.

    Paths are absolute; for saved ones see `relative` in `workers.checkpoints.saved`. `digest`: BLAKE2b-256 of the content, hexadecimal.
    `rows`: outputs in it.
    """

    path: str
    final: str
    size: int
    digest: str
    rows: int


@dataclass(frozen=True, slots=True)
class StagedPart:
    """The part of an epoch that a custom sink has made durable. It becomes visible when the epoch is committed.

    `sink`, `args`: the sink, as in the plan file. `staged`: the result of its `stage`, as codec bytes. `rows`: outputs in it.
    """

    sink: str
    args: Mapping[str, Any]
    staged: bytes
    rows: int

    @property
    def final(self) -> str:
        """The name of the sink, where a file has its final name."""
        return self.sink

    @property
    def size(self) -> int:
        """The number of bytes in `staged`."""
        return len(self.staged)


Holds = Mapping[tuple[str, str], int]
"""How far sinks are: a number that only grows, by the name of a sink and of a part of it."""


def most(*holds: Holds) -> Holds:
    """Return the greatest number of each part.

    >>> most({("sqlite", ""): 5, ("delta", "view"): 2}, {("sqlite", ""): 7})
    {('sqlite', ''): 7, ('delta', 'view'): 2}
    """
    return {part: max(one.get(part, 0) for one in holds) for one in holds for part in one}


def of_sink(holds: Holds, sink: str) -> dict[str, int]:
    """Return how far the parts of a sink are."""
    return {part: count for (name, part), count in holds.items() if name == sink}


StagedOutput = StagedFile | StagedPart
"""Outputs that are durable, and invisible until their epoch is committed."""

Publish = Callable[[Sequence[StagedOutput]], None]
"""Makes committed outputs visible; it may be called again with the same ones."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint to commit. `state`: codec bytes, or None if only outputs are committed and no run can resume from it.

    `outbox`: outputs that idempotent sinks have not accepted yet (R7). `sources`: each declared source, as its reader
    describes it. `is_final`: all streams have ended. `events`: the number of events in the state. `holds`: how far sinks are once
    it is committed; a run that goes on looks for it.
    """

    epoch: int
    state: bytes | None
    positions: Positions
    files: tuple[StagedOutput, ...] = ()
    outbox: tuple[OutputBatch, ...] = ()
    sources: Mapping[str, Any] = field(default_factory=dict)
    events: int = 0
    is_final: bool = False
    holds: Holds = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """The committed part of a run: all outputs of events below `positions`. `files`: those of the last epoch.

    `generation`: the last one that has begun; commits of older generations are refused (R10).
    """

    generation: int
    epoch: int
    positions: Positions
    files: tuple[StagedOutput, ...]
    is_final: bool


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The start of a generation: the initial state (`state` None, epoch 0) or a checkpoint.

    `committed`: outputs of events below these positions are committed, and must not be committed again. They equal
    `positions` unless the newest state was damaged and an older one is used. `epoch`: the last committed epoch. `published`: the
    number of files of outputs so far, by their directory; None if it is not known. `holds`: how far sinks are, as far as it is known.
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
    published: Mapping[str, int] | None = None
    holds: Holds = field(default_factory=dict)


BEGINNING = ResumePoint(generation=1)
"""The start of a run that has no checkpoint."""


class CheckpointStore(Protocol):
    """Keeps the checkpoints of one job; one run at a time has it open.

    A plan file names a class: `checkpoint: {custom: {ref: "file.py:Name", args: {...}}}`. The process that started the run makes an
    object, with `args` by keyword. If the class has a method `for_run(run)`, that is called first, with the id of the run: so a
    store of several runs can keep them apart. Every checkpoint that it gets has a state.

    Laws, which `dgs.testing.check_store` checks (`resume_point` makes what `begin` returns):

    - newest: `begin` returns the last committed checkpoint, in any later process.
    - whole: a committed checkpoint comes back unchanged, with a state of any size. After a checkpoint without a state, `begin`
      returns an older state with its own positions, and the committed positions of the newest checkpoint.
    - alone: each `begin` has a greater generation. While one object has begun, a second one is refused (CheckpointBusyError), or
      from then on the first is (FencedError).
    - atomic: whatever happens during `commit` (a crash, a full disk, a torn write), `begin` afterwards returns the previous
      checkpoint or the one that was being committed, whole.
    """

    @abstractmethod
    def begin(self) -> ResumePoint:
        """Begin a generation: fence older ones, publish the files of an interrupted commit, and find the newest whole state.

        A user's store has no files to publish: `Checkpoint.files` is empty. Raises CheckpointRefusedError (exit 6) if the checkpoints are
        of another program or version, or nothing valid is left.
        """

    @abstractmethod
    def commit(self, checkpoint: Checkpoint) -> None:
        """Make the next epoch durable, give its files their final names, and remove states that need not be kept any longer.

        Raises CheckpointFailedError if the epoch could not be made durable. Then the previous one is still the newest; the run
        may go on and try again with the next epoch. Raises FencedError if a newer generation has begun.
        """

    @abstractmethod
    def close(self) -> None:
        """Let other runs open the store."""


for _part in (StagedFile, Checkpoint, Record):
    codec.register(
        _part, name=f"dgs.{_part.__name__}", formerly=f"workers.checkpoints.contract.{_part.__name__}"
    )
codec.register(StagedPart, name="dgs.StagedPart")


def resume_point(generation: int, newest: Checkpoint | None, used: Checkpoint | None) -> ResumePoint:
    """Return the point at which a generation begins. `newest`: the last committed checkpoint; `used`: the newest with a state.

    They are the same unless the newest state is damaged or was not saved. Then outputs between the two are computed again and must not be
    committed again. Those that idempotent sinks have not accepted are in the newest outbox (R7). The point is final if nothing is left to
    compute: the streams had ended, and their last state is here or no state was kept.

    >>> from dgs.model.order import OrderKey
    >>> from dgs.model.tag_sets import TagSet
    >>> from dgs.workers.recovery.positions import Layer, Part
    >>> def at(ts): return Positions({"s": (Layer(1, (Part(0, TagSet.everything(), OrderKey(ts, 0, 0)),)),)})
    >>> point = resume_point(3, Checkpoint(2, None, at(20)), Checkpoint(1, b"older", at(10)))
    >>> point.epoch, point.state, point.positions == at(10), point.committed == at(20)
    (2, b'older', True, True)
    """
    if newest is None:
        return ResumePoint(generation)
    is_final = newest.is_final and (used is None or used.epoch == newest.epoch)
    if used is None:
        return ResumePoint(
            generation, newest.epoch, committed=newest.positions, outbox=newest.outbox, is_final=is_final
        )
    return ResumePoint(
        generation,
        newest.epoch,
        used.state,
        used.positions,
        newest.positions,
        newest.outbox,
        used.sources,
        used.events,
        is_final,
    )


class MemoryStore:
    """A CheckpointStore that lasts as long as the driver. `publish` gives staged files their final names."""

    def __init__(self, publish: Publish | None = None) -> None:
        self._publish = publish or (lambda _files: None)
        self._generation = 0
        self._newest: Checkpoint | None = None
        self._with_state: Checkpoint | None = None

    def begin(self) -> ResumePoint:
        """Begin a generation from the last checkpoint."""
        self._generation += 1
        if self._newest is not None:
            self._publish(self._newest.files)
        return resume_point(self._generation, self._newest, self._with_state)

    def commit(self, checkpoint: Checkpoint) -> None:
        """Replace the previous checkpoint, and publish the files of this one."""
        self._newest = checkpoint
        if checkpoint.state is not None:
            self._with_state = checkpoint
        self._publish(checkpoint.files)

    def close(self) -> None:
        """Do nothing: no other process can have this store."""
