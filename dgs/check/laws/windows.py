"""The law of `update_windows`: for each window of a batch, it equals the fold of `update` from the identity."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from dgs.check.drawing.scenarios import MOST_STEPS, Draws
from dgs.check.laws.batches import WatchedBatch, also_large, as_batch, one_stream
from dgs.check.laws.contract import ROUNDING, Finding, Law, compared
from dgs.check.scenarios.equality import Symptom
from dgs.check.scenarios.reachable import folded
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import World, called
from dgs.model.program import window_states

HINTS: dict[Symptom, str] = {
    "rounding": ROUNDING,
    "other": "window i holds rows cuts[i - 1] to cuts[i], from 0 before the first cut and to the end after the last; windows may "
    "be empty, and are then the identity",
}


class WindowsAreFolds(Law):
    """`update_windows(batch, cuts)[i]` = folding `update` from the identity over window i, which emits nothing."""

    name = "windows"
    words = "update_windows equals folding update from the identity over each window"
    after = ("codec", "ownership", "determinism", "C3", "identity", "accumulation")
    fewest = 1

    def missing(self, world: World) -> str | None:
        if not world.program.gives("update_windows"):
            return "the program has no update_windows"
        return None if world.accumulating else "no kind accumulates"

    def draw(self, draws: Draws) -> Scenario:
        accumulating = [tag for tag in draws.world.tags if tag.kind in draws.world.accumulating]
        stream, tags = one_stream(draws, accumulating)
        events = draws.events(tags, MOST_STEPS, least=1, stream=stream)
        rows = list(range(len(events) + 1))
        cuts = sorted(draws.one(rows) for _ in range(draws.one([0, 1, 2, 3])))
        return Scenario(events=events, on=draws.one(["a list", "columns"]), cuts=tuple(cuts))

    def variants(self, world: World, scenario: Scenario) -> Iterator[Scenario]:
        """Yield the scenario, and a copy with large numbers."""
        yield from also_large(world, scenario)

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Compare every window."""
        windows, events = world.program.update_windows, scenario.events
        batch = as_batch(events, as_columns=scenario.on == "columns")
        watched = WatchedBatch(batch)
        made = called("update_windows", windows, batch, np.array(scenario.cuts, dtype=np.int64))
        got = called("update_windows", window_states, made)
        if (changed := watched.finding("update_windows")) is not None:
            return changed
        bounds = [0, *scenario.cuts, len(events)]
        expected: list[Any] = []
        for start, stop in pairwise(bounds):
            state, outputs = folded(world, world.root.name, world.identity(), events[start:stop])
            if any(outputs):
                what = f"{events[start].tag!r} emits, and update_windows cannot"
                return Finding(what, hint="give update_windows only if kinds that accumulate emit nothing")
            expected.append(state)
        names = ("folding update", f"update_windows with cuts {list(scenario.cuts)}")
        if len(expected) == len(got) and all(map(world.states_equal, expected, got)):
            return None
        return compared(
            lambda *_: False, "the partial states differ", (names[0], expected), (names[1], got), HINTS
        )
