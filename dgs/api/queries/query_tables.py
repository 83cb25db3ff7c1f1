"""Tables of `dgs query` as files: those that `--from NAME=PATH` names, read whole in the order of their times, and answers that `-o` writes.

>>> found = TableFile.parsed("flights=data/flights.csv.gz:ts=day")
>>> found.name, found.path, found.ts
('flights', 'data/flights.csv.gz', 'day')
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from dgs.errors import MissingInputError, UnknownColumnError, UsageError
from dgs.job.schema import CsvSource, SourceConfig, StreamConfig, TagConfig
from dgs.model.program import Program
from dgs.model.tags import kind
from dgs.named_files import check_writable, write_named
from dgs.workers.sources.contract import SourceContext
from dgs.workers.sources.readers.choosing import raw_rows
from dgs.workers.sources.readers.csv import header
from dgs.workers.sources.readers.files import FileProblemError, TextFile, input_files
from dgs.workers.sources.readers.jsonl import LONGEST_LINE, LineProblemError, parsed
from dgs.workers.sources.rows import Place, RawRows
from dgs.workers.sources.shaping.mapping import PAYLOAD_COLUMN, Mapping, malformed

if TYPE_CHECKING:
    from dgs.query.types import Schema

FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
"""The form of a stream's id."""

BLOCK_ROWS = 65_536
ROW = kind("row")

BY = "dgs query -o"
"""The command that writes answers, in errors about their files."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file, or a glob of files, that a query reads under a name. `ts`: the column with the times of its rows, None for their order.

    `kind`: csv, jsonl or parquet, by default that of the extension. `delimiter`, `header`: of CSV; the names of a file without any.
    """

    name: str
    path: str
    ts: str | None = None
    kind: str | None = None
    delimiter: str | None = None
    header: tuple[str, ...] | None = None

    @classmethod
    def parsed(cls, text: str) -> TableFile:
        """Return the table of NAME=PATH or NAME=PATH:ts=COLUMN. Raises UsageError."""
        name, equals, rest = text.partition("=")
        path, has_ts, column = rest.rpartition(":ts=")
        if not equals or not name or not (path if has_ts else rest) or (has_ts and not column):
            raise UsageError(message=f"--from {text}: write --from NAME=PATH or --from NAME=PATH:ts=COLUMN")
        if not re.fullmatch(NAME, name):
            raise UsageError(
                message=f"--from {text}: a name is of letters, digits, `_`, `.` and `-`, a letter or `_` first"
            )
        return cls(name, path, column) if has_ts else cls(name, rest)

    @property
    def format(self) -> str:
        """The kind of source that reads it. Raises UsageError for an unknown extension."""
        if self.kind is not None:
            return self.kind
        plain = self.path.removesuffix(".gz")
        found = FORMATS.get(Path(plain).suffix.lower())
        if found is None:
            known = ", ".join(FORMATS)
            raise UsageError(
                message=f"--from {self.name}={self.path}: no such format: a file ends with one of {known}"
            )
        return found

    def read(self, base_dir: Path) -> Table:
        """Return the rows. Raises MissingInputError, MalformedRowError, UnknownColumnError, UsageError, QueryError Q703."""
        _ = self.format
        try:
            return self._read(base_dir)
        except MissingInputError as error:
            raise MissingInputError(**error.facts | {"advice": MissingInputError.FROM_HERE}) from None
        except UnknownColumnError as error:
            raise UnknownColumnError(**error.facts | {"advice": f"Correct `:ts={self.ts}`"}) from None

    def _read(self, base_dir: Path) -> Table:
        names = self._names(base_dir)
        column = self.ts or names[0]
        config = StreamConfig(
            id=self.name,
            tags=TagConfig(kind=str(ROW)),
            source=SourceConfig.model_validate(
                {self.format: {"path": self.path, "ts": column, **self._shape}}
            ),
        )
        mapping = Mapping(config, Rows(), plan_unit="none")
        found, _ = raw_rows(config, mapping, SourceContext(Rows(), base_dir=base_dir), BLOCK_ROWS)
        blocks = [block for block in found if isinstance(block, RawRows)]
        if not blocks:
            return self._empty(names)
        table = self._whole(blocks, names)
        if self.ts is None:
            return Table(self.name, table, np.arange(len(table)))
        times = [mapping.clock.times(block.columns[self.ts], first=block.first) for block in blocks]
        ts = np.concatenate(times) if times else np.empty(0, dtype=np.int64)
        order = np.argsort(ts, kind="stable")
        return Table(self.name, table.take(order), ts[order])

    def _empty(self, names: list[str]) -> Table:
        """Return a table without rows, whose columns fit any type."""
        from dgs.query.types import NULL, Schema

        schema = Schema(tuple((name, NULL) for name in names))
        return Table(self.name, pa.table({name: pa.nulls(0) for name in names}), np.arange(0), schema)

    def _whole(self, blocks: list[RawRows], names: list[str]) -> pa.Table:
        """Return all blocks as one table. Raises QueryError Q703 if the values of a column have no common type."""
        from dgs.query.errors import QueryError

        try:
            return pa.concat_tables([_table(block, names) for block in blocks], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            problem = f"the values of a column in {self.path} are of different types: {error}"
            raise QueryError.of("Q703", problem, "Write them as one type.") from None

    @property
    def _shape(self) -> dict[str, Any]:
        """The options for reading a CSV file."""
        return {
            **({} if self.delimiter is None else {"delimiter": self.delimiter}),
            **({} if self.header is None else {"header": list(self.header)}),
        }

    def _names(self, base_dir: Path) -> list[str]:
        """Return the names of the columns of the first file, in its order. Raises MalformedRowError if it has none."""
        (path, *_) = input_files(self.path, base_dir=base_dir, stream=self.name)
        try:
            names = self._named_in(path)
        except (FileProblemError, LineProblemError, OSError, ValueError, pa.ArrowException) as error:
            problem = f"the file cannot be read as {self.format}: {error}"
            raise malformed(self.name, 0, problem, Place(path.name)) from None
        if not names:
            raise malformed(self.name, 0, "the file is empty, so its columns are not known", Place(path.name))
        return names

    def _named_in(self, path: Path) -> list[str]:
        """Return the names of a file's columns; for JSON, those in the first line."""
        if self.format == "csv":
            if self.header is not None:
                return list(self.header)
            return header(path, CsvSource.model_validate({"path": self.path, **self._shape}))
        if self.format == "parquet":
            return list(pq.read_schema(path).names)
        with TextFile(path, "utf-8", longest=LONGEST_LINE) as text:
            return [*parsed(text.readline() or b"{}")]


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a table in the order of `ts`, int64 of any unit. `schema`: the types of its columns, if they are not those of Arrow."""

    name: str
    rows: pa.Table
    ts: Any
    schema: Schema | None = None


def _table(block: RawRows, names: list[str]) -> pa.Table:
    """Return a block as a table with its columns in the order of `names`. The payload of a line of JSON is the whole line."""
    columns = {name: pa.array(column) for name, column in block.columns.items()}
    if PAYLOAD_COLUMN in columns and PAYLOAD_COLUMN not in names:
        return pa.Table.from_struct_array(columns[PAYLOAD_COLUMN])
    return pa.table({name: columns[name] for name in names if name in columns})


class Rows(Program):
    """Takes the place of the program while rows are read that are not events yet."""

    kinds = (ROW,)


def check_rows_file(path: Path) -> None:
    """Raise UsageError for an unknown extension, ForeignFileError or OutputUnwritableError if `write_rows` certainly will."""
    if path.suffix not in (".jsonl", ".csv", ".parquet"):
        raise UsageError(message=f"-o {path}: a file ends with .jsonl, .csv or .parquet")
    check_writable(path, BY)


def write_rows(path: Path, rows: Sequence[tuple[Any, ...]], schema: Schema) -> None:
    """Write rows into a file. Raises UsageError for lists in CSV, and what `check_rows_file` raises."""
    from dgs.query.compact.arrow_rows import arrow_schema

    check_rows_file(path)
    lists = [name for name, of in schema.fields if of.of is not None or of.kind == "record"]
    if lists and path.suffix == ".csv":
        raise UsageError(
            message=f"-o {path}: {lists[0]!r} holds lists or records, which CSV has not: write .jsonl or .parquet"
        )
    records = [dict(zip(schema.names, row, strict=True)) for row in rows]
    table = pa.Table.from_pylist(records, arrow_schema(schema))
    file = io.BytesIO()
    if path.suffix == ".parquet":
        pq.write_table(table, file)
    elif path.suffix == ".csv":
        arrow_csv.write_csv(table, file)
    else:
        file.write("".join(json.dumps(one, default=str) + "\n" for one in records).encode())
    write_named(path, file.getvalue(), BY)
