"""Pig's types, and the types of the algebra that hold their values.

A chararray and a bytearray are text. A tuple is a record, a bag a bag of records, a map a list of records (key, value). int and
long are int64. A `bare` bag, such as TOKENIZE returns, is a list of the only field of its tuples.

>>> from dataclasses import replace
>>> words = PigType("bag", (PigField("word", CHARARRAY),))
>>> str(words), str(words.stored), str(replace(words, is_bare=True).stored)
('bag{(word: chararray)}', 'bag<record<word text>>', 'list<text>')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dgs.query.pig.text import pig_syntax as pig
from dgs.query.types import BOOL, FLOAT, INT, TEXT, TIME, Schema, Type, bag, list_of, record

STORED = {
    "int": INT, "long": INT, "float": FLOAT, "double": FLOAT, "chararray": TEXT, "bytearray": TEXT,
    "boolean": BOOL, "datetime": TIME, "null": Type("null"),
}  # fmt: skip
NUMBERS = ("int", "long", "float", "double")


@dataclass(frozen=True, slots=True)
class PigType:
    """A type: its name, and the fields inside a tuple, a bag or a map (a single one: the value)."""

    name: str
    inside: tuple[PigField, ...] = ()
    is_bare: bool = field(default=False, compare=False)

    @property
    def stored(self) -> Type:
        """The type of the algebra that holds the values."""
        if self.name == "map":
            value = self.inside[0].type.stored if self.inside else TEXT
            return list_of(record(("key", TEXT), ("value", value)))
        if self.name == "tuple":
            return record(*stored_fields(self.inside))
        if self.name == "bag":
            if self.is_bare:
                return list_of(self.inside[0].type.stored)
            return bag(record(*stored_fields(self.inside)))
        return STORED[self.name]

    @property
    def is_number(self) -> bool:
        """Whether arithmetic works on it without a cast."""
        return self.name in NUMBERS

    def __str__(self) -> str:
        fields = ", ".join(map(str, self.inside))
        if self.name == "map":
            return f"map[{self.inside[0].type if self.inside else ''}]"
        if self.name == "tuple":
            return f"({fields})"
        return f"bag{{({fields})}}" if self.name == "bag" else self.name


@dataclass(frozen=True, slots=True)
class PigField:
    """A field of a relation, a tuple or a bag; its name is None if it has none."""

    name: str | None
    type: PigType

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" if self.name else str(self.type)


INTEGER, LONG, DOUBLE, BOOLEAN = (PigType(name) for name in ("int", "long", "double", "boolean"))
CHARARRAY, BYTEARRAY, NULL = (PigType(name) for name in ("chararray", "bytearray", "null"))


def columns(fields: Sequence[PigField]) -> tuple[str, ...]:
    """Return the columns that hold fields: the last part of a name if it is unique, ignoring case.

    >>> columns([PigField("a::x", LONG), PigField("b::x", LONG), PigField("b::Y", LONG), PigField(None, LONG)])
    ('a::x', 'b::x', 'Y', '_3')
    """
    short = [(one.name or f"_{place}").rpartition("::")[2] for place, one in enumerate(fields)]
    count = Counter(name.lower() for name in short)
    full = [
        name if count[name.lower()] == 1 else one.name or name
        for name, one in zip(short, fields, strict=True)
    ]
    count = Counter(name.lower() for name in full)
    return tuple(name if count[name.lower()] == 1 else f"{name}_{place}" for place, name in enumerate(full))


def stored_fields(fields: Sequence[PigField]) -> tuple[tuple[str, Type], ...]:
    """Return the columns that hold fields, with their types."""
    return tuple(zip(columns(fields), (one.type.stored for one in fields), strict=True))


def declared(written: pig.Field) -> PigField:
    """Return the field that a schema in a script declares; without a type it is a bytearray."""
    return PigField(written.name, BYTEARRAY if written.type is None else declared_type(written.type))


def declared_type(written: pig.FieldType) -> PigType:
    """Return the type that a script declares."""
    return PigType(written.name, tuple(declared(one) for one in written.inside or ()))


def from_stored(stored: Type) -> PigType:
    """Return the Pig type of values that a function returns.

    >>> str(from_stored(bag(record(("a", INT), ("b", TEXT)))))
    'bag{(a: long, b: chararray)}'
    """
    if stored.kind == "record":
        return PigType("tuple", tuple(PigField(name, from_stored(one)) for name, one in stored.fields))
    if stored.kind == "list" and stored.of is not None and Schema(stored.of.fields).names == ("key", "value"):
        return PigType("map", (PigField(None, from_stored(stored.of.fields[1][1])),))
    if stored.of is not None:
        inner = from_stored(stored.of)
        is_bare = inner.name != "tuple"
        return PigType("bag", (PigField(None, inner),) if is_bare else inner.inside, is_bare=is_bare)
    names = {"int64": "long", "float64": "double", "text": "chararray", "bool": "boolean", "time": "datetime"}
    return PigType(names.get(stored.kind, "null"))
