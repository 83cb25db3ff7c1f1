"""The files of a Pig script: those that it loads as tables, and those that it stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dgs.api.queries.query_tables import Table
from dgs.query.fronts import needed

if TYPE_CHECKING:
    from dgs.query.pig import PigProgram


def pig_program(text: str, name: str | None, params: Mapping[str, Any]) -> PigProgram:
    """Return what a script says, its files in the working directory. Raises QueryError for the first mistake."""
    needed("sqlglot", "a query in pig")
    needed("lark", "a query in pig")
    from dgs.query.pig import checked, program_of

    name = name or "query.pig"
    return checked(program_of(text, name=name, params=params), text, name)


def loaded_tables(program: PigProgram) -> list[Table]:
    """Return the files that a script loads, each as a table with the numbers of its rows. Raises MissingInputError."""
    from dgs.query.compact.arrow_rows import to_arrow

    tables = []
    for name, load in program.loads.items():
        rows = to_arrow(list(load.table(Path())), load.source(name).columns)
        tables.append(Table(name, rows, np.arange(len(rows))))
    return tables


def put_out(program: PigProgram, answers: Mapping[str, list[tuple[Any, ...]]]) -> Iterator[str]:
    """Write what is stored, and yield the lines to show: rows that are dumped, and what was written. Raises OutputUnwritableError."""
    from dgs.query.pig.pig_storage import dumped, stored

    for output in program.outputs:
        rows = answers[output.name]
        if output.path is None:
            yield from dumped(output.fields, rows)
        else:
            yield stored(Path(output.path), output.fields, rows, output.delimiter)
