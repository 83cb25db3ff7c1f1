r"""CSV files, streamed through Arrow: only the needed columns, typed.

A column has the type given in `columns:`, a key column has the type of its kind's keys, and any other column the type found in the first
block (a megabyte) of the first file. Without `nulls:`, a column of text has no nulls, and in other columns `NA` and empty fields are null.
With `nulls:`, a text in quotes is not null. Rows are numbered from 0, without the header and blank lines.

A block that does not fit is read again, cell by cell, to name the bad line and column, or to go on without the bad row
(`on_error: skip`). Errors name the line where a record begins:

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "a.csv"
>>> _ = file.write_text('ts,a\n1,"x\ny"\n\n2,z\n')
>>> header(file, CsvSource(path=str(file))), [Lines(file, CsvSource(path=str(file))).begin_of(n) for n in (0, 1, 2)]
(['ts', 'a'], [1, 2, 5])
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from dgs.job.schema import CsvSource
from dgs.workers.sources.readers.csv_cells import (
    NO_TEXT,
    NULLS,
    BadRow,
    CellTypes,
    DoesNotFitError,
    RaggedRows,
    unprinted,
)
from dgs.workers.sources.readers.files import FileProblemError, TextFile, undecodable
from dgs.workers.sources.rows import Arrivals, Place, RawRows
from dgs.workers.sources.shaping.mapping import Mapping as RowMapping
from dgs.workers.sources.shaping.mapping import malformed, unknown_column

BLOCK_BYTES = 1 << 20

LONGEST_LINE = 1 << 20
"""The most bytes of a line: Arrow reads no longer records."""


def header(path: Path, config: CsvSource) -> list[str]:
    """Return the names in the first record, empty if there is no record. Raises FileProblemError."""
    names = next((names for _, names in _records(path, config)), [])
    if not all(map(_is_text, names)):
        raise FileProblemError(undecodable(path, config.encoding))
    return names


def _is_text(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


csv.field_size_limit(max(csv.field_size_limit(), 1 << 21))


class Lines:
    """The lines at which the records of a file begin. The header counts as a record, blank lines do not."""

    def __init__(self, path: Path, config: CsvSource) -> None:
        self._path, self._config = path, config
        self._begin()

    def _begin(self) -> None:
        self._records = _records(self._path, self._config)
        self._next = 0
        self._line: int | None = None

    def begin_of(self, record: int) -> int | None:
        """Return the line where a record begins, from 1; None if it is unknown. Asking in order is cheap."""
        if record < self._next - 1:
            self._begin()
        try:
            while self._next <= record:
                self._line, _ = next(self._records)
                self._next += 1
        except (StopIteration, FileProblemError):
            return None
        return self._line

    def check_quotes(self) -> None:
        """Raise FileProblemError if a quotation mark is never closed: all text after it would be one cell."""
        line = 1
        try:
            for begin, _ in _records(self._path, self._config, strict=True):
                line = begin
        except FileProblemError as error:
            if "unexpected end of data" in str(error) or "field larger" in str(error):
                problem = f"a quotation mark is never closed, in a record after line {line}"
                raise FileProblemError(problem) from None


def _records(path: Path, config: CsvSource, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    with TextFile(path, config.encoding) as file:
        reader = csv.reader(_lines(file), delimiter=config.delimiter, strict=strict)
        begins = 1
        try:
            for record in reader:
                if record:
                    yield begins, record
                begins = reader.line_num + 1
        except csv.Error as error:
            raise FileProblemError(
                f"the record that begins in line {begins} cannot be read: {error}"
            ) from None


def _lines(file: TextFile) -> Iterator[str]:
    for line in file.lines(LONGEST_LINE):
        if line is None:
            raise FileProblemError(f"it has a line of more than {LONGEST_LINE:,} bytes")
        text = line.decode(errors="surrogateescape") + "\n"
        yield from io.StringIO(text, newline="") if "\r" in text else (text,)


@dataclass(frozen=True)
class _File:
    """An open file: its wanted columns, and the stream's row number of its first record."""

    path: Path
    wanted: list[str]
    first: int
    lines: Lines
    header: int

    def place(self, row: int) -> Place:
        """Return the place of a row of the stream in this file."""
        return Place(self.path.name, self.lines.begin_of(row - self.first + self.header))


class CsvReader:
    """Reads the files of one stream one after the other."""

    def __init__(
        self, config: CsvSource, mapping: RowMapping, paths: Iterable[Path], key_types: Mapping[str, str]
    ) -> None:
        self._config = config
        self._mapping = mapping
        self._paths = paths
        self._declared = {**key_types, **config.columns}
        if mapping.clock.format is not None:
            self._declared[mapping.ts_column] = "str"
        self._types = CellTypes(self._declared, ts_column=mapping.ts_column, nulls=config.nulls)
        self._row = 0

    def rows(self) -> Iterator[RawRows | Arrivals]:
        """Yield the rows, a block at a time. Raises MalformedRowError, UnknownColumnError."""
        for path in self._paths:
            try:
                yield from self._file(path)
            except FileProblemError as error:
                raise malformed(self._mapping.stream, self._row, str(error), Place(path.name)) from None

    def _file(self, path: Path) -> Iterator[RawRows | Arrivals]:
        names = self._config.header or header(path, self._config)
        if not names:
            return
        wanted = self._mapping.needed(names, str(path))
        for column in self._config.columns:
            if column not in names:
                raise unknown_column(self._mapping.stream, column, names, str(path))
        twice = [name for name, count in Counter(names).items() if count > 1 and name in wanted]
        if twice:
            raise FileProblemError(f"its header has the column {twice[0]!r} twice")
        lines = Lines(path, self._config)
        file = _File(path, wanted, self._row, lines, 0 if self._config.header else 1)
        try:
            yield from self._typed(file)
        except (DoesNotFitError, pa.ArrowInvalid):
            yield from self._with_care(file)

    def _typed(self, file: _File) -> Iterator[RawRows]:
        """Yield the rows with Arrow's types. Raises DoesNotFitError, ArrowInvalid for a block with bad cells."""
        for block in self._blocks(file, self._types.known(file.wanted)):
            if block.num_rows:
                for name in file.wanted:
                    self._types.learn(name, block.column(name).type)
            columns = {name: self._types.of_block(block.column(name), name) for name in file.wanted}
            yield self._next_rows(file, columns, block.num_rows)

    def _next_rows(self, file: _File, columns: Mapping[str, Any], count: int) -> RawRows:
        first, self._row = self._row, self._row + count
        return RawRows(first, count, columns, str(file.path), place=file.place)

    def _blocks(
        self, file: _File, types: Mapping[str, pa.DataType], ragged: RaggedRows | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the file in blocks of Arrow, all quotes closed. Raises FileProblemError, ArrowInvalid."""
        checks = file.lines.check_quotes
        with TextFile(file.path, self._config.encoding, longest=LONGEST_LINE, check_quotes=checks) as text:
            try:
                with unprinted():
                    reader = self._reader(text, file, types, ragged)
                waiting: pa.RecordBatch | None = None
                while True:
                    with unprinted():
                        block = next(reader, None)
                    if block is None:
                        break
                    if waiting is not None:
                        yield waiting
                    waiting = block
            except pa.ArrowInvalid as error:
                if "Empty CSV file" in str(error):
                    return
                if "straddling object" in str(error):
                    problem = f"it has a record of more than {BLOCK_BYTES:,} bytes: is a quotation mark never closed?"
                    raise FileProblemError(problem) from None
                # an error about the columns of a record that is not UTF-8
                if ragged is not None and "Expected" in str(error):
                    raise FileProblemError(undecodable(file.path, self._config.encoding)) from None
                raise
            if text.quotes % 2:
                file.lines.check_quotes()
            if waiting is not None:
                yield waiting

    def _reader(
        self, text: TextFile, file: _File, types: Mapping[str, pa.DataType], ragged: RaggedRows | None
    ) -> arrow_csv.CSVStreamingReader:
        config = self._config
        read = arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=config.header)
        parse = arrow_csv.ParseOptions(
            delimiter=config.delimiter, newlines_in_values=True, invalid_row_handler=ragged
        )
        convert = arrow_csv.ConvertOptions(
            include_columns=file.wanted,
            column_types=types,
            null_values=NULLS if config.nulls is None else config.nulls,
            strings_can_be_null=config.nulls is not None,
            quoted_strings_can_be_null=config.nulls is None,
        )
        return arrow_csv.open_csv(text, read, parse, convert)

    def _with_care(self, file: _File) -> Iterator[RawRows | Arrivals]:
        """Yield the remaining rows, with placeholder events for bad rows."""
        ragged, done = RaggedRows(file.header), self._row - file.first
        for block in self._blocks(file, dict.fromkeys(file.wanted, pa.binary()), ragged):
            records, bad = ragged.around(block.num_rows)
            columns: dict[str, Any] = {}
            for name in file.wanted:
                columns[name], wrong = self._types.of_cells(block.column(name), name)
                for index, why in wrong.items():
                    given = {one: _shown(block.column(one)[index].as_py()) for one in file.wanted}
                    bad.setdefault(
                        records[index], BadRow(records[index], self._blamed(file, name, why), given)
                    )
            yield from self._around(file, columns, records, bad, done)
        yield from self._around(file, {}, [], ragged.found, done)

    def _around(
        self,
        file: _File,
        columns: Mapping[str, Any],
        records: list[int],
        bad: Mapping[int, BadRow],
        done: int,
    ) -> Iterator[RawRows | Arrivals]:
        """Yield the rows from record `done` on, in stretches between bad rows."""
        index_of = {record: index for index, record in enumerate(records)}
        stretch: list[int] = []

        def rows() -> Iterator[RawRows]:
            if stretch:
                chosen = pa.array(stretch)
                yield self._next_rows(
                    file, {name: c.take(chosen) for name, c in columns.items()}, len(stretch)
                )
                stretch.clear()

        for record in sorted(index_of.keys() | bad.keys()):
            if record < done:
                continue
            if record not in bad:
                stretch.append(index_of[record])
                continue
            yield from rows()
            row, self._row = self._row, self._row + 1
            yield self._mapping.refused(row, bad[record].problem, bad[record].given, file.place(row))
        yield from rows()

    def _blamed(self, file: _File, name: str, why: str) -> str:
        if why == NO_TEXT:
            why = why if self._mapping.skips else undecodable(file.path, self._config.encoding)
            return f"column {name!r}: {why}"
        if self._declared.get(name) == "datetime":
            return f"column {name!r}: {why}"
        kind = "int" if "is an integer" in why and name == self._mapping.ts_column else "str"
        return f"column {name!r}: {why}; say `columns: {{{name}: {kind}}}` or correct it"


def _shown(cell: bytes | None) -> str | None:
    return None if cell is None else cell.decode(errors="replace")
