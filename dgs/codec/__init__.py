"""The codec: values to bytes and back, for frames between hosts, checkpoints, and stable hashes of keys.

It carries None, bool, int of any size, float, str, bytes, list, tuple, set, frozenset, dict with any hashable keys, date and
time types, Decimal, Fraction, complex, UUID, the containers of `collections`, NumPy scalars and arrays without objects,
Arrow arrays and tables, pandas' times and nulls, the types of the model (tags, sets, keys, batches), and types that users `register`.

Laws. `decode(encode(v))` equals v and has its types. Equal values of equal types have equal bytes: sets and dictionaries
are sorted (so a dictionary comes back sorted), and all NaN have the same bytes. Keys, digests and comparisons rely on that. With
`encode(v, keeps_order=True)` dictionaries come back in their original order. But True, 1 and 1.0 are three values, and so are
0.0 and -0.0, Decimal("1") and Decimal("1.0"), and one instant in two time zones: each comes back unchanged. For any bytes,
`decode` returns a value or raises CodecError; it imports nothing that the data names, executes nothing of it, and allocates in proportion to it.

Read in this order: `trees` (values as nested data for msgpack), `forms` (the table of types), `scalars`, `arrays`, `pandas_scalars`, `registered` (users' types). `levels` helps JSON, too.

>>> decode(encode({"when": (1, 2.5), "who": {"ann", "bob"}})) == {"when": (1, 2.5), "who": {"bob", "ann"}}
True
>>> encode({3, 1, 2}) == encode({2, 3, 1}), encode(1) == encode(True)
(True, False)
>>> rated = {"source": "a", "rating": 5}
>>> list(decode(encode(rated))), list(decode(encode(rated, keeps_order=True)))
(['rating', 'source'], ['source', 'rating'])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dgs.codec import arrays, pandas_scalars, registered, scalars
from dgs.codec.forms import add_families, add_forms, add_named
from dgs.codec.registered import register
from dgs.codec.trees import add_text_type, in_order, pack, pack_with_sizes, plain, too_deep, unpack
from dgs.errors import CodecError

__all__ = ["add_forms", "add_text_type", "decode", "encode", "encode_as", "encode_with_sizes", "register"]

Value = TypeVar("Value")
Packed = TypeVar("Packed")

add_forms(scalars.FORMS)
add_forms(arrays.FORMS)
add_forms(registered.FORMS)
add_families(arrays.FAMILIES)
add_named("pandas", pandas_scalars.FORMS)


def encode(value: Any, *, keeps_order: bool = False) -> bytes:
    """Return the bytes of a value. Raises CodecError with the type that it cannot encode.

    `keeps_order`: dictionaries come back in their order. Without it, equal values of equal types have equal bytes.
    """
    return encode_as(in_order if keeps_order else plain, value)


def encode_as(tree: Callable[[Value], Any], value: Value) -> bytes:
    """Return the bytes of a value whose tree a function of the caller makes, of lists and results of `plain` or `in_order`. Raises CodecError."""
    return _packed(lambda: pack(tree(value)))


def encode_with_sizes(
    tree: Callable[[Value], list[Any]], value: Value, *, at: int
) -> tuple[bytes, list[int]]:
    """Return the same for a tree that is a list, and the number of bytes of each item of the list at position `at` in it."""
    return _packed(lambda: pack_with_sizes(tree(value), at))


def _packed(packing: Callable[[], Packed]) -> Packed:
    try:
        return packing()
    except RecursionError as error:
        raise too_deep() from error
    except (ValueError, UnicodeError, OverflowError) as error:
        raise CodecError(problem=f"cannot encode the value: {error}") from error


def decode(data: bytes | bytearray | memoryview) -> Any:
    """Return the value of the bytes. Arrays are writable copies; arrays in batches are views of `data`. Raises CodecError."""
    try:
        return unpack(data)
    except CodecError:
        raise
    except Exception as error:
        raise CodecError(
            problem=f"cannot decode {len(data)} bytes: {type(error).__name__}: {error}"
        ) from error
