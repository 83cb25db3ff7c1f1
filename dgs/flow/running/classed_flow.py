"""The program of a flow whose hash classes of keys are independent: each has its own ticks, and is closed where its items are.

A node is *local* if it does nothing in blocks without items of its class, and keeps no items: other nodes need the first and the last block
of the whole input. Every node has to be local, and no step may give a kept item another key, which may be in another class.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from dgs.flow import steps
from dgs.flow.batches.kept_parts import State, classes_in
from dgs.flow.clock import On
from dgs.flow.flow_graph import Graph
from dgs.flow.flow_program import FlowProgram, Shape
from dgs.flow.panes import TimeWindow
from dgs.flow.templates import FoldOfBlocks, KeyedOrdered, KeyedUnordered, Stateless, has_end, overrides
from dgs.flow.wiring import OUT, Wiring
from dgs.model.dependence import SAME_KEY, Dependence
from dgs.model.events import Event
from dgs.model.outputs import Stamped
from dgs.model.program import Emit, Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag, kind


class ClassedFlow(Program[Any, Any]):
    """The program of a flow of shape classes. State: {class: state of `of_class`}; a class without items so far has none.

    `of_class`: the program of one class, of shape mixed. Its tail comes with the first tick of the class.
    """

    shape: Shape = "classes"

    def __init__(self, of_class: FlowProgram, *, is_ordered: bool) -> None:
        self.of_class, self.is_ordered = of_class, is_ordered
        self.item, self.tick = of_class.item, kind("tick", key=range(of_class.classes))
        self.kinds = (self.item, self.tick)  # type: ignore[misc]  # one for each object
        self.stamps = (self.tick,)  # type: ignore[misc]  # one for each object
        self.accumulates = () if is_ordered else (self.item,)  # type: ignore[misc]  # one for each object
        rules = [(self.tick, self.tick, SAME_KEY), (self.tick, self.item, SAME_KEY)]
        self.depends = Dependence(*rules, *([(self.item, self.item, SAME_KEY)] if is_ordered else []))

    @property
    def name(self) -> str:
        """The name of the flow."""
        return self.of_class.name

    def identity_parts(self) -> dict[str, str]:
        """Return those of one class, and the shape: states of another shape have another form."""
        return {**self.of_class.identity_parts(), "shape": self.shape}

    def hold_at_most(self, buffer_bytes: int) -> None:
        """Note how much a step may keep of one key in one block."""
        self.of_class.hold_at_most(buffer_bytes)

    def when_skipping(self) -> ClassedFlow:
        """Return the program for `on_error: skip`."""
        made = copy(self)  # of the same Python class, which may be one that raises on purpose
        made.of_class = self.of_class.when_skipping()  # type: ignore[assignment]
        return made

    def forms(self) -> Mapping[int, str]:
        """Return nothing: items come one by one, from the places where rows are read."""
        return {}

    def items(self, stream: str, ts: int, value: Any) -> list[tuple[Tag, Any]]:
        """Return the events of an element. No class needs one that only advances the time."""
        return [event for event in self.of_class.items(stream, ts, value) if event[1] is not None]

    def init(self) -> State:
        """Return the state of no class."""
        return {}

    def identity(self) -> State:
        """Return the state of no class."""
        return {}

    def update(self, state: State, event: Event, emit: Emit[Any]) -> State:
        """Give an item or a tick to its class."""
        cls: Any = event.tag.key
        if event.tag.kind == self.item:
            own = state[cls] if cls in state else self.of_class.identity()
            state[cls] = self.of_class.update(own, event, emit)
        elif cls in state:
            if state[cls]["tail"] is None:
                state[cls]["tail"] = self.of_class.init()["tail"]
            state[cls] = self.of_class.update(state[cls], event, lambda made: emit(_of_class(made, cls)))
        return state

    def fork(self, state: State, left: TagSet, right: TagSet) -> tuple[State, State]:  # noqa: ARG002 - the contract
        """Send each class to the side of its items and ticks, which is the same, since they depend on each other."""
        sides: tuple[State, State] = ({}, {})
        items, ticks = (classes_in(right, one, self.of_class.classes) for one in (self.item, self.tick))
        for cls, own in state.items():
            sides[cls in items or cls in ticks][cls] = own
        return sides

    def join(self, left: State, right: State) -> State:
        """Unite the classes, and join those that both states have."""
        for cls, own in right.items():
            left[cls] = self.of_class.join(left[cls], own) if cls in left else own
        return left


def _of_class(made: Any, cls: int) -> Any:
    """Return an output of a class: its stamp has the end of the block as ts, and the class as seq. So no two classes share an id."""
    return made._replace(seq=cls) if type(made) is Stamped else made


def has_local_classes(graph: Graph, wiring: Wiring, ordered: Mapping[int, KeyedOrdered]) -> bool:
    """Return whether the classes of keys are independent."""
    # The part after the last marker ends with the whole input.
    closes = "drop" if isinstance(graph.clock, On) else "close"
    if graph.end != closes or not wiring.stateful:
        return False
    is_local = all(_is_local(graph.nodes[number].step, ordered.get(number)) for number in wiring.stateful)
    return is_local and not any(_gives_other_keys(wiring, number) for number in wiring.stateful)


def _is_local(step: steps.Step, template: KeyedOrdered | None) -> bool:
    """Return whether a node does nothing in blocks without items of its class, and keeps no items, which are bounded for all keys together."""
    if template is not None:
        return isinstance(template, FoldOfBlocks) or not (
            overrides(template, "on_marker") or has_end(template)
        )
    match step:
        case steps.Aggregate(over=TimeWindow(size=size, slide=slide), idle=idle):
            return idle == "skip" and size == slide
        case steps.Aggregate(idle=idle):
            return idle == "skip"
        case steps.Apply(template=KeyedUnordered() as unordered):
            return unordered.idle == "skip" and not overrides(unordered, "on_item")
    return False


def _gives_other_keys(wiring: Wiring, number: int) -> bool:
    """Return whether kept items of a node go to another node that keeps something, under other keys."""
    open_nodes = [(number, changes_keys(wiring.graph.nodes[number].step))]
    while open_nodes:
        node, is_changed = open_nodes.pop()
        for reader, _ in wiring.readers[node]:
            if reader == OUT:
                continue
            if not wiring.is_stateless(reader):
                if is_changed:
                    return True
                continue
            open_nodes.append((reader, is_changed or changes_keys(wiring.graph.nodes[reader].step)))
    return False


def changes_keys(step: steps.Step) -> bool:
    """Return whether a step on single items may give them other keys."""
    kinds = (steps.KeyBy, steps.Pairs)
    return isinstance(step, kinds) or isinstance(getattr(step, "template", None), (Stateless, KeyedUnordered))
