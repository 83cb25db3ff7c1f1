"""Predictions: how fast a prepared job would be on more or fewer hosts, and where it stops getting faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dgs.api.costing import KnownCosts
from dgs.api.planning import make_plan
from dgs.api.preparing import Prepared, costs_on
from dgs.planner.drawing.chart import Line, as_svg
from dgs.planner.prediction.latency import Latency
from dgs.planner.prediction.model import Prediction, Predictor
from dgs.planner.topology import Machine

if TYPE_CHECKING:
    from dgs.planner.prediction.costs import Costs

WORTH = 1.1
"""More hosts are worth it if they make a job at least this many times as fast."""


@dataclass(frozen=True, slots=True)
class OnHosts:
    """The prediction for a job on a number of hosts, each with its own core. `workers`: the number in its plan there."""

    hosts: int
    workers: int
    prediction: Prediction
    latency: Latency

    @property
    def bytes_per_second(self) -> float:
        """The bytes between hosts per second at the predicted throughput."""
        return self.prediction.bytes_between * self.prediction.throughput


def costs_of(prepared: Prepared) -> KnownCosts:
    """Return what the job costs: those by which its plan was chosen, if they were measured."""
    known = prepared.costs
    if known is not None and prepared.topology.hosts > 1:
        return known
    return costs_on(replace(prepared.topology, hosts=2), prepared.request, prepared.program)


def predicted(prepared: Prepared, costs: Costs) -> Prediction:
    """Return the prediction for a job as it is: its plan, on its hosts."""
    return Predictor(prepared.program, prepared.topology, costs).predict(prepared.plan)


def predictions(prepared: Prepared, hosts: Sequence[int], costs: Costs) -> list[OnHosts]:
    """Return one prediction per number of hosts. A plan written by hand is kept; else each number gets its cheapest plan."""
    found = []
    for count in hosts:
        topology = replace(prepared.topology, machines=(Machine("predicted", cpus=count),), hosts=count)
        plan = prepared.plan
        if prepared.is_made:
            options = {"name": "cost", "max_leaves": None}
            plan = make_plan(prepared.config, prepared.program, topology, costs=costs, **options)
        predictor = Predictor(prepared.program, topology, costs)
        found.append(OnHosts(count, len(plan), predictor.predict(plan), predictor.latency(plan)))
    return found


def drawn(found: Sequence[OnHosts], name: str) -> str:
    """Return a chart in SVG: predicted events per second over the number of hosts."""
    points = [(float(one.hosts), one.prediction.throughput) for one in found]
    return as_svg(
        [Line("predicted", points, is_measured=False)],
        x="hosts",
        y="events/s",
        title=f"{name}: predicted throughput",
    )


def stops_scaling(found: Sequence[OnHosts]) -> OnHosts | None:
    """Return the first prediction that no larger number of hosts improves by WORTH. None if each is improved."""
    for i, one in enumerate(found[:-1]):
        best = max(later.prediction.throughput for later in found[i + 1 :])
        if best < WORTH * one.prediction.throughput:
            return one
    return None
