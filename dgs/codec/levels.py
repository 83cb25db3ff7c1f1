"""Nested values, level by level. To look at all values of a level together takes a fraction of the time of a walk through each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple


class Level(NamedTuple):
    """The values of one level, their types, and the dictionaries, and the lists and tuples, among them. Subclasses of these do not count."""

    values: Sequence[Any]
    types: set[type]
    dicts: Sequence[dict[Any, Any]]
    lists: Sequence[list[Any] | tuple[Any, ...]]


def levels(values: Sequence[Any]) -> Iterator[Level]:
    """Yield values, then those that the dictionaries, lists and tuples among them hold, and so on. Endless for a value that holds itself.

    >>> [level.values for level in levels([{"a": [1]}, (2,), "b"])]
    [[{'a': [1]}, (2,), 'b'], [[1], 2], [1]]
    """
    while values:
        types = set(map(type, values))
        level = Level(
            values, types, _of_types(values, types, {dict}), _of_types(values, types, {list, tuple})
        )
        yield level
        values = [*chain.from_iterable(map(dict.values, level.dicts)), *chain.from_iterable(level.lists)]


def _of_types(values: Sequence[Any], types: set[type], chosen: set[type]) -> Sequence[Any]:
    """Return the values of the chosen types among those of `types`."""
    if types <= chosen:
        return values
    return () if types.isdisjoint(chosen) else [value for value in values if type(value) in chosen]
