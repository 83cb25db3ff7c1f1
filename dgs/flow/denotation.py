"""The denotation of a flow: a function from its input streams to blocks of items, in plain loops over whole inputs.

It is the oracle of the compiler, and shares no code with it. An edge denotes a list of blocks. A block is a list of items; on an ordered
edge the order of the items of one key counts, on an unordered one no order counts.
"""

from __future__ import annotations

import traceback
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy, deepcopy
from functools import reduce
from typing import Any, NamedTuple

from dgs import codec
from dgs.errors.raised import RAISED
from dgs.flow import steps
from dgs.flow.clock import Every, On
from dgs.flow.edge_types import EdgeType
from dgs.flow.flow_graph import Graph, Node, name_step
from dgs.flow.panes import TimeWindow
from dgs.flow.templates import FoldOfBlocks, KeyedOrdered, KeyedUnordered, Stateless, fold_template, overrides
from dgs.model.events import Event
from dgs.model.key_forms import check_key, shown_form
from dgs.model.outputs import emitted_one_by_one

Inputs = Mapping[str, Iterable[tuple[int, Any]]]
"""The elements of each stream, (ts, value), in order of ts. The order of the streams breaks ties between them."""


class Item(NamedTuple):
    """An item: `at` is the ts of an element, or after a marker the end of the block; `place` is its place in the total order, if it has one."""

    key: Any
    value: Any
    at: int | None
    place: tuple[int, ...] = ()


Block = list[Item]


class Denotation:
    """The blocks of each node of a checked flow, for given inputs. `types`: the type of each node's edge."""

    def __init__(self, graph: Graph, types: Mapping[Node, EdgeType], inputs: Inputs) -> None:
        self.graph, self.types = graph, types
        ranked = {name: list(elements) for name, elements in inputs.items()}
        self.elements = {
            name: [Item((), value, ts, (ts, rank, row)) for row, (ts, value) in enumerate(elements)]
            for rank, (name, elements) in enumerate(ranked.items())
        }
        self.ends = self._ends()
        self._found: dict[Node, list[Block]] = {}

    def blocks(self, node: Node) -> list[Block]:
        """Return the blocks of a node's edge."""
        if node not in self._found:
            self._found[node] = self._meaning(node)
        return self._found[node]

    def given(self, node: Node, inputs: list[list[Block]]) -> list[Block]:
        """Return the blocks of a node's edge, if its inputs had these blocks."""
        other = copy(self)
        other._found = dict(zip(node.inputs, inputs, strict=True))  # noqa: SLF001 - another one of this class
        return other._meaning(node)  # noqa: SLF001

    def outputs(self) -> list[Any]:
        """Return the outputs of the flow, in order of blocks."""
        result = self.graph.result
        if result is None:
            return []
        if isinstance(result.step, steps.Into):
            with self._naming(result):
                return _outputs_of_program(
                    result.step, [item for block in self.blocks(result.inputs[0]) for item in block]
                )
        return [item.value for block in self.blocks(result) for item in block]

    def _ends(self) -> list[int | None]:
        """Return the end of each block; set `first`, the number of the first one, and `open`, the number of blocks without a marker."""
        clock, drops = self.graph.clock, self.graph.end == "drop"
        self.open = int(drops)
        times = [item.place for items in self.elements.values() for item in items]
        self.first = 0
        if not times:
            return []
        if clock is None:
            return [None]
        if isinstance(clock, On):
            self.markers = [item.place for item in self.elements[clock.stream]]
            is_open = not self.markers or max(times) > self.markers[-1]
            self.open = int(drops and is_open)
            ends: list[int | None] = [place[0] for place in self.markers]
            return ends + [max(times)[0] + 1] * is_open
        self.first = clock.block_of(min(times)[0])
        last = clock.block_of(max(times)[0])
        if not drops:
            last = max([last, *(self._aligned(last, node) for node in self.graph.nodes)])
        return [clock.end_of(block) for block in range(self.first, last + 1)]

    def _closed(self, blocks: list[Block]) -> list[Block]:
        """Return the blocks of a step that waits for markers: empty ones without a marker."""
        return [[] if number >= len(blocks) - self.open else block for number, block in enumerate(blocks)]

    def _aligned(self, last: int, node: Node) -> int:
        """Return the block that ends the window of a node in which block `last` is."""
        slide = self._window(node)[1]
        return last + (-(last + 1)) % slide

    def _window(self, node: Node) -> tuple[int, int]:
        over, clock = getattr(node.step, "over", None), self.graph.clock
        return (
            over.blocks(clock.ticks) if isinstance(over, TimeWindow) and isinstance(clock, Every) else (1, 1)
        )

    def _block_of(self, place: tuple[int, ...]) -> int:
        clock = self.graph.clock
        if isinstance(clock, On):
            return bisect(self.markers, place)
        return 0 if clock is None else clock.block_of(place[0]) - self.first

    def _meaning(self, node: Node) -> list[Block]:
        with self._naming(node):
            return self._of_step(node)

    @contextmanager
    def _naming(self, node: Node) -> Iterator[None]:
        """Name the step in an error of the user's code."""
        try:
            yield
        except RAISED as error:
            name_step(error, node.title, node.place, *_met(error))
            raise

    def _of_step(self, node: Node) -> list[Block]:  # noqa: PLR0911 - one return a step
        step, inputs = node.step, [self.blocks(one) for one in node.inputs]
        if isinstance(step, steps.Source):
            return self._source(step.stream)
        if isinstance(step, steps.Merge):
            return [self._merged(node, parts) for parts in zip(*inputs, strict=True)]
        if isinstance(step, steps.Join):
            sides = [[self._bag(node, side, block) for block in blocks] for side, blocks in enumerate(inputs)]
            return self._closed([_joined(step, *pair) for pair in zip(*sides, self.ends, strict=True)])
        if isinstance(step, steps.Aggregate):
            return self._closed(self._aggregated(node, step, inputs[0]))
        if isinstance(step, (steps.Sort, steps.Block)):
            bags = [self._bag(node, 0, block) for block in inputs[0]]
            one = _sorted if isinstance(step, steps.Sort) else _of_block
            return self._closed([one(step, bag, at) for bag, at in zip(bags, self.ends, strict=True)])
        template = (
            fold_template(step.function, step.start, step.over) if isinstance(step, steps.Fold) else None
        )
        template = template or getattr(step, "template", None)
        if isinstance(template, KeyedOrdered):
            return self._ordered(template, inputs[0])
        if isinstance(template, KeyedUnordered):
            return self._closed(self._unordered(template, inputs[0]))
        return [[made for item in block for made in _stateless(step, item)] for block in inputs[0]]

    def _source(self, stream: str) -> list[Block]:
        blocks: list[Block] = [[] for _ in self.ends]
        for item in sorted(self.elements[stream], key=lambda item: item.place):
            blocks[self._block_of(item.place)].append(item)
        return blocks

    def _merged(self, node: Node, parts: tuple[Block, ...]) -> Block:
        items = [item for part in parts for item in part]
        return sorted(items, key=lambda item: item.place) if self.types[node].is_placed else items

    def _bag(self, node: Node, side: int, block: Block) -> Block:
        """Return a block in the order of keys; on an unordered edge, with the values of a key in canonical order."""
        forms = _forms(block)
        block = [item._replace(key=forms[item.key]) for item in block]
        if self.types[node.inputs[side]].order == "O":
            return sorted(block, key=lambda item: codec.encode(item.key))
        return sorted(block, key=lambda item: tuple(map(codec.encode, (item.key, item.value, item.at))))

    def _aggregated(self, node: Node, step: steps.Aggregate, blocks: list[Block]) -> list[Block]:
        """Return the blocks of an aggregate: the results of the windows that end with each block."""
        size, slide = self._window(node)
        found, forms, totals = list[Block](), dict[Any, Any](), dict[Any, Any]()
        for number, at in enumerate(self.ends):
            forms = {**_forms(blocks[number]), **forms}  # a key keeps its form as long as it has a value
            start = max(0, number - size + 1)
            window = [item for block in blocks[start : number + 1] for item in block]
            active = {item.key for item in window}
            is_due = (self.first + number + 1) % slide == 0
            keys = (forms if step.idle == "all" else active) if is_due else ()
            for item in blocks[number] if step.over == "history" else ():
                before = totals[item.key] if item.key in totals else step.monoid.identity()
                totals[item.key] = step.monoid.join(before, deepcopy(step.monoid.lift(item.value)))
            lifted = (
                {key: [deepcopy(totals[key])] for key in keys}
                if step.over == "history"
                else _lifted(step.monoid, window, keys)
            )
            found.append(
                [
                    _folded(step.monoid, key, lifted[key], at)
                    for key in _ordered_keys(forms[one] for one in keys)
                ]
            )
            if is_due and step.idle == "skip":
                has_panes = active if isinstance(step.over, TimeWindow) else set[Any]()
                forms = {key: form for key, form in forms.items() if key in has_panes}
        return found

    def _ordered(self, template: KeyedOrdered, blocks: list[Block]) -> list[Block]:
        states: dict[Any, Any] = {}
        found: list[Block] = []
        for number, (block, end) in enumerate(zip(blocks, self.ends, strict=True)):
            made: list[Any] = []
            out: Block = []
            for key, value, at, _ in block:
                check_key(key)
                state = states[key] if key in states else template.initial_state()
                states[key] = template.on_item(state, key, value, made.append)
                out += [Item(key, one, at) for one in _taken(made)]
            at = end
            for key in _ordered_keys(states) if number < len(blocks) - self.open else ():
                states[key] = template.on_marker(states[key], key, at, made.append)
                if number == len(blocks) - 1:
                    template.on_end(states[key], key, made.append)
                out += [Item(key, one, at) for one in _taken(made)]
            if isinstance(template, FoldOfBlocks) and not template.keeps_state:
                states.clear()  # each block has keys of its own
            found.append(out)
        return found

    def _unordered(self, template: KeyedUnordered, blocks: list[Block]) -> list[Block]:
        """Return the blocks of a `KeyedUnordered` template by its definition: items see the state of the last marker."""
        monoid, states, start = template.monoid, dict[Any, Any](), template.initial_state()
        found: list[Block] = []
        made: list[Any] = []

        def emit(key: Any, value: Any) -> None:
            made.append((key, value))

        for block, end in zip(blocks, self.ends, strict=True):
            out: Block = []
            forms = _forms(block)
            parts = {form: monoid.identity() for form in forms.values()}
            for key, value, at, _ in block:
                if overrides(template, "on_item"):
                    snapshot = deepcopy(states.get(key, start))
                    template.on_item(snapshot, forms[key], value, emit)
                    out += [Item(k, v, at) for k, v in _taken(made)]
                parts[key] = monoid.join(parts[key], deepcopy(template.lift(key, value)))
            at = end
            for key in _ordered_keys({**states, **parts} if template.idle == "all" else parts):
                part = monoid.result(parts.get(key, monoid.identity()))
                states[key] = template.update_state(deepcopy(states.get(key, start)), part)
                template.on_marker(states[key], key, at, emit)
                out += [Item(k, v, at) for k, v in _taken(made)]
            if template.idle == "all":
                start = template.update_state(start, monoid.result(monoid.identity()))
            found.append(out)
        return found


def _taken(made: list[Any]) -> list[Any]:
    taken = made[:]
    made.clear()
    return taken


def _ordered_keys(keys: Iterable[Any]) -> list[Any]:
    return sorted(keys, key=codec.encode)


def _forms(block: Block) -> dict[Any, Any]:
    forms: dict[Any, list[Any]] = {}
    for item in block:
        check_key(item.key)
        forms.setdefault(item.key, []).append(item.key)
    return {key: shown_form(*equal) for key, equal in forms.items()}


def _lifted(monoid: Any, window: Block, keys: Iterable[Any]) -> dict[Any, list[Any]]:
    lifted = {key: list[Any]() for key in keys}
    for item in window:
        if item.key in lifted:
            lifted[item.key].append(deepcopy(monoid.lift(item.value)))  # which `join` may change
    return lifted


def _folded(monoid: Any, key: Any, lifted: list[Any], at: int | None) -> Item:
    return Item(key, monoid.result(reduce(monoid.join, lifted, monoid.identity())), at)


def _stateless(step: steps.Step, item: Item) -> Block:  # noqa: C901, PLR0911 - one return a step
    """Return the items that a step without state makes of an item."""
    key, value, at, place = item
    match step:
        case steps.Map(function):
            return [item._replace(value=function(key, value))]
        case steps.Each(function):
            return [item._replace(value=function(key, value, at))]
        case steps.Filter(function):
            return [item] if function(key, value) else []
        case steps.FilterBy(field, values):
            return [item] if steps.field_of(value, field) in values else []
        case steps.Project(fields):
            return [item._replace(value={name: steps.field_of(value, name) for name in fields})]
        case steps.KeyBy():
            return [item._replace(key=steps.key_of(step, key, value))]
        case steps.Pairs(function):
            new_key, new_value = function(key, value)
            return [Item(new_key, new_value, at)]
        case steps.Lookup(table, name, into, missing):
            found = steps.field_of(value, name)
            return (
                []
                if missing == "drop" and found not in table
                else [item._replace(value={**value, into: table[found]})]
            )
        case steps.FlatMap(function):
            return [Item(key, one, at, (*place, row)) for row, one in enumerate(function(key, value))]
    made: Block = []
    if isinstance(step, steps.Apply) and isinstance(step.template, Stateless):
        step.template.on_item(key, value, lambda k, v: made.append(Item(k, v, at)))
    return made


def _sorted(step: Any, block: Block, at: int | None) -> Block:  # noqa: ARG001 - `_met` reads it
    by, found = steps.sort_key(step.by), list[Item]()
    if step.ties == "value":
        block = sorted(block, key=lambda one: (codec.encode(one.value), codec.encode(one.at)))
    for key, items in _groups(block).items():
        found += sorted(items, key=lambda one: by(key, one.value))
    return found


def _groups(block: Block) -> dict[Any, Block]:
    groups: dict[Any, Block] = {}
    for item in block:
        groups.setdefault(item.key, []).append(item)
    return groups


def _of_block(step: Any, block: Block, at: int | None) -> Block:
    groups = {key: [item.value for item in items] for key, items in _groups(block).items()}
    return [Item(key, made, at) for key, values in groups.items() for made in step.function(key, values, at)]


def _joined(step: steps.Join, left: Block, right: Block, at: int | None) -> Block:
    pair = step.function or (lambda _, a, b: (a, b))
    pairs = ((a.key, a.value, b.value) for a in left for b in right if a.key == b.key)
    return [Item(key, pair(key, one, other), at) for key, one, other in pairs]


def _outputs_of_program(step: steps.Into, block: Block) -> list[Any]:
    outputs: list[Any] = []
    state = step.program.init()
    for key, value, at, _ in block:
        payload = step.payload(key, value) if step.payload else value
        event = Event(step.tag(key, value), "flow", at or 0, payload)
        state, made = emitted_one_by_one(step.program.update, state, event, step.program.emits_columns)
        outputs += made
    return outputs


def _met(error: BaseException) -> tuple[Any, int | None]:
    """Return the key and the time for which a step raised, from the innermost frame of this module."""
    frames = [
        frame.f_locals
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == __file__
    ]
    for found in reversed(frames):
        if isinstance(item := found.get("item"), Item):
            return item.key, item.at
        if "key" in found:
            return found["key"], next((outer["at"] for outer in reversed(frames) if "at" in outer), None)
    return None, None
