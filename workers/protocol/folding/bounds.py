"""Bounds: every number by which the protocol chooses between ways that give the same outputs.

None of them may matter to outputs, states or positions. The simulation draws them for every seed, so that small workloads take every
way: production uses the defaults, which were measured.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of the workers and hosts of a run.

    In flight, at a worker with children: `first_in_flight` synchronisations before anything is known, `least_in_flight` at least,
    `growth` times as many after a round that was fast, for at most `seconds_in_flight` once it is known how long others took;
    `most_requests` of the parent are passed on at once where the subtree accumulates; `most_windows`, partial states that one answer
    of a leaf carries at most.

    Folding: up to `few_events` are folded one by one even where there is an `update_batch`, a call of which costs more;
    `events_at_once` are turned into Python objects at a time, so that their columns stay in the cache; where one event in `dense`
    emits, outputs are counted after every event; stretches of fewer than `short_stretch` events on average cost more than merging;
    `singly`, so many events for which `update_batch` has failed are folded with `update`.

    Lanes: up to `most_single_tags` listed tags of a kind with a predicate rule get a lane each, more share one; up to `few_lanes`, a
    pass over a batch for each is cheaper than sorting it; with more than `most_remembered` tags, those whose lane is known are forgotten.
    """

    first_in_flight: int = 4
    least_in_flight: int = 2
    growth: int = 4
    seconds_in_flight: float = 0.25
    most_requests: int = 4096
    most_windows: int = 4096
    few_events: int = 32
    events_at_once: int = 4096
    dense: int = 4
    short_stretch: int = 16
    singly: int = 32
    most_single_tags: int = 64
    few_lanes: int = 8
    most_remembered: int = 2**20


BOUNDS = Bounds()
"""The bounds of production."""
