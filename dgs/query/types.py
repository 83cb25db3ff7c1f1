"""Types of the values in queries, their schemas, and the one canonical Python form of every value.

int64 is int, float64 float, bool bool, text str, time a naive datetime in UTC. A list is a tuple; a bag is a tuple in the order of
`order_key`, so that equal bags are equal tuples. A record is the tuple of its fields, whose names are in the type. Null is None.

>>> str(bag(record(("word", TEXT), ("n", INT))))
'bag<record<word text, n int64>>'
>>> conform([3, 1, 2], bag(INT))
(1, 2, 3)
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dgs.errors.nearest import did_you_mean
from dgs.query.errors import QueryError, Span

GREATEST_INT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Type:
    """A type: `kind` is int64, float64, bool, text, time, null, bag, list or record. `nullable` does not count for equality."""

    kind: str
    of: Type | None = None
    fields: tuple[tuple[str, Type], ...] = ()
    nullable: bool = field(default=True, compare=False)

    def __str__(self) -> str:
        if self.of is not None:
            return f"{self.kind}<{self.of}>"
        if self.kind == "record":
            return f"record<{', '.join(f'{name} {one}' for name, one in self.fields)}>"
        return self.kind

    @property
    def is_number(self) -> bool:
        """Whether it is int64, float64, or the type of a bare null."""
        return self.kind in ("int64", "float64", "null")

    @property
    def is_collection(self) -> bool:
        """Whether it is a bag or a list."""
        return self.kind in ("bag", "list")

    def required(self) -> Type:
        """Return the type without null."""
        return replace(self, nullable=False)


INT, FLOAT, BOOL, TEXT, TIME = (Type(kind) for kind in ("int64", "float64", "bool", "text", "time"))
NULL = Type("null")
"""The type of a bare null, which fits any type."""


def bag(of: Type) -> Type:
    """Return the type of a multiset of values."""
    return Type("bag", of)


def list_of(of: Type) -> Type:
    """Return the type of a list of values."""
    return Type("list", of)


def record(*fields: tuple[str, Type]) -> Type:
    """Return the type of a record with named fields."""
    return Type("record", None, tuple(fields))


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a relation: names, each once, with their types.

    >>> Schema.of(carrier=TEXT, delay=FLOAT).index("delay")
    1
    """

    fields: tuple[tuple[str, Type], ...]

    @classmethod
    def of(cls, **fields: Type) -> Schema:
        """Return the schema of these columns, in this order."""
        return cls(tuple(fields.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(name for name, _ in self.fields)

    @property
    def types(self) -> tuple[Type, ...]:
        """The types, in order."""
        return tuple(one for _, one in self.fields)

    def index(self, name: str, span: Span | None = None) -> int:
        """Return the place of a column. Raises QueryError Q201."""
        for place, (known, _) in enumerate(self.fields):
            if known == name:
                return place
        hint = did_you_mean(name, self.names) or f": there are {', '.join(self.names)}"
        raise QueryError.of("Q201", f"no column {name!r}{hint}", span=span, name=name)

    def type(self, name: str, span: Span | None = None) -> Type:
        """Return the type of a column. Raises QueryError Q201."""
        return self.fields[self.index(name, span)][1]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __len__(self) -> int:
        return len(self.fields)

    def __str__(self) -> str:
        return ", ".join(f"{name} {one}" for name, one in self.fields)

    def nullable(self) -> Schema:
        """Return the schema with every column nullable."""
        return Schema(tuple((name, replace(one, nullable=True)) for name, one in self.fields))


def unified(types: Iterable[Type], span: Span | None = None) -> Type:
    """Return the common type: int64 beside float64 is float64, and null fits all. Raises QueryError Q204."""
    found = NULL
    for one in types:
        if found.kind == "null" or (found.kind == "int64" and one.kind == "float64"):
            found = one
        elif one.kind in ("null", "int64") and found.kind in ("float64", one.kind):
            continue
        elif found.is_collection and one.kind == found.kind and found.of and one.of:
            found = Type(found.kind, unified((found.of, one.of), span))
        elif one != found and one.kind != "null":
            raise QueryError.of(
                "Q204", f"{found} and {one} have no type in common", "Cast one of them.", span
            )
    return replace(found, nullable=True)


def order_key(value: Any) -> Any:
    """Return a key that sorts all values of one type: nulls last, NaN after all numbers, records and lists field by field."""
    if value is None:
        return (2,)
    if isinstance(value, tuple):
        return (0, tuple(map(order_key, value)))
    if isinstance(value, float) and math.isnan(value):
        return (1,)
    return (0, value)


def conform(value: Any, wanted: Type) -> Any:
    """Return the canonical form of a value of a type. Raises QueryError Q703 if it does not fit, Q701 beyond 64 bits."""
    if value is None:
        return None
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()  # a scalar of NumPy
    accepted, canonical = _FORMS.get(wanted.kind, ((), None))
    if isinstance(value, accepted) and (wanted.kind == "bool" or not isinstance(value, bool)):
        return value if canonical is None else canonical(value)
    if wanted.kind == "record" and isinstance(value, (Mapping, list, tuple)):
        return _conform_record(value, wanted)
    if wanted.of is not None and isinstance(value, (list, tuple)):
        items = [conform(one, wanted.of) for one in value]
        return tuple(sorted(items, key=order_key)) if wanted.kind == "bag" else tuple(items)
    raise QueryError.of("Q703", f"{value!r} is no {wanted}", value=repr(value))


def _conform_record(value: Any, wanted: Type) -> tuple[Any, ...]:
    if isinstance(value, Mapping):
        return tuple(conform(value.get(name), one) for name, one in wanted.fields)
    if len(value) != len(wanted.fields):
        raise QueryError.of("Q703", f"{value!r} is no {wanted}", value=repr(value))
    return tuple(conform(item, one) for item, (_, one) in zip(value, wanted.fields, strict=True))


_NAN = float("nan")


def one_float(value: float) -> float:
    """Return the canonical form of a float: one NaN, and no negative zero."""
    return _NAN if value != value else value + 0.0  # noqa: PLR0124 - NaN alone differs from itself


def fitting(value: int) -> int:
    """Return the integer if it fits 64 bits. Raises QueryError Q701."""
    if -GREATEST_INT - 1 <= value <= GREATEST_INT:
        return value
    raise QueryError.of("Q701", f"{value} does not fit 64 bits", "Cast the values to float64 before.")


def _one_time(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)


_FORMS: dict[str, tuple[Any, Any]] = {
    "int64": (int, fitting),
    "float64": ((int, float), lambda value: one_float(float(value))),
    "bool": (bool, None),
    "text": (str, None),
    "time": (dt.datetime, _one_time),
}
"""Python's classes of a kind of value, and the function to its canonical form."""


def plain(value: Any, of: Type) -> Any:
    """Return a value in the form for users: lists and bags as lists, records as dictionaries."""
    if value is None:
        return None
    if of.kind == "record":
        return {name: plain(item, one) for item, (name, one) in zip(value, of.fields, strict=True)}
    if of.of is not None:
        return [plain(item, of.of) for item in value]
    return value
