"""Rows of an answer as a file: JSON lines, CSV or Parquet, by its extension."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from dgs.errors import OutputUnwritableError, UsageError

if TYPE_CHECKING:
    from dgs.query.types import Schema


def write_rows(path: Path, rows: Sequence[tuple[Any, ...]], schema: Schema) -> None:
    """Write rows into a file. Raises UsageError for an extension that is no format, and for lists in CSV; OutputUnwritableError."""
    from dgs.query.compact.arrow_rows import arrow_schema

    if path.suffix not in (".jsonl", ".csv", ".parquet"):
        raise UsageError(message=f"-o {path}: a file ends with .jsonl, .csv or .parquet")
    lists = [name for name, of in schema.fields if of.of is not None or of.kind == "record"]
    if lists and path.suffix == ".csv":
        raise UsageError(
            message=f"-o {path}: {lists[0]!r} holds lists or records, which CSV has not: write .jsonl or .parquet"
        )
    records = [dict(zip(schema.names, row, strict=True)) for row in rows]
    table = pa.Table.from_pylist(records, arrow_schema(schema))
    try:
        if path.suffix == ".parquet":
            pq.write_table(table, path)
        elif path.suffix == ".csv":
            arrow_csv.write_csv(table, path)
        else:
            path.write_text("".join(json.dumps(one, default=str) + "\n" for one in records), encoding="utf-8")
    except OSError as error:
        raise OutputUnwritableError(path=path, problem=error.strerror) from None
