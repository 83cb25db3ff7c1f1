"""Tags: the part of an event that decides parallelism, a kind and optionally a key.

The dependence relation and the plan see only an event's tag, never its payload (Section 3.1).

>>> VIEW, BARRIER = kind("view", key=str), kind("barrier")
>>> VIEW("home"), BARRIER()
(view('home'), barrier)
>>> VIEW("home").kind == VIEW
True
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Complex, Real
from typing import Any, Self

from dgs.errors import ProgramError
from dgs.errors.shortened import short_repr

Key = Hashable

_PLAIN = frozenset([type(None), str, bytes, bool, float])

_UNPRINTABLE = 10**4300
"""The least integer that Python does not write as text, nor read."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A kind with an optional key. Tags are equal when both are; a kind without key has key None.

    Raises ProgramError if the key is a Decimal, a Fraction, a complex number, an integer of more than 4,300 digits or without a hash, such as a
    list, or has one in it.
    """

    kind: str
    key: Key = None

    def __post_init__(self) -> None:
        key = self.key
        if type(key) is int and -_UNPRINTABLE < key < _UNPRINTABLE:
            return
        if type(key) not in _PLAIN and (problem := key_problem(self.kind, key)) is not None:
            raise ProgramError(program=str(self.kind), problem=problem)

    def __repr__(self) -> str:
        return self.kind if self.key is None else f"{self.kind}({self.key!r})"


def key_problem(kind: str, key: Key | type) -> str | None:
    """Return why tags of a kind cannot have this key, or keys of this type; None if they can.

    Equal keys are one key and go to one worker, by a hash of their bytes. So equal keys must have bytes in common, as texts, integers and floats do.

    >>> key_problem("price", 1.5) is None
    True
    >>> key_problem("price", ("EUR", Decimal("1.5")))
    "a key of kind 'price' cannot be a Decimal: take str(...) of it, or count whole units; got ('EUR', Decimal('1.5'))"
    """
    if type(key) in _PLAIN:
        return None
    if has_unprintable(key):
        problem = f"a key of kind {str(kind)!r} cannot be an integer of more than 4,300 digits"
        return f"{problem}: take a text or a hash of it; got {short_repr(key)}"
    if (found := next(refused_in(key), None)) is None:
        return None
    remedy = "a tuple of its parts" if found.__hash__ is None else "str(...) of it, or count whole units"
    return f"a key of kind {str(kind)!r} cannot be a {found.__name__}: take {remedy}; got {short_repr(key)}"


def has_unprintable(key: Key | type) -> bool:
    """Return whether a key has an integer that Python does not write as text."""
    if isinstance(key, (tuple, frozenset)):
        return any(map(has_unprintable, key))
    return isinstance(key, int) and not -_UNPRINTABLE < key < _UNPRINTABLE


def refused_in(key: Key | type) -> Iterator[type]:
    """Yield the types in a key that no key may have."""
    if isinstance(key, (tuple, frozenset)):
        for part in key:
            yield from refused_in(part)
    one = key if isinstance(key, type) else type(key)
    has_hash = isinstance(key, type) or one.__hash__ is not None  # `__hash__` is None for lists
    is_inexact = issubclass(one, Complex) and not issubclass(one, Real)
    if is_inexact or not has_hash or issubclass(one, (Decimal, Fraction)):
        yield one


@dataclass(frozen=True, slots=True)
class ImplTag:
    """An implementation tag: a tag together with the input stream it comes from (Section 3.1). Plans assign these."""

    tag: Tag
    stream: str

    def __repr__(self) -> str:
        return f"{self.tag!r}@{self.stream}"


class Kind(str):
    """The name of a kind together with its key domain. It is a string, so `tag.kind == VIEW` holds.

    `domain` is None for a kind without keys, a tuple of keys for a finite domain, or a type for an unbounded one.
    """

    __slots__ = ("domain",)
    domain: tuple[Key, ...] | type | None

    def __new__(cls, name: str, domain: tuple[Key, ...] | type | None = None) -> Self:
        """Make a kind; users call `kind(...)`. Raises ProgramError for keys that are refused."""
        if (problem := key_problem(name, domain)) is not None:
            raise ProgramError(program=name, problem=problem)
        self = super().__new__(cls, name)
        self.domain = domain
        return self

    def __getnewargs__(self) -> tuple[str, Any]:  # type: ignore[override]
        return str(self), self.domain

    @property
    def is_keyed(self) -> bool:
        """Whether tags of this kind carry a key."""
        return self.domain is not None

    @property
    def is_finite(self) -> bool:
        """Whether the tags of this kind are finitely many and known in advance."""
        return not isinstance(self.domain, type)

    def __call__(self, *key: Key) -> Tag:
        """Return the tag of this kind with the given key.

        Raises ProgramError if a key is missing, superfluous or outside a finite domain.
        """
        if not self.is_keyed:
            if key:
                raise ProgramError(
                    program=str(self), problem=f"kind {str(self)!r} takes no key, got {short_repr(key[0])}"
                )
            return Tag(str(self))
        if len(key) != 1:
            raise ProgramError(program=str(self), problem=f"kind {str(self)!r} takes one key, got {len(key)}")
        if isinstance(self.domain, tuple) and key[0] not in self.domain:
            raise ProgramError(
                program=str(self),
                problem=f"{short_repr(key[0])} is not a key of kind {str(self)!r}: {short_repr(self.domain)}",
            )
        return Tag(str(self), key[0])


class AnyKind(tuple[Kind, ...]):
    """The kinds of a program that takes events of any kind. `ANY` is the only instance, and is empty."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "dgs.ANY"


ANY = AnyKind()
"""`kinds = dgs.ANY` in a program: events may be of any kind, and a misspelt kind is not noticed."""


def kind(
    name: str, key: type | tuple[Key, ...] | list[Key] | range | set[Any] | frozenset[Any] | None = None
) -> Kind:
    """Declare a kind: without key, with an unbounded key domain (a type), or with a finite set of keys.

    Raises ProgramError for keys that are none of these, or that are refused.
    """
    if not isinstance(name, str):
        problem = f"the name of a kind is a text, not {short_repr(name)}"
        raise ProgramError(program=type(name).__name__, problem=problem)
    if key is None or isinstance(key, type):
        return Kind(name, key)
    if isinstance(key, (str, bytes)) or not isinstance(key, Iterable):
        remedy = 'give a type, such as `key=str`, or all keys, such as `key=range(5)` or `key=("sat", "sun")`'
        raise ProgramError(program=name, problem=f"the keys of a kind cannot be {short_repr(key)}: {remedy}")
    keys = sorted(key, key=repr) if isinstance(key, (set, frozenset)) else list(key)
    return Kind(name, tuple(keys))
