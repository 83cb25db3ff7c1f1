"""Wire diagrams: the parallel semantics of a program (Definition 2.2), executable.

A diagram is an order of updates, forks and joins of a state. Theorem 2.4: if a program is consistent, every diagram
over the same events gives the same multiset of outputs and the same state as the sequential program.

>>> from dgs import ALWAYS, Dependence, Program, Tag
>>> class Total(Program):
...     depends = Dependence(("read", "read", ALWAYS), ("read", "add", ALWAYS))
...     accumulates = ("add",)
...     def init(self): return 0
...     def identity(self): return 0
...     def update(self, state, event, emit):
...         if event.tag.kind == "read": emit(state)
...         return state + event.payload
...     def join(self, left, right): return left + right
>>> add, read = Tag("add"), Tag("read")
>>> one, two, end = (Update(Event(tag, "s", 0, n)) for tag, n in [(add, 1), (add, 2), (read, 0)])
>>> fork = Parallel("fork", one, TagSet.of(add), two, TagSet.of(add))
>>> execute(Total(), Sequence((fork, end)))
(3, [3])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dgs.errors import InvalidDiagramError
from dgs.model.events import Event
from dgs.model.outputs import emitted_one_by_one
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet


@dataclass(frozen=True, slots=True)
class Update:
    """Clause 2: one event is processed on the wire."""

    event: Event


@dataclass(frozen=True, slots=True)
class Sequence:
    """Clauses 1 and 3: diagrams one after the other on one wire; without parts it is the wire itself."""

    parts: tuple[Diagram, ...] = ()


@dataclass(frozen=True, slots=True)
class Parallel:
    """Clause 4: the wire forks, a diagram runs on each side, and the two wires join again.

    `fork_join` names the pair; `left_tags` and `right_tags` are the predicates of the two wires.
    """

    fork_join: str
    left: Diagram
    left_tags: TagSet
    right: Diagram
    right_tags: TagSet


Diagram = Update | Sequence | Parallel


def execute(program: Program, diagram: Diagram) -> tuple[Any, list[Any]]:
    """Run a program along a diagram; return the final state and the outputs, the left side of each fork first.

    The first wire has the initial state type and processes every tag. Raises InvalidDiagramError if a side condition of
    Definition 2.2 does not hold.
    """
    outputs: list[Any] = []
    start = _Wire(program.states()[0], TagSet.everything())
    final = _Machine(program, outputs).run(diagram, start, program.init())
    return final, outputs


@dataclass(frozen=True, slots=True)
class _Wire:
    """The type of a wire: a state type and the predicate of the events it may process."""

    state_type: StateType
    tags: TagSet


class _Machine:
    """One execution: the program's types and forks by name, and the outputs so far."""

    def __init__(self, program: Program, outputs: list[Any]) -> None:
        self.program = program
        self.outputs = outputs
        self.types = {one.name: one for one in program.states()}
        self.pairs = {pair.name: pair for pair in program.fork_joins()}

    def run(self, diagram: Diagram, wire: _Wire, state: Any) -> Any:
        """Return the state at the end of the wire."""
        if isinstance(diagram, Update):
            return self._update(diagram.event, wire, state)
        if isinstance(diagram, Parallel):
            return self._parallel(diagram, wire, state)
        for part in diagram.parts:
            state = self.run(part, wire, state)
        return state

    def _update(self, event: Event, wire: _Wire, state: Any) -> Any:
        self._require(
            event.tag in wire.tags, f"event {event.tag!r} does not satisfy its wire's {wire.tags!r}"
        )
        state, made = emitted_one_by_one(wire.state_type.update, state, event, self.program.emits_columns)
        self.outputs += made
        return state

    def _parallel(self, diagram: Parallel, wire: _Wire, state: Any) -> Any:
        self._require(diagram.fork_join in self.pairs, f"there is no fork {diagram.fork_join!r}")
        pair = self.pairs[diagram.fork_join]
        left, right = self._side_wires(diagram, wire, pair)
        mine, theirs = pair.fork(state, left.tags, right.tags)
        mine = self.run(diagram.left, left, mine)
        theirs = self.run(diagram.right, right, theirs)
        return pair.join(mine, theirs)

    def _side_wires(self, diagram: Parallel, wire: _Wire, pair: ForkJoin) -> tuple[_Wire, _Wire]:
        """Return the two wires after a fork. Raises InvalidDiagramError if a side condition of clause 4 does not hold."""
        self._require(
            pair.parent == wire.state_type.name,
            f"fork {pair.name!r} is of {pair.parent!r}, its wire of {wire.state_type.name!r}",
        )
        sides = (
            _Wire(self.types[pair.left], diagram.left_tags),
            _Wire(self.types[pair.right], diagram.right_tags),
        )
        for side in sides:
            self._require(side.tags <= wire.tags, f"{side.tags!r} does not imply {wire.tags!r}")
            handles = side.state_type.handles
            self._require(
                side.tags <= handles,
                f"{side.tags!r} does not imply {handles!r}, which {side.state_type.name!r} handles",
            )
        dependent = self.program.dependence.witness(diagram.left_tags, diagram.right_tags)
        self._require(dependent is None, f"the sides of a fork depend on each other: {dependent}")
        return sides

    def _require(self, holds: bool, problem: str) -> None:
        if not holds:
            raise InvalidDiagramError(program=self.program.name, problem=problem)
