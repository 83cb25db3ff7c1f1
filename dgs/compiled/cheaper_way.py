"""The cheaper way to fold releases of some size, compiled or not: both are measured on releases of the run itself.

A compiled fold costs nearly the same for one event as for a thousand: columns and states are prepared for the loop and converted back. That
does not pay if releases are small, a state is a large object, or outputs are tuples, which become objects. With this choice `compile: auto`
is as fast as the faster of the two.

>>> seconds = [0]
>>> def fold(is_compiled):                                               # a compiled fold takes 5 seconds, another one 3
...     seconds[0] += 5 if is_compiled else 3
...     return is_compiled, is_compiled
>>> ways = CheaperWay(clock=lambda: seconds[0])
>>> [ways.folded(100, fold) for _ in range(11)]
[True, True, True, True, True, True, False, False, False, False, False]
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

Result = TypeVar("Result")

MOST_EVENTS = 4096
"""Larger releases are not interpreted to measure that, which would cost more than it could save: what came before the compiled loop tells it."""
COMPILED_FIRST, INTERPRETED_NEXT = 6, 3
"""The releases of a size that are measured, for each way."""
SURELY = 0.95
"""Machine code is chosen if it takes at most this part of the interpreter's time: measured times vary by as much."""
HOLDS_FOR = 1000
"""The releases for which a choice holds. Then both ways are measured again."""
LARGE_FIRST, LARGE_HOLDS_FOR = 2, 32
"""The same for large releases, the first of which loads the loop."""
CLEARLY = 1.1
"""Large releases are interpreted if machine code takes at least so many times as long."""
PIECE, BY_FAR = 8192, 2.0
"""Machine code is first tried on pieces of so many events of a large release. It is not used for the rest if it takes at least so many times as long."""
FEWEST_FIRST, FEWEST_HOLD_FOR = 3, 256
"""After so many compiled releases of a size that each took BY_FAR as long, this and smaller sizes are interpreted, for so many releases of each size."""


@dataclass(slots=True)
class _Size:
    """The times of releases of one size, in both ways. `uses`: the number of releases for which the choice still holds."""

    compiled: list[float] = field(default_factory=list)
    interpreted: list[float] = field(default_factory=list)
    is_compiled_cheaper: bool = True
    uses: int = 0

    @property
    def is_measured(self) -> bool:
        return len(self.compiled) >= COMPILED_FIRST and len(self.interpreted) >= INTERPRETED_NEXT


class CheaperWay:
    """Chooses how releases are folded, by their size. `clock`: seconds, of this thread's work. `known`: seconds of interpreting an event, measured elsewhere."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self.known = math.inf
        self._large = _Size()
        self._pieces = 0
        self._sizes = [_Size() for _ in range(MOST_EVENTS.bit_length() + 1)]

    def piece_of(self, count: int) -> int | None:
        """Return the size of a piece of a release of `count` events on which machine code is to be tried first, None for all of it."""
        return PIECE if count > 2 * PIECE and not self._large.uses and self._pieces < LARGE_FIRST else None

    def choice(self, count: int) -> bool | None:
        """Return whether a release of `count` events is folded by machine code. None: the release is to be measured, see `folded`."""
        if count > MOST_EVENTS:
            return None
        size = self._sizes[count.bit_length()]
        if not size.uses:
            return None
        size.uses -= 1
        return size.is_compiled_cheaper

    def folded(self, count: int, fold: Callable[[bool], tuple[Result, bool]]) -> Result:
        """Fold a release of `count` events. `fold`: gets whether to use machine code, and returns the result and whether it was used."""
        if count > MOST_EVENTS:
            return self._folded_large(count, fold)
        if (choice := self.choice(count)) is not None:
            return fold(choice)[0]
        size = self._sizes[count.bit_length()]
        began = self._clock()
        found, was_compiled = fold(len(size.compiled) < COMPILED_FIRST)
        (size.compiled if was_compiled else size.interpreted).append((self._clock() - began) / count)
        del size.interpreted[:-INTERPRETED_NEXT]  # many of them come while the loop is being compiled
        if size.is_measured:
            is_cheaper = min(size.compiled) <= SURELY * min(size.interpreted)
            self._sizes[count.bit_length()] = _Size(is_compiled_cheaper=is_cheaper, uses=HOLDS_FOR)
        elif len(size.compiled) >= FEWEST_FIRST and min(size.compiled) > BY_FAR * min(
            size.interpreted, default=self.known
        ):
            self._interpret_up_to(count)
        return found

    def _interpret_up_to(self, count: int) -> None:
        """Interpret releases of a size and of smaller ones, in which machine code takes even longer for each event."""
        for bits in range(count.bit_length() + 1):
            if not self._sizes[bits].uses:
                self._sizes[bits] = _Size(is_compiled_cheaper=False, uses=FEWEST_HOLD_FOR)

    def _folded_large(self, count: int, fold: Callable[[bool], tuple[Result, bool]]) -> Result:
        """Fold a large release by machine code, or interpret it if that was clearly dearer the last time."""
        large, began = self._large, self._clock()
        found, was_compiled = fold(not large.uses)
        each = (self._clock() - began) / count
        if not was_compiled:
            large.interpreted, large.uses = [each], max(0, large.uses - 1)
            return found
        large.compiled.append(each)
        is_tried = self._pieces < LARGE_FIRST and count <= PIECE
        self._pieces += is_tried
        if len(large.compiled) >= LARGE_FIRST:
            measured = large.interpreted or [each for size in self._sizes for each in size.interpreted]
            least = min(measured, default=self.known)
            is_dearer = min(large.compiled) > (CLEARLY if measured and not is_tried else BY_FAR) * least
            self._large = _Size(interpreted=large.interpreted, uses=LARGE_HOLDS_FOR if is_dearer else 0)
            self._pieces = 0 if is_dearer else self._pieces
        return found
