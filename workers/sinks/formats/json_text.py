r"""Values as JSON, for the jsonl sink, stdout and text columns.

Tuples, sets and arrays become lists. A tag becomes its kind, or [kind, key]. Dates and times are ISO-8601, bytes are base64,
decimals are text, and records (dataclasses) are objects. NaN, NaT and the infinities, which JSON does not have, become null.

>>> as_json(("view", {1, 2}, float("nan"))), as_json({"tag": Tag("view", 7), 3: b"\x00"})
('["view",[1,2],null]', '{"tag":["view",7],"3":"AA=="}')
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from enum import Enum
from itertools import chain
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from pydantic_core import to_json

from dgs.codec.levels import levels
from dgs.errors import CodecError
from dgs.model.tags import Tag
from dgs.model.user_code import shown

_fast = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_UNSAFE = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
"""Characters that some readers take for the end of a line, or that UTF-8 cannot hold."""


def as_json(value: Any) -> str:
    """Return JSON that is one line for every reader. Raises CodecError for a type that it cannot write."""
    text = _encoded(value)
    return text if text.isascii() or _is_safe(text) else _UNSAFE.sub(_escape, text)


def _is_safe(text: str) -> bool:
    """Return whether no character is to be escaped. To search for each takes a quarter of the time of the pattern."""
    try:
        return not _is_changed(text.encode())
    except UnicodeEncodeError:
        return False


def as_json_texts(values: Sequence[Any]) -> list[bytes]:
    """Return the JSON of each value in UTF-8, as `as_json` does. A faster encoder makes it where it writes the same. Raises CodecError.

    >>> as_json_texts([[1, 0.5], {"a": None}]), as_json_texts([{1, 2}])
    ([b'[1,0.5]', b'{"a":null}'], [b'[1,2]'])
    """
    if _are_plain(values):
        try:
            texts = [to_json(value, inf_nan_mode="null") for value in values]
        except ValueError:  # half a surrogate pair, or too deep
            pass
        else:
            if not _is_changed(b"\n".join(texts)) and max(map(len, texts), default=0) <= LONGEST_INTEGER:
                return texts
            return [
                as_json(value).encode() if _is_changed(text) or _LONG_INTEGER.search(text) else text
                for text, value in zip(texts, values, strict=True)
            ]
    return [as_json(value).encode() for value in values]


def _is_changed(text: bytes) -> bool:
    """Return whether `as_json` escapes a character that UTF-8 can hold. The search for one byte is the fastest."""
    return not text.isascii() and (
        (b"\x85" in text and b"\xc2\x85" in text)
        or (b"\xe2" in text and (b"\xe2\x80\xa8" in text or b"\xe2\x80\xa9" in text))
    )


LONGEST_INTEGER = 4_300
"""The most digits of an integer that Python writes."""
_LONG_INTEGER = re.compile(rb"\d{%d}" % (LONGEST_INTEGER + 1))

_TYPES = frozenset((str, int, float, bool, type(None), list, tuple, dict))
DEEPEST, MOST_TOGETHER = 100, 2**22


def _are_plain(values: Sequence[Any]) -> bool:
    """Return whether values have types that all encoders of JSON write alike."""
    for depth, level in enumerate(levels(values)):
        is_plain = level.types <= _TYPES and set(map(type, chain.from_iterable(level.dicts))) <= {str}
        if not is_plain or (float in level.types and not _are_short(level.values)):
            return False
        inner = sum(map(len, chain(level.dicts, level.lists)))
        if depth > DEEPEST or inner > MOST_TOGETHER:  # a list may hold itself many times
            return False
    return True


def _are_short(values: Sequence[Any]) -> bool:
    """Return whether no float is so large or so small that encoders choose different texts, as 9e-05 and 0.00009."""
    sizes = np.abs(np.array([value for value in values if type(value) is float]))
    return bool(np.all((sizes >= 1e-4) & (sizes < 1e16) | (sizes == 0) | ~np.isfinite(sizes)))  # noqa: PLR2004


def _encoded(value: Any) -> str:
    try:
        return _fast(value)  # most values need no conversion, and checking first would cost more
    except (TypeError, ValueError):
        pass
    try:
        return _fast(plain(value))
    except RecursionError:
        raise CodecError(problem="an output that contains itself cannot be written as JSON") from None
    except ValueError as error:  # an integer of more than 4,300 digits
        raise CodecError(problem=f"an output cannot be written as JSON: {error}") from None


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def plain(value: Any) -> Any:
    """Return the value in JSON's own types. Raises CodecError for a type that has no form in JSON."""
    if value is None or type(value) in (str, int, bool):
        return value
    for types, convert in _CONVERSIONS:
        if isinstance(value, types):
            return convert(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise CodecError(
        problem=f"an output of type {type(value).__name__} cannot be written as JSON: {shown(value)}; "
        "emit numbers, texts, times, bytes, and lists, dictionaries or dataclasses of these"
    )


def _listed(values: Iterable[Any]) -> list[Any]:
    return [plain(item) for item in values]


def _array(value: Any) -> Any:
    if value.dtype.kind == "M":
        return np.array(np.where(np.isnat(value), None, np.datetime_as_string(value))).tolist()
    return plain(value.tolist())


_CONVERSIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Enum, lambda value: plain(value.value)),
    ((np.generic, np.ndarray), _array),
    (str, str),
    (int, int),
    (float, lambda value: float(value) if math.isfinite(value) else None),
    (Tag, lambda tag: tag.kind if tag.key is None else [tag.kind, plain(tag.key)]),
    (dict, lambda record: {_name(key): plain(item) for key, item in record.items()}),
    ((list, tuple), _listed),
    ((set, frozenset), lambda items: _listed(sorted(items, key=_sort_key))),
    (pa.Scalar, lambda scalar: plain(scalar.as_py())),
    ((pa.Array, pa.ChunkedArray), lambda array: _listed(array.to_pylist())),
    ((dt.datetime, dt.date, dt.time), lambda time: time.isoformat() if time == time else None),  # noqa: PLR0124 - NaT
    (dt.timedelta, lambda duration: duration.total_seconds()),
    ((Decimal, UUID), str),
    ((bytes, bytearray), lambda data: base64.b64encode(data).decode()),
)


def _name(key: Any) -> str:
    inner = plain(key)
    return inner if isinstance(inner, str) else json.dumps(inner, separators=(",", ":"))


def _sort_key(item: Any) -> tuple[str, Any]:
    """Return a key that sorts numbers by value and others by text, so that a set has the same order in every run."""
    return ("", item) if isinstance(item, (int, float)) else (type(item).__name__, repr(item))
