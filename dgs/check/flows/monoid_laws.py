"""The laws of the monoids of a flow's steps, tried on the items that an input gives each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import pairwise, product
from typing import Any

from dgs.check.flows.trials import Equal, Trial
from dgs.check.scenarios.equality import close
from dgs.flow import steps
from dgs.flow.batches.owned_states import lift_of
from dgs.flow.flow_graph import Node
from dgs.flow.mistakes import Mistake
from dgs.flow.templates import KeyedUnordered
from dgs.model.user_code import shown
from dgs.monoids import MeanExact, SumExact

FEW = 4
"""The number of states of a monoid of which all triples are tried."""


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
