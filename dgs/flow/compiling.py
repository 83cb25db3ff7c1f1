"""The compiler: from a checked flow to one DGS program.

Items are events of kind `item`, progress is events of kind `tick`. A flow has one of five shapes:

- free: no step keeps anything. Items are independent.
- sum: the first stateful steps after the sources do not depend on order. Leaves fold items into parts by block and key; the worker that
  owns the tick closes blocks and runs all later steps.
- classes: a step in front needs the order of a key, and all kept items have that key. Items and ticks have the hash class of the key as
  the key of their tags; each class is in order, and is closed on its own.
- mixed: a step in front needs the order of a key. Items have the hash class of the key as the key of their tag, and a class is in order.
  The worker that owns the tick closes blocks of all classes.
- program: the steps pass items to a DGS program, whose tags they make.

A tick at time t closes every block that ends by then. Which ticks come changes latency, never an output.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dgs.flow import steps
from dgs.flow.batches.block_bounds import Bound
from dgs.flow.clock import Every, On
from dgs.flow.closing import Closer, closer_of
from dgs.flow.flow_checks import Checked
from dgs.flow.flow_graph import Graph, Node
from dgs.flow.flow_program import FINAL, TICK, Shape
from dgs.flow.mistakes import FlowError, Mistake
from dgs.flow.running.classed_flow import ClassedFlow, changes_keys, has_local_classes
from dgs.flow.running.leaving_out import SkippableFlow
from dgs.flow.running.windowed_flow import WindowedFlow
from dgs.flow.templates import KeyedOrdered, fold_template, has_end
from dgs.flow.wiring import OUT, Wiring
from dgs.model.key_sets import key_class
from dgs.model.program import Program
from dgs.model.tags import Tag, kind

Inputs = Mapping[str, Iterable[Any]]
"""The elements of each stream, (ts, value), or tables of them, as columns by name."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled flow: the program, and the function that makes events of the elements of its streams.

    `reads`: elements become events by `events`, because the steps in front make their tags; otherwise each is one `item`. `markers`: the
    stream whose events are ticks. `places`: where each node runs, as text. `classes_of`: for streams whose items have only constant keys,
    the hash classes of these. `ticking`: the name of the stream of ticks.
    """

    program: Program
    shape: Shape
    reads: Callable[[str, int, Any], list[tuple[Tag, Any]]] | None = None
    markers: str | None = None
    places: Sequence[str] = ()
    classes_of: Mapping[str, Sequence[int]] = field(default_factory=dict)
    ticking: str = ""

    @property
    def ticks(self) -> bool:
        """Whether a stream of ticks is needed: one tick at `FINAL` at least, earlier ones for blocks to close earlier."""
        return self.shape in ("sum", "classes", "mixed")

    def events(self, stream: str, ts: int, value: Any) -> list[tuple[Tag, Any]]:
        """Return the events of an element: tag and payload."""
        if stream in (self.markers, self.ticking):
            return [(tag, value) for tag in self._tick_tags()]
        return [(kind("item")(), value)] if self.reads is None else self.reads(stream, ts, value)

    def _tick_tags(self) -> list[Tag]:
        """Return the tags of a tick: one, or one for each class."""
        program = self.program
        return (
            list(map(program.tick, range(program.of_class.classes)))
            if isinstance(program, ClassedFlow)
            else [TICK()]
        )

    def tags_of(self, stream: str) -> list[Any]:
        """Return the tags of the events of a stream in the form of a plan file: kinds, or a kind with the key of each class."""
        if stream in (self.markers, self.ticking):
            return [str(TICK)]
        if stream in self.classes_of:
            return [{"kind": "item", "key": cls} for cls in self.classes_of[stream]]
        return ["item"] if self.shape != "program" else sorted(self.program.all_kinds())

    def rows(self, inputs: Inputs) -> dict[str, Any]:
        """Return the streams as rows for the front, ("row", ts, value); the last tick comes first, if the program needs ticks."""
        ticks = {self.ticking: [("row", FINAL, None)]} if self.ticks else {}
        return ticks | {
            name: elements if _are_tables(elements) else [("row", *element) for element in elements]
            for name, elements in inputs.items()
        }

    def running(self) -> Program:
        """Return the program with the front that makes its events where rows are read, if the steps make their tags."""
        if self.reads is None:
            return self.program
        program = copy.copy(self.program)
        program.front = self.events
        return program

    def streams(self, inputs: Inputs, ticks: Sequence[int] = (FINAL,)) -> dict[str, Any]:
        """Return the streams of the program, (tag, ts, payload) or tables, for elements (ts, value); the ticks come first, if it needs any."""
        found: dict[str, Any] = (
            {self.ticking: [(tag, ts, None) for ts in ticks for tag in self._tick_tags()]}
            if self.ticks
            else {}
        )
        for name, elements in inputs.items():
            found[name] = (
                elements
                if _are_tables(elements)
                else [(tag, ts, it) for ts, value in elements for tag, it in self.events(name, ts, value)]
            )
        return found


def _are_tables(elements: Any) -> bool:
    from dgs.frames.frame_stream import Stream  # imported here, because it loads NumPy

    return isinstance(elements, Stream) or (
        isinstance(elements, list) and bool(elements) and isinstance(elements[0], dict)
    )


def compiled(checked: Checked, classes: int) -> Compiled:
    """Compile a flow. Raises FlowError for flows that cannot be compiled yet."""
    graph, wiring = checked.graph, Wiring(checked.graph)
    refuse(graph, wiring)
    if graph.result is not None and isinstance(graph.result.step, steps.Into):
        step, places = graph.result.step, _places(wiring, "program", {})
        return Compiled(step.program, "program", _Tagging(wiring, step), places=places)
    bound = Bound()
    closers = _closers(checked, wiring, bound)
    ordered = _ordered(checked, wiring)
    in_front = wiring.front()
    is_mixed = any(number in in_front for number in ordered) or any(
        _needs_arrival(checked, graph.nodes[number]) for number in in_front
    )
    is_free = not wiring.stateful and not isinstance(graph.clock, On)  # its markers are ticks
    shape: Shape = "free" if is_free else "mixed" if is_mixed else "sum"
    emits = any(map(wiring.ways_out, wiring.sources.values()))
    kind_of_flow = WindowedFlow if shape == "sum" and not emits else SkippableFlow
    together = kind_of_flow(
        graph, wiring, shape, closers=closers, ordered=ordered, classes=classes, bound=bound
    )
    program: SkippableFlow | ClassedFlow = together
    if is_mixed and has_local_classes(graph, wiring, ordered):
        shape, program = "classes", ClassedFlow(together, is_ordered=True)
    markers = graph.clock.stream if isinstance(graph.clock, On) else None
    reads = program.items if is_mixed else None
    classes_of = _classes_of(checked, wiring, classes) if is_mixed else {}
    together.first_classes = {stream: found[0] for stream, found in classes_of.items()}
    places = _places(wiring, shape, program.forms())
    return Compiled(program, shape, reads, markers, places, classes_of, graph.ticking)


def _classes_of(checked: Checked, wiring: Wiring, classes: int) -> dict[str, list[int]]:
    """Return the hash classes of the keys of each stream whose keys are all constant: its events have no other class."""
    facts, nodes = checked.facts, checked.graph.nodes
    found: dict[str, list[int]] = {}
    for stream, source in wiring.sources.items():
        keys: set[Any] = set()
        open_nodes: list[tuple[int, Any]] = [(source, ())]
        while open_nodes:
            number, key = open_nodes.pop()
            for reader, _ in wiring.readers[number]:
                if reader == OUT or not wiring.is_stateless(reader):
                    keys.add(key)
                    continue
                is_new = changes_keys(nodes[reader].step)
                open_nodes.append((reader, facts[nodes[reader]].constant if is_new else key))
        if keys and None not in keys:
            found[stream] = sorted({key_class(key) % classes for key in keys})
    return found


def _places(wiring: Wiring, shape: Shape, forms: Mapping[int, str]) -> list[str]:
    """Return where each node runs. `forms`: whether in columns or in rows, by node."""
    behind, front = wiring.behind(), wiring.front()
    single = "where rows are read" if shape in ("classes", "mixed", "program") else "in the leaves, any split"
    first = {
        "classes": "by hash class of its key; closed at ticks of the class",
        "mixed": "by hash class of its key; closed at ticks",
        "sum": "folded in the leaves by block and key; closed at ticks",
        "program": "under its own plan",
    }
    places = [
        "" if isinstance(node.step, steps.Source)
        else first.get(shape, "") if number in front and number not in behind
        else "at ticks of its class" if number in behind and shape == "classes"
        else "at ticks" if number in behind
        else single
        for number, node in enumerate(wiring.graph.nodes)
    ]  # fmt: skip
    return [f"{place}; {forms[number]}" if number in forms else place for number, place in enumerate(places)]


def refuse(graph: Graph, wiring: Wiring) -> None:
    """Raise FlowError if a step cannot be compiled."""
    front = {graph.nodes[number] for number in wiring.front()}
    mistakes = []
    for node in graph.nodes:
        template = ordered_template(node.step)
        problem, fix = "", ""
        if isinstance(node.step, steps.Into) and (node not in front or len(wiring.stateful) > 1):
            problem = "gives a program the items of closed blocks, and only items of streams reach a program as events"
            fix = "End this flow here with a sink, and run the program as a job over what it writes; or put into() before the steps that keep something"
        if template is not None and has_end(template) and isinstance(graph.clock, On):
            problem = "does something at the end of the input, and the last marker of a stream does not say that it is the last"
            fix = 'Take another clock or none; for windows by count give partial="drop"'
        if problem:
            text = f"cannot be run, though denote says what it means: it {problem}"
            place, drawing = str(node.place or ""), graph.drawn(node)
            mistakes.append(Mistake("F00", node.title, text, place, fix=fix, drawing=drawing))
    if mistakes:
        raise FlowError.of(graph.name, mistakes)


def _closers(checked: Checked, wiring: Wiring, bound: Bound) -> dict[int, Closer]:
    clock = checked.graph.clock
    period = clock.ticks if isinstance(clock, Every) else 0
    found = {
        number: closer_of(
            node.step,
            period,
            bound,
            is_ordered=bool(node.inputs) and checked.types[node.inputs[0]].order == "O",
        )
        for number, node in enumerate(checked.graph.nodes)
        if number in wiring.stateful
    }
    return {number: closer for number, closer in found.items() if closer is not None}


def _ordered(checked: Checked, wiring: Wiring) -> dict[int, KeyedOrdered]:
    found = {number: ordered_template(checked.graph.nodes[number].step) for number in wiring.stateful}
    return {number: template for number, template in found.items() if template is not None}


def ordered_template(step: steps.Step) -> KeyedOrdered | None:
    """Return the template of a step that sees the items of a key in order, None for other steps."""
    if isinstance(step, steps.Fold):
        return fold_template(step.function, step.start, step.over)
    template = getattr(step, "template", None)
    return template if isinstance(template, KeyedOrdered) else None


def _needs_arrival(checked: Checked, node: Node) -> bool:
    """Return whether a step that waits for the end of a block depends on the order in which the items of a key came."""
    if not node.inputs or checked.types[node.inputs[0]].order != "O":
        return False
    return isinstance(node.step, steps.Block) or (
        isinstance(node.step, steps.Sort) and node.step.ties != "value"
    )


class _Tagging:
    """Makes the events of a program that ends a flow."""

    def __init__(self, wiring: Wiring, step: steps.Into) -> None:
        self._wiring, self._step = wiring, step
        self._sources = wiring.sources

    def __call__(self, stream: str, ts: int, value: Any) -> list[tuple[Tag, Any]]:
        step, made = self._step, list[tuple[Tag, Any]]()

        def to(_node: int, _port: int, key: Any, value: Any) -> None:
            made.append((step.tag(key, value), step.payload(key, value) if step.payload else value))

        self._wiring.run(self._sources[stream], (), value, ts, to)
        return made
