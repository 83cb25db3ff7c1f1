"""Building a flow: the user's function gets an `Edge` for each stream, and each method of an edge adds a step to the graph.

>>> from dgs.monoids import COUNT
>>> builder = Builder("words", None)
>>> lines = builder.source("lines", str)
>>> counts = lines.flat_map(lambda _, line: line.split()).key_by(lambda _, word: word).aggregate(COUNT)
>>> [node.title for node in builder.finished(counts).nodes]
["stream 'lines'", "step 1 'flat_map'", "step 2 'key_by'", "step 3 'aggregate'"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Literal, ParamSpec

from dgs.errors.calls import is_of_call, problem_of, what_it_takes
from dgs.flow import steps
from dgs.flow.clock import Clock
from dgs.flow.flow_graph import End, Graph, Node
from dgs.flow.mistakes import FlowError, Mistake, Place, checks_call, user_place
from dgs.flow.panes import CountWindow, TimeWindow

Given = ParamSpec("Given")


class Builder:
    """Collects the nodes of one flow."""

    def __init__(self, name: str, clock: Clock | None, end: End = "close") -> None:
        self.name = name
        self.clock = clock
        self.end = end
        self.nodes: list[Node] = []
        self.mistakes: list[Mistake] = []
        self._count = 0

    def source(self, stream: str, value: Any = Any, place: Place | None = None) -> Edge:
        """Add a stream; `value`: the type of its values; `place`: where it is declared (default: the running line of the user's code)."""
        return self._edge(Node(0, steps.Source(stream, value), (), place or user_place()))

    def add(self, step: steps.Step, *inputs: Edge) -> Edge:
        """Add a step that reads these edges. Anything that is not an edge of this flow is a mistake."""
        ours = [edge for edge in inputs if isinstance(edge, Edge) and edge.builder is self]
        if others := [edge for edge in inputs if edge not in ours]:
            found = "an edge of another flow" if isinstance(others[0], Edge) else type(others[0]).__name__
            fix = "Give a parameter of the flow, or what a step of it returns"
            step = steps.Wrong(step.label, "takes edges of this flow", "an edge", found, fix)
        self._count += 1
        return self._edge(Node(self._count, step, tuple(edge.node for edge in ours), user_place()))

    def finished(self, result: Any) -> Graph:
        """Return the graph whose outputs are the values of `result`, if it is an edge."""
        is_edge = isinstance(result, Edge) and result.builder is self
        node, found = (result.node, "") if is_edge else (None, type(result).__name__)
        return Graph(self.name, tuple(self.nodes), node, self.clock, self.end, found)

    def _edge(self, node: Node) -> Edge:
        self.nodes.append(node)
        return Edge(self, node)


def _step(method: Callable[Given, Edge]) -> Callable[Given, Edge]:
    """Let a method note a call with wrong arguments as a mistake."""

    @wraps(method)
    def call(*given: Given.args, **named: Given.kwargs) -> Edge:
        try:
            return method(*given, **named)
        except TypeError as error:
            if not is_of_call(error):
                raise
            edge: Any = given[0]
            problem, fix = "is called with other arguments than it takes", "Correct the call"
            step = steps.Wrong(method.__name__, problem, what_it_takes(method), problem_of(error), fix)
            return edge.builder.add(step, edge)  # type: ignore[no-any-return]

    return call


class Edge:
    """The items of a stream or a step. Its methods are the steps; `dgs.flow.steps` says what each means.

    `columns`: the function's form for columns, with the same results. It takes key, value (and the time) as columns: NumPy or Arrow arrays,
    or a dictionary of them. It returns a column; for `filter` a mask, for `flat_map` a column and the item of each value.
    """

    __slots__ = ("builder", "node")

    def __init__(self, builder: Builder, node: Node) -> None:
        self.builder = builder
        self.node = node

    def __getattr__(self, name: str) -> Callable[..., Edge]:
        """Return a function that adds the mistake of an unknown step. Raises AttributeError for private names."""
        if name.startswith("_"):
            raise AttributeError(name)
        from difflib import get_close_matches

        known = [one for one, made in vars(Edge).items() if callable(made) and not one.startswith("_")]
        near = get_close_matches(name, known, 1)
        fix = f"Write .{near[0]}(...)" if near else "Take one of these"
        step = steps.Wrong(name, "is no step", ", ".join(known), f".{name}", fix)
        return lambda *_, **__: self.builder.add(step, self)

    @_step
    def map(
        self, function: steps.Function, *, gives: Any = None, columns: steps.Function | None = None
    ) -> Edge:
        """Replace each value by `function(key, value)`."""
        return self.builder.add(steps.Map(function, gives, columns), self)

    @_step
    def filter(self, function: steps.Function, *, columns: steps.Function | None = None) -> Edge:
        """Keep the items for which `function(key, value)` holds."""
        return self.builder.add(steps.Filter(function, columns), self)

    @_step
    def flat_map(
        self, function: steps.Function, *, gives: Any = None, columns: steps.Function | None = None
    ) -> Edge:
        """Replace each value by the values of `function(key, value)`."""
        return self.builder.add(steps.FlatMap(function, gives, columns), self)

    @_step
    def each(
        self, function: steps.Function, *, gives: Any = None, columns: steps.Function | None = None
    ) -> Edge:
        """Replace each value by `function(key, value, at)`; `at` is None after the marker of a flow without a clock."""
        return self.builder.add(steps.Each(function, gives, columns), self)

    @_step
    def lookup(
        self, table: steps.Table | Mapping[Any, Any], *, key: Any, into: str, missing: steps.Missing = "error"
    ) -> Edge:
        """Give each record a field `into`: the table's entry for its field `key`."""
        return self.builder.add(steps.Lookup(table, key, into, missing), self)

    @_step
    def filter_by(self, field: Any, *values: Any) -> Edge:
        """Keep the records whose field is one of the values."""
        return self.builder.add(steps.FilterBy(field, values), self)

    @_step
    def project(self, *fields: str) -> Edge:
        """Keep these fields of each record."""
        return self.builder.add(steps.Project(fields), self)

    @_step
    def key_by(self, *by: Any, gives: Any = None, columns: steps.Function | None = None) -> Edge:
        """Give items a key: a function of (key, value), or fields of the value; a text is a constant key if values are not records."""
        chosen = by[0] if len(by) == 1 and callable(by[0]) else by
        return self.builder.add(steps.KeyBy(chosen, gives, columns), self)

    @_step
    def pairs(self, function: steps.Function, *, gives: Any = None) -> Edge:
        """Replace each item by the pair `function(key, value)` of a key and a value."""
        return self.builder.add(steps.Pairs(function, gives), self)

    @_step
    def sort(self, by: Any, *, ties: steps.Ties | None = None) -> Edge:
        """Put the items of each key and block in order of a field, or of a function of (key, value)."""
        return self.builder.add(steps.Sort(by, ties), self)

    @_step
    def aggregate(
        self,
        monoid: Any,
        *,
        over: TimeWindow | Literal["history"] | None = None,
        idle: steps.Idle = "skip",
        accept_parts: bool = False,
    ) -> Edge:
        """Join the items of each key with a monoid, at the end of each block."""
        return self.builder.add(steps.Aggregate(monoid, over, idle, accept_parts), self)

    @_step
    def fold(
        self,
        function: steps.Function,
        start: Any,
        *,
        over: CountWindow | Literal["history"] | None = None,
        gives: Any = None,
    ) -> Edge:
        """Fold the items of each key in their order with `function(state, value)`; at the end of a block, or of a window by count."""
        return self.builder.add(steps.Fold(function, start, over, gives), self)

    @_step
    def block(self, function: steps.Function, *, gives: Any = None, accept_parts: bool = False) -> Edge:
        """Replace the items of each key and block by the values of `function(key, items, at)`."""
        return self.builder.add(steps.Block(function, gives, accept_parts), self)

    @_step
    def join(
        self,
        other: Edge,
        function: steps.Function | None = None,
        *,
        gives: Any = None,
        accept_parts: bool = False,
    ) -> Edge:
        """Pair the items of each key and block with those of another edge: `function(key, left, right)`, by default a tuple."""
        return self.builder.add(steps.Join(function, gives, accept_parts), self, other)

    @_step
    def merge(self, *others: Edge) -> Edge:
        """Merge the items of other edges into these."""
        return self.builder.add(steps.Merge(), self, *others)

    @_step
    def apply(self, template: Any, *, keeps: bool = False) -> Edge:
        """Apply a template. `keeps`: it emits nothing that is older than its block, in the order it got."""
        return self.builder.add(steps.Apply(template, keeps), self)

    @_step
    def into(self, program: Any, *, tag: steps.Function, payload: steps.Function | None = None) -> Edge:
        """Give the items to a DGS program, as events with `tag(key, value)` and `payload(key, value)`; its outputs are the flow's."""
        return self.builder.add(steps.Into(program, tag, payload), self)


@checks_call
def merge(*edges: Edge) -> Edge:
    """Merge the items of several edges. Raises FlowError if none is an edge."""
    if one := next((edge for edge in edges if isinstance(edge, Edge)), None):
        return one.builder.add(steps.Merge(), *edges)
    found = f"{type(edges[0]).__name__}" if edges else "nothing"
    mistake = Mistake(
        "F01", "merge", "takes edges of one flow", str(user_place()), expected="merge(one, other, ...)", found=found,
        fix="Give parameters of the flow, or what its steps return",
    )  # fmt: skip
    raise FlowError.of("merge", [mistake])
