"""The laws of the steps of a flow, tried on the blocks that an input gives each step.

A law yields mistakes: the step, its place, and the two sides that should be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

from dgs import codec
from dgs.check.flows.monoid_laws import joins_change_no_values, laws_of_monoids
from dgs.check.flows.trials import Equal, Trial, needs_order, permuted, same, told
from dgs.errors.raised import RAISED
from dgs.flow import steps
from dgs.flow.definition import Flow
from dgs.flow.denotation import Block, Inputs
from dgs.flow.mistakes import FlowError, Mistake
from dgs.flow.templates import KeyedOrdered, KeyedUnordered, Stateless, Template, fold_template
from dgs.model import columns
from dgs.model.events import EventBatch
from dgs.model.user_code import shown

ORDERS = 3
"""The number of other orders to try."""


def order_of_items(trial: Trial) -> Iterator[Mistake]:
    """F21: a step gives the same result for inputs that are equivalent by the type that it needs."""
    fix = "Let it depend on the key and the value only; a join of a monoid must be commutative, so complete ties"
    for node, inputs in trial.nodes():
        in_order = needs_order(trial, node)
        expected = trial.first(node)
        if not same(trial, in_order, expected, again := trial.given(node, inputs)):
            problem = "gives something else when it gets the same items again"
            yield trial.mistake("F21", node, problem, told(expected), told(again), fix)
            continue
        for _ in range(ORDERS):
            other = [[permuted(trial.rnd, block, in_order) for block in blocks] for blocks in inputs]
            if not same(trial, in_order, expected, found := trial.given(node, other)):
                what = "of different keys " if in_order else ""
                problem = f"depends on the order of independent items {what}".rstrip()
                yield trial.mistake(
                    "F21", node, problem, f"{told(inputs[0])} give {told(expected)}",
                    f"{told(other[0])} give {told(found)}", fix,
                )  # fmt: skip
                break


def parts_stand_alone(trial: Trial) -> Iterator[Mistake]:
    """F21: a step on single items gives the same for each item alone, and a step on blocks for each block alone."""
    for node, inputs in trial.nodes():
        if _looks_back(node.step):
            continue
        expected, found = trial.first(node), [list[Any]() for _ in trial.ends]
        for part in _parts(inputs, of_items=not isinstance(node.step, ON_BLOCKS)):
            for number, block in enumerate(trial.given(node, part)):
                found[number] += block
        if not same(trial, False, expected, found):
            problem = "remembers what it got before, which is no state that a checkpoint saves"
            fix = "Keep it in the state of a fold or a template"
            yield trial.mistake("F21", node, problem, told(expected), f"for each alone: {told(found)}", fix)


ON_BLOCKS = (steps.Block, steps.Join, steps.Sort, steps.Aggregate, steps.Fold)
"""The steps that may look at all items of a block."""


def _looks_back(step: steps.Step) -> bool:
    """Return whether a step may look at the items of earlier blocks."""
    template = getattr(step, "template", None)
    is_wide = getattr(step, "over", None) is not None or getattr(step, "idle", "skip") == "all"
    return is_wide or isinstance(template, (KeyedOrdered, KeyedUnordered))


def _parts(inputs: list[list[Block]], *, of_items: bool) -> Iterator[list[list[Block]]]:
    """Yield the inputs of a step with one item or one block each."""
    for number in range(len(inputs[0])):
        blocks = [one[number] for one in inputs]
        for alone in [[[item]] for item in blocks[0]] if of_items else [blocks]:
            yield [[block if at == number else [] for at in range(len(inputs[0]))] for block in alone]


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
            _call(template, emits, blocks, trial.ends)
            if one := emits.first_problem(trial.equal):
                yield trial.mistake("F24", node, one[0], "", "", one[1])
                return


def _call(template: Any, emits: _Emits, blocks: list[Block], ends: Sequence[int | None]) -> None:
    """Call the methods of a template for the items of each block and the marker behind it."""
    states: dict[Any, Any] = {}
    is_unordered = isinstance(template, KeyedUnordered)
    for block, end in zip(deepcopy(blocks), ends, strict=True):
        parts: dict[Any, Any] = {}
        for item in block:
            with emits as emit:
                if isinstance(template, Stateless):
                    template.on_item(item.key, item.value, emit)
                    continue
                state = states[item.key] if item.key in states else template.initial_state()
                made = template.on_item(state, item.key, item.value, emit)
                states[item.key] = state if is_unordered else made
            if is_unordered:
                part = parts[item.key] if item.key in parts else template.monoid.identity()
                parts[item.key] = template.monoid.join(part, template.lift(item.key, item.value))
        for key, before in states.items():
            state = before
            if is_unordered:
                part = parts[key] if key in parts else template.monoid.identity()
                state = template.update_state(state, template.monoid.result(part))
            with emits as emit:
                made = template.on_marker(state, key, end, emit)
            states[key] = state if is_unordered else made


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


LAWS = (
    calls_of_emit,
    joins_change_no_values,
    laws_of_monoids,
    law_of_skipping,
    order_of_items,
    parts_stand_alone,
)
"""In this order: a wrong emit would raise later, and a monoid that breaks its laws would also break the law of orders."""
