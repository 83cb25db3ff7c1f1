"""The sinks without files: memory, stdout, none.

>>> from dgs.tags import Tag
>>> batch = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[1, 2], seq=[0, 1], index=[0, 0], values=["x", "y"])
>>> sink = NoneSink()
>>> sink.write(batch)
>>> sink.count
2
"""

from __future__ import annotations

import sys

from dgs.outputs import OutputBatch
from workers.sinks.json_text import as_json


class MemorySink:
    """Keeps the batches it is given, in `batches`."""

    def __init__(self) -> None:
        self.batches: list[OutputBatch] = []

    def write(self, batch: OutputBatch) -> None:
        """Keep the outputs."""
        self.batches.append(batch)

    def close(self) -> None:
        """Nothing to do."""

    def abort(self) -> None:
        """Nothing to do."""


class NoneSink:
    """Counts outputs and forgets them: for measurements."""

    def __init__(self) -> None:
        self.count = 0

    def write(self, batch: OutputBatch) -> None:
        """Count the outputs."""
        self.count += len(batch)

    def close(self) -> None:
        """Nothing to do."""

    def abort(self) -> None:
        """Nothing to do."""


class StdoutSink:
    """Prints one line of JSON per output."""

    def write(self, batch: OutputBatch) -> None:
        """Print the outputs."""
        sys.stdout.writelines(as_json(value) + "\n" for value in batch.to_list())

    def close(self) -> None:
        """Flush."""
        sys.stdout.flush()

    def abort(self) -> None:
        """Flush."""
        sys.stdout.flush()
