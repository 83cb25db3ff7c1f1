"""The bound on what a step keeps of one block: steps that keep each item need all of them in memory when the block closes.

Sizes are estimated from some items. The bag of a key is checked whenever its number of items has doubled, and all bags of a block now and
then, so that checks cost less than the items since the last one.

>>> bound = Bound(buffer_bytes=1000)
>>> bound.check_bag(range(20), before=15, sizes=lambda bag, most: [10, 10])
>>> bound.check_block({"a": range(60), "b": range(10)}, sizes=lambda bag, most: [100])
Traceback (most recent call last):
    ...
dgs.flow.batches.block_bounds.TooLargeError: 70 items of 2 keys, of about 7,000 bytes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dgs.flow.clock import Every, On, shown
from dgs.flow.flow_graph import Graph, Node
from dgs.flow.mistakes import FlowError, Mistake
from dgs.flow.steps import Join
from dgs.model.user_code import shown as shown_value

FEWEST = 16
"""Fewer items than this are not checked."""

SAMPLE = 32
"""The number of items of a bag that an estimate looks at."""

OTHERS, OF_OTHERS = 8, 4
"""The number of bags beside the largest one that an estimate looks at, and of items in each."""

OFTEN = 1024
"""All bags of a block are checked again after this many events, or after as many as it has keys."""

Sizes = Callable[[Any, int], Iterable[int]]
"""Returns the bytes of the first items of a bag; the number: how many items at most."""


class TooLargeError(Exception):
    """A step keeps more of one block than fits. `key`: the key with the most items; `keys`: the number of keys."""

    def __init__(self, items: int, size: int, limit: int, *, keys: int = 1, key: object = None) -> None:
        self.items, self.size, self.limit, self.keys, self.key = items, size, limit, keys, key
        self.block = 0
        of_keys = f" of {keys:,} keys," if keys > 1 else ""
        super().__init__(f"{items:,} items{of_keys} of about {size:,} bytes")


@dataclass(slots=True)
class Bound:
    """The bound of a program, which its closers share. `buffer_bytes`: the setting of the run."""

    buffer_bytes: int = 256 * 2**20

    def check_bag(self, bag: Sized, *, before: int, sizes: Sizes) -> None:
        """Check the items of a key if their number has doubled. `before`: the number of earlier items. Raises TooLargeError."""
        after = len(bag)
        if after < FEWEST or before.bit_length() == after.bit_length():
            return
        size = after * _mean([bag], sizes, SAMPLE)
        if size > self.buffer_bytes:
            raise TooLargeError(after, int(size), self.buffer_bytes)

    def check_block(self, bags: Mapping[Any, Sized], *, sizes: Sizes) -> None:
        """Check all items of a block by their keys. Raises TooLargeError."""
        counts = list(map(len, bags.values()))
        items, most = sum(counts), max(counts, default=0)
        if items < FEWEST:
            return
        key = next(key for key, bag in bags.items() if len(bag) == most)
        others = islice(bags.values(), 0, None, -(-len(bags) // OTHERS))
        size = most * _mean([bags[key]], sizes, SAMPLE) + (items - most) * _mean(others, sizes, OF_OTHERS)
        if size > self.buffer_bytes:
            raise TooLargeError(items, int(size), self.buffer_bytes, keys=len(bags), key=key)


def is_due(before: int, after: int, keys: int) -> bool:
    """Return whether all bags of a block are to be checked, by its number of keys and the number of events before and now.

    >>> is_due(100, 120, 3), is_due(100, 200, 3), is_due(2000, 2050, 3), is_due(3000, 3050, 10**6)
    (False, True, True, False)
    """
    every = max(OFTEN, keys)
    return before.bit_length() != after.bit_length() or before // every != after // every


def _mean(bags: Iterable[Any], sizes: Sizes, most: int) -> float:
    some = [size for bag in bags for size in sizes(bag, most)]
    return sum(some) / len(some)


def too_large(
    graph: Graph, node: Node, error: TooLargeError, *, key: object, block: int, at: int | None = None
) -> FlowError:
    """Return the error with the step, the key and the block, and what would fit. `at`: the time up to which items have come."""
    is_pair = isinstance(node.step, Join)
    what = "that wait to be paired" if is_pair else "that it keeps"
    problem = f"the items {what} do not fit into buffer_bytes, {error.limit:,}"
    of_block = f" of block {block}" if isinstance(graph.clock, Every) else ""
    most = ", most" if error.keys > 1 else ""
    mistake = Mistake(
        "R04" if is_pair else "R03", node.title, problem, str(node.place or ""),
        found=f"{error}{most} with key {shown_value(key)}{of_block}", fix=_fix(graph, error, block, at), drawing=graph.drawn(node),
    )  # fmt: skip
    return FlowError.of(graph.name, [mistake])


def _fix(graph: Graph, error: TooLargeError, block: int, at: int | None) -> str:
    other = ", put an aggregate in its place, or raise runtime.buffer_bytes"
    clock = graph.clock
    if clock is None:
        return f"Give the flow a clock: without one the whole input is one block. Else{other[1:]}"
    if isinstance(clock, On):
        return f"Let stream {clock.stream!r} have more markers{other}"
    begin, end = clock.end_of(block - 1), clock.end_of(block)
    passed = at - begin + 1 if at is not None and begin <= at < end else clock.ticks
    shorter = passed * error.limit // error.size
    if not shorter:
        spread = "leave items out in front of it" if error.keys > 1 else "spread the items over more keys"
        return f"No period is short enough: {spread}{other}"
    return f"Take a period of at most {shown(shorter, clock.period)}{other}"
