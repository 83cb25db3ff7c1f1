"""Values as PigStorage writes them, and back: `(1,2)`, `{(a),(b)}`, `[key#value]`, doubles as Java prints them.

>>> from dgs.query.pig.pig_types import DOUBLE, INTEGER
>>> row = (PigField("t", PigType("tuple", (PigField("a", INTEGER), PigField("b", DOUBLE)))), PigField("n", INTEGER))
>>> line_of(((1, 2.0), None), row, ",")
'(1,2.0),'
>>> values_of("(1,2.0),x", row, ",")
((1, 2.0), None)
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from dgs.errors import OutputUnwritableError
from dgs.query.pig.pig_types import BYTEARRAY, PigField, PigType

CLOSED = ("tuple", "bag", "map")
CLOSED_BY = {"(": ")", "{": "}", "[": "]"}
LEAST_PLAIN, MOST_PLAIN = 1e-3, 1e7


def line_of(row: Sequence[Any], fields: Sequence[PigField], delimiter: str) -> str:
    """Return one row as a line without its end."""
    return delimiter.join(text_of(value, field.type) for value, field in zip(row, fields, strict=True))


def text_of(value: Any, of: PigType) -> str:
    """Return one value as text; null is empty."""
    if value is None:
        return ""
    if of.name == "tuple":
        return _tuple_text(value, of.inside)
    if of.name == "bag":
        rows = ((one,) if of.is_bare else one for one in value)
        return "{" + ",".join(_tuple_text(row, of.inside) for row in rows) + "}"
    if of.name == "map":
        inner = of.inside[0].type if of.inside else BYTEARRAY
        return "[" + ",".join(f"{key}#{text_of(item, inner)}" for key, item in value) + "]"
    return _simple_text(value)


def _simple_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    return value.isoformat() if isinstance(value, dt.datetime) else str(value)


def dumped(fields: Sequence[PigField], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield rows in the form of DUMP. Columns after the fields are left out."""
    return (_tuple_text(row[: len(fields)], fields) for row in rows)


def new_file(path: Path, text: str) -> None:
    """Write a file that is not there yet. Raises OSError."""
    with path.open("x", encoding="utf-8") as file:
        file.write(text)


def stored(
    path: Path,
    fields: Sequence[PigField],
    rows: Sequence[Sequence[Any]],
    delimiter: str,
    store: Callable[[Path, str], None],
) -> str:
    """Write rows into a file as STORE does, by `store`; return a message. Raises OutputUnwritableError."""
    lines = (line_of(row[: len(fields)], fields, delimiter) + "\n" for row in rows)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        store(path, "".join(lines))
    except (OSError, ValueError) as error:  # a NUL in the name is no error of the system
        problem = getattr(error, "strerror", None) or str(error)
        raise OutputUnwritableError(path=path, problem=problem) from None
    return f"{len(rows)} row{'' if len(rows) == 1 else 's'} in {path}"


def _tuple_text(row: Sequence[Any], inside: Sequence[PigField]) -> str:
    return "(" + line_of(row, inside, ",") + ")"


def java_double(value: float) -> str:
    """Return a double as Java prints it.

    >>> [java_double(one) for one in (3.0, 1e7, 0.0001, 1.8, math.inf)]
    ['3.0', '1.0E7', '1.0E-4', '1.8', 'Infinity']
    """
    if not math.isfinite(value):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    if value == 0.0 or LEAST_PLAIN <= abs(value) < MOST_PLAIN:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = int(exponent) + len(digits) - 1
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{power}"


def values_of(line: str, fields: Sequence[PigField], delimiter: str) -> tuple[Any, ...]:
    """Return the values of a line: null if a part is missing, is empty, or does not fit its type; superfluous parts are left out."""
    is_flat = all(field.type.name not in CLOSED for field in fields)
    parts = line.split(delimiter) if is_flat else list(_parts(line, delimiter))
    parts += [""] * (len(fields) - len(parts))
    return tuple(value_of(part, field.type) for part, field in zip(parts, fields, strict=False))


def value_of(text: str, of: PigType) -> Any:
    """Return the value in a text; null if it does not fit."""
    if text == "":
        return None
    if of.name in ("chararray", "bytearray"):
        return text
    try:
        return _structured(text, of) if of.name in CLOSED else _simple(text.strip(), of.name)
    except ValueError:
        return None


def _simple(text: str, name: str) -> Any:
    if name in ("int", "long"):
        found = int(text)
        return found if -(2**63) <= found < 2**63 else None
    if name in ("float", "double"):
        return float(text)
    if name == "datetime":
        return dt.datetime.fromisoformat(text)
    return {"true": True, "false": False}.get(text.lower())


def _structured(text: str, of: PigType) -> Any:
    text = text.strip()
    if not text or CLOSED_BY.get(text[0]) != text[-1]:
        raise ValueError
    parts = list(_parts(text[1:-1]))
    if of.name == "tuple":
        return _record(parts, of.inside)
    if of.name == "map":
        inner = of.inside[0].type if of.inside else BYTEARRAY
        pairs = (part.partition("#") for part in parts)
        return tuple((key, value_of(value, inner)) for key, _, value in pairs)
    return tuple(_record(list(_parts(part.strip()[1:-1])), of.inside) for part in parts)


def _record(parts: Sequence[str], inside: Sequence[PigField]) -> tuple[Any, ...]:
    padded = [*parts, *[""] * (len(inside) - len(parts))]
    return tuple(value_of(part, field.type) for part, field in zip(padded, inside, strict=False))


def _parts(text: str, delimiter: str = ",") -> Iterator[str]:
    """Yield the parts of a text between delimiters outside of brackets."""
    depth, begin = 0, 0
    for place, one in enumerate(text):
        depth += (one in "({[") - (one in ")}]")
        if one == delimiter and depth == 0:
            yield text[begin:place]
            begin = place + 1
    if text:
        yield text[begin:]
