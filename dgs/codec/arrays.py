"""Forms of NumPy and Arrow data: raw buffers, never objects.

An array travels as (dtype, shape, buffer in C order) and comes back as a writable copy, because states may be mutated; the
columns of a batch (`View`) come back as read-only views of the bytes received. Structured arrays travel field by field,
without padding. Every NaN becomes the same NaN. Arrow data travels as an IPC stream, in one chunk and uncompressed, and is
fully validated on receipt.

>>> from dgs import codec
>>> codec.decode(codec.encode(np.arange(3, dtype="<i2")))
array([0, 1, 2], dtype=int16)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dgs.codec.forms import Form, require
from dgs.codec.trees import plain
from dgs.errors import CodecError

AnyArray = npt.NDArray[Any]

_WIDEST = {"f": 8, "c": 16}
"""Bytes of the widest portable floating and complex types; wider ones have padding and differ between machines."""


MOST_PADDING = 16
"""The largest ratio of an item's size to that of its fields in a structured array: padding takes no bytes in the data, but memory."""


@dataclass(frozen=True, slots=True)
class View:
    """An array in a column of a batch: it comes back as a read-only view."""

    array: AnyArray


def viewed(column: Any) -> Any:
    """Return a column with its arrays marked as views."""
    if isinstance(column, dict):
        return {name: viewed(part) for name, part in column.items()}
    return View(column) if type(column) is np.ndarray and column.dtype.names is None else column


def _to_array(array: AnyArray) -> Any:
    if array.dtype.names is not None:
        return _to_fields(array)
    dtype = array.dtype
    if dtype.hasobject or not dtype.itemsize or dtype.itemsize > _WIDEST.get(dtype.kind, dtype.itemsize):
        raise CodecError(
            problem=f"cannot encode an array of dtype {dtype}; use a list, or another dtype (float64, str)"
        )
    flat = _with_one_nan(np.ascontiguousarray(array).reshape(-1))
    return [dtype.str, list(array.shape), flat.view(np.uint8).data if flat.size else b""]


def _with_one_nan(flat: AnyArray) -> AnyArray:
    if flat.dtype.kind not in _WIDEST:
        return flat
    parts = flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
    odd = np.isnan(parts)
    if not odd.any():
        return flat
    return np.where(odd, parts.dtype.type(np.nan), parts).astype(parts.dtype, copy=False).view(flat.dtype)


def _view(content: Any) -> AnyArray:
    text, shape, data = content
    dtype = np.dtype(str(text))
    return np.frombuffer(data, dtype).reshape(shape) if data else _empty(shape, dtype)


def _empty(shape: Any, dtype: np.dtype[Any]) -> AnyArray:
    """Return an array without items. NumPy would allocate one item, whose size the data may claim to be anything."""
    if 0 not in shape:
        raise CodecError(problem=f"an array of shape {shape} has no data")
    return np.ndarray(shape, dtype, bytearray())


def _from_array(content: Any) -> AnyArray:
    if isinstance(content[0], dict):
        return _from_fields(content)
    array = _view(content)
    return array.copy() if array.size else array


def _check_padding(dtype: np.dtype[Any]) -> None:
    if dtype.itemsize > MOST_PADDING * sum(dtype[name].itemsize for name in dtype.names or ()):
        raise CodecError(
            problem=f"an item of a structured array is mostly padding ({dtype.itemsize} bytes): use "
            "`numpy.lib.recfunctions.repack_fields`"
        )


def _to_fields(array: AnyArray) -> Any:
    _check_padding(array.dtype)
    descr = plain(np.lib.format.dtype_to_descr(array.dtype))
    parts = [_to_array(np.asarray(array[name])) for name in array.dtype.names or ()]
    return [{"descr": descr}, list(array.shape), parts]


def _from_fields(content: Any) -> AnyArray:
    described, shape, parts = content
    dtype = np.lib.format.descr_to_dtype(described["descr"])
    _check_padding(dtype)
    columns = dict(zip(dtype.names or (), map(_from_array, parts), strict=True))
    if dtype.hasobject or any(part.shape != (*shape, *dtype[name].shape) for name, part in columns.items()):
        raise CodecError(problem=f"the fields of an array do not fit its shape {shape}")
    array = _empty(shape, dtype) if 0 in shape else np.zeros(shape, dtype)
    for name, part in columns.items():
        if array.size:
            array[name] = part
    return array


def _to_scalar(value: np.generic) -> Any:
    if isinstance(value, np.void):
        raise CodecError(problem="cannot encode a scalar of a structured array; use `.item()` or the array")
    return _to_array(np.asarray(value))


def _from_scalar(content: Any) -> Any:
    return _view(content)[()]


def _written(table: pa.RecordBatch | pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _is_packed(message: pa.ipc.Message) -> bool:
    """Return whether the body of an IPC message is compressed: reading it would allocate more than its size.

    The metadata is a flatbuffer: tables of optional fields, found through their vtables (Arrow's format/Message.fbs).
    """
    data = memoryview(message.metadata)

    def number(form: str, at: int) -> int:
        return int(struct.unpack_from(form, data, at)[0])

    def field(table: int, index: int) -> int | None:
        vtable, entry = table - number("<i", table), 4 + 2 * index
        offset = number("<H", vtable + entry) if entry < number("<H", vtable) else 0
        return table + offset if offset else None

    def inner(table: int, index: int) -> int:
        place = field(table, index)
        if place is None:
            raise CodecError(problem="Arrow data without a header")
        return place + number("<I", place)

    root = number("<I", 0)
    batch = inner(root, 2)
    if message.type == "dictionary":
        batch = inner(batch, 1)
    return field(root, 4) is not None or field(batch, 3) is not None


def _read(data: bytes) -> pa.Table:
    for message in pa.ipc.MessageReader.open_stream(data):
        if message.type != "schema" and _is_packed(message):
            raise CodecError(problem="Arrow data in the codec is not compressed")
    with pa.ipc.open_stream(data) as stream:
        table = stream.read_all()
    table.validate(full=True)
    return table


def _tidy(data: Any) -> Any:
    """Return equal data in new buffers, without bytes under nulls or outside a slice."""
    rows = data.num_rows if isinstance(data, (pa.Table, pa.RecordBatch)) else len(data)
    try:
        return data.take(pa.array(np.arange(rows)))
    except pa.ArrowNotImplementedError:  # unions: written unchanged
        return data


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _to_arrow_array(array: pa.Array | pa.ChunkedArray) -> bytes:
    one = _whole(array) if isinstance(array, pa.ChunkedArray) else array
    return _written(pa.RecordBatch.from_arrays([_tidy(one)], names=[""]))


def _to_table(table: pa.Table) -> bytes:
    return _written(_tidy(table).combine_chunks())


def _one_batch(data: bytes) -> pa.RecordBatch:
    table = _read(data)
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


FORMS = (
    Form(30, (np.ndarray,), _to_array, _from_array, is_raw=True),
    Form(31, (View,), lambda view: _to_array(view.array), _view, is_raw=True),
    Form(33, (np.str_,), str, lambda content: np.str_(require(content, str)), is_raw=True),
    Form(34, (np.bytes_,), bytes, lambda content: np.bytes_(require(content, bytes)), is_raw=True),
    Form(37, (pa.Table,), _to_table, _read, is_raw=True),
    Form(38, (pa.RecordBatch,), lambda batch: _written(_tidy(batch)), _one_batch, is_raw=True),
)

FAMILIES = (
    Form(32, (np.generic,), _to_scalar, _from_scalar, is_raw=True),
    Form(35, (pa.Array,), _to_arrow_array, lambda data: _whole(_read(data).column(0)), is_raw=True),
    Form(
        36,
        (pa.ChunkedArray,),
        _to_arrow_array,
        lambda data: pa.chunked_array([_whole(_read(data).column(0))]),
        is_raw=True,
    ),
)
"""Forms that also apply to subclasses: both libraries have many scalar and array classes."""
