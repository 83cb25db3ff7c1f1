"""Loops of machine code as functions of Python: columns are passed by their addresses, everything else in 64-bit cells."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dgs.errors import InternalError

SCALARS = {"i8": "q", "f8": "d", "?": "?7x"}
"""The format in which a scalar is written to a cell."""
RESULTS = "q?7x"
"""The row or lane that a loop has reached, and whether the event there deviates."""
DTYPES = {of: np.dtype(of) for of in ("i8", "i4", "f8", "?")}


class CalledLoop:
    """A loop as machine code, called like its text: with columns and ints, then the scalars of the state.

    `arguments`: the types of the columns and ints, see `LoopText`. `scalars`: those of the state.
    """

    def __init__(
        self, function: Callable[[Any], None], arguments: Sequence[str], scalars: Sequence[str]
    ) -> None:
        self._function = function
        self._dtypes = [DTYPES.get(of.rpartition(":")[2]) for of in arguments]
        after = "".join(SCALARS[of] for of in scalars) + RESULTS
        self._cells = struct.Struct(f"={'q' * len(arguments)}{after}")
        self._after, self._start = struct.Struct(f"={after}"), 8 * len(arguments)
        self._buffer = ctypes.create_string_buffer(self._cells.size)
        self._place = ctypes.addressof(self._buffer)

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        """Return the row or the lane that the loop has reached, whether the event there deviates, and the scalars of the state."""
        count = len(self._dtypes)
        columns = map(_given, given[:count], self._dtypes)
        self._cells.pack_into(self._buffer, 0, *columns, *given[count:], 0, False)
        self._function(self._place)
        *scalars, at, deviates = self._after.unpack_from(self._buffer, self._start)
        return at, deviates, *scalars

    def places(self, columns: Sequence[Any]) -> list[int]:
        """Return addresses that may be passed in place of the last columns, as long as these live."""
        return [_given(*one) for one in zip(columns, self._dtypes[-len(columns) :], strict=True)]


def _given(given: Any, dtype: Any) -> int:
    """Return the address of a column. A whole number is returned unchanged: the address of a column, or a number of rows."""
    if dtype is None or type(given) is int:
        return int(given)
    if given.dtype != dtype or not given.flags.c_contiguous:
        raise InternalError(problem=f"a compiled loop got a column of {given.dtype} for one of {dtype}")
    return _address(given)


def _address_in_head(array: Any) -> int:
    """Return the address of an array's elements from its head: `data` is the first field of `PyArrayObject` in NumPy's binary interface."""
    return ctypes.c_void_p.from_address(id(array) + object.__basicsize__).value or 0


def _address_asked(array: Any) -> int:
    return int(array.ctypes.data)


_SOME = np.zeros(9)[3:]
_address = _address_in_head if _address_in_head(_SOME) == _address_asked(_SOME) else _address_asked
"""NumPy's own attribute takes ten times as long."""
