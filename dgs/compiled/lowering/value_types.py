"""The types of values in compiled programs, and refusals: why a program stays interpreted.

Every value is flattened to scalars of 64 bits. A type says which scalars a value has, and how they become a Python object again.

>>> joined(INT, NONE), joined(tuple_of(INT, FLOAT), tuple_of(INT, NONE))
(int | None, (int, float | None))
>>> scalars_of(tuple_of(INT, optional(FLOAT)))
('i8', '?', 'f8')
>>> try: joined(INT, FLOAT, what="the state")
... except Refused as refused: print(refused)
the state is sometimes int and sometimes float: make it one of them, such as 0.0 in place of 0
"""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass, replace
from types import MemberDescriptorType
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why something is not compiled: a sentence, and the user's line that it is about, if any."""

    why: str
    line: int | None = None

    def __str__(self) -> str:
        return self.why if self.line is None else f"line {self.line}: {self.why}"


class Refused(Exception):  # noqa: N818 - an answer of the lowering, which never leaves this package
    """Something is not compiled."""

    def __init__(self, why: str, node: ast.AST | None = None) -> None:
        self.refusal = Refusal(why, getattr(node, "lineno", None))
        super().__init__(str(self.refusal))

    @classmethod
    def of(cls, refusal: Refusal) -> Refused:
        """Return the exception for a refusal."""
        made = cls(refusal.why)
        made.refusal = refusal
        return made


class DoesNotFit(Refused):
    """A value does not fit into 64 bits, or values read from outside change too often. The program itself is accepted."""


class NotYet(Refused):
    """Something is not compiled so far."""


class ReadsStream(Refused):
    """The update, or a function that it calls, reads the name of the stream, which the class of lanes lacks."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type of values. `parts`: of an optional value, a tuple, a dataclass or a record. `names`: of its fields. `of`: its class."""

    name: str
    parts: tuple[Type, ...] = ()
    names: tuple[str, ...] = ()
    of: Any = None

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.parts))
        if self.name == "optional":
            return f"{inner} | None"
        if self.name in ("tuple", "fields"):
            return f"{self.of.__name__}({inner})" if self.of else f"({inner}{',' * (len(self.parts) == 1)})"
        if self.name == "record":
            pairs = zip(self.names, self.parts, strict=True)
            return f"{{{', '.join(f'{name}: {part!r}' for name, part in pairs)}}}"
        if self.name == "dict":
            return "dict" if UNSEEN in self.parts else f"dict of {inner}"
        return self.name

    @property
    def is_optional(self) -> bool:
        """Whether it is `T | None`."""
        return self.name == "optional"


INT, FLOAT, BOOL, NONE = Type("int"), Type("float"), Type("bool"), Type("None")
TEXT = Type("text")
"""A text that is known when the program is compiled."""
TEXTS = Type("text of an event")
"""A text or None that comes with an event: it can only be passed on and compared with constants."""
KEY, OBJECT = Type("key of the event"), Type("object")
"""The key of a tag, and an object of a payload: they are only passed on."""
KEPT = Type("kept object")
"""An object that a dict keeps, represented by a number."""
UNSEEN = Type("nothing")
"""The entries of a dict that has had none so far."""
EVENT, TAG, PROGRAM, EMIT = Type("event"), Type("tag"), Type("program"), Type("emit")
PYTHON = Type("python")
"""A module, a class or a function that is known when the program is compiled."""

MACHINE = {"int": "i8", "float": "f8", "bool": "?", "kept object": "i8"}
"""The scalar of each type that has one: the NumPy type of its columns."""
NUMBERS = (INT, FLOAT, BOOL)
COMPOSED = ("optional", "tuple", "fields", "record")


def optional(of: Type) -> Type:
    """Return the type `of | None`."""
    return of if of.is_optional or of == NONE else Type("optional", (of,))


def tuple_of(*parts: Type, of: Any = None) -> Type:
    """Return the type of tuples of these parts. `of`: their NamedTuple class, or the class of frozen dataclasses in place of tuples."""
    if of is None or issubclass(of, tuple):
        return Type("tuple", parts, () if of is None else tuple(of._fields), of)
    return Type("fields", parts, tuple(defaults_of(of)), of)


def dict_of(entries: Type) -> Type:
    """Return the type of dicts, by the keys of tags, with entries of a type."""
    return Type("dict", (entries,))


def scalars_of(of: Type) -> tuple[str, ...]:
    """Return the scalars that a value of a type consists of, as NumPy types. A dict has none: its entries are arrays."""
    if of.name in MACHINE:
        return (MACHINE[of.name],)
    if of.name == "dict":
        return ()
    presence = ("?",) if of.is_optional else ()
    return presence + tuple(scalar for part in of.parts for scalar in scalars_of(part))


def has_floats(of: Type) -> bool:
    """Return whether values of a type contain floats."""
    return of == FLOAT or any(map(has_floats, of.parts))


def has_form(of: Type) -> bool:
    """Return whether values of a type consist of scalars only, so that they can be kept and written."""
    return of in (*NUMBERS, NONE, KEPT) or (of.name in COMPOSED and all(map(has_form, of.parts)))


def joined(one: Type, other: Type, node: ast.AST | None = None, *, what: str = "a value") -> Type:
    """Return the common type of values that are sometimes of one type and sometimes of another. Raises Refused if there is none."""
    if one == other:
        return one
    if UNSEEN in (one, other):
        return other if one == UNSEEN else one
    if KEPT in (one, other):
        return KEPT
    if NONE in (one, other):
        return optional(other if one == NONE else one)
    if one.is_optional or other.is_optional:
        inner = [of.parts[0] if of.is_optional else of for of in (one, other)]
        return optional(joined(inner[0], inner[1], node, what=what))
    if (
        one.parts
        and replace(one, parts=()) == replace(other, parts=())
        and len(one.parts) == len(other.parts)
    ):
        pairs = zip(one.parts, other.parts, strict=True)
        return replace(one, parts=tuple(joined(a, b, node, what=what) for a, b in pairs))
    advice = ": make it one of them, such as 0.0 in place of 0" if {one, other} == {INT, FLOAT} else ""
    raise Refused(f"{what} is sometimes {one!r} and sometimes {other!r}{advice}", node)


def is_named_tuple(of: Any) -> bool:
    """Return whether a class is a NamedTuple with the usual constructor."""
    is_one = isinstance(of, type) and of.__mro__[1:] == (tuple, object) and "_fields" in vars(of)
    return is_one and all(name in USUAL for name in vars(of) if name.startswith("__"))


def is_frozen(of: Any) -> bool:
    """Return whether a class is a frozen dataclass with nothing but fields and with the usual constructor."""
    if not dataclasses.is_dataclass(of) or not isinstance(of, type) or of.__mro__[1:] != (object,):
        return False
    made, own = getattr(of.__init__, "__code__", None), vars(of)
    names = [field.name for field in dataclasses.fields(of)]
    return (
        made is not None
        and made.co_filename == "<string>"  # the file name of code that `@dataclass` generates
        and [*made.co_varnames[1 : made.co_argcount]] == names
        and own["__dataclass_params__"].frozen
        and all(name in USUAL_OF_FROZEN for name in own if name.startswith("__"))
        and all(isinstance(own.get(name), (MemberDescriptorType, *PLAIN)) for name in names)
    )


def defaults_of(of: Any) -> dict[str, Any]:
    """Return the fields of a NamedTuple or a frozen dataclass in order, with their defaults; UNSEEN if there is no known default."""
    if issubclass(of, tuple):
        return {name: of._field_defaults.get(name, UNSEEN) for name in of._fields}
    fields = dataclasses.fields(of)
    return {one.name: UNSEEN if one.default is dataclasses.MISSING else one.default for one in fields}


class _Usual(NamedTuple):
    field: int


OF_ANY_CLASS = frozenset(["__doc__", "__slotnames__"])
"""Names to ignore: `copy` and `pickle` leave `__slotnames__` in a class whose objects they have copied."""
USUAL = frozenset(vars(_Usual)) | OF_ANY_CLASS
"""The names that every NamedTuple has. A class with others, such as `__bool__`, may not behave as a plain tuple."""
PLAIN = (int, float, bool, str, tuple, type(None))
"""The types of plain defaults. Objects of other types may define how a field behaves."""


@dataclass(frozen=True, order=True)
class _Frozen:
    field: int


USUAL_OF_FROZEN = frozenset(vars(_Frozen)) | OF_ANY_CLASS | {"__slots__", "__getstate__", "__setstate__"}
"""The names that frozen dataclasses have. `@dataclass` makes `__getstate__` and `__setstate__` for those with slots."""
