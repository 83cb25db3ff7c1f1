"""Trials: an input of a flow with the blocks that it gives each step, and the comparison of blocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from dgs import codec
from dgs.check.flows.kept_outside import KeptOutside
from dgs.check.scenarios.equality import close
from dgs.flow import steps
from dgs.flow.definition import Flow
from dgs.flow.denotation import Block, Denotation, Inputs, Item
from dgs.flow.flow_graph import Node
from dgs.flow.mistakes import Mistake
from dgs.flow.templates import KeyedOrdered
from dgs.model.user_code import shown

Equal = Callable[[Any, Any], bool]

TOLERANCE = 1e-9
"""The relative difference of floats that another order of joins may make."""


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
    def ends(self) -> Sequence[int | None]:
        """The time of each marker; of the only one None without a clock."""
        return self._meaning.ends

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


def needs_order(trial: Trial, node: Node) -> bool:
    """Return whether a step may depend on the order of the items of a key."""
    step = node.step
    if isinstance(step, steps.Fold) or isinstance(getattr(step, "template", None), KeyedOrdered):
        return True
    return isinstance(step, (steps.Sort, steps.Block)) and trial.types[node.inputs[0]].order == "O"


def permuted(rnd: random.Random, block: Block, in_order: bool) -> Block:
    """Return the items in another order; with `in_order` items of one key keep theirs."""
    mixed = rnd.sample(block, len(block))
    if not in_order:
        return mixed
    of_key: dict[Any, list[Item]] = {}
    for item in reversed(block):
        of_key.setdefault(item.key, []).append(item)
    return [of_key[item.key].pop() for item in mixed]


def same(trial: Trial, in_order: bool, one: list[Block], other: list[Block]) -> bool:
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


def told(blocks: list[Block]) -> str:
    """Return the items of blocks for a report."""
    return shown([(item.key, item.value) for block in blocks for item in block])
