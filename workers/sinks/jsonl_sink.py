"""JSON lines: one output per line."""

from __future__ import annotations

from pathlib import Path

from dgs.outputs import OutputBatch
from workers.sinks.json_text import as_json
from workers.sinks.part_file import PartFile, refusing


class JsonlSink:
    """Writes `part-<host>.jsonl`."""

    def __init__(self, directory: Path, host: int) -> None:
        self._directory = directory
        self._part = PartFile(directory, f"part-{host}", "jsonl")
        self._is_empty = True

    def write(self, batch: OutputBatch) -> None:
        """Append the outputs."""
        if not len(batch):
            return
        self._is_empty = False
        text = "\n".join(map(as_json, batch.to_list())) + "\n"
        with refusing(self._directory):
            self._part.file.write(text.encode())

    def close(self) -> None:
        """Give the file its final name; a host without outputs leaves no file."""
        self._part.commit(keep=not self._is_empty)

    def abort(self) -> None:
        """Leave the `.partial` file."""
        self._part.abort()
