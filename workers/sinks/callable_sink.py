"""A sink that calls a Python function with each batch of outputs, at the hosts.

The function sees every output at least once, and some of them again after a crash. A repeat has the same id, (stream, ts, seq,
tag, index) of an `OutputBatch` row, and the ids of a tag only grow.

>>> from dgs.model.tags import Tag
>>> batch = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[5], seq=[0], index=[0], values=["hello"])
>>> sink = CallableSink(lambda outputs, end: print(outputs.to_list(), end=end), {"end": "!"}, ref="notes.py:say")
>>> sink.write(batch, epoch=1), sink.stage(1)
['hello']!(None, Staged(files=(), unaccepted=()))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dgs.model.outputs import OutputBatch
from dgs.model.user_code import calling
from dgs.workers.sinks.simple_sinks import Delivered


class CallableSink(Delivered):
    """Calls `function(batch, **arguments)`. When it returns, the outputs are delivered."""

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
