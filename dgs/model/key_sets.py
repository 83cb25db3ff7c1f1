"""Sets of keys, finite or symbolic, closed under the set operations.

A key set is a union of hash classes (`key_class(key) % modulus in classes`) corrected by finitely many exceptions. Finite
sets have no classes; all keys are the one class of modulus 1. So infinite sets and sets of unknown keys are small.

>>> some, all_keys = KeySet.of([1, 2, 3]), KeySet.all()
>>> 2 in some, 9 in (all_keys - some), (some & KeySet.of([3, 4]))
(True, True, {3})
>>> (KeySet.hashed(4, [0]) | KeySet.hashed(4, [1, 2, 3])) == all_keys
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import gcd, lcm
from numbers import Integral, Real
from typing import Any

from dgs import codec
from dgs.model.tags import Key

SetOperation = Callable[[frozenset[Any], frozenset[Any]], frozenset[Any]]


def representative(key: Key) -> Key:
    """Return the representative of a key, the same for all equal keys. Texts and integers represent themselves.

    In Python 1 == 1.0 == True, a named tuple is a tuple, and pandas' times equal Python's. They are one key in every dictionary, rule and key set, so they must
    have one hash class.

    >>> representative((True, 2.0, 0.5))
    (1, 2, 0.5)
    """
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, tuple):
        return tuple(map(representative, key))
    if isinstance(key, frozenset):
        return frozenset(map(representative, key))
    if type(key).__module__ == "numpy" and hasattr(key, "item"):
        key = _in_microseconds(key).item()
    if isinstance(key, (datetime, timedelta)):
        return _plain_time(key)
    if isinstance(key, Integral) or (isinstance(key, Real) and float(key).is_integer()):
        return int(key)
    return float(key) if isinstance(key, Real) else key


def _in_microseconds(scalar: Any) -> Any:
    """Return a time of NumPy in one unit, since times in several units are equal; any other scalar unchanged."""
    kind = scalar.dtype.kind
    return scalar.astype(f"{kind}8[us]") if kind in "mM" else scalar


def _plain_time(time: datetime | timedelta) -> Key:
    """Return the time of Python that equals one of a subclass, such as pandas' Timestamp, or is nearest to it. NaT is left."""
    if time != time:  # noqa: PLR0124 - only NaT differs from itself
        return time
    if isinstance(time, timedelta):
        return timedelta(time.days, time.seconds, time.microseconds)
    plain = datetime.combine(time.date(), time.timetz())
    return plain if plain.utcoffset() is None else plain.astimezone(UTC)


@lru_cache(maxsize=1 << 16, typed=True)
def key_class(key: Key) -> int:
    """Return the 64-bit stable hash of a key, from its codec bytes: the same in every process and version.

    Equal keys (1 and 1.0) have the same hash.
    """
    data = codec.encode(representative(key))
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class KeySet:
    """An immutable set of keys: hash classes modulo `modulus`, plus `extra` keys outside them, minus `missing` keys inside."""

    modulus: int = 1
    classes: frozenset[int] = frozenset()
    extra: frozenset[Key] = frozenset()
    missing: frozenset[Key] = frozenset()

    @classmethod
    def of(cls, keys: Iterable[Key]) -> KeySet:
        """Return the finite set of `keys`."""
        return cls(extra=frozenset(keys))

    @classmethod
    def all(cls) -> KeySet:
        """Return the set of all keys."""
        return cls(classes=frozenset([0]))

    @classmethod
    def hashed(cls, modulus: int, classes: Iterable[int]) -> KeySet:
        """Return the keys whose stable hash modulo `modulus` is in `classes`."""
        return _normal(modulus, frozenset(classes), frozenset(), frozenset())

    def __contains__(self, key: Key) -> bool:
        if key in self.extra:
            return True
        return bool(self.classes) and key not in self.missing and self._in_classes(key)

    def _in_classes(self, key: Key) -> bool:
        return len(self.classes) == self.modulus or key_class(key) % self.modulus in self.classes

    @property
    def is_finite(self) -> bool:
        """Whether the set lists its keys (`extra`) and has no hash classes."""
        return not self.classes

    def __bool__(self) -> bool:
        return bool(self.classes or self.extra)

    def __or__(self, other: KeySet) -> KeySet:
        return self._combine(other, frozenset.union)

    def __and__(self, other: KeySet) -> KeySet:
        return self._combine(other, frozenset.intersection)

    def __sub__(self, other: KeySet) -> KeySet:
        return self._combine(other, frozenset.difference)

    def isdisjoint(self, other: KeySet) -> bool:
        """Return whether the two sets share no key, without making a new set."""
        if self.is_finite or other.is_finite:
            few, many = (self, other) if self.is_finite else (other, self)
            return not any(key in many for key in few.extra)
        step = gcd(self.modulus, other.modulus)  # classes c and d overlap when they are equal modulo the gcd
        if not {c % step for c in self.classes}.isdisjoint(c % step for c in other.classes):
            return False
        return not any(key in other for key in self.extra) and not any(key in self for key in other.extra)

    def _combine(self, other: KeySet, operation: SetOperation) -> KeySet:
        """Apply a set operation to the classes, and to the exceptions of either side by membership."""
        if self.is_finite and other.is_finite:
            return KeySet(extra=operation(self.extra, other.extra))
        modulus = lcm(self.modulus, other.modulus)
        classes = operation(_spread(self, modulus), _spread(other, modulus))
        exceptions = self.extra | self.missing | other.extra | other.missing
        mine = frozenset(key for key in exceptions if key in self)
        yours = frozenset(key for key in exceptions if key in other)
        inside = operation(mine, yours)
        return _normal(modulus, classes, inside, exceptions - inside)

    def __repr__(self) -> str:
        parts = []
        if self.classes:
            whole = len(self.classes) == self.modulus
            parts.append("all" if whole else f"hash%{self.modulus} in {sorted(self.classes)}")
        if self.extra:
            parts.append("{" + ", ".join(map(repr, sorted(self.extra, key=repr))) + "}")
        text = " + ".join(parts) or "{}"
        return text + (
            " - {" + ", ".join(map(repr, sorted(self.missing, key=repr))) + "}" if self.missing else ""
        )


def _spread(keys: KeySet, modulus: int) -> frozenset[int]:
    if modulus == keys.modulus:
        return keys.classes
    return frozenset(c + i * keys.modulus for c in keys.classes for i in range(modulus // keys.modulus))


@lru_cache
def _divisors(modulus: int) -> tuple[int, ...]:
    """Return the proper divisors, the smallest first."""
    return tuple(m for m in range(1, modulus) if modulus % m == 0)


def _normal(modulus: int, classes: frozenset[int], inside: frozenset[Key], outside: frozenset[Key]) -> KeySet:
    """Return the unique representation of this set: smallest modulus, no redundant exceptions."""
    if not classes:
        return KeySet.of(inside)
    for smaller in _divisors(modulus):
        if len(classes) % (modulus // smaller):
            continue
        folded = frozenset(c % smaller for c in classes)
        if len(folded) * (modulus // smaller) == len(classes):
            modulus, classes = smaller, folded
            break
    hashed = KeySet(modulus, classes)
    return KeySet(
        modulus,
        classes,
        frozenset(k for k in inside if not hashed._in_classes(k)),  # noqa: SLF001 - same module
        frozenset(k for k in outside if hashed._in_classes(k)),  # noqa: SLF001 - same module
    )
