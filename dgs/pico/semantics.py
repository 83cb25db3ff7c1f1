"""The reference semantics of pipelines: the paper's equations (8) to (11) over whole collections, in plain Python; the oracle of the lowering.

A collection is a list of items in order; in a bag the order means nothing. An item has a place and a value. A place begins with a time,
which an element gets from its source. A combined value has the place of the last element folded in (P2), so the collection stays ordered.
Values may have equal places, after `pair` or if a source is merged with itself: these are in order of their codec bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import reduce
from itertools import groupby
from typing import Any, NamedTuple

from dgs import codec
from dgs.errors.raised import RAISED
from dgs.flow.clock import ticks_of
from dgs.flow.flow_graph import name_step
from dgs.flow.panes import CountWindow, TimeWindow
from dgs.pico.operators import Combine, Elementwise, Operator, Sink, Source
from dgs.pico.syntax import Merge, New, Pair, Term, To, combines_of, sources_of

Inputs = Mapping[str, Iterable[tuple[int, Any]]]
"""The elements of each source, (time, value), in order. The order of the sources breaks ties between them (P4)."""


class Item(NamedTuple):
    """An element with its place."""

    place: tuple[Any, ...]
    value: Any


Collection = list[Item]


class Meaning:
    """The collections of a checked pipeline for given inputs. `written`: the values of each sink, by its path."""

    def __init__(self, root: Term, inputs: Inputs) -> None:
        self.elements = {
            name: [Item((ts, rank, row), value) for row, (ts, value) in enumerate(elements)]
            for rank, (name, elements) in enumerate(inputs.items())
        }
        self.window = next((one.window for one in sources_of(root) if one.window is not None), None)
        self.horizon = self._horizon(root)
        self.written: dict[str, list[Any]] = {}
        self.outputs = [item.value for item in _ordered(self.of(root, []) or [])]

    def of(self, term: Term, given: Collection) -> Collection | None:  # noqa: PLR0911 - one return a term
        """Return the output of a term for an input, None if it has none."""
        match term:
            case New(Source(name)):
                return self.elements[name]
            case New(Sink(path)):
                self.written.setdefault(path, []).extend(item.value for item in _ordered(given))
                return None
            case New(Elementwise() as operator):
                with _naming(term, operator):
                    return _elementwise(operator, given)
            case New(Combine() as operator):
                with _naming(term, operator):
                    return self._combined(operator, given)
            case To(first, branches):
                found = self.of(first, given) or []
                results = [self.of(branch, found) for branch in branches]
                return _branched(results) if any(result is not None for result in results) else None
            case Merge(left, right):
                return [*(self.of(left, given) or []), *(self.of(right, given) or [])]
            case Pair(left, right, Combine() as operator):
                sides = [self.of(side, given) or [] for side in (left, right)]
                with _naming(term, operator):
                    return self._paired(operator, *sides)
        return None

    def _combined(self, operator: Combine, given: Collection) -> Collection:
        """Equations (10) and (11): each window of each group becomes one value."""
        return [
            Item(place, _folded(operator, [item.value for item in items]))
            for group in _groups(operator, given).values()
            for _, place, items in self._windows(operator, group)
        ]

    def _paired(self, operator: Combine, left: Collection, right: Collection) -> Collection:
        """Fold all pairs of values of two windows with one number and one key."""
        sides = [
            {
                (key, number): (place, items)
                for key, group in _groups(operator, side).items()
                for number, place, items in self._windows(operator, group)
            }
            for side in (left, right)
        ]
        found = []
        for both, (place, items) in sides[0].items():
            if both in sides[1]:
                other, others = sides[1][both]
                ends = (
                    (items[-1].place, others[-1].place)
                    if isinstance(operator.over, CountWindow)
                    else (place, other)
                )
                pairs = [(one.value, two.value) for one in items for two in others]
                found.append(Item(max(ends), _folded(operator, pairs)))
        return found

    def _windows(
        self, operator: Combine, items: Collection
    ) -> Iterator[tuple[int, tuple[Any, ...], Collection]]:
        """Yield number, place and items of each window; none is empty (P6). Without `over`: the windows of the source, or a single one."""
        over = operator.over or self.window
        if over is None:
            yield 0, items[-1].place, items
        elif isinstance(over, CountWindow):
            for number, start in enumerate(range(0, len(items), over.slide)):
                part = items[start : start + over.size]
                if len(part) == over.size or over.partial == "emit":
                    yield number, part[-1].place + part[0].place, part
        else:
            size, slide = _lengths(over)
            for end in range((items[0].place[0] // slide) * slide + slide, self.horizon + 1, slide):
                part = [item for item in items if end - size <= item.place[0] < end]
                if part:
                    yield end, (end - 1, *part[-1].place), part

    def _horizon(self, root: Term) -> int:
        """Return the end of the last window by time: the least multiple of every slide that is after all elements."""
        windows = [self.window, *(operator.over for _, operator in combines_of(root))]
        slides = [_lengths(one)[1] for one in windows if isinstance(one, TimeWindow)]
        last = max((items[-1].place[0] for items in self.elements.values() if items), default=-1)
        return max((-(-(last + 1) // slide) * slide for slide in slides), default=0)


@contextmanager
def _naming(term: Term, operator: Operator) -> Iterator[None]:
    """Name the operator in an error of the user's code."""
    try:
        yield
    except RAISED as error:
        name_step(error, operator.label, term.place)
        raise


def _place(item: Item) -> tuple[Any, ...]:
    return item.place


def _ordered(items: Collection) -> Collection:
    """Return items in order of their places, those of one place in order of the codec bytes of their values."""
    found: Collection = []
    for _, group in groupby(sorted(items, key=_place), key=_place):
        equal = list(group)
        found += sorted(equal, key=lambda item: codec.encode(item.value)) if len(equal) > 1 else equal
    return found


def _elementwise(operator: Elementwise, given: Collection) -> Collection:
    """Equations (8) and (9)."""
    function = operator.function
    if operator.form == "map":
        return [Item(place, function(value)) for place, value in given]
    if operator.form == "filter":
        return [item for item in given if function(item.value)]
    return [Item((*place, row), one) for place, value in given for row, one in enumerate(function(value))]


def _folded(operator: Combine, values: list[Any]) -> Any:
    if operator.fold is None:
        return reduce(operator.join, deepcopy(values))  # the function may change them
    state = deepcopy(operator.start)
    for value in values:
        state = operator.fold(state, *value) if operator.binary else operator.fold(state, value)
    return state


def _groups(operator: Combine, items: Collection) -> dict[Any, Collection]:
    groups: dict[Any, Collection] = {}
    for item in _ordered(items):
        groups.setdefault(operator.by(item.value) if operator.by else (), []).append(item)
    return groups


def _branched(results: list[Collection | None]) -> Collection:
    if len(results) == 1:
        return results[0] or []
    return [
        Item((*place, branch), value) for branch, found in enumerate(results) for place, value in found or []
    ]


def _lengths(over: TimeWindow) -> tuple[int, int]:
    return ticks_of(over.size) or 1, ticks_of(over.slide) or 1
