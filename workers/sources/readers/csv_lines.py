r"""The lines of a CSV file: its header, and the line where each record begins, for errors.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "a.csv"
>>> _ = file.write_text('ts,a\n1,"x\ny"\n\n2,z\n')
>>> header(file, CsvSource(path=str(file))), [Lines(file, CsvSource(path=str(file))).begin_of(n) for n in (0, 1, 2)]
(['ts', 'a'], [1, 2, 5])
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from dgs.job.schema import CsvSource
from dgs.workers.sources.readers.files import FileProblemError, TextFile, undecodable

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
