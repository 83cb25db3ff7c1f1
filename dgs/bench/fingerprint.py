"""Fingerprints of multisets of outputs: equal multisets have equal fingerprints, whatever the form of their values.

Comparing two million outputs one by one takes longer than computing them. A fingerprint is the number of values and the sum,
modulo 2**64, of their hashes. It does not depend on the order, or on whether values are Python objects, NumPy or Arrow
columns. Different multisets have equal fingerprints only by accident (once in 2**64).

>>> rows = [{"page": 0, "info": None}, {"page": 1, "info": 7}]
>>> columns = {"info": pa.array([7, None]), "page": np.array([1, 0])}
>>> fingerprint([rows]) == fingerprint([columns])
True
>>> fingerprint([[1, 2, 2]]) == fingerprint([[2], [1]])
False
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dgs import codec
from dgs.model import columns
from dgs.model.columns import Column
from dgs.semantics.comparison import plain

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The number of values, and the sum of their hashes."""

    count: int = 0
    total: int = 0

    def __add__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(self.count + other.count, (self.total + other.total) % 2**64)


def fingerprint(parts: Iterable[Column]) -> Fingerprint:
    """Return the fingerprint of all values of some columns. Raises CodecError for values that the codec cannot encode."""
    found = Fingerprint()
    for part in parts:
        hashes = _hashes(part)
        found += Fingerprint(len(hashes), int(hashes.sum(dtype=np.uint64)))
    return found


def _hashes(column: Column) -> Hashes:
    if isinstance(column, dict):
        return _of_records(column)
    if isinstance(column, list):
        return _of_list(column)
    if isinstance(column, np.ndarray):
        fits = np.issubdtype(column.dtype, np.integer) and column.dtype != np.uint64
        return _mixed(column.astype(np.int64)) if fits else _of_list(column.tolist())
    return _of_arrow(column)


def _of_records(record: dict[str, Column]) -> Hashes:
    total = np.zeros(columns.length(record), dtype=np.uint64)
    for name, column in record.items():
        total += _mixed(_hashes(column) ^ _of_value(name))
    return _mixed(total)


def _of_arrow(array: Any) -> Hashes:
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if not pa.types.is_integer(array.type) or pa.types.is_uint64(array.type):
        return _of_list(array.to_pylist())
    found = _mixed(np.asarray(array.fill_null(0), dtype=np.int64))
    found[~np.asarray(array.is_valid(), dtype=bool)] = _of_value(None)
    return found


def _of_list(values: list[Any]) -> Hashes:
    """Hash Python objects, those of one type together."""
    rows_of: dict[type, list[int]] = {}
    for row, kind in enumerate(map(type, values)):
        rows_of.setdefault(kind, []).append(row)
    if len(rows_of) == 1:
        return _of_type(type(values[0]), values)
    found = np.empty(len(values), dtype=np.uint64)
    for kind, rows in rows_of.items():
        found[rows] = _of_type(kind, [values[row] for row in rows])
    return found


def _of_type(kind: type, values: list[Any]) -> Hashes:
    """Hash objects of one type: integers as in columns, records by their fields, and others by their codec bytes."""
    if issubclass(kind, np.generic):
        return _of_list([value.item() for value in values])
    if kind is dict:
        return _of_dictionaries(values)
    if kind is int and all(-(2**63) <= value < 2**63 for value in values):
        return _mixed(np.array(values, dtype=np.int64))
    if kind in (str, bool, type(None)):
        known = {value: _of_value(value) for value in set(values)}
        return np.array([known[value] for value in values], dtype=np.uint64)
    return np.array([_of_object(plain(value)) for value in values], dtype=np.uint64)


def _of_dictionaries(values: list[dict[Any, Any]]) -> Hashes:
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row, value in enumerate(values):
        groups.setdefault(tuple(value), []).append(row)
    found = np.empty(len(values), dtype=np.uint64)
    for names, rows in groups.items():
        if names and all(type(name) is str for name in names):
            found[rows] = _of_records({name: [values[row][name] for row in rows] for name in names})
        else:
            found[rows] = [_of_value(values[row]) for row in rows]
    return found


def _of_object(value: Any) -> np.uint64:
    if type(value) is int and -(2**63) <= value < 2**63:
        return _mixed(np.array([value], dtype=np.int64))[0]  # type: ignore[no-any-return]
    return _of_value(value)


def _of_value(value: Any) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(codec.encode(value), digest_size=8).digest(), "little"))


def _mixed(numbers: npt.NDArray[Any]) -> Hashes:
    """Spread integers over all 64 bits (the finaliser of splitmix64)."""
    bits = numbers.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
