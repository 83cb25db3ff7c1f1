"""Tables of any library as columns: data frames, Arrow tables, query results, dictionaries of columns.

All come in by the Arrow PyCapsule interface, so columns that Arrow holds are not copied. Frames that are only computed on demand,
such as lazy frames of Polars, go through narwhals.

>>> of_table(pa.table({"ts": [1, 2], "page": ["home", "shop"]}))["ts"].to_pylist()
[1, 2]

A value that is not a frame, or lacks a column, is an error of the call that passes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from dgs.errors import InvalidError, MissingPackageError
from dgs.errors.raised import RAISED, is_ours, summary
from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.user_code import shown


class FrameError(InvalidError):
    """A value that is given as a frame is not one, or cannot be read."""

    code = "DGS570"
    template = "{problem}"
    fix = "{advice}"


class FrameColumnError(InvalidError):
    """A frame does not have a column that `dgs.stream` names."""

    code = "DGS571"
    template = "`{argument}` is {column!r}, which is no column of the frame{hint}; its columns are {columns}"
    fix = "{advice}"


class FrameKindError(InvalidError):
    """`dgs.stream` leaves open which tags the rows of a frame have, or names tags that the program does not have."""

    code = "DGS572"
    template = "stream {stream!r}: {problem}"
    fix = "{advice}"


class MixedTimesError(InvalidError):
    """One stream has calendar times and another has bare numbers, so their order would mean nothing."""

    code = "DGS573"
    template = "stream {calendar!r} has times of the calendar, and stream {bare!r} has bare numbers ({column!r}) as times"
    fix = 'Say what the numbers count since 1970: dgs.stream(..., unit="s"), or "ms", "us", "ns"'


def is_table(given: Any) -> bool:
    """Return whether a value is a table: a dictionary of columns, or a data frame of any library.

    >>> is_table({"ts": [1, 2]}), is_table(pa.table({"ts": [1]})), is_table({"ts": 1}), is_table([(1, "a")])
    (True, True, False, False)
    """
    if isinstance(given, dict):
        return all(map(columns.is_column, given.values()))
    return hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__") or _is_lazy(given)


def of_table(given: Any) -> dict[str, Column]:
    """Return the columns of a table by name. The index of a pandas frame is not a column.

    Raises FrameError for anything that is not a table or has a column twice, MissingPackageError for a lazy frame without narwhals.

    >>> of_table({"ts": (1, 2)})
    {'ts': [1, 2]}
    """
    if isinstance(given, dict):
        return {str(name): _column(name, column) for name, column in given.items()}
    if _module(given) == "pandas" and hasattr(given, "columns"):
        named = [(str(name), _of_pandas(given.iloc[:, place])) for place, name in enumerate(given.columns)]
    else:
        table = _arrow_table(given)
        named = list(zip(table.column_names, map(_whole, table.columns), strict=True))
    names = [name for name, _ in named]
    if twice := [name for name in names if names.count(name) > 1]:
        raise FrameError(problem=f"the frame has two columns {twice[0]!r}", advice="Rename one of them")
    return {name: column if isinstance(column, list) else _plain(column) for name, column in named}


def of_records(records: Sequence[Any]) -> dict[str, Column]:
    """Return a list of dictionaries as columns, with null for missing fields. Raises FrameError for anything that is not a dictionary.

    >>> of_records([{"ts": 1, "page": "home"}, {"ts": 2}])
    {'ts': [1, 2], 'page': ['home', None]}
    """
    for row, record in enumerate(records):
        if not isinstance(record, Mapping):
            problem = f"row {row} of the list is a {type(record).__name__}"
            raise FrameError(problem=problem, advice='A record is a dictionary: {"ts": 1, "value": 2}')
    names = dict.fromkeys(str(name) for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def _arrow_table(given: Any) -> Any:
    if isinstance(given, pa.Table):
        return given
    if getattr(given, "isStreaming", False):
        problem, advice = (
            "a streaming frame of Spark has no end",
            "Name its query in plan.yaml: source: {spark: {format: ..., path: ...}}",
        )
        raise FrameError(problem=problem, advice=advice)
    if hasattr(given, "toArrow"):
        return given.toArrow()
    if not hasattr(given, "__arrow_c_stream__") and not isinstance(given, type) and _is_lazy(given):
        given = _collected(given)
    problem = f"a {type(given).__name__} is no table"
    try:
        if is_table(given) and not isinstance(given, type):
            return pa.table(given)
    except (TypeError, ValueError, pa.ArrowException):  # a single column, for example
        pass
    except RAISED as error:  # raised by a library or the user's code behind Arrow's interface
        if is_ours(error):
            raise
        problem = f"{problem}: reading it raised {summary(error)}"
    advice = "Give a data frame, an Arrow table, a dictionary of columns, or a list of dictionaries"
    raise FrameError(problem=problem, advice=advice)


def _collected(lazy: Any) -> Any:
    if find_spec("narwhals") is None:
        raise MissingPackageError(feature=f"a {type(lazy).__name__}", package="narwhals", extra="frames")
    import narwhals

    return narwhals.from_native(lazy).lazy().collect("pyarrow").to_native()


def _is_lazy(given: Any) -> bool:
    """Return whether a value is a frame that is computed on demand: lazy frames of Polars, Dask and Spark have these two attributes."""
    is_lazy = hasattr(given, "collect_schema") and hasattr(given, "collect")
    return is_lazy or hasattr(given, "toArrow") or (_module(given) == "dask" and hasattr(given, "compute"))


def _module(given: Any) -> str:
    return type(given).__module__.partition(".")[0]


def _of_pandas(series: Any) -> Column:
    """Return a column of pandas as an Arrow column, or as a list if its values have no common type."""
    try:
        return _whole(pa.array(series, from_pandas=True))
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        return [
            None if is_missing else value for value, is_missing in zip(series, series.isna(), strict=True)
        ]


def _column(name: Any, given: Any) -> Column:
    """Return a value of a dictionary as a column. Raises FrameError if it is not one."""
    if not columns.is_column(given):
        problem = f"column {name!r} of the dictionary is {shown(given)}, which is no column"
        raise FrameError(problem=problem, advice="A dictionary has a list or an array for each column")
    if isinstance(given, dict):
        return _record_of(name, given)
    if isinstance(given, np.ndarray) and given.dtype.kind == "M":
        given = pa.array(given)
    made = columns.of_sequence(given)
    return _plain(_whole(made)) if isinstance(made, (pa.Array, pa.ChunkedArray)) else made


def _record_of(name: Any, given: dict[Any, Any]) -> Column:
    """Return the fields of a record as columns. Raises FrameError if they differ in length."""
    made = {part: _column(part, column) for part, column in given.items()}
    lengths = {part: columns.length(column) for part, column in made.items()}
    if len(set(lengths.values())) > 1:
        problem = f"the columns in column {name!r} of the dictionary differ in length: {lengths}"
        raise FrameError(problem=problem, advice="Give columns of one length")
    return made


def _whole(column: Any) -> Any:
    """Return the only chunk of a column; if there are several, they are joined as rows are read."""
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1 else column


def _plain(column: Any) -> Any:
    """Return string views as text, and decimals that are whole numbers (sums of DuckDB) as integers."""
    kind = column.type
    if pa.types.is_dictionary(kind) and kind.value_type == pa.string_view():
        return column.cast(pa.dictionary(kind.index_type, pa.large_string()))
    if kind == pa.string_view():
        return column.cast(pa.large_string())
    if kind == pa.binary_view():
        return column.cast(pa.large_binary())
    if pa.types.is_decimal(kind) and kind.scale == 0:
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return column
    return column
