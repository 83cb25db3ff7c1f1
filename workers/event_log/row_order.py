"""The order of the rows of a segment, and a digest that does not depend on the order in which rows arrive.

When a batch is written again, rows with equal times may come in another order. So a segment is sorted by all columns: by time,
then by the requested columns, then by all others. Rows that are still equal are the same. The digest is that of the sorted
rows.

>>> some, others = pa.table({"ts": [2, 1, 1], "v": [0, 7, 3]}), pa.table({"ts": [1, 2, 1], "v": [3, 0, 7]})
>>> sorted_rows(some, ["ts"]).to_pydict()
{'ts': [1, 1, 2], 'v': [3, 7, 0]}
>>> digest(some) == digest(others) != digest(some.slice(1))
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dgs import codec
from dgs.workers.event_log.event_tables import one_chunk

_INTEGERS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def sorted_rows(table: pa.Table, first: Sequence[str]) -> pa.Table:
    """Return the rows in order of the columns `first`, then of all others."""
    names = [*dict.fromkeys([*first, *table.column_names])]
    return table.take(_order([key for name in names for key in sort_keys(one_chunk(table.column(name)))]))


def digest(table: pa.Table, *, is_sorted: bool = False) -> str:
    """Return a digest of the rows as a multiset, with the names and types of their columns: BLAKE2b-256, hexadecimal.

    `is_sorted`: the rows are already in an order that does not depend on their order of arrival, and are not sorted again. If
    that is not the order of the columns, the same rows have another digest.
    """
    keys = [key for name in table.column_names for key in sort_keys(one_chunk(table.column(name)))]
    shape = [(field.name, str(_decoded(field.type))) for field in table.schema]
    order = None if is_sorted else _order(keys)
    found = hashlib.blake2b(codec.encode([shape, table.num_rows]), digest_size=32)
    for key in keys:
        found.update(codec.encode(key if order is None else key.take(order)))
    return found.hexdigest()


def _order(keys: Sequence[pa.Array]) -> pa.Array:
    names = [str(i) for i in range(len(keys))]
    table = pa.Table.from_arrays(list(keys), names=names)
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])


def _decoded(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def sort_keys(array: pa.Array) -> Iterator[pa.Array]:
    """Yield arrays that Arrow can sort and that differ wherever the codec sees a difference.

    Floats are sorted as numbers, then by their bits: 0.0 and -0.0 are different values, and so may be two NaN.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from sort_keys(array.dictionary_decode())
    elif pa.types.is_struct(kind):
        yield array.is_valid()
        for part in array.flatten():
            yield from sort_keys(part)
    elif pa.types.is_floating(kind):
        if pa.types.is_float16(kind):
            yield array.view(_INTEGERS[16])
        else:
            yield array
            yield array.view(_INTEGERS[kind.bit_width])
    elif pa.types.is_fixed_size_binary(kind):
        yield array.cast(pa.binary())
    elif pa.types.is_nested(kind) or pa.types.is_null(kind):
        yield pa.array([codec.encode(value) for value in array.to_pylist()], pa.binary())
    else:
        yield array
