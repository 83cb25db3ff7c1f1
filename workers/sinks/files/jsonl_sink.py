"""JSON lines: one output per line."""

from __future__ import annotations

from dgs.model.columns import Column
from dgs.workers.sinks.files.buffer import Waiting
from dgs.workers.sinks.files.file_sink import EpochParts, FileSink
from dgs.workers.sinks.files.part_file import PartFile
from dgs.workers.sinks.files.places import PartNames
from dgs.workers.sinks.formats.json_columns import json_lines

ROWS_AT_ONCE = 1024


class JsonlWriter:
    """Writes the lines of one epoch, many at once."""

    def __init__(self, parts: EpochParts) -> None:
        self._parts = parts
        self._part: PartFile = parts.begin()
        self._waiting = Waiting()

    def write(self, values: Column) -> None:
        """Collect outputs, and write them when there are enough."""
        self._waiting.add(values)
        if self._waiting.rows >= ROWS_AT_ONCE:
            self.finish()

    def finish(self) -> None:
        """Write the remaining outputs."""
        if rows := self._waiting.rows:
            lines = json_lines(*self._waiting.take())
            with self._part.writing() as file:
                file.write(lines)
            self._parts.count(rows)


def jsonl_sink(names: PartNames) -> FileSink:
    """Return a sink of JSON lines."""
    return FileSink(names, JsonlWriter)
