"""Equality of two states or outputs, and their differences in words.

>>> same(1, True), same({"a": 1}, {"a": 2}), close(1e-9)({"sum": 0.1 + 0.2}, {"sum": 0.3})
(True, False, True)
>>> differences({"a": 1, "b": 2}, {"a": 1, "c": 3})
["['b'] is missing: 2", "['c'] should not be there: 3"]
>>> symptom({"a": 1, "b": 2}, {"a": 1}), symptom(0.3, 0.1 + 0.2), symptom([1, 2], [2, 1])
('lost', 'rounding', 'order')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from typing import Any, Literal

from dgs import codec
from dgs.model.user_code import shown

Equal = Callable[[Any, Any], bool]
Symptom = Literal["rounding", "order", "lost", "extra", "more", "other"]

ROUNDING = 1e-9
SHOWN = 5
"""The number of differences to show."""


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal: by `==`, or by their codec bytes (arrays, NaN)."""
    with suppress(Exception):  # arrays have no truth value, and a user's __eq__ may raise anything
        if bool(left == right):
            return True
    try:
        return codec.encode(left) == codec.encode(right)
    except Exception:  # noqa: BLE001 - what cannot be encoded is equal only if `==` says so
        return False


def close(tolerance: float) -> Equal:
    """Return an equality under which floats may differ by `tolerance * max(1, |a|, |b|)`, at any depth."""
    from dgs.semantics.comparison import without_close_pairs

    def is_close(left: Any, right: Any) -> bool:
        try:
            return same(left, right) or not without_close_pairs([left], [right], tolerance)[0]
        except Exception:  # noqa: BLE001 - what cannot be looked into is compared as a whole
            return False

    return is_close


def differences(expected: Any, got: Any) -> list[str]:
    """Return the first places at which two values differ, one per line."""
    return list(islice(_differences(expected, got, ""), SHOWN))


def _differences(expected: Any, got: Any, place: str) -> Iterator[str]:
    here = f"{place}: " if place else ""
    if same(expected, got):
        return
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        yield from _of_mappings(expected, got, place)
    elif isinstance(expected, AbstractSet) and isinstance(got, AbstractSet):
        yield from (f"{here}{shown(one)} is missing" for one in sorted(expected - got, key=repr))
        yield from (f"{here}{shown(one)} should not be there" for one in sorted(got - expected, key=repr))
    elif _are_sequences(expected, got) and len(expected) == len(got):
        for index, pair in enumerate(zip(expected, got, strict=True)):
            yield from _differences(*pair, f"{place}[{index}]")
    else:
        yield f"{here}{shown(got)} instead of {shown(expected)}"


def _of_mappings(expected: Mapping[Any, Any], got: Mapping[Any, Any], place: str) -> Iterator[str]:
    for key in expected:
        if key in got:
            yield from _differences(expected[key], got[key], f"{place}[{key!r}]")
        else:
            yield f"{place}[{key!r}] is missing: {shown(expected[key])}"
    yield from (
        f"{place}[{key!r}] should not be there: {shown(got[key])}" for key in got if key not in expected
    )


def symptom(expected: Any, got: Any) -> Symptom:  # noqa: PLR0911 - one for each kind of value
    """Return the likely kind of mistake behind the difference of two values, such as `lost`, `order` or `rounding`."""
    if close(ROUNDING)(expected, got):
        return "rounding"
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        if expected.keys() - got.keys():
            return "lost"
        if got.keys() - expected.keys():
            return "extra"
        wrong = [key for key in expected if not same(expected[key], got[key])]
        return symptom(expected[wrong[0]], got[wrong[0]]) if wrong else "other"
    if isinstance(expected, AbstractSet) and isinstance(got, AbstractSet):
        return "lost" if expected - got else "extra"
    if _are_sequences(expected, got):
        return _of_sequences(expected, got)
    if isinstance(expected, (int, float)) and isinstance(got, (int, float)):
        return "more" if abs(got) > abs(expected) else "lost"
    return "lost" if got is None else "other"


def _of_sequences(expected: Sequence[Any], got: Sequence[Any]) -> Symptom:
    if len(expected) == len(got):
        if Counter(map(repr, expected)) == Counter(map(repr, got)):
            return "order"
        wrong = [pair for pair in zip(expected, got, strict=True) if not same(*pair)]
        return symptom(*wrong[0]) if len(wrong) == 1 else "other"
    return "lost" if len(got) < len(expected) else "more"


def _are_sequences(*values: Any) -> bool:
    return all(isinstance(value, (list, tuple)) for value in values)
