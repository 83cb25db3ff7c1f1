"""Outputs for a Python function: it is called with each batch, at the hosts.

The function sees every output at least once: after a crash some come again. Their ids tell: (stream, ts, seq, tag, index) of an
`OutputBatch` row are the same then, and for each tag they only grow.

>>> from dgs.tags import Tag
>>> batch = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[5], seq=[0], index=[0], values=["hello"])
>>> sink = CallableSink(lambda outputs, end: print(outputs.to_list(), end=end), {"end": "!"}, ref="notes.py:say")
>>> sink.write(batch, epoch=1), sink.stage(1)
['hello']!(None, Staged(files=(), unaccepted=()))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dgs.errors import DgsError, ProgramImportError, UserCodeError
from dgs.loading import load_callable
from dgs.outputs import OutputBatch
from dgs.user_code import user_trace
from workers.sinks.contract import Staged

Take = Callable[..., Any]


def load(ref: str, *, base_dir: Path) -> Take:
    """Return the function that `ref` names. Raises ProgramImportError if there is none."""
    found = load_callable(ref, base_dir)
    if not callable(found):
        raise ProgramImportError(ref=ref, problem=f"it is not a function but {type(found).__name__}")
    return found  # type: ignore[no-any-return]


class CallableSink:
    """Calls `function(batch, **arguments)`. When it returns, the outputs are delivered."""

    def __init__(self, function: Take, arguments: Mapping[str, Any], *, ref: str, program: str = "") -> None:
        self._function, self._arguments = function, arguments
        self._ref, self._program = ref, program

    def write(self, batch: OutputBatch, epoch: int) -> None:  # noqa: ARG002 - everything goes out at once
        """Call the function. What it raises becomes a UserCodeError with the user's traceback first."""
        if not len(batch):
            return
        try:
            self._function(batch, **self._arguments)
        except DgsError:
            raise
        except Exception as error:
            raise UserCodeError(
                trace=user_trace(error),
                function=self._ref,
                program=self._program,
                error=f"{type(error).__name__}: {error}",
                where=f" as a sink, for {len(batch)} outputs of stream {batch.stream!r}",
            ) from error

    def stage(self, epoch: int) -> Staged:  # noqa: ARG002 - everything has gone out
        """Nothing to do."""
        return Staged()

    def close(self) -> None:
        """Nothing to do."""

    def abort(self) -> None:
        """Nothing to do."""
