"""Sinks that users write: what one must do, and what stands between it and the runtime.

>>> from dgs.model.tags import Tag
>>> class Lines:
...     def __init__(self): self.lines = []
...     def write(self, batch, epoch): self.lines += batch.to_list()
...     def stage(self, epoch): return self.lines
>>> lines = ConnectedSink(Lines(), ref="lines.py:Lines", args={}, program="Sum")
>>> lines.write(OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[5], seq=[0], index=[0], values=["hello"]), epoch=1)
>>> (part,) = lines.stage(1).files
>>> codec.decode(part.staged), part.rows
(['hello'], 1)
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dgs import codec
from dgs.errors import ConnectorError
from dgs.job.loading import load_connector
from dgs.model.outputs import OutputBatch
from dgs.model.user_code import calling, packed
from dgs.workers.recovery.checkpoint import StagedPart
from dgs.workers.recovery.positions import declared
from dgs.workers.sinks.contract import Staged

ROLE = "sink"


@dataclass(frozen=True, slots=True)
class Generation:
    """One attempt at a run: from a checkpoint until the run ends or stops, or a host is lost.

    `run`: the same for all attempts at a run, also after it was stopped, and for no other. `number` counts them. `epoch`: the last
    one that is committed; 0 where the run begins.
    """

    run: str
    number: int
    epoch: int


class Sink(Protocol):
    """A place for outputs. A plan file names its class: `sinks: [{custom: {ref: "file.py:Name", args: {...}}}]`.

    Objects are made with `args` by keyword: one in each host, which writes and stages what its workers put out, and one in the
    process that started the run, which publishes what is committed. An *epoch* is what lies between two checkpoints; a run without
    them is one epoch. Outputs of two epochs come in turns, as workers close an epoch at different moments.

    A sink that stages holds outputs back until they are committed: each is there exactly once, whatever fails. It has `publish`. A
    sink without `publish` lets outputs go at once: some come again after a crash, with the same ids (see `ids`).

    Laws, which `dgs.testing.check_sink` looks after. Of a sink that stages:

    - hidden: nothing is to be seen of an epoch before it is published.
    - durable: what `stage` has returned can be published, once or more often, in any later process, also after `close` or `abort`.
    - once: publishing again changes nothing, and staging again in place of what was lost does not count twice.
    - discard: what is staged when a generation begins, and was not published before, never shows.
    - order: outputs of a tag are in the order in which they were written, epoch by epoch.

    Of one that does not: what was written is there after `stage`, and outputs that come again are there once.
    """

    def begin(self, generation: Generation) -> None:
        """Hear, in the process that started the run, that a generation begins: no host writes, and all that is committed is published.

        What else is staged belongs to no checkpoint. At epoch 0 the run begins: this is where to remove what an earlier run has
        left, if this one is to take its place.
        """

    def open(self, generation: Generation, host: int) -> None:
        """Hear, in a host, whose outputs will come.

        A host of an older generation may still be at work: names of what is staged should have both in them.
        """

    @abstractmethod
    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Take outputs of an epoch. `batch.to_list()` gives the values, `batch.tag_list()` the tags of their events."""

    @abstractmethod
    def stage(self, epoch: int) -> Any:
        """Make all that was written of an epoch durable: no more of it will come. Return what `publish` needs, as plain data, or None.

        Leave no lock behind: others write and publish before the next call comes.
        """

    def publish(self, staged: Sequence[Any]) -> None:
        """Show, in the process that started the run, what hosts have staged: it is committed. `staged`: what `stage` returned there.

        It may be called again with the same, also by another process, after a crash.
        """

    def close(self) -> None:
        """Release what is open: the run is complete. What is staged may be published after this."""

    def abort(self) -> None:
        """Release what is open: the generation has ended early. What is staged may still be published."""


def ids(batch: OutputBatch) -> list[tuple[str, int, int]]:
    """Return the id of each output: the declared stream and the row of its event, and the how manieth output of that event it is.

    It is the same after a crash and under every plan.

    >>> from dgs.model.tags import Tag
    >>> ids(OutputBatch.of("s/1", rank=0, tags=[Tag("a")], ts=[5, 5], seq=[7, 7], index=[0, 1], values=["x", "y"]))
    [('s', 7, 0), ('s', 7, 1)]
    """
    stream = declared(batch.stream)[0]
    numbers = zip(np.asarray(batch.seq).tolist(), batch.index.tolist(), strict=True)
    return [(stream, seq, index) for seq, index in numbers]


class ConnectedSink:
    """A user's sink as the runtime calls it: what it raises, or returns and must not, becomes one of our errors."""

    def __init__(self, sink: Any, *, ref: str, args: Mapping[str, Any], program: str) -> None:
        self._sink, self._ref, self._args = sink, ref, dict(args)
        self._program = program
        self._rows: Counter[int] = Counter()

    @property
    def publishes(self) -> bool:
        """Whether outputs are held back until they are committed."""
        return getattr(type(self._sink), "publish", Sink.publish) is not Sink.publish

    def begin(self, generation: Generation) -> None:
        """Say that a generation begins."""
        with self._calling("begin"):
            getattr(self._sink, "begin", lambda _: None)(generation)

    def open(self, generation: Generation, host: int) -> None:
        """Say whose outputs will come."""
        with self._calling("open"):
            getattr(self._sink, "open", lambda *_: None)(generation, host)

    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Hand outputs over."""
        if not len(batch):
            return
        self._rows[epoch] += len(batch)
        with self._calling("write", f"for {len(batch)} outputs of stream {batch.stream!r}"):
            self._sink.write(batch, epoch)

    def stage(self, epoch: int) -> Staged:
        """Let an epoch become durable."""
        with self._calling("stage", f"for epoch {epoch}"):
            found = self._sink.stage(epoch)
        rows = self._rows.pop(epoch, 0)
        if found is None:
            return Staged()
        return Staged((StagedPart(self._ref, self._args, packed(found, self._broken), rows),))

    def publish(self, staged: Sequence[bytes]) -> None:
        """Let what is committed show."""
        with self._calling("publish", f"for {len(staged)} parts"):
            getattr(self._sink, "publish", lambda _: None)([codec.decode(part) for part in staged])

    def close(self) -> None:
        """Say that the run is complete."""
        with self._calling("close"):
            getattr(self._sink, "close", lambda: None)()

    def abort(self) -> None:
        """Say that the generation ended early."""
        with self._calling("abort"):
            getattr(self._sink, "abort", lambda: None)()

    def _calling(self, method: str, where: str = "as a sink") -> AbstractContextManager[None]:
        return calling(f"{self._ref}.{method}", program=self._program, where=lambda: where)

    def _broken(self, said: str) -> ConnectorError:
        return ConnectorError(role=ROLE, ref=self._ref, problem=f"`stage` returned no plain data: {said}")


def connected_sink(ref: str, args: Mapping[str, Any], base_dir: Path, *, program: str) -> ConnectedSink:
    """Return the sink that a section `custom` names. Raises ProgramImportError."""
    made = load_connector(ref, args, base_dir, role=ROLE, needs=Sink.__abstractmethods__)
    return ConnectedSink(made, ref=ref, args=args, program=program)
