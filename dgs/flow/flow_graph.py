"""The graph of a flow: its nodes in the order in which they were written, each with its step, its inputs and its place in the user's code.

>>> from dgs.flow.steps import FlatMap
>>> lines = Node(0, Source("lines"), ())
>>> words = Node(1, FlatMap(lambda _, line: line.split()), (lines,))
>>> graph = Graph("words", (lines, words), words)
>>> [node.title for node in graph.nodes], graph.drawn(words)
(["stream 'lines'", "step 1 'flat_map'"], ('lines | flat_map', '        ^'))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dgs.errors.raised import StepNote, function_of
from dgs.flow.clock import Clock
from dgs.flow.mistakes import Place
from dgs.flow.steps import Source, Step, Table

End = Literal["close", "drop"]
"""The fate of the last block: it is closed when all sources have ended, or dropped."""


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """A step with its inputs. `number`: steps count from 1, sources have 0."""

    number: int
    step: Step
    inputs: tuple[Node, ...]
    place: Place | None = None

    @property
    def title(self) -> str:
        """The node's name in reports."""
        if isinstance(self.step, Source):
            return f"stream {self.step.stream!r}"
        return f"step {self.number} {self.step.label!r}"


@dataclass(frozen=True, eq=False, slots=True)
class Graph:
    """The nodes of a flow, inputs before those that read them; `result`: the node whose values are the outputs.

    `returned`: the type of the flow's result, if that is not an edge.
    """

    name: str
    nodes: tuple[Node, ...]
    result: Node | None
    clock: Clock | None = None
    end: End = "close"
    returned: str = ""

    @property
    def sources(self) -> tuple[Node, ...]:
        """The nodes of the streams, in the order of the flow's parameters."""
        return tuple(node for node in self.nodes if isinstance(node.step, Source))

    def reached(self) -> set[Node]:
        """Return the nodes that the result comes from, itself among them."""
        found: set[Node] = set()
        open_nodes = [self.result] if self.result is not None else []
        while open_nodes:
            node = open_nodes.pop()
            if node not in found:
                found.add(node)
                open_nodes += node.inputs
        return found

    @property
    def ticking(self) -> str:
        """The name of the stream of ticks: `ticks`, unless a stream of the flow has it."""
        name, taken = "ticks", {getattr(node.step, "stream", None) for node in self.sources}
        while name in taken:
            name += "_"
        return name

    def readers(self, node: Node) -> Iterator[Node]:
        """Yield the nodes that read a node."""
        return (other for other in self.nodes if node in other.inputs)

    def drawn(self, node: Node) -> tuple[str, str]:
        """Return the pipeline up to a node's readers as a line, and a line with a caret under the node."""
        path = [node]
        while path[0].inputs:
            path.insert(0, path[0].inputs[0])
        before = " | ".join(one.step.label for one in path[:-1])
        start = len(before) + 3 if before else 0
        while (after := next(self.readers(path[-1]), None)) is not None:
            path.append(after)
        return " | ".join(one.step.label for one in path), " " * start + "^"


def described(node: Node) -> str:
    """Return a description of a node without its functions: its kind, the template, monoid and window, and its inputs.

    >>> from dgs.flow.steps import FlatMap
    >>> described(Node(1, FlatMap(lambda _, line: line.split()), ()))
    'flat_map'
    """
    step = node.step
    facts = [step.label if isinstance(step, Source) or step.label != step.name else ""]
    for name in ("monoid", "over", "idle", "field", "fields", "values", "key", "into", "missing", "ties"):
        value = getattr(step, name, None)
        if value is not None:
            facts.append(f"{name} {type(value).__name__ if name == 'monoid' else value!r}")
    facts += [f"of step {one.number}" if one.number else f"of {one.step.label}" for one in node.inputs]
    return " ".join([step.name, *filter(None, facts)])


def told(table: Any) -> str:
    """Return a description that identifies a table: its name, its number of rows and their digest.

    >>> from dgs.flow.steps import Table
    >>> told(Table({"ad": "campaign"}, name="ads.json"))
    'ads.json with 1 rows (cd703192e33c50ad)'
    """
    if not isinstance(table, Table):
        table = Table(table)
    return f"{table.name} with {len(table):,} rows ({table.digest})"


def name_step(
    error: BaseException, step: str, place: Place | None, key: Any = None, at: int | None = None
) -> None:
    """Add the step and the function, the key and the time to an error of the user's code, once."""
    from dgs.model.user_code import shown  # here, because it loads NumPy

    if any(isinstance(note, StepNote) for note in getattr(error, "__notes__", ())):
        return
    function = function_of(error)
    called = f", function {function}" if function else ""
    time = "" if at is None else f", at {at}"
    of_key = "" if key is None else f", key {shown(key)}"
    error.add_note(StepNote(f"({step} at {place}{called}{of_key}{time})"))
