"""Bags: the items of one key in one block, for a step that needs all of them when the block closes.

>>> bags = Bags(Bound(), is_ordered=False)
>>> bag = bags.join(bags.part("a", 2, 10), bags.part("a", 1, 10))
>>> bags.items({"a": bag}, "a")
[(1, 10), (2, 10)]
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from dgs import codec
from dgs.flow.batches.block_bounds import Bound

Parts = dict[Any, Any]


class Bags:
    """Keeps the items themselves with their times: of an ordered edge a list, of an unordered one {codec bytes: [value, time, number]}.

    Joined bags are equal in any order of joining, because the codec sorts dictionaries.
    """

    def __init__(self, bound: Bound, *, is_ordered: bool) -> None:
        self._bound, self._is_ordered = bound, is_ordered

    def part(self, key: Any, value: Any, at: int | None) -> Any:  # noqa: ARG002 - as all closers
        """Return the bag of one item."""
        return (
            [(value, at)] if self._is_ordered else {(codec.encode(value), codec.encode(at)): [value, at, 1]}
        )

    def join(self, left: Any, right: Any) -> Any:
        """Put the bags together. Raises TooLargeError."""
        before = len(left)
        if self._is_ordered:
            left += right
        else:
            for place, item in right.items():
                if place in left:
                    left[place][2] += item[2]
                else:
                    left[place] = item
        if before.bit_length() != len(left).bit_length():
            self._bound.check_bag(left, before=before, sizes=self._sizes)
        return left

    def check_kept(self, parts: Parts) -> None:
        """Check all bags of a block. Raises TooLargeError."""
        self._bound.check_block(parts, sizes=self._sizes)

    def _sizes(self, bag: Any, most: int) -> list[int]:
        """Return the bytes of the first items."""
        if self._is_ordered:
            return [len(codec.encode(value)) for value, _ in islice(bag, most)]
        return [len(value) + len(at) for value, at in islice(bag, most)]

    def items(self, parts: Parts, key: Any) -> list[tuple[Any, Any]]:
        """Return the items of a key with their times, in their order or in canonical order."""
        if self._is_ordered:
            return [(value, at) for value, at in parts[key]]
        bag = parts[key]
        return [
            (value, at)
            for _, (value, at, number) in sorted(bag.items(), key=lambda item: item[0])
            for _ in range(number)
        ]
