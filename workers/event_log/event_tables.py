"""The content of a segment: an Arrow table, either of rows from a source or of events with their tags.

A table of *rows* has named columns, one of them the time; plan.yaml names those of the tag and the payload, as for a file.
A table of *events* has the columns `ts` (int64), `tag` (an index into its dictionary of tags) and `payload`, if there is one.
Columns of numbers, text and times stay Arrow columns from end to end; records are structs. If Arrow has no type for a column, its
values are encoded one by one, and the field says so.

>>> column = [1, 2.5, ("home", 7)]
>>> from_arrow(*to_arrow("visit", column))
[1, 2.5, ('home', 7)]
>>> events_of(event_table(np.array([5, 6]), (Tag("view", 1),), None, np.array([10, 20])))
(array([5, 6]), (view(1),), None, array([10, 20]))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from dgs import codec
from dgs.errors import CodecError
from dgs.model.columns import Column, from_user, to_list
from dgs.model.events import Codes, Int64s
from dgs.model.tags import Tag

FORM = b"dgs.form"
ENCODED, RECORD, EVENTS = b"codec", b"record", b"events"
TS, TAG, PAYLOAD = "ts", "tag", "payload"

_PLAIN = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string(), bytes: pa.binary()}

_NUMBERS = frozenset(np.dtype(code) for code in "?bhilqBHILQefd")


def to_arrow(name: str, column: Column) -> tuple[pa.Field, pa.Array]:
    """Return any column as an Arrow array, with the field that says how to read it. Raises CodecError.

    Law: `to_list(from_arrow(*to_arrow(name, column))) == to_list(column)`, with the same types.
    """
    if isinstance(column, dict):
        return _record(name, column)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.Array):
        return pa.field(name, column.type), column
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype in _NUMBERS:
        array = pa.array(column)
        return pa.field(name, array.type), array
    values = to_list(column)
    types = set(map(type, values)) - {type(None)}
    if len(types) == 1 and (kind := _PLAIN.get(next(iter(types)))) is not None:
        try:
            return pa.field(name, kind), pa.array(values, kind)
        except (pa.ArrowException, OverflowError, UnicodeError):  # integers beyond 64 bits, surrogates
            pass
    encoded = pa.array([codec.encode(value, keeps_order=True) for value in values], pa.large_binary())
    return pa.field(name, encoded.type, metadata={FORM: ENCODED}), encoded


def _record(name: str, column: Mapping[str, Column]) -> tuple[pa.Field, pa.Array]:
    pairs = [to_arrow(part, content) for part, content in column.items()]
    fields = [field for field, _ in pairs]
    array = pa.StructArray.from_arrays([part for _, part in pairs], fields=fields)
    return pa.field(name, array.type, metadata={FORM: RECORD}), array


def from_arrow(field: pa.Field, array: pa.Array) -> Column:
    """Return the column of an array that `to_arrow` made. Raises CodecError."""
    form = (field.metadata or {}).get(FORM)
    if form == RECORD:
        return {part.name: from_arrow(part, array.field(i)) for i, part in enumerate(field.type)}
    if form == ENCODED:
        return [codec.decode(value) for value in array.to_pylist()]
    numeric = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    if not array.null_count and (numeric or pa.types.is_boolean(array.type)):
        return array.to_numpy(zero_copy_only=False)
    return array


def row_table(columns: Mapping[str, Column] | pa.Table | pa.RecordBatch) -> pa.Table:
    """Return rows (named columns or an Arrow table) as a table of one chunk. Raises ProgramError for what is no column."""
    if isinstance(columns, pa.RecordBatch):
        return pa.Table.from_batches([columns])
    if isinstance(columns, pa.Table):
        return columns.combine_chunks()
    pairs = [to_arrow(name, column) for name, column in from_user(dict(columns), "rows of a log").items()]
    return pa.Table.from_arrays(
        [array for _, array in pairs], schema=pa.schema([field for field, _ in pairs])
    )


def event_table(ts: Int64s, tags: tuple[Tag, ...], codes: Codes | None, payload: Column) -> pa.Table:
    """Return events as a table. `codes`: the index of each event's tag (None: all have the first). `payload`: may be None."""
    which = np.zeros(len(ts), dtype=np.int32) if codes is None else codes
    known = pa.array([codec.encode(tag) for tag in tags], pa.large_binary())
    tag = pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), known)
    pairs = [
        (pa.field(TS, pa.int64()), pa.array(ts, pa.int64())),
        (pa.field(TAG, tag.type, metadata={FORM: ENCODED}), tag),
    ]
    if payload is not None:
        pairs.append(to_arrow(PAYLOAD, payload))
    schema = pa.schema([field for field, _ in pairs], metadata={FORM: EVENTS})
    return pa.Table.from_arrays([array for _, array in pairs], schema=schema)


def is_events(table: pa.Table) -> bool:
    """Return whether a table was made by `event_table`, by its metadata."""
    return (table.schema.metadata or {}).get(FORM) == EVENTS


def events_of(table: pa.Table) -> tuple[Int64s, tuple[Tag, ...], Codes | None, Column]:
    """Return times, tags, codes and payload of a table of events. Raises CodecError for any other table."""
    try:
        tag = one_chunk(table.column(TAG))
        tags = tuple(codec.decode(value) for value in tag.dictionary.to_pylist())
        codes = None if len(tags) == 1 else tag.indices.to_numpy()
        ts = one_chunk(table.column(TS)).to_numpy()
    except (KeyError, AttributeError, pa.ArrowException) as error:
        raise CodecError(problem=f"the table holds no events: {error}") from error
    if not all(isinstance(one, Tag) for one in tags) or ts.dtype != np.int64:
        raise CodecError(problem="the table holds no events: its tags or times are of another type")
    if PAYLOAD not in table.column_names:
        return ts, tags, codes, None
    return ts, tags, codes, from_arrow(table.schema.field(PAYLOAD), one_chunk(table.column(PAYLOAD)))


def columns_of(table: pa.Table) -> dict[str, Column]:
    """Return the named columns of a table of rows. Raises CodecError."""
    return {field.name: from_arrow(field, one_chunk(table.column(i))) for i, field in enumerate(table.schema)}


def one_chunk(column: Any) -> Any:
    """Return a column of a table as one array."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def to_bytes(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def from_bytes(data: bytes) -> pa.Table:
    """Return the table of an Arrow IPC stream, checked in full. Raises CodecError."""
    try:
        with pa.ipc.open_stream(data) as stream:
            table = stream.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise CodecError(problem=f"{len(data)} bytes are not an Arrow table: {error}") from error
    return table.combine_chunks()
