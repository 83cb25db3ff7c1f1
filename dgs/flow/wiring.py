"""The wiring of a compiled flow: the steps without state between two nodes that keep something, fused into one call.

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

from collections.abc import Callable
from functools import cached_property
from typing import Any

from dgs.errors.raised import RAISED
from dgs.flow import steps
from dgs.flow.batches.block_bounds import TooLargeError, too_large
from dgs.flow.clock import Every
from dgs.flow.flow_graph import Graph, name_step
from dgs.flow.templates import Stateless
from dgs.model.key_forms import blamed

OUT = -1
"""The target of outputs, in place of a node."""

To = Callable[[int, int, Any, Any], None]
"""Takes the number of a node that keeps something, or OUT, one of its inputs, a key and a value."""

Push = Callable[[To, Any, Any, Any], None]
"""Takes the target of items, and the key, the value and the time of an item: all steps after an edge as one function."""


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
        self._is_stateless = [_is_stateless(node.step) for node in graph.nodes]
        self.readers: list[list[tuple[int, int]]] = [[] for _ in graph.nodes]
        for number, node in enumerate(graph.nodes):
            for port, one in enumerate(node.inputs):
                self.readers[self.index[one]].append((number, port))
        if graph.result is not None:
            self.readers[self.index[graph.result]].append((OUT, 0))
        self._push: dict[int, Push] = {}

    @cached_property
    def stateful(self) -> list[int]:
        """The nodes that keep something, inputs before readers."""
        sources = self.sources.values()
        return [
            number for number, it_is in enumerate(self._is_stateless) if not it_is and number not in sources
        ]

    def front(self) -> set[int]:
        """Return the nodes that keep something and get items from sources through steps without state only."""
        found: set[int] = set()
        open_nodes = list(self.sources.values())
        while open_nodes:
            for reader, _ in self.readers[open_nodes.pop()]:
                if reader != OUT and not self._is_stateless[reader]:
                    found.add(reader)
                elif reader != OUT:
                    open_nodes.append(reader)
        return found

    def behind(self) -> set[int]:
        """Return the nodes that get items from nodes that keep something."""
        found: set[int] = set()
        for number, node in enumerate(self.graph.nodes):
            inputs = {self.index[one] for one in node.inputs}
            if inputs & (found | set(self.stateful)):
                found.add(number)
        return found

    def ways_out(self, number: int) -> int:
        """Return the number of paths from a node to the outputs through steps without state; 2 means two or more."""
        found, open_nodes = 0, [number]
        while open_nodes and found <= 1:
            for reader, _ in self.readers[open_nodes.pop()]:
                found += reader == OUT
                open_nodes += [reader] if reader != OUT and self.is_stateless(reader) else []
        return found

    def run(self, number: int, key: Any, value: Any, at: int | None, to: To) -> None:
        """Take an item of a node to all its readers, through steps without state."""
        self.push(number)(to, key, value, at)

    def push(self, number: int) -> Push:
        """Return the steps after a node, up to nodes that keep something, as one function."""
        if number not in self._push:
            after = [self.reader(reader, port) for reader, port in self.readers[number]]
            self._push[number] = after[0] if len(after) == 1 else _to_all(after)
        return self._push[number]

    def is_stateless(self, number: int) -> bool:
        """Return whether a node takes each item on its own."""
        return self._is_stateless[number]

    def reader(self, reader: int, port: int) -> Push:
        """Return one reader of an edge and the steps after it as one function."""
        if reader == OUT or not self._is_stateless[reader]:
            return lambda to, key, value, at: to(reader, port, key, value)  # noqa: ARG005 - as all of them
        step = _step(self.graph.nodes[reader].step, self.push(reader))

        def explained(to: To, key: Any, value: Any, at: Any) -> None:
            try:
                step(to, key, value, at)
            except RAISED as error:
                self.explain(error, reader, key, at)
                raise

        return explained

    def explained(
        self, error: BaseException, number: int, key: Any, at: Any, block: int | None = None
    ) -> BaseException:
        """Return the error to raise for an exception of a step, with the step, the key and the time."""
        node, clock = self.graph.nodes[number], self.graph.clock
        if isinstance(error, TooLargeError):
            of_time = clock.block_of(at) if isinstance(clock, Every) else 0
            return too_large(
                self.graph, node, error, key=key, block=of_time if block is None else block, at=at
            )
        error = blamed(error, key)
        self.explain(error, number, key, at)
        return error

    def explain(self, error: BaseException, number: int, key: Any, at: Any) -> None:
        """Add the step and the function, the key and the time to an error of the user's code, once."""
        node = self.graph.nodes[number]
        name_step(error, node.title, node.place, key, at)


def _is_stateless(step: steps.Step) -> bool:
    kinds = (
        steps.Map, steps.Each, steps.Filter, steps.FlatMap, steps.FilterBy, steps.Lookup, steps.Project, steps.KeyBy, steps.Pairs,
        steps.Merge,
    )  # fmt: skip
    return isinstance(step, kinds) or isinstance(getattr(step, "template", None), Stateless)


def _to_all(after: list[Push]) -> Push:
    def to_all(to: To, key: Any, value: Any, at: Any) -> None:
        for push in after:
            push(to, key, value, at)

    return to_all


def _step(step: steps.Step, after: Push) -> Push:  # noqa: PLR0911 - one return a step
    """Return a step without state and all later steps as one function."""
    match step:
        case steps.Map(function):
            return lambda to, key, value, at: after(to, key, function(key, value), at)
        case steps.Each(function):
            return lambda to, key, value, at: after(to, key, function(key, value, at), at)
        case steps.Filter(function):
            return lambda to, key, value, at: after(to, key, value, at) if function(key, value) else None
        case steps.KeyBy(by) if callable(by):
            return lambda to, key, value, at: after(to, by(key, value), value, at)
        case steps.KeyBy():
            return lambda to, key, value, at: after(to, steps.key_of(step, key, value), value, at)
        case steps.Merge():
            return after
    return _selecting(step, after)


def _selecting(step: Any, after: Push) -> Push:
    """Return a step that gives any number of items, or reads fields, and all later steps as one function."""

    def flat_map(to: To, key: Any, value: Any, at: Any) -> None:
        for made in step.function(key, value):
            after(to, key, made, at)

    def pairs(to: To, key: Any, value: Any, at: Any) -> None:
        new_key, new_value = step.function(key, value)
        after(to, new_key, new_value, at)

    def filter_by(to: To, key: Any, value: Any, at: Any) -> None:
        if steps.field_of(value, step.field) in step.values:
            after(to, key, value, at)

    def lookup(to: To, key: Any, value: Any, at: Any) -> None:
        found = steps.field_of(value, step.key)
        if step.missing != "drop" or found in step.table:
            after(to, key, {**value, step.into: step.table[found]}, at)

    def project(to: To, key: Any, value: Any, at: Any) -> None:
        after(to, key, {name: steps.field_of(value, name) for name in step.fields}, at)

    def applied(to: To, key: Any, value: Any, at: Any) -> None:
        step.template.on_item(key, value, lambda new_key, made: after(to, new_key, made, at))

    found: dict[type[steps.Step], Push] = {
        steps.FlatMap: flat_map,
        steps.Pairs: pairs,
        steps.FilterBy: filter_by,
        steps.Lookup: lookup,
        steps.Project: project,
    }
    return found.get(type(step), applied)
