"""Sinks that users write: the protocol `Sink`, and the wrapper through which the runtime calls one.

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

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dgs import codec
from dgs.errors import ConnectorError
from dgs.errors.hidden_values import masked_data
from dgs.job.loading import load_connector
from dgs.model.outputs import OutputBatch
from dgs.model.user_code import calling, packed
from dgs.workers.recovery.checkpoint import StagedPart
from dgs.workers.recovery.positions import declared
from dgs.workers.sinks.contract import Staged, with_own_list

ROLE = "sink"
WHOLE = ""
"""The name of the only part of a sink, where it has no others."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One attempt at a run: from a checkpoint until the run ends or stops, or a host is lost.

    `run`: the id of the run, which is the same for all its attempts, also after a stop. `number`: counts the attempts. `epoch`:
    the last committed epoch, 0 at the beginning of the run. `held`: the last committed epoch of which the sink has staged something.
    """

    run: str
    number: int
    epoch: int
    held: int = 0


class Sink(Protocol):
    """A place for outputs. A plan file names its class: `sinks: [{custom: {ref: "file.py:Name", args: {...}}}]`.

    Objects are made with `args` by keyword. One in each host writes and stages the outputs of its workers. One in the process
    that started the run publishes committed outputs. An *epoch* is the time between two checkpoints; a run without checkpoints is
    one epoch. Outputs of two epochs come in turns, since workers close an epoch at different moments.

    A sink with `publish` holds outputs back until they are committed. Each is visible exactly once, whatever fails. A sink
    without `publish` shows outputs at once: after a crash some come again, with the same ids (see `ids`).

    Laws, which `dgs.testing.check_sink` checks. A sink with `publish`:

    - hidden: no output of an epoch is visible before it is published.
    - durable: the result of `stage` can be published, once or several times, in any later process, also after `close` or `abort`.
    - once: publishing again changes nothing. Outputs that are staged again in place of lost ones do not count twice.
    - discard: outputs that are staged but not published when a generation begins never become visible.
    - order: outputs of a tag are in the order in which they were written, epoch by epoch.

    A sink without `publish`: outputs are visible after `stage`, and repeated outputs only once.
    """

    def place(self) -> str | None:
        """Return the place that the sink writes, such as a table or a URL. It is called in the process that started the run.

        If two runs on one machine have sinks with the same place, the second run is refused. By default (None) the class, its `args`
        and the directory of the plan file identify the place.
        """

    def begin(self, generation: Generation) -> None:
        """Begin a generation, in the process that started the run. No host writes, and all committed outputs are published.

        Staged outputs that are not published belong to no checkpoint. At epoch 0 the run begins: a run that replaces the outputs of an
        earlier one removes them here. Raise `OutputsChangedError` where the sink lacks the epoch `generation.held`: an older copy
        is in its place.
        """

    def open(self, generation: Generation, host: int) -> None:
        """Open the sink in a host. Outputs of `host` in `generation` will come.

        A host of an older generation may still be at work, so the names of staged outputs should contain both numbers.
        """

    @abstractmethod
    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Take outputs of an epoch. `batch.to_list()` gives the values, `batch.tag_list()` the tags of their events.

        The list is the sink's own. The values in it are shared with other sinks, so they must not be changed.
        """

    @abstractmethod
    def stage(self, epoch: int) -> Any:
        """Make all outputs of an epoch durable: no more of them will come. Return plain data for `publish`, or None.

        Keep no lock after this: other objects write and publish before the next call.
        """

    def publish(self, staged: Sequence[Any]) -> None:
        """Make committed outputs visible, in the process that started the run. `staged`: the results of `stage` in the hosts.

        After a crash it may be called again with the same arguments, also in another process, and then before `begin`.
        """

    def close(self) -> None:
        """Close what is open: the run is complete. Staged outputs may be published after this."""

    def abort(self) -> None:
        """Close what is open: the generation has ended early. Staged outputs may still be published."""


def ids(batch: OutputBatch) -> list[tuple[str, int, int]]:
    """Return the id of each output: the declared stream and the row of its event, and its index among the event's outputs.

    The id is the same after a crash and under every plan.

    >>> from dgs.model.tags import Tag
    >>> ids(OutputBatch.of("s/1", rank=0, tags=[Tag("a")], ts=[5, 5], seq=[7, 7], index=[0, 1], values=["x", "y"]))
    [('s', 7, 0), ('s', 7, 1)]
    """
    stream = declared(batch.stream)[0]
    numbers = zip(np.asarray(batch.seq).tolist(), batch.index.tolist(), strict=True)
    return [(stream, seq, index) for seq, index in numbers]


Parts = Callable[[Any], Iterable[str]]


class ConnectedSink:
    """A user's sink as the runtime calls it: exceptions and invalid results become our errors.

    `parts`: gives the names of the parts of the sink of which something is staged.
    """

    def __init__(
        self, sink: Any, *, ref: str, args: Mapping[str, Any], program: str, parts: Parts = lambda _: (WHOLE,)
    ) -> None:
        self._sink, self._ref, self._args = sink, ref, masked_data(args)
        self._program, self._parts = program, parts
        self._rows: Counter[int] = Counter()

    @property
    def ref(self) -> str:
        """The name of its class in the plan file."""
        return self._ref

    @property
    def publishes(self) -> bool:
        """Whether outputs are held back until they are committed."""
        return getattr(type(self._sink), "publish", Sink.publish) is not Sink.publish

    def place(self, base_dir: Path) -> str:
        """Return a text that identifies the place that the sink writes."""
        said, method = None, getattr(type(self._sink), "place", None)
        if callable(method):
            with self._calling("place"):
                said = method(self._sink)
        own = [str(base_dir.resolve()), self._ref, self._args]
        return json.dumps(own, sort_keys=True, default=str) if said is None else f"place {said}"

    def begin(self, generation: Generation) -> None:
        """Begin a generation."""
        with self._calling("begin"):
            getattr(self._sink, "begin", lambda _: None)(generation)

    def open(self, generation: Generation, host: int) -> None:
        """Open the sink for the outputs of a host."""
        with self._calling("open"):
            getattr(self._sink, "open", lambda *_: None)(generation, host)

    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Pass outputs to the sink."""
        if not len(batch):
            return
        self._rows[epoch] += len(batch)
        with self._calling("write", f"for {len(batch)} outputs of stream {batch.stream!r}"):
            self._sink.write(with_own_list(batch), epoch)

    def stage(self, epoch: int) -> Staged:
        """Let the sink make an epoch durable."""
        with self._calling("stage", f"for epoch {epoch}"):
            found = self._sink.stage(epoch)
        rows = self._rows.pop(epoch, 0)
        if found is None:
            return Staged()
        part = StagedPart(self._ref, self._args, packed(found, self._broken), rows)
        return Staged((part,), holds=dict.fromkeys(self._parts(found), epoch))

    def publish(self, staged: Sequence[bytes]) -> None:
        """Let the sink make committed outputs visible."""
        with self._calling("publish", f"for {len(staged)} parts"):
            getattr(self._sink, "publish", lambda _: None)([codec.decode(part) for part in staged])

    def close(self) -> None:
        """Close the sink: the run is complete."""
        with self._calling("close"):
            getattr(self._sink, "close", lambda: None)()

    def abort(self) -> None:
        """Close the sink: the generation ended early."""
        with self._calling("abort"):
            getattr(self._sink, "abort", lambda: None)()

    def _calling(self, method: str, where: str = "as a sink") -> AbstractContextManager[None]:
        return calling(f"{self._ref}.{method}", program=self._program, where=lambda: where)

    def _broken(self, said: str) -> ConnectorError:
        return ConnectorError(role=ROLE, ref=self._ref, problem=f"`stage` did not return plain data: {said}")


def connected_sink(ref: str, args: Mapping[str, Any], base_dir: Path, *, program: str) -> ConnectedSink:
    """Return the sink named in a section `custom`. Raises ProgramImportError."""
    made = load_connector(ref, args, base_dir, role=ROLE, protocol=Sink)
    return ConnectedSink(made, ref=ref, args=args, program=program)
