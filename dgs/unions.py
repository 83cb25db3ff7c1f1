"""Unions of very many sets, pair by pair: n log n work where one after the other would be n squared.

>>> union_of([frozenset([i]) for i in range(5)], frozenset())
frozenset({0, 1, 2, 3, 4})
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

Set = TypeVar("Set", bound=Any)


def union_of(sets: Iterable[Set], empty: Set) -> Set:
    """Return the union of any number of sets of one type; `empty` if there are none."""
    level = list(sets) or [empty]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [*(a | b for a, b in pairs), *(level[-1:] if len(level) % 2 else [])]
    return level[0]
