"""JSON lines: one output per line."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from dgs.errors import DgsError
from dgs.outputs import OutputBatch
from workers.sinks.contract import Staged
from workers.sinks.json_columns import json_lines
from workers.sinks.part_file import PartFile, refusing
from workers.sinks.waiting import Waiting

ROWS_AT_ONCE = 1024


class JsonlSink:
    """Writes `part-<host>.jsonl`."""

    def __init__(self, directory: Path, host: int) -> None:
        self._directory = directory
        self._part = PartFile(directory, f"part-{host}", "jsonl")
        self._is_empty = True
        self._waiting = Waiting()

    def write(self, batch: OutputBatch, epoch: int) -> None:  # noqa: ARG002 - one epoch so far
        """Collect the outputs; write them when there are enough."""
        if not len(batch):
            return
        self._is_empty = False
        self._waiting.add(batch.values)
        if self._waiting.rows >= ROWS_AT_ONCE:
            self._flush()

    def stage(self, epoch: int) -> Staged:  # noqa: ARG002 - one epoch so far
        """Nothing to do."""
        return Staged()

    def close(self) -> None:
        """Write what is left and give the file its final name; a host without outputs leaves no file."""
        self._flush()
        self._part.commit(keep=not self._is_empty)

    def abort(self) -> None:
        """Write what is left and leave the `.partial` file."""
        with suppress(DgsError):  # the run has failed already; why it did is the news
            self._flush()
        self._part.abort()

    def _flush(self) -> None:
        if self._waiting.rows:
            lines = json_lines(*self._waiting.take())
            with refusing(self._directory):
                self._part.file.write(lines)
