"""How items run through a compiled flow: the steps without state between two places that keep something, fused into one call.

>>> from dgs.flow.building import Builder
>>> builder = Builder("words", None)
>>> lines = builder.source("lines")
>>> graph = builder.finished(lines.flat_map(lambda _, line: line.split()).filter(lambda _, word: word != "b"))
>>> reached = []
>>> Wiring(graph).run(0, (), "a b c", 7, lambda node, port, key, value: reached.append((node, value)))
>>> reached, Wiring(graph).stateful
([(-1, 'a'), (-1, 'c')], [])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dgs.flow import steps
from dgs.flow.flow_graph import Graph
from dgs.flow.templates import Stateless

OUT = -1
"""Where outputs go, in place of a node."""

To = Callable[[int, int, Any, Any], None]
"""Takes the number of a node that keeps something, or OUT, the input of it that is meant, a key and a value."""

Expand = Callable[[Any, Any, Any], Iterable[tuple[Any, Any]]]
"""A step without state: from key, value and time to keys and values."""


class Wiring:
    """The edges of a graph by number of node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.index = {node: number for number, node in enumerate(graph.nodes)}
        self.sources = {
            node.step.stream: self.index[node]
            for node in graph.sources
            if isinstance(node.step, steps.Source)
        }
        self.expand = [_expansion(node.step) for node in graph.nodes]
        self.readers: list[list[tuple[int, int]]] = [[] for _ in graph.nodes]
        for number, node in enumerate(graph.nodes):
            for port, one in enumerate(node.inputs):
                self.readers[self.index[one]].append((number, port))
        if graph.result is not None:
            self.readers[self.index[graph.result]].append((OUT, 0))

    @property
    def stateful(self) -> list[int]:
        """The nodes that keep something, inputs before readers."""
        sources = {self.index[node] for node in self.graph.sources}
        return [
            number for number, expand in enumerate(self.expand) if expand is None and number not in sources
        ]

    def front(self) -> set[int]:
        """Return the nodes that keep something and get items from sources through steps without state only."""
        found: set[int] = set()
        open_nodes = list(self.sources.values())
        while open_nodes:
            for reader, _ in self.readers[open_nodes.pop()]:
                if reader != OUT and self.expand[reader] is None:
                    found.add(reader)
                elif reader != OUT:
                    open_nodes.append(reader)
        return found

    def run(self, number: int, key: Any, value: Any, at: int | None, to: To) -> None:
        """Take an item that a node gives to all who read it, through steps without state."""
        for reader, port in self.readers[number]:
            expand = self.expand[reader] if reader != OUT else None
            if expand is None:
                to(reader, port, key, value)
                continue
            try:
                made = expand(key, value, at)
                for new_key, new_value in made:
                    self.run(reader, new_key, new_value, at, to)
            except Exception as error:
                self.explain(error, reader, key)
                raise

    def explain(self, error: Exception, number: int, key: Any) -> None:
        """Add to an error of the user's code which step it comes from, once."""
        if not getattr(error, "__notes__", None):
            node = self.graph.nodes[number]
            error.add_note(f"in {node.title} of flow {self.graph.name!r} ({node.place}), key {key!r}")


def _expansion(step: steps.Step) -> Expand | None:  # noqa: C901, PLR0911 - one return a step
    """Return what a step without state does; None for sources and for steps that keep something."""
    match step:
        case steps.Map(function):
            return lambda key, value, _: ((key, function(key, value)),)
        case steps.Each(function):
            return lambda key, value, at: ((key, function(key, value, at)),)
        case steps.Filter(function):
            return lambda key, value, _: ((key, value),) if function(key, value) else ()
        case steps.FlatMap(function):
            return lambda key, value, _: [(key, one) for one in function(key, value)]
        case steps.FilterBy(field, values):
            return lambda key, value, _: ((key, value),) if steps.field_of(value, field) in values else ()
        case steps.Lookup():
            return _lookup(step)
        case steps.KeyBy():
            return lambda key, value, _: ((steps.key_of(step, key, value), value),)
        case steps.Pairs(function):
            return lambda key, value, _: (function(key, value),)
        case steps.Merge():
            return lambda key, value, _: ((key, value),)
        case steps.Apply(template) if isinstance(template, Stateless):
            return _applied(template)
    return None


def _lookup(step: steps.Lookup) -> Expand:
    table, name, into = step.table, step.key, step.into

    def looked_up(key: Any, value: Any, _: Any) -> Iterable[tuple[Any, Any]]:
        found = steps.field_of(value, name)
        if step.missing == "drop" and found not in table:
            return ()
        return ((key, {**value, into: table[found]}),)

    return looked_up


def _applied(template: Stateless) -> Expand:
    def applied(key: Any, value: Any, _: Any) -> Iterable[tuple[Any, Any]]:
        made: list[tuple[Any, Any]] = []
        template.on_item(key, value, lambda new_key, new_value: made.append((new_key, new_value)))
        return made

    return applied
