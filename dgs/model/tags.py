"""Tags: what parallelism is decided on. A kind, and optionally a key.

An event's tag is all that the dependence relation and the plan may look at (Section 3.1); its payload is not.

>>> VIEW, BARRIER = kind("view", key=str), kind("barrier")
>>> VIEW("home"), BARRIER()
(view('home'), barrier)
>>> VIEW("home").kind == VIEW
True
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Self

from dgs.errors import ProgramError

Key = Hashable


@dataclass(frozen=True, slots=True)
class Tag:
    """A kind with an optional key. Tags are equal when both are; a kind without key has key None."""

    kind: str
    key: Key = None

    def __repr__(self) -> str:
        return self.kind if self.key is None else f"{self.kind}({self.key!r})"


@dataclass(frozen=True, slots=True)
class ImplTag:
    """An implementation tag: a tag as it comes from one input stream (Section 3.1). Plans assign these."""

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
        """Make a kind; users call `kind(...)`."""
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
        """Whether all tags of this kind are known beforehand."""
        return not isinstance(self.domain, type)

    def __call__(self, *key: Key) -> Tag:
        """Return the tag of this kind with the given key.

        Raises ProgramError if a key is missing, superfluous or outside of a finite domain.
        """
        if not self.is_keyed:
            if key:
                raise ProgramError(
                    program=str(self), problem=f"kind {str(self)!r} takes no key, got {key[0]!r}"
                )
            return Tag(str(self))
        if len(key) != 1:
            raise ProgramError(program=str(self), problem=f"kind {str(self)!r} takes one key, got {len(key)}")
        if isinstance(self.domain, tuple) and key[0] not in self.domain:
            raise ProgramError(
                program=str(self), problem=f"{key[0]!r} is not a key of kind {str(self)!r}: {self.domain}"
            )
        return Tag(str(self), key[0])


def kind(
    name: str, key: type | tuple[Key, ...] | list[Key] | range | set[Any] | frozenset[Any] | None = None
) -> Kind:
    """Declare a kind: without key, with an unbounded key domain (a type), or with a finite set of keys."""
    if key is None or isinstance(key, type):
        return Kind(name, key)
    keys = sorted(key, key=repr) if isinstance(key, (set, frozenset)) else list(key)
    return Kind(name, tuple(keys))
