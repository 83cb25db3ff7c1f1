"""The sinks of a simulated run: staged files that get their final names, and a sink that remembers marks.

>>> from dgs.model.tags import Tag
>>> sinks = SimulatedSinks()
>>> outputs = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[7], seq=[0], index=[0], values=["one"])
>>> sinks.write("1-0", outputs)
>>> sinks.publish([StagedFile("1-0", "1-0", 0, "", 1)])
>>> sinks.accept(0, outputs, splits=1)
>>> [batch.to_list() for batch in sinks.visible]
[['one'], ['one']]
"""

from __future__ import annotations

from collections.abc import Sequence

from dgs.errors import FencedError
from dgs.model.outputs import OutputBatch
from dgs.workers.checkpoints import StagedFile, StagedOutput
from dgs.workers.simulated.sources import BLOCK
from dgs.workers.sinks.marks import Marks


class SimulatedSinks:
    """The sinks, which outlive every process. `visible`: the outputs accepted or published so far, which are never taken back."""

    def __init__(self) -> None:
        self.visible: list[OutputBatch] = []
        self._staged: dict[str, list[OutputBatch]] = {}
        self._published: set[str] = set()
        self._marks = Marks(BLOCK)
        self._generation = 0

    def begin(self, generation: int) -> None:
        """Fence older generations, and discard their outputs that are staged but not committed."""
        self._generation = generation
        self._staged.clear()

    def write(self, path: str, batch: OutputBatch) -> None:
        """Append to a staged file."""
        self._staged.setdefault(path, []).append(batch)

    def stage(self, path: str) -> tuple[StagedFile, ...]:
        """Return the files to commit: the file of this path, if there is one."""
        return (StagedFile(path, path, 0, "", 0),) if path in self._staged else ()

    def publish(self, files: Sequence[StagedOutput]) -> None:
        """Give staged files their final names, so that readers see them. A second call does nothing."""
        for file in files:
            if file.final not in self._published:
                self.visible += self._staged.pop(file.final)
                self._published.add(file.final)

    def accept(self, generation: int, batch: OutputBatch, splits: int) -> None:
        """Let the idempotent sink take outputs. Those at or below its marks are repeats (R8). Raises FencedError."""
        if generation != self._generation:
            raise FencedError(path="the sink", generation=generation, newest=self._generation)
        new = self._marks.accept(batch, splits)
        if len(new):
            self.visible.append(new)
