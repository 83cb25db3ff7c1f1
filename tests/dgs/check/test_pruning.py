"""Pruned counterexamples: unneeded events and payloads are removed."""

from __future__ import annotations

from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import World
from dgs.check.search.pruning import Payloads, pruned
from dgs.model.events import Event
from tests.gallery.wrong import VALUE, Window


def events(*payloads):
    return Scenario(tuple(Event(VALUE(), "value", ts, one) for ts, one in enumerate(payloads)))


def payloads_of(scenario):
    return [event.payload for event in scenario.every_event()]


def prune(scenario, is_broken, *seen):
    payloads = Payloads()
    payloads.see(events(*seen))
    found = pruned(
        World(Window(), (VALUE(),), {}), scenario, lambda one: is_broken(payloads_of(one)), payloads
    )
    return payloads_of(found)


def test_pruning_leaves_out_single_events():
    assert prune(events(1, 7, 2), lambda values: 7 in values) == [7]


def test_pruning_leaves_out_two_events_that_belong_together():
    assert prune(events(1, 2, 7), lambda values: 7 in values and len(values) % 2 == 1) == [7]


def test_pruning_draws_other_payloads_where_that_saves_an_event():
    assert prune(events(3, 3, 3), lambda values: sum(values) == 9, 4, 5, 3) == [5, 4]


def test_pruning_makes_payloads_simpler():
    assert prune(events(300), lambda values: values != [], 0, 5) == [0]
