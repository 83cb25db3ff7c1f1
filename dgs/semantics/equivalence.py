"""Equivalence of two output streams: equality up to the order of independent outputs, decided online.

>>> from dgs.model.dependence import SAME_KEY, Dependence
>>> from dgs.model.tags import kind
>>> UPDATE, VIEW = kind("update", key=str), kind("view", key=str)
>>> depends = Dependence((UPDATE, UPDATE, SAME_KEY), (UPDATE, VIEW, SAME_KEY))
>>> one = [(VIEW("a"), 1), (UPDATE("b"), 2), (UPDATE("a"), 3)]
>>> assert_equivalent(one, [(UPDATE("b"), 2), (VIEW("a"), 1), (UPDATE("a"), 3)], depends)
>>> assert_equivalent(one, [(UPDATE("b"), 2), (UPDATE("a"), 3), (VIEW("a"), 1)], depends)
Traceback (most recent call last):
    ...
dgs.semantics.equivalence.OutputsDiffer: the outputs are not equivalent:
  b[1] is 3 of update('a')
  a[0] is 1 of view('a'), which depends on it and which b has not had before
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, zip_longest
from typing import Any, Literal

from dgs import codec
from dgs.errors import UsageError
from dgs.model.dependence import TagPredicate
from dgs.model.events import Event
from dgs.model.program import Program
from dgs.model.tags import Tag
from dgs.model.user_code import shown
from dgs.semantics.comparison import plain, without_close_pairs
from dgs.semantics.sequential import Output

Item = Output | tuple[Tag | Event | str, Any]
"""An output with its tag: from `dgs.semantics.sequential.run`, or a pair of a tag (or the output's event) and a value."""

Side = Literal["a", "b"]

SHOWN = 5
"""The most other outputs without counterpart to show."""

PAIRS = 2**16
"""Pairs of tags whose dependence is cached."""

ROUNDING = 1e-9
"""Floats that differ by less than this probably differ by rounding."""

_END: Any = object()


@dataclass(frozen=True, slots=True)
class Placed:
    """An output with its side, its position there, and its tag."""

    side: Side
    position: int
    tag: Tag
    value: Any
    encoded: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"{self.side}[{self.position}] is {shown(self.value)} of {self.tag!r}"


class OutputsDiffer(AssertionError):  # noqa: N818 - the name that pytest shows for a failed test
    """No order of independent outputs makes two streams equal.

    `output`: the first that can no longer be matched; `rival`: the dependent output that came before its match on the other side,
    None if that side has ended; `unmatched`: all outputs without counterpart at that time.
    """

    def __init__(self, output: Placed, rival: Placed | None, unmatched: list[Placed]) -> None:
        super().__init__(output, rival, unmatched)
        self.output, self.rival, self.unmatched = output, rival, unmatched

    def __str__(self) -> str:
        lines = ["the outputs are not equivalent:", f"  {self.output}"]
        if self.rival is not None:
            lines.append(
                f"  {self.rival}, which depends on it and which {self.output.side} has not had before"
            )
        else:
            lines.append(f"  and {'b' if self.output.side == 'a' else 'a'} has ended without it")
        if self.rival is not None and _is_rounding(self.output.value, self.rival.value):
            lines.append("these two differ by rounding only: tolerance=1e-9 takes them for equal")
        others = [one for one in self.unmatched if one not in (self.output, self.rival)]
        if others:
            lines.append("other outputs without counterpart until then:")
            lines += [f"  {one}" for one in others[:SHOWN]]
            lines += [f"  and {len(others) - SHOWN:,} more"] if len(others) > SHOWN else []
        return "\n".join(lines)


def assert_equivalent(
    outputs_a: Iterable[Item],
    outputs_b: Iterable[Item],
    dependence: TagPredicate | Program | type[Program],
    *,
    tolerance: float | None = None,
) -> None:
    """Raise OutputsDiffer unless two streams of outputs are equal up to the order of independent outputs.

    Reads both in step and stops at the first output that no later output can match. `dependence`: a Dependence, any symmetric
    function of two tags, or a program with one. Values are equal if their codec bytes are; `tolerance` as in
    `dgs.semantics.comparison`. Of a `dgs.semantics.sequential.Output` only tag and value count, not the identity.

    The algorithm is DiffStream's online matching of two partially ordered streams: see `Matcher`. Time is O(n t), where t is
    the number of different tags among the unmatched outputs at one time; memory is those outputs. With a tolerance each output
    is also compared with the unmatched ones of its tag, and pairs with the first that is close.
    """
    matcher = Matcher(_relation(dependence), tolerance=tolerance)
    for one, other in zip_longest(outputs_a, outputs_b, fillvalue=_END):
        for side, item in (("a", one), ("b", other)):
            if item is _END:
                matcher.end(side)  # type: ignore[arg-type]
            else:
                matcher.offer(side, *_tagged(item))  # type: ignore[arg-type]
    matcher.end("a")
    matcher.end("b")


class Matcher:
    """Matches the outputs of two sides online, in any interleaving of the sides.

    It keeps the unmatched outputs of either side, in order. Each is independent of every unmatched one of the other side: exactly
    then the two streams have a common continuation (they are prefixes of one trace). A new output x matches the first equal one
    of the other side, unless an unmatched output before that one depends on x. Otherwise x is kept if nothing unmatched there
    depends on x; else no continuation can match it.
    """

    def __init__(self, dependence: TagPredicate, *, tolerance: float | None = None) -> None:
        self._depends = lru_cache(PAIRS)(dependence)
        self._tolerance = tolerance
        self._counts = {"a": 0, "b": 0}
        self._kept = {"a": _Kept(), "b": _Kept()}
        self._ended: set[Side] = set()

    def offer(self, side: Side, tag: Tag, value: Any) -> None:
        """Take the next output of a side. Raises OutputsDiffer."""
        new = Placed(side, self._counts[side], tag, value, codec.encode(plain(value)))
        self._counts[side] += 1
        other = self._kept[_other(side)]
        rivals = [first for first in other.firsts() if self._depends(first.tag, tag)]
        first = min((rival.position for rival in rivals), default=self._counts[_other(side)])
        same = (one for one in other.counterparts(new, self._tolerance) if one.position <= first)
        found = next(same, None)
        if found is not None:
            other.remove(found)
        elif rivals or _other(side) in self._ended:
            raise OutputsDiffer(new, min(rivals, key=_position, default=None), self.unmatched())
        else:
            self._kept[side].add(new)

    def end(self, side: Side) -> None:
        """Note that a side has ended. Raises OutputsDiffer if the other side has unmatched outputs."""
        self._ended.add(side)
        alone = next(iter(self._kept[_other(side)].in_order()), None)
        if alone is not None:
            raise OutputsDiffer(alone, None, self.unmatched())

    def unmatched(self) -> list[Placed]:
        """Return the unmatched outputs of both sides."""
        return list(chain.from_iterable(kept.in_order() for kept in self._kept.values()))


@dataclass(slots=True)
class _Kept:
    """The unmatched outputs of a side: by tag in order, and their positions by tag and value."""

    of_tag: dict[Tag, OrderedDict[int, Placed]] = field(default_factory=dict)
    of_value: dict[tuple[Tag, bytes], OrderedDict[int, None]] = field(default_factory=dict)

    def add(self, one: Placed) -> None:
        self.of_tag.setdefault(one.tag, OrderedDict())[one.position] = one
        self.of_value.setdefault((one.tag, one.encoded), OrderedDict())[one.position] = None

    def remove(self, one: Placed) -> None:
        _drop(self.of_tag, one.tag, one.position)
        _drop(self.of_value, (one.tag, one.encoded), one.position)

    def firsts(self) -> Iterator[Placed]:
        """Yield the first output of each tag."""
        return (next(iter(group.values())) for group in self.of_tag.values())

    def counterparts(self, new: Placed, tolerance: float | None) -> Iterator[Placed]:
        """Yield the first output that equals `new`, then, with a tolerance, those close to it."""
        group: Mapping[int, Placed] = self.of_tag.get(new.tag, {})
        equal = self.of_value.get((new.tag, new.encoded))
        if equal:
            yield group[next(iter(equal))]
        if tolerance is not None:
            for one in group.values():
                if not without_close_pairs([one.value], [new.value], tolerance)[0]:
                    yield one

    def in_order(self) -> list[Placed]:
        return sorted(chain.from_iterable(group.values() for group in self.of_tag.values()), key=_position)


def _drop(groups: dict[Any, OrderedDict[int, Any]], name: Any, position: int) -> None:
    del groups[name][position]
    if not groups[name]:
        del groups[name]


def _is_rounding(one: Any, other: Any) -> bool:
    try:
        return not without_close_pairs([one], [other], ROUNDING)[0]
    except Exception:  # noqa: BLE001 - values that cannot be compared differ by more
        return False


def _relation(dependence: TagPredicate | Program | type[Program]) -> TagPredicate:
    """Return the dependence relation of a program, or the given relation."""
    if isinstance(dependence, type) and issubclass(dependence, Program):
        return dependence().dependence
    return dependence.dependence if isinstance(dependence, Program) else dependence  # type: ignore[return-value]


def _position(one: Placed) -> int:
    return one.position


def _other(side: Side) -> Side:
    return "b" if side == "a" else "a"


def _tagged(item: Any) -> tuple[Tag, Any]:
    if isinstance(item, Output):
        return item.tag, item.value
    if not isinstance(item, tuple) or len(item) != 2:  # noqa: PLR2004 - a pair
        message = f"an output to compare is a pair (tag, value) or an Output of dgs.semantics.sequential, not {shown(item)}"
        raise UsageError(message=message)
    of, value = item
    return (of if isinstance(of, Tag) else of.tag if isinstance(of, Event) else Tag(str(of))), value
