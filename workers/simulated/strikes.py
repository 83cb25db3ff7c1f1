"""Faults that strike a generation in place of one of its steps: it is killed, or something befalls frames between its hosts."""

from __future__ import annotations

import random

from workers.simulated.faults import CrashedError, Faults
from workers.simulated.generation import Generation
from workers.simulated.remains import Remains

LONGEST_DELAY = 50
"""Steps in which nothing comes through an edge that is delayed."""


def strikes(
    rnd: random.Random,
    faults: Faults,
    generation: Generation,
    remains: Remains,
    *,
    may_crash: bool,
    may_break: bool,
) -> bool:
    """Let a fault strike, perhaps; return whether that took the place of a step. Raises CrashedError.

    `may_crash`: whether it may be killed; `may_break`: whether frames may be lost or overtaken, which ends it too.
    """
    if may_crash and rnd.random() < faults.crash_chance:
        raise CrashedError
    return remains.send_stray(generation) or _strikes_the_network(
        rnd, faults, generation, may_break=may_break
    )


def _strikes_the_network(
    rnd: random.Random, faults: Faults, generation: Generation, *, may_break: bool
) -> bool:
    if faults.delay + faults.swizzle + faults.loss + faults.repetition + faults.reordering == 0:
        return False
    edges = generation.busy_edges()
    if not edges:
        return False
    network, now = generation.network, generation.world.now
    if rnd.random() < faults.delay:
        network.clog(rnd.choice(edges), now + rnd.randint(1, LONGEST_DELAY))
    if rnd.random() < faults.swizzle:
        network.swizzle(rnd, now)
    if rnd.random() < faults.repetition:
        generation.repeat(rnd.choice(edges))
        return True
    if may_break and rnd.random() < faults.reordering:
        network.overtake(rnd.choice(edges))
    if may_break and rnd.random() < faults.loss:
        generation.lose(rnd.choice(edges))
        return True
    return False
