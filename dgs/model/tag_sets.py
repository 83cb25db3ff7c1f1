"""Sets of tags, finite or symbolic, with set operations: the predicates on events (Section 2.2, "Representing predicates").

>>> from dgs.model.tags import kind
>>> VIEW, UPDATE, BARRIER = kind("view", key=str), kind("update", key=("a", "b")), kind("barrier")
>>> some = TagSet.of(VIEW, UPDATE("a"))
>>> VIEW("x") in some, UPDATE("b") in some, BARRIER() in TagSet.everything() - some
(True, False, True)
>>> UPDATE in some, UPDATE in TagSet.of(VIEW)         # does the set hold any tag of that kind?
(True, False)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from dgs.errors.nearest import did_you_mean
from dgs.model.key_sets import KeySet
from dgs.model.tags import Kind, Tag

Set = TypeVar("Set", bound=Any)

MOST_COMPARED, LONGEST = 1000, 200
"""The most other tags that an error compares a tag with, and the most characters of their list."""


@dataclass(frozen=True, slots=True)
class TagSet:
    """A set of tags: a key set for each named kind, and of all other kinds every tag (`others`) or none."""

    kinds: tuple[tuple[str, KeySet], ...] = ()
    others: bool = False

    @classmethod
    def of(cls, *items: Tag | Kind | str) -> TagSet:
        """Return the set of the given tags and of all tags of the given kinds."""
        found: dict[str, KeySet] = {}
        for item in items:
            name, keys = (
                (item.kind, KeySet.of([item.key])) if isinstance(item, Tag) else (str(item), _domain(item))
            )
            found[name] = found.get(name, KeySet()) | keys
        return cls.from_kinds(found)

    @classmethod
    def from_kinds(cls, kinds: Mapping[str, KeySet], *, others: bool = False) -> TagSet:
        """Return the set with the given keys of each kind, and of all other kinds every tag or none."""
        default = KeySet.all() if others else KeySet()
        return cls(tuple((str(k), v) for k, v in sorted(kinds.items()) if v != default), others)

    @classmethod
    def everything(cls) -> TagSet:
        """Return the set of all tags."""
        return cls(others=True)

    def keys(self, kind: str) -> KeySet:
        """Return the keys of `kind` in this set."""
        for name, keys in self.kinds:
            if name == kind:
                return keys
        return KeySet.all() if self.others else KeySet()

    def __contains__(self, item: Tag | Kind | str) -> bool:
        if isinstance(item, Tag):
            return item.key in self.keys(item.kind)
        return bool(self.keys(str(item)))

    def __bool__(self) -> bool:
        return self.others or bool(self.kinds)

    def __or__(self, other: TagSet) -> TagSet:
        return (
            self if self == other else self._combine(other, lambda a, b: a | b, self.others or other.others)
        )

    def __and__(self, other: TagSet) -> TagSet:
        return (
            self if self == other else self._combine(other, lambda a, b: a & b, self.others and other.others)
        )

    def __sub__(self, other: TagSet) -> TagSet:
        return (
            TagSet()
            if self == other
            else self._combine(other, lambda a, b: a - b, self.others and not other.others)
        )

    def __le__(self, other: TagSet) -> bool:
        return not self - other

    def isdisjoint(self, other: TagSet) -> bool:
        """Return whether the two sets share no tag."""
        return not self & other

    @property
    def is_finite(self) -> bool:
        """Whether `tags()` can list the set."""
        return not self.others and all(keys.is_finite for _, keys in self.kinds)

    def tags(self) -> Iterator[Tag]:
        """Yield the tags of a finite set in a reproducible order; of an infinite set, only the listed ones."""
        for name, keys in self.kinds:
            for key in sorted(keys.extra, key=repr):
                yield Tag(name, key)

    def _combine(self, other: TagSet, op: Callable[[KeySet, KeySet], KeySet], others: bool) -> TagSet:
        names = {name for name, _ in self.kinds} | {name for name, _ in other.kinds}
        return TagSet.from_kinds({n: op(self.keys(n), other.keys(n)) for n in names}, others=others)

    def __repr__(self) -> str:
        parts = [_show(name, keys) for name, keys in self.kinds]
        return "{" + ", ".join([*parts, *(["..."] if self.others else [])]) + "}"


def union(sets: Iterable[TagSet]) -> TagSet:
    """Return the union of any number of tag sets."""
    return union_of(sets, TagSet())


def union_of(sets: Iterable[Set], empty: Set) -> Set:
    """Return the union of any number of sets of one type; `empty` if there are none.

    Sets are united pair by pair: n log n work where one after the other would be n squared.

    >>> union_of([frozenset([i]) for i in range(5)], frozenset())
    frozenset({0, 1, 2, 3, 4})
    """
    level = list(sets) or [empty]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [*(a | b for a, b in pairs), *(level[-1:] if len(level) % 2 else [])]
    return level[0]


def owned_instead(tag: Tag, owned: TagSet) -> str:
    """Return the end of an error about a tag that no worker owns: the nearest tag or kind, and what workers own of its stream.

    >>> owned_instead(Tag("valeu"), TagSet.of(Tag("value"), Tag("barrier"))), owned_instead(Tag("a"), TagSet())
    ("; did you mean 'value'? Of this stream they own {barrier, value}", '; of this stream they own nothing')
    >>> owned_instead(Tag("value", "1"), TagSet.of(Tag("value", 1)))
    "; did you mean 'value(1)'? Of this stream they own {value(1)}"
    """
    if not owned:
        return "; of this stream they own nothing"
    listed = repr(owned)
    near = did_you_mean(repr(tag), [repr(one) for one in islice(owned.tags(), MOST_COMPARED)])
    near = near or did_you_mean(tag.kind, (name for name, _ in owned.kinds if name != tag.kind))
    start = " Of" if near else "; of"
    return (
        f"{near}{start} this stream they own {listed if len(listed) <= LONGEST else listed[:LONGEST] + '...'}"
    )


def _domain(item: Kind | str) -> KeySet:
    if not isinstance(item, Kind) or not item.is_finite:
        return KeySet.all()
    return KeySet.of(item.domain if isinstance(item.domain, tuple) else [None])


def _show(name: str, keys: KeySet) -> str:
    if keys.is_finite:
        return ", ".join(repr(Tag(name, key)) for key in sorted(keys.extra, key=repr)) or f"{name}()"
    return f"{name}({keys!r})"
