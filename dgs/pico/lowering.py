"""The lowering: from a checked pipeline to a flow.

In a list every value travels with its place, `(place, value)`, so that a sort can restore an order that a step has lost. In a stream that
is impossible: an operator is refused if it needs an order that an earlier one has lost. A bag has no order.

| operator | steps of the flow |
|---|---|
| combine that does not look at order; over windows by time | `key_by`, `aggregate` |
| combine that looks at order; over windows by count | `key_by`, (`sort`,) `fold` |
| of a pair | `key_by`, (windows with their numbers as keys,) `join`, `aggregate` |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any

from dgs.flow.building import Builder, Edge
from dgs.flow.clock import Every, every, ticks_of
from dgs.flow.definition import Flow
from dgs.flow.flow_checks import Checked, checked
from dgs.flow.flow_graph import Node
from dgs.flow.mistakes import FlowError, Mistake, Place
from dgs.flow.panes import CountWindow, TimeWindow, Window
from dgs.pico.combining import Combined, Numbered, Windows
from dgs.pico.operators import Combine, Elementwise, Operator, Sink, Source
from dgs.pico.syntax import Merge, New, Pair, Term, To, combines_of, drawn, gives_output, sources_of, terms_of

SOURCES = object()
"""The order of values that still have the places of their elements."""

ONE_KEY = object()
"""The order of values that all have one key."""


class PicoFlow(Flow):
    """The flow of a pipeline. Its outputs are the values of the pipeline; with several sinks, `[number of the sink, value]`."""

    inlet = "source"

    def __init__(self, name: str, root: Term) -> None:
        self.root = root
        names = sorted({one.name for one in sources_of(root)})
        kinds = {one.name: one.gives for one in sources_of(root)}
        super().__init__(name, {one: kinds[one] for one in names}, lambda: None, clock=_clock(root))

    @property
    def _place(self) -> Place | None:
        return self.root.place

    @property
    def sinks(self) -> list[str]:
        """The folder of each sink, in the order of reading."""
        paths = [one.operator.folder for one in terms_of(self.root, New) if isinstance(one.operator, Sink)]
        return list(dict.fromkeys(paths))

    @property
    def outlets(self) -> list[str]:
        """The folder of each sink, and "" for the output of the pipeline, if it has one."""
        return [*self.sinks, *([""] if gives_output(self.root) else [])]

    @cached_property
    def checked(self) -> Checked:
        """The graph with the types of its edges. Raises FlowError for a pipeline that no flow can do yet."""
        builder = _Builder(self.name, self.clock)
        result = _Lowering(self, builder).result()
        found = checked(builder.finished(result))
        if found.mistakes:
            raise FlowError.of(self.name, found.mistakes)
        return found


class _Builder(Builder):
    """A builder whose steps have the places of the pipeline's operators."""

    place: Place | None = None

    def _edge(self, node: Node) -> Edge:
        return super()._edge(replace(node, place=self.place))


@dataclass(frozen=True, slots=True)
class Values:
    """An edge with the origin of its order: SOURCES, the function whose keys it is ordered by, or None."""

    edge: Edge
    order: Any = SOURCES
    origins: frozenset[str] = frozenset()


class _Lowering:
    """The walk over a tree: each term becomes steps."""

    def __init__(self, flow: PicoFlow, builder: _Builder) -> None:
        self.flow, self.builder = flow, builder
        sources = sources_of(flow.root)
        self.is_list = sources[0].structure == "list"
        self.has_blocks = sources[0].window is not None
        self.ranks = {name: rank for rank, name in enumerate(flow.streams)}
        self.read = {name: builder.source(name, kind) for name, kind in flow.streams.items()}
        self.written: dict[str, list[Values]] = {}

    def result(self) -> Edge:
        """Return the edge of the outputs."""
        found = self._values(self.flow.root, None)
        if found is not None:
            self.written.setdefault("", []).append(found)
        edges, paths = [], self.flow.outlets
        for path, values in self.written.items():
            for one in values:
                edge, number = self._in_order(one), paths.index(path)
                numbered = _numbering(number) if len(paths) > 1 else _without_key
                edges.append(edge.pairs(numbered) if len(self.written) > 1 or len(values) > 1 else edge)
        first, *others = edges
        return first.merge(*others) if others else first

    def _in_order(self, values: Values) -> Edge:
        """Return the values of a list in its order, without their places."""
        if not self.is_list:
            return values.edge
        edge = values.edge
        if values.order is not SOURCES:
            edge = edge.pairs(_without_key).sort(by=_place)
        return edge.map(lambda _, value: value[1])

    def _values(self, term: Term, given: Values | None) -> Values | None:
        """Return the output of a term, None if it has none."""
        match term:
            case To(first, branches):
                found = self._values(first, given)
                return self._to(term, [self._values(branch, found) for branch in branches])
            case Merge(left, right):
                return self._merged(term, [self._side(left, given), self._side(right, given)])
            case Pair(left, right, Combine() as operator):
                both = [self._side(left, given), self._side(right, given)]
                self.builder.place = term.place
                return self._paired(term, operator, *both)
            case New(operator):
                self.builder.place = term.place
                return self._new(term, operator, given)
        return None

    def _side(self, term: Term, given: Values | None) -> Values:
        found = self._values(term, given)
        if found is None:
            raise self._refused(term, "gives no output")
        return found

    def _new(self, term: New, operator: Operator, given: Values | None) -> Values | None:
        if isinstance(operator, Source):
            return self._source(operator)
        if given is None:
            raise self._refused(term, "has no input")
        if isinstance(operator, Sink):
            self.written.setdefault(operator.folder, []).append(given)
            return None
        if isinstance(operator, Elementwise):
            return replace(given, edge=self._elementwise(operator, given.edge))
        return self._combined(term, operator, given) if isinstance(operator, Combine) else None

    def _source(self, source: Source) -> Values:
        edge, rank = self.read[source.name], self.ranks[source.name]
        if self.is_list:
            edge = edge.each(lambda _, value, at: ((at, rank), value))
            edge = edge.apply(Numbered()) if source.form == "stream" else edge
        return Values(edge, SOURCES, frozenset([source.name]))

    def _elementwise(self, operator: Elementwise, edge: Edge) -> Edge:
        function = operator.function
        if not self.is_list:
            steps: dict[str, Callable[[Any], Edge]] = {
                "map": edge.map,
                "flat_map": edge.flat_map,
                "filter": edge.filter,
            }
            return steps[operator.form](lambda _, value: function(value))
        if operator.form == "map":
            return edge.map(lambda _, value: (value[0], function(value[1])))
        if operator.form == "filter":
            return edge.filter(lambda _, value: function(value[1]))
        return edge.flat_map(
            lambda _, value: [((*value[0], row), one) for row, one in enumerate(function(value[1]))]
        )

    def _key(self, operator: Combine) -> Callable[[Any, Any], Any]:
        by = operator.by
        if by is None:
            return lambda *_: ()
        return (lambda _, value: by(value[1])) if self.is_list else lambda _, value: by(value)

    def _combined(self, term: Term, operator: Combine, given: Values) -> Values:
        over, monoid = operator.over, Combined(operator, has_places=self.is_list)
        if isinstance(over, CountWindow):
            return self._counted(term, operator, over, given)
        if isinstance(over, TimeWindow) and self._is_block(over):
            over = None
        elif over is None and self.flow.clock is not None and not self.has_blocks:
            raise self._refused(term, "combines a whole list beside windows by time")
        if operator.commutative:
            edge = given.edge.key_by(self._key(operator)).aggregate(monoid, over=over)
        elif over is None:
            edge = (
                self._keyed(term, operator, given)
                .fold(monoid.folded, ())
                .map(lambda _, state: monoid.result(state))
            )
        else:
            raise self._refused(term, "looks at the order of values in windows by time that overlap")
        if self.is_list and operator.over is not None:
            edge = edge.each(lambda _, value, at: ((at - 1, *value[0]), value[1]))
        return Values(edge, None)

    def _counted(self, term: Term, operator: Combine, over: CountWindow, given: Values) -> Values:
        """Windows by count: a fold over the values of each key in their order."""
        if over.partial == "emit" and self.flow.clock is not None:
            raise self._refused(term, "keeps windows that the end cuts short, beside windows by time")
        monoid, has_places = Combined(operator, has_places=self.is_list), self.is_list

        def step(state: Any, value: Any) -> Any:
            begin = (state[0] if state else value[0]) if has_places else ()
            return (begin, monoid.folded(state[1] if state else (), value))

        def result(_: Any, state: Any) -> Any:
            begin, (place, value) = state
            return ((*place, *begin), value) if has_places else value

        edge = self._keyed(term, operator, given).fold(step, (), over=over).map(result)
        return Values(edge, operator.by or ONE_KEY)

    def _keyed(self, term: Term, operator: Combine, given: Values) -> Edge:
        """Return the values by key, and the values of a key in order. Raises FlowError if the flow cannot know the order."""
        key = self._key(operator)
        if given.order is SOURCES:
            return given.edge.key_by(key)
        if self.is_list:
            return given.edge.key_by(key).sort(by=_place)
        if given.order is None or given.order is not (operator.by or ONE_KEY):
            raise self._refused(term, "needs the order of values that were combined or merged before")

        def unchanged(old: Any, value: Any) -> Any:
            if key(old, value) != old:
                mistake = Mistake("R02", operator.label, f"has key {key(old, value)!r} for a value that had key {old!r}",
                                  str(term.place or ""), fix="Keep the key of values between two operators with the same by=")  # fmt: skip
                raise FlowError.of(self.flow.name, [mistake])
            return value

        return given.edge.map(unchanged)

    def _paired(self, term: Term, operator: Combine, left: Values, right: Values) -> Values:
        over, monoid = operator.over, Combined(operator, has_places=self.is_list)
        if isinstance(over, CountWindow):
            if self.flow.clock is not None:
                raise self._refused(term, "pairs windows by count beside windows by time")
            sides = [self._numbered_windows(term, operator, over, one) for one in (left, right)]
        elif over is None or self._is_block(over):
            if over is None and self.flow.clock is not None and not self.has_blocks:
                raise self._refused(term, "pairs whole lists beside windows by time")
            sides = [
                one.edge.key_by(self._key(operator)).map(lambda _, value: [value]) for one in (left, right)
            ]
        else:
            raise self._refused(term, "pairs windows that overlap, or of several blocks")
        edge = sides[0].join(sides[1]).flat_map(self._pairs).aggregate(monoid)
        if over is not None:
            edge = edge.pairs(lambda key, value: (key[0], value)) if isinstance(over, CountWindow) else edge
        if self.is_list and isinstance(over, TimeWindow):
            edge = edge.each(lambda _, value, at: ((at - 1, *value[0]), value[1]))
        return Values(edge, None)

    def _pairs(self, _: Any, both: Any) -> list[Any]:
        left, right = both
        if not self.is_list:
            return [(a, b) for a in left for b in right]
        return [(max(a[0], b[0]), (a[1], b[1])) for a in left for b in right]

    def _numbered_windows(self, term: Term, operator: Combine, over: CountWindow, given: Values) -> Edge:
        windows = self._keyed(term, operator, given).apply(Windows(over), keeps=True)
        return windows.pairs(lambda key, one: ((key, one[0]), one[1]))

    def _to(self, term: To, found: Sequence[Values | None]) -> Values | None:
        if len(found) == 1:
            return found[0]
        marked = [
            replace(one, edge=one.edge.map(_marking(branch))) if self.is_list else one
            for branch, one in enumerate(found)
            if one is not None
        ]
        return self._merged(term, marked) if marked else None

    def _merged(self, term: Term, parts: Sequence[Values]) -> Values:
        self.builder.place = term.place
        first, *others = [
            one.edge.pairs(_without_key) if one.order is not SOURCES else one.edge for one in parts
        ]
        origins = frozenset[str]().union(*(one.origins for one in parts))
        is_apart = len(origins) == sum(len(one.origins) for one in parts) and not self.is_list
        order = SOURCES if is_apart and all(one.order is SOURCES for one in parts) else None
        return Values(first.merge(*others) if others else first, order, origins)

    def _is_block(self, over: Window) -> bool:
        clock = self.flow.clock
        return (
            isinstance(over, TimeWindow)
            and isinstance(clock, Every)
            and {ticks_of(over.size), ticks_of(over.slide)} == {clock.ticks}
        )

    def _refused(self, term: Term, problem: str) -> FlowError:
        title = term.operator.label if isinstance(term, (New, Pair)) else type(term).__name__.lower()
        text = f"cannot be run yet, though denote says what it means: it {problem}"
        mistake = Mistake(
            "F00", title, text, str(term.place or ""), drawing=drawn(self.flow.root, {term: ""})
        )
        return FlowError.of(self.flow.name, [mistake])


def _numbering(number: int) -> Callable[[Any, Any], Any]:
    return lambda _, value: ((), [number, value])


def _marking(branch: int) -> Callable[[Any, Any], Any]:
    return lambda _, value: ((*value[0], branch), value[1])


def _without_key(_: Any, value: Any) -> Any:
    return (), value


def _place(_: Any, value: Any) -> Any:
    return value[0]


def _clock(root: Term) -> Every | None:
    """Return the clock whose blocks all windows by time are made of; with units if one of them has."""
    windows = [one.window for one in sources_of(root)] + [operator.over for _, operator in combines_of(root)]
    lengths = [part for one in windows if isinstance(one, TimeWindow) for part in (one.size, one.slide)]
    if not lengths:
        return None
    period = gcd(*(ticks_of(part) or 1 for part in lengths))
    return every(f"{period}ms" if any(isinstance(part, str) for part in lengths) else period)
