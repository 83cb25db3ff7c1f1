"""The choice of the plan with the fastest prediction, with the reason in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dgs.model.program import Program
from dgs.planner.plan import Plan
from dgs.planner.prediction.costs import Costs
from dgs.planner.prediction.model import Prediction, Predictor
from dgs.planner.topology import Topology

LEAST_GAIN = 1.1
"""The least gain over one worker for which several are chosen, since predictions are not exact."""

LEAST_GAIN_ALONE = 1.6
"""The same in one process, where only less merging can gain anything, and typical costs overrate that for slow updates."""


UNKNOWN = "no rate of its streams is known, so plans cannot be compared: give `rate:`"


def fastest(plans: Sequence[Plan], program: Program, topology: Topology, costs: Costs) -> Plan:
    """Return the plan that is predicted to be the fastest, with the reason. The first is one worker."""
    predictor = Predictor(program, topology, costs)
    predicted = [predictor.predict(plan) for plan in plans]
    one = predicted[0].throughput
    if not any(prediction.throughput for prediction in predicted):
        return replace(plans[0], because=UNKNOWN)
    best = max(range(len(plans)), key=lambda i: (predicted[i].throughput, -len(plans[i])))
    least_gain = LEAST_GAIN if topology.hosts > 1 else LEAST_GAIN_ALONE
    if best and predicted[best].throughput < least_gain * one:
        best = 0
    other = max(
        (i for i in range(len(plans)) if i and i != best), key=lambda i: predicted[i].throughput, default=0
    )
    against = other if best == 0 else 0
    because = _clause(plans[best], predicted[best])
    if against != best:
        because += f"; {_clause(plans[against], predicted[against])}, where {predicted[against].limit}"
    return replace(plans[best], because=because)


def _clause(plan: Plan, prediction: Prediction) -> str:
    workers = "one worker" if len(plan) == 1 else f"{len(plan)} workers"
    return f"{workers}: {rate(prediction.throughput)}"


def rate(events: float) -> str:
    """Return events per second as people write them.

    >>> rate(1_900_000.0), rate(5600.0), rate(3.0)
    ('1.9 M events/s', '5.6 k events/s', '3 events/s')
    """
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if events >= size:
            return f"{events / size:.3g}{unit} events/s"
    return f"{events:.3g} events/s"
