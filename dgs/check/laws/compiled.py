"""The law of compiled programs: the compiled update equals the interpreted one, bit for bit, however a run is cut."""

from __future__ import annotations

from typing import Any

import numpy as np

from dgs import codec
from dgs.check.drawing.scenarios import Draws
from dgs.check.drawing.strategies import simplest
from dgs.check.laws.batches import as_batch, cut_at, history_and_batch
from dgs.check.laws.contract import Finding, Law, compared
from dgs.check.scenarios.equality import same
from dgs.check.scenarios.reachable import folded, reached
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import World
from dgs.compiled.compiled_update import CompiledUpdate
from dgs.compiled.lowering.value_types import Refusal
from dgs.compiled.python_loops import python_loop
from dgs.errors import DgsError
from dgs.model.events import Event, EventBatch
from dgs.model.outputs import BatchEmitter, OutputBatch
from dgs.model.program import State

OURS = "this is a bug in dgs, not in the program: please report it. `compile: off` is not affected"


class CompiledEqualsInterpreted(Law):
    """Loops made from `update` = folding `update`, outputs of each event included. Python runs the loops: llvmlite is not needed."""

    name = "compiled"
    words = "the compiled update equals update, for every run, however cut"
    fewest = 1

    def missing(self, world: World) -> str | None:
        state = world.init()
        why = None
        for tag in {tag.kind: tag for tag in reversed(world.tags)}.values():
            update = _compiled(world, world.root.name)
            payload = simplest(world.payloads[tag.kind])
            batch = as_batch([Event(tag, tag.kind, 0, payload)], as_columns=True)
            found = update.text(state, batch)
            if not isinstance(found, Refusal):
                return None
            why = why or f"update is interpreted: {found}"
        return why

    def draw(self, draws: Draws) -> Scenario:
        return history_and_batch(draws)

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Fold the whole batch, and its two parts for a cut in the middle."""
        of, state = reached(world, scenario.steps)
        expected, wanted = folded(world, of, state, scenario.events)
        batch = as_batch(scenario.events, as_columns=scenario.on == "columns")
        update = _compiled(world, of)
        for cut in {0, len(batch) // 2}:
            _, state = reached(world, scenario.steps)
            found = []
            for part in cut_at(batch, cut):
                outputs: list[OutputBatch] = []
                state = update.fold(state, part, outputs)
                found += _by_row(part, outputs)
            broken = _compared("the outputs differ", wanted, found) or _compared(
                "the states differ", expected, state
            )
            if broken is not None:
                return broken
        return None


def _compiled(world: World, of: str) -> CompiledUpdate:
    """Return the compiled update of a state type, whose loops Python runs."""
    update = world.types[of].update

    def interpret(state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        emit = BatchEmitter(batch, outputs)
        for row, event in enumerate(batch.events()):
            state, emitted = world.update(of, state, event)
            if emitted:
                emit(emitted, np.full(len(emitted), row))
        return state

    return CompiledUpdate(update, interpret, translate=python_loop)


def _by_row(batch: EventBatch, outputs: list[OutputBatch]) -> list[list[Any]]:
    first = int(batch.seq[0])
    found: list[list[Any]] = [[] for _ in range(len(batch))]
    for one in outputs:
        for seq, value in zip(np.asarray(one.seq).tolist(), one.to_list(), strict=True):
            found[seq - first].append(value)
    return found


def _compared(what: str, expected: Any, got: Any) -> Finding | None:
    return compared(_to_the_bit, what, ("interpreted", expected), ("compiled", got), {"other": OURS})


def _to_the_bit(left: Any, right: Any) -> bool:
    """Return whether two values have the same codec bytes: 1, 1.0 and True differ."""
    try:
        return codec.encode(left, keeps_order=True) == codec.encode(right, keeps_order=True)
    except DgsError:
        return same(left, right)
