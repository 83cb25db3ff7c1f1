"""JSON lines, one object per line, read in blocks of lines.

Lines are parsed one by one and their values are kept as they are; Arrow's JSON reader would change some types. With
`heartbeats: true`, a line `{"kind": "heartbeat", "ts": ...}` is a heartbeat. Heartbeats and blank lines take no row number. A
missing field is null, unless the payload is the whole line: then each record has the fields of its line.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dgs.errors import MalformedRowError
from dgs.job.schema import JsonlSource
from dgs.workers.sources.readers.files import open_text
from dgs.workers.sources.rows import Beats, RawRows
from dgs.workers.sources.shaping.mapping import PAYLOAD_COLUMN, Mapping

HEARTBEAT = "heartbeat"
LONGEST_LINE = 2**26
"""Characters. A longer line raises an error before the process runs out of memory."""
Line = dict[str, Any]


class JsonlReader:
    """Reads the files of one stream one after the other."""

    def __init__(self, config: JsonlSource, mapping: Mapping, paths: Iterable[Path], batch_rows: int) -> None:
        self._heartbeats = config.heartbeats
        self._mapping = mapping
        self._paths = paths
        self._batch_rows = batch_rows
        self._row = 0
        self._whole_lines: bool | None = None

    def rows(self) -> Iterator[RawRows]:
        """Yield the rows, at most `batch_rows` lines at a time. Raises MalformedRowError for a line that is not an object."""
        for path in self._paths:
            lines: list[Line] = []
            before: list[int] = []
            beats: list[Any] = []
            for line in self._lines(path):
                if self._heartbeats and line.get("kind") == HEARTBEAT:
                    before.append(len(lines))
                    beats.append(line.get(self._mapping.ts_column))
                else:
                    lines.append(line)
                    self._row += 1
                if len(lines) + len(beats) >= self._batch_rows:
                    yield self._block(lines, Beats(tuple(before), beats), path)
                    lines, before, beats = [], [], []
            if lines or beats:
                yield self._block(lines, Beats(tuple(before), beats), path)

    def _lines(self, path: Path) -> Iterator[Line]:
        number = 0
        try:
            with open_text(path) as file:
                for number, text in enumerate(iter(lambda: file.readline(LONGEST_LINE), ""), start=1):
                    if len(text) == LONGEST_LINE:
                        raise self._broken(
                            path, number, f"the line is longer than {LONGEST_LINE:,} characters"
                        )
                    if text.isspace():
                        continue
                    line = json.loads(text)
                    if not isinstance(line, dict):
                        raise self._broken(path, number, "the line is not a JSON object")
                    yield line
        except json.JSONDecodeError as error:
            raise self._broken(
                path, number, f"the line is not JSON: {error.msg}, column {error.colno}"
            ) from None
        except RecursionError:
            raise self._broken(path, number, "the line is nested too deeply") from None
        except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
            raise self._broken(path, number + 1, f"the file cannot be read any further: {error}") from None
        except ValueError as error:  # a number with more digits than Python converts
            raise self._broken(path, number, f"the line holds a value that cannot be read: {error}") from None

    def _broken(self, path: Path, number: int, problem: str) -> MalformedRowError:
        place = f" ({path.name}, line {number})"
        return MalformedRowError(stream=self._mapping.stream, row=self._row, problem=problem + place)

    def _block(self, lines: list[Line], beats: Beats, path: Path) -> RawRows:
        columns: dict[str, list[Any]] = {
            name: [line.get(name) for line in lines] for name in self._mapping.named
        }
        if lines and self._mapping.payload is None:
            if self._whole_lines is None:
                self._whole_lines = PAYLOAD_COLUMN not in lines[0]
            payload = lines if self._whole_lines else [line.get(PAYLOAD_COLUMN) for line in lines]
            columns[PAYLOAD_COLUMN] = payload
        return RawRows(self._row - len(lines), len(lines), columns, str(path), beats)
