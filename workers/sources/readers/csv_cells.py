"""The cells of CSV files as typed columns, and the bad cells of a column that does not fit its type.

Usually Arrow converts whole blocks. If it refuses a block, its cells come as bytes, and columns are converted in halves.

>>> typed, wrong = converted(pa.array([b"1", b"x", None]), pa.int64())
>>> typed.to_pylist(), wrong
([1, None, None], {1: "invalid value 'x' does not fit the type int64 of the column"})
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from dgs.workers.sources.shaping.times import UntypableError, datetimes

NULLS = ["", "NA"]
"""The null texts in columns that are not text, unless `nulls:` is given."""

_TYPES = {
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bool": pa.bool_(),
    "datetime": pa.string(),
}
_BEYOND_EXACT, _BEYOND_INT = 2.0**53, 2.0**63
"""The first floats beside which there are integers that no float holds, and that no column of integers holds."""
_SHOWN = 60

Wrong = dict[int, str]
"""The reasons why cells do not fit, by their position."""


class DoesNotFitError(Exception):
    """A block holds a cell that does not fit."""


def column_types(columns: Mapping[str, str]) -> dict[str, pa.DataType]:
    """Return Arrow's types for those of plan.yaml. Datetimes are read as text and parsed by the rules of `Clock`."""
    return {name: _TYPES[kind] for name, kind in columns.items()}


class CellTypes:
    """The types of the columns of one stream: declared ones, and ones from the first rows, which stay the same in later files.

    `ts_column`: the column of times. `nulls`: the texts that are null, None for the default.
    """

    def __init__(self, declared: Mapping[str, str], *, ts_column: str, nulls: list[str] | None) -> None:
        self._declared = declared
        self._ts_column = ts_column
        self._nulls = nulls
        self._known = column_types(declared)

    def known(self, names: list[str]) -> dict[str, pa.DataType]:
        """Return the known types of these columns."""
        return {name: self._known[name] for name in names if name in self._known}

    def learn(self, name: str, kind: pa.DataType) -> None:
        """Remember the type of a column, unless all its cells are null."""
        if not pa.types.is_null(kind):
            self._known.setdefault(name, pa.string() if pa.types.is_binary(kind) else kind)

    def of_block(self, column: pa.Array, name: str) -> pa.Array:
        """Return a column that Arrow has converted. Raises DoesNotFitError if the conversion lost something."""
        if pa.types.is_binary(column.type) or self._has_lost(column, name):
            raise DoesNotFitError
        if not self._is_time(column, name):
            return column
        try:
            return self._as_times(column, name)
        except UntypableError:
            raise DoesNotFitError from None

    def of_cells(self, cells: pa.Array, name: str) -> tuple[pa.Array, Wrong]:
        """Return a column from cells that are bytes, with null for bad cells, and the reasons for these."""
        kind = self._known.get(name)
        usual = self._nulls is None and kind != pa.string()
        column, wrong = converted(without(cells, NULLS) if usual else cells, kind)
        self.learn(name, column.type)
        if usual and pa.types.is_string(column.type):
            column, wrong = converted(cells, column.type)
        if self._has_lost(column, name):
            wrong |= _lost(cells, column, is_exact=self._is_exact(name))
        if not self._is_time(column, name):
            return column, wrong
        try:
            return self._as_times(column, name), wrong
        except UntypableError:
            return self._time_by_time(column, name, wrong)

    def _is_time(self, column: pa.Array, name: str) -> bool:
        is_time = name == self._ts_column or self._declared.get(name) == "datetime"
        return is_time and pa.types.is_string(column.type)

    def _as_times(self, column: pa.Array, name: str) -> pa.Array:
        """Return text with nulls applied, as datetimes if declared so. `Clock` parses the time column."""
        if self._nulls is None:
            column = without(column, NULLS)
        return column if name == self._ts_column else datetimes(column)

    def _time_by_time(self, column: pa.Array, name: str, wrong: Wrong) -> tuple[pa.Array, Wrong]:
        parts: list[pa.Array] = []
        for i in range(len(column)):
            try:
                parts.append(self._as_times(column.slice(i, 1), name))
            except UntypableError as problem:
                parts.append(pa.nulls(1, pa.timestamp("us")))
                wrong.setdefault(i, str(problem))
        return pa.concat_arrays(parts), wrong

    def _has_lost(self, column: pa.Array, name: str) -> bool:
        """Return whether a column of floats may have rounded integers, or lost numbers beyond the range of floats."""
        if not pa.types.is_floating(column.type):
            return False
        values = np.abs(np.asarray(column.fill_null(0), dtype=np.float64))
        return bool(np.isinf(values).any() or (self._is_exact(name) and (values >= _BEYOND_EXACT).any()))

    def _is_exact(self, name: str) -> bool:
        """Return whether integers in a column of floats must be held exactly. Who declares floats takes them rounded, but no times."""
        return name == self._ts_column or name not in self._declared


def _lost(cells: pa.Array, column: pa.Array, *, is_exact: bool) -> Wrong:
    found: Wrong = {}
    for i, (cell, value) in enumerate(zip(cells.to_pylist(), column.to_pylist(), strict=True)):
        if value is None or abs(value) < _BEYOND_EXACT:
            continue
        text = cell.decode(errors="replace").strip()
        if np.isinf(value) and "inf" not in text.lower():
            found[i] = f"{text[:_SHOWN]} is beyond what a float holds"
        elif is_exact and re.fullmatch(r"[+-]?\d+", text):
            if abs(value) >= _BEYOND_INT:
                found[i] = f"{text[:_SHOWN]} is beyond 64 bits, and a float would round it"
            elif int(text) != value:
                found[i] = f"{text} is an integer in a column of floats, and a float would round it"
    return found


def converted(cells: pa.Array, kind: pa.DataType | None) -> tuple[pa.Array, Wrong]:
    """Return cells in a type, with null for bad cells, and the reasons. `kind` None: a type that fits all cells."""
    whole = _attempt(cells, kind)
    if isinstance(whole, pa.Array) and not pa.types.is_binary(whole.type):
        return whole, {}
    kind = pa.string() if kind is None else kind
    parts: list[pa.Array] = []
    wrong: Wrong = {}
    for first, part in _halved(cells, 0, kind):
        if not isinstance(part, pa.Array):
            wrong[first] = part if _is_text(cells[first].as_py()) else NO_TEXT
        parts.append(part if isinstance(part, pa.Array) else pa.nulls(1, kind))
    return pa.concat_arrays(parts), wrong


def _is_text(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


def _halved(cells: pa.Array, first: int, kind: pa.DataType) -> Iterator[tuple[int, pa.Array | str]]:
    found = _attempt(cells, kind)
    if isinstance(found, pa.Array) or len(cells) == 1:
        yield first, found
        return
    middle = len(cells) // 2
    yield from _halved(cells.slice(0, middle), first, kind)
    yield from _halved(cells.slice(middle), first + middle, kind)


def _attempt(cells: pa.Array, kind: pa.DataType | None) -> pa.Array | str:
    """Return cells in a type, or the reason why they do not fit it."""
    if kind is not None and pa.types.is_string(kind):
        try:
            return cells.cast(kind)
        except pa.ArrowInvalid:
            return NO_TEXT
    quoted = (
        b",0" if cell is None else b'"' + cell.replace(b'"', b'""') + b'",0' for cell in cells.to_pylist()
    )
    written = b"\n".join(quoted) + b"\n"
    read = arrow_csv.ReadOptions(
        use_threads=False, block_size=len(written) + 1, column_names=["cell", "zero"]
    )
    convert = arrow_csv.ConvertOptions(
        column_types={} if kind is None else {"cell": kind},
        null_values=[""],
        quoted_strings_can_be_null=False,
        strings_can_be_null=True,
        include_columns=["cell"],
    )
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    try:
        table = arrow_csv.read_csv(io.BytesIO(written), read, parse, convert)
    except pa.ArrowInvalid as error:
        why = re.sub(r"(?s)^.*CSV conversion error to [^:]+: ", "", str(error))
        return f"{why} does not fit the type {kind} of the column"
    column = table.column(0).combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


NO_TEXT = "the text is not in its encoding"


def without(cells: pa.Array, nulls: list[str]) -> pa.Array:
    """Return cells with null in place of these texts."""
    said = pa.array(nulls).cast(cells.type)
    return pc.if_else(pc.is_in(cells, said), pa.scalar(None, cells.type), cells)


class BadRow:
    """A bad record: its number in the file, from 0, the reason, and the readable part."""

    def __init__(self, record: int, problem: str, given: Any) -> None:
        self.record, self.problem, self.given = record, problem, given


class RaggedRows:
    """Notes records with too few or too many fields. `header`: the number of records before the first row."""

    def __init__(self, header: int) -> None:
        self._header = header
        self._cursor = 0
        self.found: dict[int, BadRow] = {}

    def __call__(self, row: Any) -> str:
        """Note a record that Arrow refuses, and tell Arrow to skip it."""
        shown = repr(row.text)
        shown = shown if len(shown) <= 3 * _SHOWN else shown[: 3 * _SHOWN] + "..."
        record = row.number - 1 - self._header
        problem = f"{row.actual_columns} fields, but the header has {row.expected_columns}: {shown}"
        self.found[record] = BadRow(record, problem, row.text)
        return "skip"

    def around(self, count: int) -> tuple[list[int], dict[int, BadRow]]:
        """Return the records of the next `count` rows; remove and return the refused ones before and among them."""
        records: list[int] = []
        while len(records) < count:
            if self._cursor not in self.found:
                records.append(self._cursor)
            self._cursor += 1
        passed = {record: row for record, row in self.found.items() if record < self._cursor}
        self.found = {record: row for record, row in self.found.items() if record >= self._cursor}
        return records, passed


@contextmanager
def unprinted() -> Iterator[None]:
    """Keep Python from printing an error in the call of `RaggedRows` with a record that is not text: Arrow raises one, too."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda told: None if isinstance(told.object, RaggedRows) else before(told)
    try:
        yield
    finally:
        sys.unraisablehook = before
