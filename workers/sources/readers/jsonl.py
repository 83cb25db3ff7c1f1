"""JSON lines, one object per line, read in blocks of lines.

Values are kept as they are; Arrow's JSON reader would change some types. Lines are parsed many at once, and one by one where one of them may be wrong. With
`heartbeats: true`, a line `{"kind": "heartbeat", "ts": ...}` is a heartbeat. Heartbeats and blank lines take no row number. A
missing field is null, unless the payload is the whole line: then each record has the fields of its line.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic_core import from_json

from dgs.codec.levels import levels
from dgs.job.schema import JsonlSource
from dgs.workers.sources.readers.files import FileProblemError, TextFile, undecodable, wrong_byte
from dgs.workers.sources.rows import Arrivals, Beats, Place, RawRows
from dgs.workers.sources.shaping.mapping import PAYLOAD_COLUMN, Mapping, malformed

HEARTBEAT = "heartbeat"
LONGEST_LINE = 2**24
"""Bytes. A longer line raises an error before the process runs out of memory."""
DEEPEST = 100
"""The most levels of lists and objects in a line. The codec carries not many more."""
BLOCK_BYTES = 2**22
"""A block ends with this much text, even if it has few rows."""
_GIVEN_BYTES = 10_000
"""The most bytes of a refused line to keep."""

Line = dict[str, Any]


class LineProblemError(Exception):
    """A line is not a row. The text says why."""


def parsed(text: bytes | None) -> Line:
    """Return the object of a line, with unchanged values. `text`: None for a line that was too long to keep.

    Raises LineProblemError, UnicodeDecodeError.

    >>> parsed(b'{"ts": 1, "a": [null]}')
    {'ts': 1, 'a': [None]}
    """
    if text is None:
        raise LineProblemError(f"the line is longer than {LONGEST_LINE:,} bytes")
    quick = parsed_together([text])
    if quick is not None:
        return quick[0]
    told = text.decode()
    try:
        line = _DECODER.decode(told)
    except json.JSONDecodeError as error:
        raise LineProblemError(f"the line is not JSON: {error.msg}, column {error.colno}") from None
    except RecursionError:
        raise LineProblemError("the line is nested too deeply") from None
    except ValueError:
        most = sys.get_int_max_str_digits()
        raise LineProblemError(f"the line holds a number of more than {most:,} digits") from None
    if not isinstance(line, dict):
        raise LineProblemError("the line is not a JSON object")
    if _fields_in([line]) is None:
        raise LineProblemError(f"the line is nested too deeply: more than {DEEPEST} levels")
    try:
        json.dumps(line, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise LineProblemError(
            "the line holds half of a surrogate pair (\\ud800 to \\udfff), which is not text"
        ) from None
    return line


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise LineProblemError(f"the line holds a number that no float holds: {text[:40]}")
    return number


def _no_number(text: str) -> float:
    raise LineProblemError(f"the line holds {text}, which is not JSON: write null, or a text")


def _fields(pairs: list[tuple[str, Any]]) -> Line:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise LineProblemError(f"the line has the field {twice!r} twice")
    return found


_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=_no_number, object_pairs_hook=_fields)
"""It says what is wrong with a line."""


def parsed_together(lines: Sequence[bytes | None]) -> list[Line] | None:
    """Return the objects of lines, with unchanged values. None if a line may not be an object without repeated fields.

    >>> parsed_together([b'{"a": 1}', b'{"a": [{"b": 2}]}'])
    [{'a': 1}, {'a': [{'b': 2}]}]
    >>> parsed_together([b'{"a": 1}', b'{"a": 2']), parsed_together([b'{"a": 1, "a": 2}']), parsed_together([b""])
    (None, None, None)
    """
    try:
        found = [from_json(cast("bytes", line), allow_inf_nan=False) for line in lines]
    except (TypeError, ValueError):
        return None
    if set(map(type, found)) != {dict}:
        return None
    fields, text = _fields_in(found), b"\n".join(cast("Sequence[bytes]", lines))
    return found if fields is not None and _are_names(fields, text) else None


def _are_names(fields: int, text: bytes) -> bool:
    r"""Return whether lines of JSON have as many names as they have fields, so that no name is repeated in an object.

    If no name has space after it, there are at least as many quotes with a colon as there are names. Else all colons outside of texts
    are counted.

    >>> _are_names(2, b'{"a:{": 1}\n{"b": [2]}'), _are_names(2, b'{"a" : {"b\\":": ":"}}'), _are_names(1, b'{"a": 1, "a": 2}')
    (True, True, False)
    """
    if text.count(b'":') == fields and not any(space in text for space in (b" :", b"\t", b"\r")):
        return True
    if b"\\" in text:
        text = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    marks = np.frombuffer(text.translate(None, _WITHOUT_MEANING), np.uint8)
    is_outside = np.cumsum(marks == ord('"'), dtype=np.uint8) % 2 == 0  # of texts: only parity counts
    return int(np.count_nonzero(is_outside & (marks == ord(":")))) == fields


_WITHOUT_MEANING = bytes(set(range(256)) - set(b'":'))
"""All characters but quotes and colons."""


def _fields_in(objects: Sequence[Line]) -> int | None:
    """Return the number of fields of objects and of all objects in them. None if they are too deep or a number is infinite.

    Python reads a number beyond the range of floats as infinite.
    """
    fields = 0
    for depth, level in enumerate(levels(objects)):
        if depth >= DEEPEST and (level.dicts or level.lists):
            return None
        if float in level.types and not _INFINITE.isdisjoint(
            one for one in level.values if type(one) is float
        ):
            return None
        fields += sum(map(len, level.dicts))
    return fields


_INFINITE = frozenset((math.inf, -math.inf))


class JsonlReader:
    """Reads the files of one stream one after the other."""

    def __init__(self, config: JsonlSource, mapping: Mapping, paths: Iterable[Path], batch_rows: int) -> None:
        self._heartbeats = config.heartbeats
        self._encoding = config.encoding
        self._mapping = mapping
        self._paths = paths
        self._batch_rows = batch_rows
        self._row = 0
        self._block = self._begun()
        self._whole_lines: bool | None = None

    def rows(self) -> Iterator[RawRows | Arrivals]:
        """Yield the rows, at most `batch_rows` lines at a time. Raises MalformedRowError for a line that is not an object."""
        for path in self._paths:
            yield from self._file(path)

    def _file(self, path: Path) -> Iterator[RawRows | Arrivals]:
        number = 0
        try:
            with TextFile(path, self._encoding) as file:
                for lines in file.groups_of_lines(LONGEST_LINE):
                    rest = lines
                    while rest:
                        room = self._batch_rows - len(self._block)
                        part, rest = rest[:room], rest[room:]
                        yield from self._take(part, number, path)
                        number += len(part)
        except FileProblemError as error:
            place = Place(path.name, number + 1)
            raise malformed(self._mapping.stream, self._row, str(error), place) from None
        yield from self._flushed(path)

    def _take(self, lines: Sequence[bytes | None], number: int, path: Path) -> Iterator[RawRows | Arrivals]:
        """Put the lines after line `number` into the block; yield full blocks, and placeholders for unreadable lines."""
        found = parsed_together(lines)
        if found is not None:
            self._add(found, number + 1, sum(map(len, cast("Sequence[bytes]", lines))))
            if self._block.is_full(self._batch_rows):
                yield from self._flushed(path)
            return
        for at, text in enumerate(lines, start=number + 1):
            if text is not None and (text.isspace() or not text):
                continue
            refused = self._take_line(text, at, path)
            if refused is not None or self._block.is_full(self._batch_rows):
                yield from self._flushed(path)
            if refused is not None:
                yield refused

    def _add(self, lines: Sequence[Line], number: int, size: int) -> None:
        """Add lines from `number` on, of `size` bytes in all, to the block. Some may be heartbeats."""
        begin = beats = 0
        if self._heartbeats:
            for at, line in enumerate(lines):
                if line.get("kind") == HEARTBEAT:
                    self._block.add(lines[begin:at], number + begin)
                    self._block.add_beat(line.get(self._mapping.ts_column))
                    begin = at + 1
                    beats += 1
        self._block.add(lines[begin:], number + begin)
        self._block.size += size
        self._row += len(lines) - beats

    def _flushed(self, path: Path) -> Iterator[RawRows]:
        """Yield the rows of the block, and begin another one."""
        block, self._block = self._block, self._begun()
        yield from self._rows_of(block, path)

    def _begun(self) -> _Block:
        return _Block(self._row, self._mapping.named, keeps_lines=self._mapping.payload is None)

    def _take_line(self, text: bytes | None, number: int, path: Path) -> Arrivals | None:
        """Put a line into the block; return the placeholder event for a line that cannot be read."""
        try:
            line = parsed(text)
        except LineProblemError as error:
            problem = str(error)
        except UnicodeDecodeError as error:
            skips = self._mapping.skips  # the whole file is searched for a single error, not for many
            problem = wrong_byte(error, self._encoding) if skips else undecodable(path, self._encoding)
        else:
            self._add([line], number, len(text or b""))
            return None
        given = (text or b"")[:_GIVEN_BYTES].decode(errors="replace")
        refused = self._mapping.refused(self._row, problem, given, Place(path.name, number))
        self._row += 1
        return refused

    def _rows_of(self, block: _Block, path: Path) -> Iterator[RawRows]:
        if not block.count and not block.beats:
            return
        columns = block.columns
        if block.count:
            if block.keeps_lines:
                if self._whole_lines is None:
                    self._whole_lines = PAYLOAD_COLUMN not in block.example
                lines = block.lines
                payload = lines if self._whole_lines else [line.get(PAYLOAD_COLUMN) for line in lines]
                columns[PAYLOAD_COLUMN] = payload
            self._mapping.check_names(block.example, str(path))
        first, numbers, name = block.first, block.numbers, path.name

        def place(row: int) -> Place:
            index = row - first
            return Place(name, numbers[index] if 0 <= index < len(numbers) else None)

        beats = Beats(tuple(block.before), block.beats)
        yield RawRows(first, block.count, columns, str(path), beats, place)


class _Block:
    """Rows that are read, from row `first` on: their named columns and line numbers, and the heartbeats among them.

    Columns are taken from lines that have just been parsed, which is twice as fast as later. `lines`: the whole lines, if they are kept.
    """

    def __init__(self, first: int, names: Iterable[str], *, keeps_lines: bool) -> None:
        self.first = first
        self.count = 0
        self.columns: dict[str, list[Any]] = {name: [] for name in names}
        self.keeps_lines = keeps_lines
        self.lines: list[Line] = []
        self.example: Line = {}
        self.numbers: list[int] = []
        self.before: list[int] = []
        self.beats: list[Any] = []
        self.size = 0

    def __len__(self) -> int:
        return self.count + len(self.beats)

    def add(self, lines: Sequence[Line], number: int) -> None:
        """Add lines from `number` on."""
        if not lines:
            return
        for name, column in self.columns.items():
            try:
                values = list(map(itemgetter(name), lines))
            except KeyError:
                values = [line.get(name) for line in lines]
            column.extend(values)
        if self.keeps_lines:
            self.lines += lines
        if not self.count:
            self.example = lines[0]
        self.count += len(lines)
        self.numbers += range(number, number + len(lines))

    def add_beat(self, ts: Any) -> None:
        """Add a heartbeat after the rows that are there."""
        self.before.append(self.count)
        self.beats.append(ts)

    def is_full(self, rows: int) -> bool:
        """Whether the block is large enough."""
        return len(self) >= rows or self.size >= BLOCK_BYTES
