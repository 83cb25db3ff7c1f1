"""CSV files, streamed through Arrow: only the needed columns, typed, with `NA` and empty fields as null.

A column has the type given in `columns:`, a key column has that of its kind's keys, and any other one the type seen in its first
block (a megabyte). An empty string in quotes is an empty string, not null. Rows are numbered from 0 without the header.

>>> column_types({"a": "int", "when": "datetime"})
{'a': DataType(int64), 'when': DataType(string)}
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from dgs.errors import MalformedRowError
from dgs.job.schema import CsvSource
from dgs.workers.sources.readers.files import open_arrow, open_text
from dgs.workers.sources.rows import RawRows
from dgs.workers.sources.shaping.mapping import Mapping as RowMapping
from dgs.workers.sources.shaping.mapping import unknown_column

NULLS = ["", "NA"]
BLOCK_BYTES = 1 << 20
_TYPES = {
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bool": pa.bool_(),
    "datetime": pa.string(),
}


def column_types(columns: Mapping[str, str]) -> dict[str, pa.DataType]:
    """Return Arrow's types for those of plan.yaml. Datetimes are read as text and parsed by the rules of `Clock`."""
    return {name: _TYPES[kind] for name, kind in columns.items()}


class CsvReader:
    """Reads the files of one stream one after the other."""

    def __init__(
        self, config: CsvSource, mapping: RowMapping, paths: Iterable[Path], key_types: Mapping[str, str]
    ) -> None:
        self._config = config
        self._mapping = mapping
        self._paths = paths
        self._types = {**key_types, **config.columns}
        self._row = 0

    def rows(self) -> Iterator[RawRows]:
        """Yield the rows, a block at a time. Raises MalformedRowError, UnknownColumnError."""
        for path in self._paths:
            yield from self._file(path)

    def _file(self, path: Path) -> Iterator[RawRows]:
        names = self._config.header or _header(path, self._config.delimiter)
        if not names:
            return
        wanted = self._mapping.needed(names, str(path))
        for column in self._config.columns:
            if column not in names:
                raise unknown_column(self._mapping.stream, column, names, str(path))
        start, bad = self._row, _Unreadable()
        try:
            with open_arrow(path) as stream:
                for block in _blocks(stream, self._config, wanted, self._types, bad):
                    columns = {name: self._typed(block, name) for name in wanted}
                    yield RawRows(self._row, block.num_rows, columns, str(path))
                    self._row += block.num_rows
        except pa.ArrowInvalid as error:
            header = 0 if self._config.header else 1
            raise self._located(str(error), bad, path, names=wanted, start=start, header=header) from None
        except (OSError, EOFError) as error:
            problem = f"{path.name} cannot be read any further: {error}"
            raise MalformedRowError(stream=self._mapping.stream, row=self._row, problem=problem) from None

    def _typed(self, block: pa.RecordBatch, name: str) -> Any:
        column = block.column(name)
        if self._types.get(name) != "datetime" or name == self._mapping.ts_column:
            return column
        return self._mapping.datetimes(column, self._row)

    def _located(
        self, text: str, bad: _Unreadable, path: Path, *, names: list[str], start: int, header: int
    ) -> MalformedRowError:
        """Return our error for one of Arrow's: which row, which column, which value, and what to do."""
        row, problem = self._row, text
        if bad.row is not None:
            number, expected, got, line = bad.row
            row = start + number - 1 - header
            problem = f"{got} fields, but the header has {expected}: {line!r}"
        elif found := re.search(
            r"CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to ([^:]+): (.*)", text, re.DOTALL
        ):
            column, number_text, kind, value = found.groups()
            name = names[int(column)] if int(column) < len(names) else column
            row = start + int(number_text) - 1 - header if number_text else row
            problem = f"column {name!r}: {value} does not fit the type {kind} of the column; say `columns: {{{name}: str}}` or correct it"
        place = f" ({path.name}, record {row - start + 1})"
        return MalformedRowError(stream=self._mapping.stream, row=row, problem=problem + place)


class _Unreadable:
    """Remembers the row that Arrow could not split into fields."""

    def __init__(self) -> None:
        self.row: tuple[int, int, int, str] | None = None

    def __call__(self, row: Any) -> str:
        if self.row is None:
            self.row = (row.number or 0, row.expected_columns, row.actual_columns, row.text)
        return "error"


def _header(path: Path, delimiter: str) -> list[str]:
    with open_text(path) as file:
        return next(csv.reader(file, delimiter=delimiter), [])


def _blocks(
    stream: Any, config: CsvSource, wanted: list[str], types: Mapping[str, str], bad: _Unreadable
) -> Iterator[pa.RecordBatch]:
    read = arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=config.header)
    parse = arrow_csv.ParseOptions(
        delimiter=config.delimiter, newlines_in_values=True, invalid_row_handler=bad
    )
    convert = arrow_csv.ConvertOptions(
        include_columns=wanted,
        column_types=column_types({name: kind for name, kind in types.items() if name in wanted}),
        null_values=NULLS,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        reader = arrow_csv.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            return
        raise
    yield from reader
