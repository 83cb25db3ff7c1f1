"""The laws of the steps of a flow, tried on the blocks that an input gives each step.

A law yields mistakes: the step, its place, and the two sides that should be equal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from itertools import pairwise, product
from typing import Any

from dgs import codec
from dgs.check.flows.kept_outside import KeptOutside
from dgs.check.scenarios.equality import close
from dgs.errors.raised import RAISED
from dgs.flow import steps
from dgs.flow.batches.owned_states import lift_of
from dgs.flow.definition import Flow
from dgs.flow.denotation import Block, Denotation, Inputs, Item
from dgs.flow.flow_graph import Node
from dgs.flow.mistakes import FlowError, Mistake
from dgs.flow.templates import KeyedOrdered, KeyedUnordered, Stateless, Template, fold_template
from dgs.model import columns
from dgs.model.events import EventBatch
from dgs.model.user_code import shown
from dgs.monoids import MeanExact, SumExact

Equal = Callable[[Any, Any], bool]

TOLERANCE = 1e-9
"""The relative difference of floats that another order of joins may make."""
ORDERS = 3
"""The number of other orders to try."""
FEW = 4
"""The number of states of a monoid of which all triples are tried."""


def equal_within(tolerance: float | None) -> Equal:
    """Return the equality of values in which floats may differ by a relative tolerance."""
    return close(TOLERANCE if tolerance is None else tolerance)


class Trial:
    """One input of a flow, with the blocks of each edge. `equal`: compares two values; `kept`: what the functions keep outside of their state."""

    def __init__(self, flow: Flow, inputs: Inputs, seed: int, equal: Equal, kept: KeptOutside) -> None:
        self._kept = kept
        self.graph, self.types = flow.graph, flow.checked.types
        self.rnd, self.equal = random.Random(seed), equal  # noqa: S311 - reproducible
        self.inputs = inputs
        self._meaning = Denotation(self.graph, self.types, inputs)

    def nodes(self) -> Iterator[tuple[Node, list[list[Block]]]]:
        """Yield the steps, each with the blocks of its inputs. Raises what a step raises, with a note that names the step."""
        for node in self.graph.nodes:
            inputs = [self._blocks(one) for one in node.inputs]
            if not isinstance(node.step, (steps.Source, steps.Merge, steps.Into)):
                yield node, inputs
        if self.graph.result is not None:
            self._blocks(self.graph.result)

    def _blocks(self, node: Node) -> list[Block]:
        if isinstance(node.step, steps.Into):
            return []
        self._kept.put_back()
        return self._meaning.blocks(node)

    @property
    def end(self) -> int | None:
        """The time of the last marker; None without a clock or rows."""
        return self._meaning.ends[-1] if self._meaning.ends else None

    def first(self, node: Node) -> list[Block]:
        """Return the result of the first call of a step."""
        return self._blocks(node)

    def given(self, node: Node, inputs: list[list[Block]]) -> list[Block]:
        """Return the result of a step for blocks of its inputs."""
        self._kept.put_back()
        return self._meaning.given(node, deepcopy(inputs))

    def mistake(  # noqa: PLR0917 - the parts of a sentence
        self, code: str, node: Node, problem: str, one: str, other: str, fix: str
    ) -> Mistake:
        """Return a mistake at a step."""
        return Mistake(code, node.title, problem, str(node.place or ""), one, other, fix)


def order_of_items(trial: Trial) -> Iterator[Mistake]:
    """F21: a step gives the same result for inputs that are equivalent by the type that it needs."""
    fix = "Let it depend on the key and the value only; a join of a monoid must be commutative, so complete ties"
    for node, inputs in trial.nodes():
        in_order = _needs_order(trial, node)
        expected = trial.first(node)
        if not _same(trial, in_order, expected, again := trial.given(node, inputs)):
            problem = "gives something else when it gets the same items again"
            yield trial.mistake("F21", node, problem, _told(expected), _told(again), fix)
            continue
        for _ in range(ORDERS):
            other = [[_permuted(trial.rnd, block, in_order) for block in blocks] for blocks in inputs]
            if not _same(trial, in_order, expected, found := trial.given(node, other)):
                what = "of different keys " if in_order else ""
                problem = f"depends on the order of independent items {what}".rstrip()
                yield trial.mistake(
                    "F21", node, problem, f"{_told(inputs[0])} give {_told(expected)}",
                    f"{_told(other[0])} give {_told(found)}", fix,
                )  # fmt: skip
                break


def _needs_order(trial: Trial, node: Node) -> bool:
    step = node.step
    if isinstance(step, steps.Fold) or isinstance(getattr(step, "template", None), KeyedOrdered):
        return True
    return isinstance(step, (steps.Sort, steps.Block)) and trial.types[node.inputs[0]].order == "O"


def _permuted(rnd: random.Random, block: Block, in_order: bool) -> Block:
    """Return the items in another order; with `in_order` items of one key keep theirs."""
    mixed = rnd.sample(block, len(block))
    if not in_order:
        return mixed
    of_key: dict[Any, list[Item]] = {}
    for item in reversed(block):
        of_key.setdefault(item.key, []).append(item)
    return [of_key[item.key].pop() for item in mixed]


def _same(trial: Trial, in_order: bool, one: list[Block], other: list[Block]) -> bool:
    """Compare blocks: as sequences for each key, or as bags."""
    return all(_same_block(trial, in_order, a, b) for a, b in zip(one, other, strict=True))


def _same_block(trial: Trial, in_order: bool, one: Block, other: Block) -> bool:
    sides = []
    for block in (one, other):
        traces: dict[bytes, list[Any]] = {}
        for item in block:
            traces.setdefault(codec.encode(item.key), []).append([item.value, item.at])
        sides.append({key: traces[key] for key in sorted(traces)})
    if sides[0].keys() != sides[1].keys():
        return False
    return all(
        len(trace) == len(sides[1][key])
        and (trial.equal(trace, sides[1][key]) if in_order else _same_bag(trial, trace, sides[1][key]))
        for key, trace in sides[0].items()
    )


def _same_bag(trial: Trial, one: list[Any], other: list[Any]) -> bool:
    left = list(other)
    for value in one:
        place = next((i for i, it in enumerate(left) if trial.equal(value, it)), None)
        if place is None:
            return False
        left.pop(place)
    return True


def _told(blocks: list[Block]) -> str:
    return shown([(item.key, item.value) for block in blocks for item in block])


def laws_of_monoids(trial: Trial) -> Iterator[Mistake]:
    """F22: identity() is neutral, and joining is associative, on the states of items."""
    for node, (blocks, *_) in trial.nodes():
        if (lifting := _lifting(node)) is None:
            continue
        monoid, lift = lifting
        states = [lift(item.key, item.value) for block in blocks for item in block]
        is_exact = isinstance(monoid, (SumExact, MeanExact)) or getattr(monoid, "exact", False)
        equal = close(0) if is_exact else trial.equal

        def join(left: Any, right: Any, monoid: Any = monoid) -> Any:
            return monoid.join(deepcopy(left), deepcopy(right))

        def differs(one: Any, other: Any, monoid: Any = monoid, equal: Equal = equal) -> bool:
            return not equal(monoid.result(deepcopy(one)), monoid.result(deepcopy(other)))

        fix = "Mend the monoid, or take one of dgs.monoids"
        for a in states:
            for name, found in (
                ("join(identity(), a)", join(monoid.identity(), a)),
                ("join(a, identity())", join(a, monoid.identity())),
            ):
                if differs(a, found):
                    one, other = f"a = {shown(a)}", f"{name} = {shown(found)}"
                    yield trial.mistake(
                        "F22", node, "has a monoid whose identity() is not neutral", one, other, fix
                    )
                    return
        for a, b, c in product(states[:FEW], repeat=3):
            one, other = join(join(a, b), c), join(a, join(b, c))
            if differs(one, other):
                of = f"with a = {shown(a)}, b = {shown(b)}, c = {shown(c)}"
                yield trial.mistake(
                    "F22", node, f"has a monoid that is not associative, {of}", f"join(join(a, b), c) = {shown(one)}",
                    f"join(a, join(b, c)) = {shown(other)}", "Take SUM_EXACT for floats" if is_exact else fix,
                )  # fmt: skip
                return


def _lifting(node: Node) -> tuple[Any, Callable[[Any, Any], Any]] | None:
    """Return the monoid of a step and its `lift` of a key and a value; None if it has none."""
    step = node.step
    if isinstance(step, steps.Aggregate):
        lift = lift_of(step.monoid)
        return step.monoid, lambda _, value: lift(value)
    template = getattr(step, "template", None)
    return (template.monoid, template.lift) if isinstance(template, KeyedUnordered) else None


def joins_change_no_values(trial: Trial) -> Iterator[Mistake]:
    """F22: a join changes the states it gets only: not the values of items, and not what lift and identity give the next time."""
    for node, (blocks, *_) in trial.nodes():
        if (lifting := _lifting(node)) is None:
            continue
        monoid, lift = lifting
        values = [(item.key, item.value) for block in blocks for item in block]
        given = deepcopy(values)
        states = [lift(key, value) for key, value in given]
        before = deepcopy([monoid.identity(), *states])
        for left, right in pairwise([monoid.identity(), *states]):
            monoid.join(left, right)
        for (_, value), (_, after) in zip(values, given, strict=True):
            if not trial.equal(value, after):
                problem = "has a monoid whose join changes the value that lift got"
                yield trial.mistake("F22", node, problem, shown(value), shown(after), "Let lift give a copy")
                return
        again = [monoid.identity(), *(lift(key, value) for key, value in values)]
        for number, (one, other) in enumerate(zip(before, again, strict=True)):
            if not trial.equal(monoid.result(deepcopy(one)), monoid.result(deepcopy(other))):
                name = "lift" if number else "identity"
                problem = f"has a monoid whose join changes what {name} gives the next time"
                yield trial.mistake(
                    "F22", node, problem, shown(one), shown(other), f"Let {name} make a new state each time"
                )
                return


def law_of_skipping(trial: Trial) -> Iterator[Mistake]:
    """F23: with `idle="skip"` a block without items changes no reachable state of a key."""
    for node, (blocks, *_) in trial.nodes():
        template = getattr(node.step, "template", None)
        if not isinstance(template, KeyedUnordered) or template.idle != "skip":
            continue
        monoid = template.monoid
        for key in {codec.encode(item.key): item.key for block in blocks for item in block}.values():
            state = template.initial_state()
            for block in blocks:
                part = monoid.identity()
                for item in block:
                    if item.key == key:
                        part = monoid.join(part, template.lift(key, deepcopy(item.value)))
                state = template.update_state(state, monoid.result(part))
                after = template.update_state(deepcopy(state), monoid.result(monoid.identity()))
                if not trial.equal(state, after):
                    yield trial.mistake(
                        "F23", node, 'has idle="skip", and a block without items changes the state',
                        shown(state), shown(after), 'Say idle = "all", or return the state as it is',
                    )  # fmt: skip
                    return


def calls_of_emit(trial: Trial) -> Iterator[Mistake]:
    """F24: a template calls emit before it returns, and changes no value afterwards; an ordered one emits a value without a key."""
    for node, (blocks, *_) in trial.nodes():
        step = node.step
        template = (
            fold_template(step.function, step.start, step.over)
            if isinstance(step, steps.Fold)
            else getattr(step, "template", None)
        )
        if isinstance(template, Template):
            with suppress(*RAISED):  # `first` must begin without what the step keeps outside
                trial.first(node)
            emits = _Emits(is_ordered=isinstance(template, KeyedOrdered))
            _call(template, emits, [item for block in blocks for item in block], trial.end)
            if one := emits.first_problem(trial.equal):
                yield trial.mistake("F24", node, one[0], "", "", one[1])
                return


def _call(template: Any, emits: _Emits, items: list[Item], end: int | None) -> None:
    states: dict[Any, Any] = {}
    is_unordered = isinstance(template, KeyedUnordered)
    for item in deepcopy(items):
        with emits as emit:
            if isinstance(template, Stateless):
                template.on_item(item.key, item.value, emit)
                continue
            state = states[item.key] if item.key in states else template.initial_state()
            made = template.on_item(state, item.key, item.value, emit)
            states[item.key] = state if is_unordered else made
    for key, state in states.items():
        if is_unordered:
            part = template.monoid.identity()
            for item in deepcopy(items):
                if item.key == key:
                    part = template.monoid.join(part, template.lift(key, item.value))
            state = template.update_state(state, template.monoid.result(part))  # noqa: PLW2901 - the next one
        with emits as emit:
            template.on_marker(state, key, end, emit)


class _Emits:
    """Makes an `emit` for each call of a method. It notes the first wrong call, and all values with copies."""

    def __init__(self, *, is_ordered: bool) -> None:
        self._problem: tuple[str, str] | None = None
        self._is_ordered = is_ordered
        self._open = 0
        self._values: list[tuple[Any, Any]] = []

    def first_problem(self, equal: Equal) -> tuple[str, str] | None:
        """Return the first mistake, with the change that fixes it."""
        changed = ((value, before) for value, before in self._values if not equal(value, before))
        for value, before in changed if self._problem is None else ():
            what = f"emits a value that it changes afterwards, from {shown(before)} to {shown(value)}"
            return what, "Emit a copy, as in emit(list(state))"
        return self._problem

    def __enter__(self) -> Callable[..., None]:
        self._open += 1
        mine = self._open

        def emit(*given: Any) -> None:
            if mine != self._open:
                problem = "calls emit after its method has returned", "Call emit in the method that gets it"
            elif self._is_ordered and len(given) > 1:
                what = f"emits a key, {shown(given[0])}, and in an ordered step the key stays"
                problem = what, "Emit values; use apply(Stateless) or pairs to change keys"
            elif not self._is_ordered and len(given) == 1:
                problem = f"emits {shown(given[0])} without a key", "Call emit(key, value)"
            else:
                self._values.append((given, deepcopy(given)))
                return
            self._problem = self._problem or problem

        return emit

    def __exit__(self, *_: object) -> None:
        self._open += 1


def forms_for_columns(flow: Flow, inputs: Inputs) -> list[Mistake]:
    """F25: a form for columns does the same as its function. It is tried in the compiled program, where columns run."""
    if all(getattr(node.step, "columns", None) is None for node in flow.graph.nodes):
        return []
    made = flow.compiled()
    if made.reads is not None:  # its steps take rows
        return []
    program = made.program
    for rank, (stream, rows) in enumerate(inputs.items()):
        times, values = [ts for ts, _ in rows], [value for _, value in rows]
        tags = [made.events(stream, 0, None)[0][0]]
        batch = EventBatch.of(stream, rank=rank, tags=tags, ts=times, payload=columns.as_column(values))
        try:
            program.update_batch(program.init(), batch, lambda *_: None)
        except FlowError as error:
            return [Mistake(**one) for one in error.mistakes]
    return []


LAWS = (calls_of_emit, joins_change_no_values, laws_of_monoids, law_of_skipping, order_of_items)
"""In this order: a wrong emit would raise later, and a monoid that breaks its laws would also break the law of orders."""
