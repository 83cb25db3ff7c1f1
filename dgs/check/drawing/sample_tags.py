"""Sample tags for checking a program: a few keys of every kind that it declares.

>>> from dgs.model.dependence import SAME_KEY
>>> from dgs.model.tags import kind
>>> class Join(Program):
...     depends = Dependence((kind("update", key=str), kind("view", key=str), SAME_KEY))
>>> sample_tags(Join(), {})
(update('a'), update('b'), update('c'), view('a'), view('b'), view('c'))
>>> sample_tags(Program(), {})                  # it declares nothing
(event,)
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from inspect import isclass
from typing import Any

from dgs.check.drawing.constants import methods_of, names_of, numbers_in_keys, texts_in_keys
from dgs.model.dependence import SAME_KEY, Dependence
from dgs.model.key_sets import KeySet
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Kind, Tag

MOST_KEYS = 6
"""This many keys of a kind are enough for any relation between a few events."""

KEYS: dict[type, tuple[Any, ...]] = {
    int: (0, 1, 2),
    str: ("a", "b", "c"),
    bool: (False, True),
    float: (0.0, 0.5, 1.0),
    bytes: (b"a", b"b", b"c"),
    tuple: ((0, 0), (0, 1), (1, 0)),
    dt.date: tuple(dt.date(2024, 1, day) for day in (1, 2, 3)),
}
"""Keys for unbounded domains, simple ones first."""


def sample_tags(
    program: Program, keys: Mapping[str, Iterable[Any]], kinds: Iterable[str] = ()
) -> tuple[Tag, ...]:
    """Return tags of every kind that the program declares and of `kinds`. `keys`: the user's keys by kind."""
    names = dict.fromkeys([*known_kinds(program), *map(str, keys), *map(str, kinds)])
    return tuple(
        Tag(name, key)
        for name in names or ("event",)
        for key in list(keys[name] if name in keys else _keys(program, name))[:MOST_KEYS]
    )


def unseen_keys(program: Program, tags: Iterable[Tag]) -> TagSet:
    """Return all tags of unbounded kinds that are not in the sample."""
    seen: dict[str, list[Any]] = {}
    for tag in tags:
        seen.setdefault(tag.kind, []).append(tag.key)
    known = known_kinds(program)
    unbounded = [
        name
        for name, keys in seen.items()
        if keys != [None] and not (name in known and known[name].is_finite)
    ]
    return TagSet.from_kinds({name: KeySet.all() - KeySet.of(seen[name]) for name in unbounded})


def known_kinds(program: Program) -> dict[str, Kind]:
    """Return the kinds that the program declares and those that its methods mention, to find a forgotten rule."""
    sides = [side for rule in program.dependence.rules for side in (rule.left, rule.right)]
    found = {str(one): program.kind(str(one)) for one in (*program.kinds, *sides, *program.accumulates)}
    for method in methods_of(program):
        for one in (method.__globals__.get(name) for name in names_of(method)):
            if isinstance(one, Kind) and (str(one) not in found or found[str(one)].domain is object):
                found[str(one)] = one
    return found


def _keys(program: Program, name: str) -> tuple[Any, ...]:
    declared = known_kinds(program).get(name, program.kind(name))
    if isinstance(declared.domain, tuple):
        return declared.domain
    if declared.domain is None or (declared.domain is object and not _is_compared(program.dependence, name)):
        return (None,)
    return (*_typed_keys(declared), *_named_keys(program, declared))


def _named_keys(program: Program, declared: Kind) -> tuple[Any, ...]:
    """Return keys of an unbounded domain that show how code uses keys."""
    of_type = {int: numbers_in_keys, object: numbers_in_keys, str: texts_in_keys}
    found = of_type[declared.domain](program) if declared.domain in of_type else ()
    return tuple(found)[: MOST_KEYS - len(_typed_keys(declared))]


def _is_compared(dependence: Dependence, name: str) -> bool:
    """Return whether a rule uses the keys of a kind without a declared domain."""
    return any(name in (rule.left, rule.right) and rule.when is SAME_KEY for rule in dependence.rules)


def _typed_keys(declared: Kind) -> tuple[Any, ...]:
    domain = declared.domain
    if isclass(domain):
        for known, keys in KEYS.items():
            if issubclass(domain, known) and (known is not int or domain is not bool):
                return keys
    return KEYS[int]
