"""Comparing the plan of a run with the best one at the rates that the run has counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dgs.api.costing import typical_costs
from dgs.api.preparing import Prepared, costs_on
from dgs.planner.moving import Counts
from dgs.planner.optimizers.by_name import make_plan
from dgs.planner.prediction.model import Predictor
from dgs.workers.runtime.job import Comparison

if TYPE_CHECKING:
    from dgs.model.tags import Tag
    from dgs.planner.prediction.costs import Costs
    from dgs.planner.topology import Topology

READ_ONCE = frozenset(["socket", "custom", "spark"])
"""Kinds of sources that a run may have open alone, so that nothing is tried on their events while it goes on."""

UNSEEN = 0.01
"""The share of events with new keys, where any key may come: their tags should not be above all others as if they were rare."""


def compared(prepared: Prepared, costs: Costs, home: Mapping[str, int], rates: Counts) -> Comparison:
    """Return the plan that the optimizer `cost` makes at the rates, compared with the run's. `home`: the hosts of its workers now."""
    topology = at_rates(prepared.topology, rates)
    best = make_plan(prepared.config, prepared.program, topology, costs=costs, name="cost")
    predictor = Predictor(prepared.program, topology, costs)
    current, other = predictor.predict(prepared.plan, home), predictor.predict(best)
    return Comparison(best, current.throughput, other.throughput)


def costs_while_running(prepared: Prepared) -> Costs:
    """Return the costs of the job: those its plan was made with, else those of a trial beside the run, or typical ones."""
    if prepared.costs is not None:
        return prepared.costs.costs
    if any(stream.source.kind in READ_ONCE for stream in prepared.config.streams):
        return typical_costs(prepared.program).costs
    return costs_on(prepared.topology, prepared.request, prepared.program).costs


def at_rates(topology: Topology, rates: Counts) -> Topology:
    """Return a topology whose streams have these rates.

    >>> from dgs.model.tag_sets import TagSet
    >>> from dgs.model.tags import Tag
    >>> from dgs.planner.topology import Stream, Topology
    >>> seen = at_rates(Topology([Stream("s", TagSet.everything())]), {("s", Tag("a")): 99.0, ("s", None): 1.0})
    >>> seen.streams[0].rates, seen.streams[0].other_rate
    ({a: 99.0}, 2.0)
    """
    single: dict[str, dict[Tag, float]] = {stream.id: {} for stream in topology.streams}
    others = dict.fromkeys(single, 0.0)
    for (stream, tag), rate in rates.items():
        if tag is None:
            others[stream] += rate
        else:
            single[stream][tag] = rate
    for one in topology.streams:
        if not one.tags.is_finite:
            others[one.id] += UNSEEN * (sum(single[one.id].values()) + others[one.id])
    return replace(
        topology,
        streams=[replace(one, rates=single[one.id], other_rate=others[one.id]) for one in topology.streams],
    )
