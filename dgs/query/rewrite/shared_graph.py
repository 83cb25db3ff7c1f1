"""The graph of a script while it is rewritten: equal nodes are one, and each knows its readers and its place.

Nodes are values without identity. Here every node gets a number, and equal nodes the same number. So an earlier graph is recognised by the
numbers of its outputs, and a node with two readers by counting.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import fields
from typing import Any

from dgs.query.relation import Join, Relation, Repeat, Script, Union


def named_inputs(node: Relation) -> list[tuple[str, Relation]]:
    """Return the inputs of a node, each with the name of its place in the node."""
    names: tuple[str, ...] = ("input",)
    if isinstance(node, Join):
        names = ("left", "right")
    elif isinstance(node, Union):
        names = tuple(f"part {place}" for place in range(len(node.parts)))
    elif isinstance(node, Repeat):
        names = (
            *(f"start of {name}" for name in node.names),
            *(f"body of {name}" for name in node.names),
            "until",
        )
    return list(zip(names, node.inputs, strict=False))


class Numbering:
    """The numbers of nodes: equal nodes have one number and one representative."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._standing: list[Relation] = []
        # by id; the node is kept, so that no other gets its id
        self._seen: dict[int, tuple[Relation, int]] = {}

    def number(self, node: Relation) -> int:
        """Return the number of a node; equal nodes have the same number."""
        known = self._seen.get(id(node))
        if known is not None:
            return known[1]
        inputs = node.inputs
        numbers = tuple(map(self.number, inputs))
        read = set(map(id, inputs))
        key = (
            type(node).__name__,
            numbers,
            *(_apart(getattr(node, one.name), read) for one in fields(node) if one.compare),
        )
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._standing)
            shared = tuple(self._standing[one] for one in numbers)
            is_shared = all(one is other for one, other in zip(shared, inputs, strict=True))
            self._standing.append(node if is_shared else node.with_inputs(shared))
            self._seen[id(self._standing[number])] = self._standing[number], number
        self._seen[id(node)] = node, number
        return number

    def shared(self, node: Relation) -> Relation:
        """Return the representative of all nodes that are equal to this one."""
        return self._standing[self.number(node)]


def _apart(value: Any, read: set[int]) -> Hashable:
    """Return a field of a node without its inputs, which have numbers."""
    if isinstance(value, tuple) and value and all(id(one) in read for one in value):
        return len(value)
    return None if id(value) in read else value


class SharedGraph:
    """A script in which equal nodes are one object."""

    def __init__(self, script: Script, numbering: Numbering | None = None) -> None:
        self.numbering = numbering or Numbering()
        self.script = Script(tuple((name, self.numbering.shared(node)) for name, node in script.outputs))
        self._readers: dict[int, list[Relation | None]] | None = None

    @property
    def key(self) -> tuple[tuple[str, int], ...]:
        """The graph as a value to look up."""
        return tuple((name, self.numbering.number(node)) for name, node in self.script.outputs)

    def top_down(self) -> Iterator[tuple[str, Relation]]:
        """Yield each node once, readers first, with its place: an output, and the way down from it."""
        seen: set[int] = set()
        left = list(reversed(self.script.outputs))
        while left:
            place, node = left.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield place, node
                left += [(f"{place} / {name}", one) for name, one in reversed(named_inputs(node))]

    def readers(self, node: Relation) -> list[Relation | None]:
        """Return the readers of a node, one for each time they read it; None for an output."""
        if self._readers is None:
            self._readers = {}
            for _, output in self.script.outputs:
                self._readers.setdefault(id(output), []).append(None)
            for _, reader in self.top_down():
                for one in reader.inputs:
                    self._readers.setdefault(id(one), []).append(reader)
        return self._readers.get(id(self.numbering.shared(node)), [])

    def replaced(self, old: Relation, new: Relation) -> SharedGraph:
        """Return the graph with a node in place of another, for all its readers."""
        made = {id(old): new}

        def changed(node: Relation) -> Relation:
            found = made.get(id(node))
            if found is None:
                inputs = tuple(map(changed, node.inputs))
                is_same = all(one is other for one, other in zip(inputs, node.inputs, strict=True))
                found = made[id(node)] = node if is_same else node.with_inputs(inputs)
            return found

        outputs = tuple((name, changed(node)) for name, node in self.script.outputs)
        return SharedGraph(Script(outputs), self.numbering)
