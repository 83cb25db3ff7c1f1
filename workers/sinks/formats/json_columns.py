r"""Columns as lines of JSON, made column by column if their types allow it.

Law: the lines are those that `as_json` makes of single values.

>>> views = {"page": np.array(["a", "b"]), "visitor": np.array([4, 5]), "info": [None, {"x": 1}]}
>>> json_lines([views, ["ok"]], order=np.array([0, 2, 1]))
b'{"page":"a","visitor":4,"info":null}\n"ok"\n{"page":"b","visitor":5,"info":{"x":1}}\n'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dgs.model import columns
from dgs.model.columns import Column, Indices
from dgs.workers.sinks.formats.json_text import as_json, as_json_texts

Texts = Any
"""A text for all rows, or an Arrow array of them."""

NOT_AS_IT_IS = '["\\\\\\x00-\\x1f\\x{85}\\x{2028}\\x{2029}]'
"""Characters that a JSON text must escape, or that some readers take for the end of a line."""
NULL = "null"


def json_lines(parts: Sequence[Column], order: Indices | None = None) -> bytes:
    """Return a line of JSON, in UTF-8, for each value of the columns, or for those that `order` lists.

    Raises CodecError for a value that JSON cannot hold.
    """
    if all(isinstance(part, list) for part in parts):
        return _of_values(parts, order)
    try:
        lines = pa.concat_arrays([_lines(part) for part in parts])
        if order is not None:
            lines = lines.take(pa.array(order))
    except pa.ArrowException:  # more text than one Arrow array can hold
        return _of_values(parts, order)
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int32)[[lines.offset, lines.offset + len(lines)]]
    return memoryview(data)[ends[0] : ends[1]].tobytes()


def _of_values(parts: Sequence[Column], order: Indices | None) -> bytes:
    texts = [text for part in parts for text in as_json_texts(columns.to_list(part))]
    chosen = texts if order is None else [texts[row] for row in order.tolist()]
    return b"\n".join([*chosen, b""])


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
    return [_one_by_one(column)]


def _record(column: dict[str, Column]) -> list[Texts]:
    pieces: list[Texts] = []
    for name, part in column.items():
        pieces += ["," if pieces else "{", as_json(name), ":", *_pieces(part)]
    return [*pieces, "}"]


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
    return _arrow_texts(np.asarray(coded.dictionary).view(np.float64).tolist()).take(coded.indices)


def _one_by_one(column: Column) -> Texts:
    return _arrow_texts(columns.to_list(column))


def _arrow_texts(values: list[Any]) -> Texts:
    texts = pa.array(as_json_texts(values), pa.binary())
    if isinstance(texts, pa.ChunkedArray):
        raise pa.ArrowCapacityError("one Arrow array cannot hold so much text")
    return texts.view(pa.string())
