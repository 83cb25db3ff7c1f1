"""Windows by panes: rows are added up in panes as wide as possible, and each window joins its panes once, when it closes.

A window is [end - size, end), its start a multiple of `slide`. Panes are as wide as the greatest common divisor of both, so a window
consists of whole panes, and a row is added once, however many windows it is in.

>>> panes = WindowPanes(size=4, slide=2)
>>> state = panes.added({}, [0, 1, 3, 5], [1, 10, 100, 1000], sum)
>>> state
{0: 11, 2: 100, 4: 1000}
>>> closed, state = panes.closed(state, 4, sum)
>>> closed, state
([(2, 11), (4, 111)], {2: 100, 4: 1000})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from dgs.query.errors import QueryError, Span
from dgs.query.relation import (
    Expand,
    Group,
    Join,
    Map,
    Order,
    Relation,
    Script,
    Source,
    Union,
    Where,
    Window,
    rebuilt,
    walk,
)
from dgs.query.scalar import Scalar, column, columns_of, literal

Paned = Mapping[int, Any]
"""The states of panes by their starts. A pane without rows is not there."""

Joined = Callable[[Sequence[Any]], Any]
"""Joins one or more states to the state of all their rows."""


@dataclass(frozen=True, slots=True)
class WindowPanes:
    """Windows of a size and a slide, both 1 or more, as panes."""

    size: int
    slide: int

    @property
    def width(self) -> int:
        """The width of a pane."""
        return gcd(self.size, self.slide)

    def pane(self, at: int) -> int:
        """Return the start of the pane that a time is in."""
        return at // self.width * self.width

    def added(
        self, state: Paned, times: Iterable[int], values: Iterable[Any], joined: Joined
    ) -> dict[int, Any]:
        """Return a state with values at their times added."""
        parts: dict[int, list[Any]] = {}
        for at, value in zip(times, values, strict=True):
            parts.setdefault(self.pane(at), []).append(value)
        return self.joined(state, {start: joined(some) for start, some in parts.items()}, joined)

    def joined(self, left: Paned, right: Paned, joined: Joined) -> dict[int, Any]:
        """Return the state of the rows of both, pane by pane."""
        found = dict(left)
        for start, state in right.items():
            found[start] = joined([found[start], state]) if start in found else state
        return found

    def closed(
        self, state: Paned, until: int, joined: Joined, since: int | None = None
    ) -> tuple[list[tuple[int, Any]], dict[int, Any]]:
        """Return the windows that end after `since` and not after `until`, and the panes that later windows need.

        Windows come as (end, state of their rows), ascending; windows without rows are left out.
        """
        found = []
        for end in self._ends(state, until):
            inside = [state[start] for start in range(end - self.size, end, self.width) if start in state]
            if inside and (since is None or end > since):
                found.append((end, joined(inside)))
        later = self._first_end_behind(until) - self.size
        return found, {start: one for start, one in sorted(state.items()) if start >= later}

    def _ends(self, state: Paned, until: int) -> list[int]:
        """Return the ends, up to `until`, of the windows that hold a pane with rows."""
        ends: set[int] = set()
        for start in state:
            first = (start - self.size) // self.slide * self.slide + self.slide
            ends.update(begin + self.size for begin in range(first, start + 1, self.slide))
        return sorted(end for end in ends if end <= until)

    def _first_end_behind(self, until: int) -> int:
        return ((until - self.size) // self.slide + 1) * self.slide + self.size


@dataclass(frozen=True, slots=True)
class Windowed:
    """A script over the rows of one window: `at` is for each stream the column of its times, `ends` for each output those of the window's end."""

    script: Script
    panes: WindowPanes
    at: Mapping[str, str]
    ends: Mapping[str, tuple[str, ...]]


def windowed(script: Script) -> Windowed | None:
    """Return a script whose streams are all read through equal windows as a script over a single window.

    None if a stream is read in another way, or an answer is not that of the single windows, put together. In the new script the end is 0.
    Raises QueryError Q402 for windows that differ.
    """
    windows = {
        id(one): one for _, output in script.outputs for one in walk(output) if isinstance(one, Window)
    }
    if not windows or not _reads_only_windows(script):
        return None
    first, *others = windows.values()
    for one in others:
        if (one.size, one.slide, one.unit) != (first.size, first.slide, first.unit):
            raise _differ(first, one)
    times: dict[str, str] = {}
    for one in windows.values():
        found = _time_column(one.input, one.at)
        if found is None or one.unit != "range" or times.setdefault(*found) != found[1]:
            return None
    ends = {name: None if _is_fixed(output) else _carried(output) for name, output in script.outputs}
    if any(one is None for one in ends.values()):
        return None
    inner = Script(tuple((name, rebuilt(output, _without_window)) for name, output in script.outputs))
    known = {name: tuple(one or ()) for name, one in ends.items()}
    return Windowed(inner, WindowPanes(first.size, first.slide), times, known)


Ends = dict[str, bool]
"""The columns that are the end of a window, and whether each row has one: the side of a join that may have no partner may lack it."""


def _is_fixed(relation: Relation) -> bool:
    """Return whether rows come from tables that do not change, so that they are the same in each window."""
    return not any(isinstance(one, Window) for one in walk(relation))


def _carried(relation: Relation) -> Ends | None:
    """Return the columns that are the end of a window; None if the rows are not those of the single windows, put together.

    They are not where an end is used for more than to group, join or order, and where rows of several windows meet.
    """
    if _is_fixed(relation):
        return {}
    below = [_carried(one) for one in relation.inputs]
    found = [one for one in below if one is not None]
    rule = _RULES.get(type(relation))
    return rule(relation, found) if rule is not None and len(found) == len(below) else None


def _of_window(node: Window, _below: list[Ends]) -> Ends:
    return {node.as_: True}


def _of_order(node: Order, below: list[Ends]) -> Ends | None:
    return below[0] if node.limit is None and not node.offset else None


def _of_test(node: Where | Expand, below: list[Ends]) -> Ends | None:
    scalar = node.predicate if isinstance(node, Where) else node.items
    return None if _reads(scalar, below[0]) else below[0]


def _of_join(node: Join, below: list[Ends]) -> Ends | None:
    left, right = below
    known = left | right
    together = [_is_end(one, left) and _is_end(other, right) for one, other in node.pairs]
    others = [one for pair, is_one in zip(node.pairs, together, strict=True) if not is_one for one in pair]
    residual = [] if node.residual is None else [node.residual]
    if any(_reads(one, known) for one in [*others, *residual]):
        return None
    if not any(together) and not _repeats_nothing(node):
        return None
    if node.how in ("semi", "anti"):
        return left
    full = left if node.how != "full" else dict.fromkeys(left, False)
    return full | (right if node.how == "inner" else dict.fromkeys(right, False))


def _repeats_nothing(node: Join) -> bool:
    """Return whether a side is the same in each window, and has no rows in the answer but those that the other side takes."""
    return (_is_fixed(node.right) and node.how != "full") or (_is_fixed(node.left) and node.how == "inner")


def _of_union(node: Union, below: list[Ends]) -> Ends | None:
    places = [
        {part.schema.index(name): is_sure for name, is_sure in one.items()}
        for part, one in zip(node.parts, below, strict=True)
    ]
    if any(map(_is_fixed, node.parts)) or any(one.keys() != places[0].keys() for one in places):
        return None
    return {node.schema.names[at]: all(one[at] for one in places) for at in sorted(places[0])}


def _of_fields(node: Map | Group, below: list[Ends]) -> Ends | None:
    fields = node.fields if isinstance(node, Map) else node.keys
    computed = [scalar for _, scalar in fields if not _is_end(scalar, below[0])]
    if isinstance(node, Group):
        for _, one in node.aggregates:
            computed += [*one.arguments, *([] if one.where is None else [one.where])]
    if any(_reads(one, below[0]) for one in computed):
        return None
    found = {name: below[0][scalar.name] for name, scalar in fields if _is_end(scalar, below[0])}
    return found if isinstance(node, Map) or any(found.values()) else None


_RULES: dict[type, Callable[[Any, list[Ends]], Ends | None]] = {
    Order: _of_order,
    Window: _of_window,
    Where: _of_test,
    Expand: _of_test,
    Join: _of_join,
    Union: _of_union,
    Map: _of_fields,
    Group: _of_fields,
}


def _is_end(scalar: Scalar, ends: Ends) -> bool:
    return scalar.name in ends and scalar == column(scalar.name)


def _reads(scalar: Scalar, ends: Ends) -> bool:
    return any(name in ends for name in columns_of(scalar))


def _differ(one: Window, other: Window) -> QueryError:
    def said(window: Window) -> str:
        where = f" at {window.span}" if window.span is not None else ""
        return f"{window.unit} {window.size} by {window.slide}{where}"

    span: Span | None = other.span
    return QueryError.of(
        "Q402", f"two windows that differ: {said(one)}, {said(other)}", "Make them equal.", span
    )


def _time_column(relation: Relation, name: str) -> tuple[str, str] | None:
    """Return the stream and the column that a column of a relation comes from, row by row; None if it is not the column of a stream."""
    while not isinstance(relation, Source):
        if not isinstance(relation, (Map, Where, Expand)):
            return None
        if isinstance(relation, Map):
            scalar = dict(relation.fields)[name]
            if scalar != column(scalar.name):
                return None
            name = scalar.name
        (relation,) = relation.inputs
    return (relation.name, name) if name in relation.columns else None


def _without_window(node: Relation) -> Relation:
    if not isinstance(node, Window):
        return node
    kept = tuple((name, column(name)) for name in node.input.schema.names)
    return Map(node.input, (*kept, (node.as_, literal(0))), span=node.span)


def _reads_only_windows(script: Script) -> bool:
    """Return whether all streams are read through windows only."""

    def cut(node: Relation) -> Relation:
        return Source("", node.schema, changes=False) if isinstance(node, Window) else node

    tops = [rebuilt(output, cut) for _, output in script.outputs]
    return not any(isinstance(one, Source) and one.changes for top in tops for one in walk(top))


__all__ = ["WindowPanes", "Windowed", "windowed"]
