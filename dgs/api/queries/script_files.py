"""The files of Pig Latin and MRQL scripts: input files as tables with the numbers of their rows, and the files that Pig stores."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import numpy as np
import pyarrow as pa

from dgs.api.queries.query_tables import Table, TableFile
from dgs.errors import MissingInputError
from dgs.named_files import check_named, write_named
from dgs.query.errors import QueryError
from dgs.query.fronts import needed
from dgs.query.parameters import Parameters

if TYPE_CHECKING:
    from dgs.query.mrql import Reading
    from dgs.query.pig import PigProgram
    from dgs.query.types import Schema


KINDS = {"csv": "csv", "json": "jsonl", "parquet": "parquet"}
"""The kinds of files by the formats of MRQL."""


def pig_program(text: str, name: str | None, params: Mapping[str, Any]) -> PigProgram:
    """Return the program of a script, with files in the working directory. Raises QueryError for the first mistake."""
    needed("sqlglot", "a query in pig")
    needed("lark", "a query in pig")
    from dgs.query.pig import checked, program_of

    name, given = name or "query.pig", Parameters(params)
    program = checked(program_of(text, name=name, params=given), text, name)
    given.check(program.script, text)
    return program


def loaded_tables(program: PigProgram) -> list[Table]:
    """Return the files that a script loads, each as a table with the numbers of its rows. Raises MissingInputError."""
    from dgs.query.compact.arrow_rows import to_arrow

    tables = []
    for name, load in program.loads.items():
        rows = to_arrow(list(load.table(Path())), load.source(name).columns)
        tables.append(Table(name, rows, np.arange(len(rows))))
    return tables


BY = "STORE"


def check_stored(program: PigProgram) -> None:
    """Raise ForeignFileError or OutputUnwritableError if a file that a script stores certainly cannot be written."""
    for output in program.outputs:
        if output.path is not None:
            check_named(Path(output.path), BY)


def put_out(
    program: PigProgram, answers: Mapping[str, list[tuple[Any, ...]]], *, is_timed: bool
) -> Iterator[str]:
    """Write stored answers, and yield the lines to show: dumped rows, and what was written. `is_timed`: a row begins with a time.

    Raises ForeignFileError, OutputUnwritableError.
    """
    from dgs.query.pig.pig_storage import dumped, stored
    from dgs.query.pig.pig_types import LONG, PigField

    for output in program.outputs:
        rows, fields = answers[output.name], output.fields
        fields = (PigField("at", LONG), *fields) if is_timed else fields
        if output.path is None:
            yield from dumped(fields, rows)
        else:
            yield stored(Path(output.path), fields, rows, output.delimiter, store)


def store(path: Path, text: str) -> None:
    """Write a file of STORE. Raises ForeignFileError, OutputUnwritableError."""
    write_named(path, text, BY)


def named_tables(text: str, name: str | None, given: Sequence[str]) -> list[Table]:
    """Return the tables of `source` and `stream`, but for those given. A path is relative to the script, or to the working directory.

    Raises MissingInputError, UsageError for an unknown format, QueryError Q703 for a line that does not fit its `type(..)`.
    """
    needed("sqlglot", "a query in mrql")
    needed("lark", "a query in mrql")
    from dgs.query.mrql import readings
    from dgs.query.mrql.mrql_parser import QueryText

    folder = Path() if name is None else Path(name).parent
    found = readings(QueryText(name or "query.mrql", text))
    return [_table(one, folder) for one in found if one.name not in given]


def _table(reading: Reading, folder: Path) -> Table:
    from dgs.query.compact.arrow_rows import to_arrow

    path = folder / reading.path if (folder / reading.path).exists() else Path(reading.path)
    if not path.exists():
        advice = "Its path is relative to the script, or to the working directory"
        raise MissingInputError(stream=reading.name, path=path, advice=advice)
    if reading.format == "line" and reading.schema is None:
        with _opened(path) as lines:
            rows = pa.table({"value": pa.array([line.rstrip("\r\n") for line in lines], pa.string())})
    elif reading.format in ("csv", "line") and reading.schema is not None:
        rows = to_arrow(list(_rows(reading, reading.schema, path)), reading.schema)
    else:
        kind, delimiter = KINDS[reading.format], reading.delimiter if reading.format == "csv" else None
        rows = TableFile(reading.name, str(path), kind=kind, delimiter=delimiter).read(Path()).rows
    return Table(reading.name, rows, np.arange(len(rows)))


def _opened(path: Path) -> TextIO:
    return (
        cast("TextIO", gzip.open(path, "rt", newline="")) if path.suffix == ".gz" else path.open(newline="")
    )


def _rows(reading: Reading, schema: Schema, path: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a file without a header. Fields after the last column are left out; an empty field is null."""
    from dgs.query.meanings import cast as made

    with _opened(path) as lines:
        for number, row in enumerate(csv.reader(lines, delimiter=reading.delimiter or ",")):
            try:
                values = zip(row[: len(schema)], schema.types, strict=True)
                yield tuple(
                    None if text == "" and of.kind != "text" else made(text, of.kind) for text, of in values
                )
            except (ValueError, QueryError):
                problem = f"{path}, line {number + 1}: {row!r} does not fit ({schema})"
                raise QueryError.of(
                    "Q703", problem, "Mend the line, or the `type(..)`.", row=number
                ) from None
