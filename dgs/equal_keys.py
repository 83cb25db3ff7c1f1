"""One representative for all keys that are equal: in Python 1 == 1.0 == True == Decimal(1), and a named tuple is a tuple.

Equal keys are one key to every dictionary, rule and key set, so they must have one hash class too.

>>> representative((True, 2.0, 0.5)), representative(Decimal("0.5"))
((1, 2, 0.5), 0.5)
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from numbers import Number
from typing import Any

from dgs.tags import Key

LARGEST_EXPONENT = 1000
"""Decimals beyond it stand for themselves: as fractions they would have that many digits."""


def representative(key: Key) -> Key:
    """Return the same key for all keys that are equal. Texts, and integers as they are, stand for themselves."""
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, tuple):
        return tuple(map(representative, key))
    if isinstance(key, frozenset):
        return frozenset(map(representative, key))
    if isinstance(key, datetime) and key.utcoffset() is not None:
        return key.astimezone(UTC)
    if type(key).__module__ == "numpy" and hasattr(key, "item"):
        key = key.item()
    return _number(key) if isinstance(key, (Number, Decimal)) else key


def _number(key: Any) -> Key:
    """Return the integer, else the float, else the fraction that equals a number."""
    if isinstance(key, complex):
        if key.imag:
            return key
        key = key.real
    if isinstance(key, (float, Decimal)) and not isfinite(key):
        return float(key)
    if isinstance(key, Decimal) and abs(key.adjusted()) > LARGEST_EXPONENT:
        return key.normalize()
    exact = Fraction(key)
    if exact.denominator == 1:
        return exact.numerator
    try:
        near = float(exact)
    except OverflowError:
        return exact
    return near if near == exact else exact
