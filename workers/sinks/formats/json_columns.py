r"""Columns as lines of JSON, made column by column if their types allow it.

Law: the lines are those that `as_json` makes of single values.

>>> views = {"page": np.array(["a", "b"]), "visitor": np.array([4, 5]), "info": [None, {"x": 1}]}
>>> json_lines([views, ["ok"]], order=np.array([0, 2, 1]))
b'{"page":"a","visitor":4,"info":null}\n"ok"\n{"page":"b","visitor":5,"info":{"x":1}}\n'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dgs.model import columns
from dgs.model.columns import Column, Indices
from dgs.workers.sinks.formats.json_text import as_json

Texts = Any
"""A text for all rows, or an Arrow array of them."""

NOT_AS_IT_IS = '["\\\\\\x00-\\x1f\\x{85}\\x{2028}\\x{2029}]'
"""Characters that a JSON text must escape, or that some readers take for the end of a line."""
NULL = "null"
ROWS_A_COLUMN, MOST_COLUMNS = 32, 16
"""With fewer rows for each column, or more columns, values are written one by one: a column costs as much as some 30 values."""
_ARROW_TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}


def json_lines(parts: Sequence[Column], order: Indices | None = None) -> bytes:
    """Return a line of JSON, in UTF-8, for each value of the columns, or for those that `order` lists.

    Raises CodecError for a value that JSON cannot hold.
    """
    try:
        lines = pa.concat_arrays([_lines(part) for part in parts])
        if order is not None:
            lines = lines.take(pa.array(order))
    except pa.ArrowException:  # more text than one Arrow array can hold
        values = [value for part in parts for value in columns.to_list(part)]
        chosen = values if order is None else [values[row] for row in order.tolist()]
        return "".join(as_json(value) + "\n" for value in chosen).encode()
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int32)[[lines.offset, lines.offset + len(lines)]]
    return memoryview(data)[ends[0] : ends[1]].tobytes()


def _lines(column: Column) -> Any:
    pieces = list(_merged([*_pieces(column), "\n"]))
    if len(pieces) == 1:
        return pa.repeat(pieces[0], columns.length(column))
    return pc.binary_join_element_wise(*pieces, "")


def _merged(pieces: Iterable[Texts]) -> Iterable[Texts]:
    """Yield the pieces with neighbouring constants joined."""
    constant = ""
    for piece in pieces:
        if isinstance(piece, str):
            constant += piece
            continue
        if constant:
            yield constant
        constant = ""
        yield piece
    if constant:
        yield constant


def _pieces(column: Column) -> list[Texts]:
    """Return pieces that, joined row by row, are the JSON of a column."""
    if isinstance(column, dict) and column and all(type(name) is str for name in column):
        return _record(column)
    if isinstance(column, np.ndarray):
        return _array(column)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.Array):
        return _arrow(column)
    return _listed(column) if isinstance(column, list) else [_one_by_one(column)]


def _listed(values: list[Any]) -> list[Texts]:
    """Return the pieces of a list, as columns if that is faster and its values have one type: tuples, lists, records, or plain values and None."""
    types = set(map(type, values))
    if types in ({tuple}, {list}) and _is_worth_it(values):
        return _row(zip(*values, strict=True))
    if types == {dict} and _is_worth_it(values):
        names = list(values[0])
        if all(type(name) is str for name in names) and all(list(value) == names for value in values):
            return _record({name: [value[name] for value in values] for name in names})
    known = types - {type(None)}
    if len(known) == 1 and known <= _ARROW_TYPES.keys():
        with suppress(OverflowError, UnicodeError, pa.ArrowException):
            return _arrow(pa.array(values, _ARROW_TYPES[known.pop()]))
    return [_one_by_one(values)]


def _is_worth_it(values: Sequence[Any]) -> bool:
    """Return whether values have one length, and are so many and so short that their columns are faster than they alone."""
    width = len(values[0])
    is_narrow = 0 < width <= MOST_COLUMNS and len(values) >= ROWS_A_COLUMN * width
    return is_narrow and set(map(len, values)) == {width}


def _record(column: dict[str, Column]) -> list[Texts]:
    pieces: list[Texts] = []
    for name, part in column.items():
        pieces += ["," if pieces else "{", as_json(name), ":", *_pieces(part)]
    return [*pieces, "}"]


def _row(parts: Iterable[tuple[Any, ...]]) -> list[Texts]:
    pieces: list[Texts] = []
    for part in parts:
        pieces += ["," if pieces else "[", *_listed(list(part))]
    return [*pieces, "]"]


def _array(column: Any) -> list[Texts]:
    if column.ndim != 1 or column.dtype.kind not in "biufU":
        return [_one_by_one(column)]
    if column.strides == (0,) and len(column):
        return [as_json(column[0].item())]
    if column.dtype.kind == "f" and column.dtype.itemsize <= np.dtype(np.float64).itemsize:
        return [_floats(column.astype(np.float64))]
    try:
        return [_one_by_one(column)] if column.dtype.kind == "f" else _arrow(pa.array(column))
    except UnicodeError:  # half a surrogate pair
        return [_one_by_one(column)]


def _arrow(column: Any) -> list[Texts]:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return [pc.fill_null(column.cast(pa.string()), NULL)]
    if pa.types.is_floating(kind) and kind != pa.float16():
        return [_floats(column.cast(pa.float64()).to_numpy(zero_copy_only=False))]
    if pa.types.is_string(kind) and not pc.any(pc.match_substring_regex(column, NOT_AS_IT_IS)).as_py():
        if column.null_count:
            return [pc.fill_null(pc.binary_join_element_wise('"', column, '"', ""), NULL)]
        return ['"', column, '"']
    if pa.types.is_struct(kind) and kind.num_fields:
        return _structs(column)
    return [_one_by_one(column)]


def _structs(column: Any) -> list[Texts]:
    pieces = _record(dict(zip((field.name for field in column.type), column.flatten(), strict=True)))
    if not column.null_count:
        return pieces
    texts = pc.binary_join_element_wise(*_merged(pieces), "")
    return [pc.if_else(column.is_valid(), texts, NULL)]


def _floats(column: Any) -> Texts:
    """Return the texts of floats. The text of each distinct value, by its bits, is made once."""
    coded = pa.array(column.view(np.int64)).dictionary_encode()
    texts = map(as_json, np.asarray(coded.dictionary).view(np.float64).tolist())
    return pa.array(texts, pa.string()).take(coded.indices)


def _one_by_one(column: Column) -> Texts:
    return pa.array(map(as_json, columns.to_list(column)), pa.string())
