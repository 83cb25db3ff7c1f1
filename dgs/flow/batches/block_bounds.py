"""The bound on what a step keeps of one key in one block: steps that keep each item need all of them in memory when the block closes.

>>> bound = Bound(buffer_bytes=1000)
>>> bound.check(before=15, after=20, sizes=[10, 10]), bound.check(before=60, after=70, sizes=[100, 100])
Traceback (most recent call last):
    ...
dgs.flow.batches.block_bounds.TooLargeError: 70 items of about 7,000 bytes
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dgs.flow.clock import Every, On, shown
from dgs.flow.flow_graph import Graph, Node
from dgs.flow.mistakes import FlowError, Mistake
from dgs.flow.steps import Join
from dgs.model.user_code import shown as shown_value

FEWEST = 16
"""Fewer items than this are not looked at."""

SAMPLE = 32
"""The number of items that an estimate looks at."""


class TooLargeError(Exception):
    """A step keeps more of one key in one block than fits. `key`, `block`: where joining states meets it."""

    key: object = None
    block: int = 0

    def __init__(self, items: int, size: int, limit: int) -> None:
        self.items, self.size, self.limit = items, size, limit
        super().__init__(f"{items:,} items of about {size:,} bytes")


@dataclass(slots=True)
class Bound:
    """The bound of a program, which its closers share. `buffer_bytes`: that of the run."""

    buffer_bytes: int = 256 * 2**20

    def check(self, *, before: int, after: int, sizes: Iterable[int]) -> None:
        """Check the items of a key whenever their number has doubled; `sizes`: the bytes of some. Raises TooLargeError."""
        if after < FEWEST or before.bit_length() == after.bit_length():
            return
        some = list(sizes)
        size = after * sum(some) // len(some)
        if size > self.buffer_bytes:
            raise TooLargeError(after, size, self.buffer_bytes)


def too_large(
    graph: Graph, node: Node, error: TooLargeError, *, key: object, block: int, at: int | None = None
) -> FlowError:
    """Return the error that says which step, key and block it is, and what would fit. `at`: the time up to which items have come."""
    is_pair = isinstance(node.step, Join)
    what = "that wait to be paired" if is_pair else "that it keeps"
    problem = f"the items {what} do not fit into buffer_bytes, {error.limit:,}"
    of_block = f" of block {block}" if isinstance(graph.clock, Every) else ""
    mistake = Mistake(
        "R04" if is_pair else "R03", node.title, problem, str(node.place or ""),
        found=f"{error} with key {shown_value(key)}{of_block}", fix=_fix(graph, error, block, at), drawing=graph.drawn(node),
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
        return f"No period is short enough: spread the items over more keys{other}"
    return f"Take a period of at most {shown(shorter, clock.period)}{other}"
