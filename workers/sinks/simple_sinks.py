"""Sinks that have delivered outputs when `write` returns: none, and a function of the user.

>>> from dgs.model.tags import Tag
>>> batch = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[1, 2], seq=[0, 1], index=[0, 0], values=["x", "y"])
>>> sink = NoneSink()
>>> sink.write(batch, epoch=1)
>>> sink.count
2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dgs.model.outputs import OutputBatch
from dgs.model.user_code import calling
from dgs.workers.sinks.contract import Staged


class Delivered:
    """The base of sinks that have delivered outputs when `write` returns."""

    def stage(self, epoch: int) -> Staged:  # noqa: ARG002 - there is nothing to stage
        """Nothing to do."""
        return Staged()

    def close(self) -> None:
        """Nothing to do."""

    def abort(self) -> None:
        """Nothing to do."""


class NoneSink(Delivered):
    """Counts outputs and drops them, for measurements."""

    def __init__(self) -> None:
        self.count = 0

    def write(self, batch: OutputBatch, epoch: int) -> None:  # noqa: ARG002 - there is nothing to stage
        """Count the outputs."""
        self.count += len(batch)


class CallableSink(Delivered):
    """Calls `function(batch, **arguments)` with each batch of outputs, at the hosts. When it returns, the outputs are delivered.

    The function sees every output at least once, and some of them again after a crash. A repeat has the same id, (stream, ts, seq,
    tag, index) of an `OutputBatch` row, and the ids of a tag only grow.

    >>> from dgs.model.tags import Tag
    >>> batch = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[5], seq=[0], index=[0], values=["hello"])
    >>> sink = CallableSink(lambda outputs, end: print(outputs.to_list(), end=end), {"end": "!"}, ref="notes.py:say")
    >>> sink.write(batch, epoch=1), sink.stage(1)
    ['hello']!(None, Staged(files=(), unaccepted=()))
    """

    def __init__(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], *, ref: str, program: str = ""
    ) -> None:
        self._function, self._arguments = function, arguments
        self._ref, self._program = ref, program

    def write(self, batch: OutputBatch, epoch: int) -> None:  # noqa: ARG002 - everything goes out at once
        """Call the function. Its exceptions become a UserCodeError, with the user's traceback first."""
        if not len(batch):
            return
        where = f"as a sink, for {len(batch)} outputs of stream {batch.stream!r}"
        with calling(self._ref, program=self._program, where=lambda: where):
            self._function(batch, **self._arguments)
