"""JSON lines, one object per line, read in blocks of lines.

Values are kept as they are; Arrow's JSON reader would change some types. Lines are parsed many at once, and one by one where one of them may be wrong. With
`heartbeats: true`, a line `{"kind": "heartbeat", "ts": ...}` is a heartbeat. Heartbeats and blank lines take no row number. A
missing field is null, unless the payload is the whole line: then each record has the fields of its line.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import numpy as np

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
    told = text.decode()
    try:
        line = _flat(told) or _DECODER.decode(told)
    except json.JSONDecodeError as error:
        raise LineProblemError(f"the line is not JSON: {error.msg}, column {error.colno}") from None
    except RecursionError:
        raise LineProblemError("the line is nested too deeply") from None
    except ValueError:
        most = sys.get_int_max_str_digits()
        raise LineProblemError(f"the line holds a number of more than {most:,} digits") from None
    if not isinstance(line, dict):
        raise LineProblemError("the line is not a JSON object")
    if told.count("[") + told.count("{") > DEEPEST and _is_deep(line):
        raise LineProblemError(f"the line is nested too deeply: more than {DEEPEST} levels")
    if _has_half_pair(told):
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
_TOGETHER = json.JSONDecoder(parse_constant=_no_number)
_SCAN = json.JSONDecoder(parse_float=_number, parse_constant=_no_number).scan_once  # type: ignore[attr-defined]  # typeshed lacks it


def _flat(told: str) -> Line | None:
    """Return the object of a line that Python's C code can parse alone: a flat object without repeated fields. None if it may not be one.

    Every name is followed by a quote and a colon, so such pairs are at least as many as the names.

    >>> _flat('{"a": 1, "b": "x"}'), _flat('{"a": 1, "a": 2}'), _flat('{"a" :1, "a": 2}'), _flat('{"a": {}}')
    ({'a': 1, 'b': 'x'}, None, None, None)
    """
    if told.count("{") != 1 or " :" in told or "\t:" in told or "\r:" in told or "\n:" in told:
        return None
    try:
        line, end = _SCAN(told, 0)
    except (StopIteration, ValueError, RecursionError):
        return None  # the other decoder says what is wrong
    is_whole = end == len(told) or told[end:].isspace()
    return line if is_whole and isinstance(line, dict) and told.count('":') == len(line) else None


def parsed_together(lines: Sequence[bytes | None]) -> list[Line] | None:
    """Return the objects of lines, parsed by one call. None if a line may not be one object without repeated fields.

    No text spans lines. So where all lines end outside brackets, and there are as many objects as lines, each line is one.

    >>> parsed_together([b'{"a": 1}', b'{"a": [{"b": 2}]}'])
    [{'a': 1}, {'a': [{'b': 2}]}]
    >>> parsed_together([b'{"a": 1}', b'{"a": 2']), parsed_together([b'{"a": 1, "a": 2}']), parsed_together([b""])
    (None, None, None)
    """
    try:
        together = b",\n".join(cast("Sequence[bytes]", lines))
        told = together.decode()
        if _has_half_pair(told):
            return None
        found: list[Line] = _TOGETHER.decode(f"[{told}]")
    except (TypeError, ValueError, RecursionError, LineProblemError):
        return None  # the other decoder says what is wrong, and in which line
    if len(found) != len(lines) or set(map(type, found)) != {dict}:
        return None
    fields = _fields_in(found)
    if _are_flat(together, len(lines)) and fields == together.count(b'":'):
        return found
    ends_outside, names = _structure(together)
    return found if ends_outside and names == fields else None


def _has_half_pair(told: str) -> bool:
    r"""Return whether JSON may hold an escape of half a surrogate pair. Texts beyond 16 bits, such as emoji, are often written as escaped pairs.

    >>> _has_half_pair(r'["\ud83d\ude00 \ud55c"]'), _has_half_pair(r'["\ud83d"]'), _has_half_pair(r'["\\ud83d\ude00"]')
    (False, True, True)
    """
    if "\\ud" not in told and "\\uD" not in told:
        return False
    return _HALF.search(_PAIR.sub("_", told.replace("\\\\", "_"))) is not None


_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def _are_flat(together: bytes, count: int) -> bool:
    """Return whether each line of JSON begins with the only `{` in it and ends with `}`, and no name has space after it.

    Then there are at least as many quotes with a colon as there are names.
    """
    return (
        together.startswith(b"{")
        and together.endswith(b"}")
        and together.count(b"{") == count == together.count(b"},\n{") + 1
        and not any(space in together for space in (b"\t", b"\r", b" :"))
    )


def _structure(together: bytes) -> tuple[bool, int]:
    r"""Return whether each line of JSON ends outside brackets, and how many fields there are.

    >>> _structure(b'{"a:{": 1},\n{"b": [2]}'), _structure(b'{"a": [1,\n2]}')
    ((True, 2), (False, 1))
    """
    if b"\\" in together:
        together = together.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    codes = np.frombuffer(together.translate(None, _WITHOUT_MEANING), np.uint8)
    is_outside = np.cumsum(codes == ord('"'), dtype=np.uint8) % 2 == 0  # of texts: only parity counts
    levels = np.cumsum(_LEVELS[codes] * is_outside, dtype=np.int32)
    return not levels[codes == ord("\n")].any(), int(np.count_nonzero(is_outside & (codes == ord(":"))))


_WITHOUT_MEANING = bytes(set(range(256)) - set(b'"{}[]:\n'))
"""The characters that say nothing about the structure."""

_LEVELS = np.zeros(256, np.int8)
"""By how much a character changes the level of nesting."""
_LEVELS[list(b"{[")], _LEVELS[list(b"}]")] = 1, -1


def _fields_in(objects: Sequence[Line]) -> int | None:
    """Return the number of fields of objects and of all objects in them. None if they are too deep or a number is infinite.

    Python reads a number beyond the range of floats as infinite.
    """
    fields, dicts, lists = 0, objects, list[list[Any]]()
    for _ in range(DEEPEST):
        fields += sum(map(len, dicts))
        values = [*chain.from_iterable(map(dict.values, dicts)), *chain.from_iterable(lists)]
        of = set(map(type, values))
        if float in of and not _INFINITE.isdisjoint(one for one in values if type(one) is float):
            return None
        dicts = [value for value in values if type(value) is dict] if dict in of else []
        lists = [value for value in values if type(value) is list] if list in of else []
        if not dicts and not lists:
            return fields
    return None


_INFINITE = frozenset((math.inf, -math.inf))


def _is_deep(line: Line) -> bool:
    level: Sequence[Any] = [line]
    for _ in range(DEEPEST):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, (dict, list))
        ]
    return bool(level)


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
        found = None if self._may_have_beats(lines) else parsed_together(lines)
        if found is not None:
            self._block.add(found, number + 1, sum(map(len, cast("Sequence[bytes]", lines))))
            self._row += len(found)
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

    def _may_have_beats(self, lines: Sequence[bytes | None]) -> bool:
        return self._heartbeats and any(
            line is not None and (b"\\" in line or HEARTBEAT.encode() in line) for line in lines
        )

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
            if self._heartbeats and line.get("kind") == HEARTBEAT:
                self._block.before.append(self._block.count)
                self._block.beats.append(line.get(self._mapping.ts_column))
                return None
            self._block.add([line], number, len(text or b""))
            self._row += 1
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

    def add(self, lines: Sequence[Line], number: int, size: int) -> None:
        """Add lines from `number` on, of `size` bytes in all."""
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
        self.size += size

    def is_full(self, rows: int) -> bool:
        """Whether the block is large enough."""
        return len(self) >= rows or self.size >= BLOCK_BYTES
