"""Predictions: how fast a prepared job would be on more or fewer hosts, and where it stops getting faster."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.api.comparing import PastRun
from dgs.api.costing import TYPICAL_ORIGIN, KnownCosts
from dgs.api.preparing import Prepared, costs_on
from dgs.errors import UsageError
from dgs.job.document import parse
from dgs.job.run_directory import read_object
from dgs.job.units import MOST_PER_SECOND, parse_rate
from dgs.planner.drawing.chart import Line, as_svg
from dgs.planner.given_rates import with_rates
from dgs.planner.optimizers.by_name import make_plan
from dgs.planner.prediction.costs import LOADING
from dgs.planner.prediction.latency import Latency
from dgs.planner.prediction.model import Prediction, Predictor
from dgs.planner.topology import Machine
from dgs.workers.protocol.folding.to_compile import COMPILER
from dgs.workers.virtual.virtual_figures import Simulated, in_virtual_time

if TYPE_CHECKING:
    from dgs.planner.prediction.costs import Costs

WORTH = 1.1
"""More hosts are worth it if they multiply the speed of a job by at least this factor."""

MOST_SIMULATED = 64
"""The most hosts of a run in virtual time."""


@dataclass(frozen=True, slots=True)
class OnHosts:
    """The prediction for a job on a number of hosts, each with its own core. `workers`: the number in its plan there.

    `simulated`: the figures of the same plan in virtual time, None if they were not asked for.
    """

    hosts: int
    workers: int
    prediction: Prediction
    latency: Latency
    simulated: Simulated | None = None

    @property
    def bytes_per_second(self) -> float:
        """The bytes between hosts per second at the predicted throughput."""
        return self.prediction.bytes_between * self.prediction.throughput


def costs_of(prepared: Prepared) -> KnownCosts:
    """Return the costs of the job: those by which its plan was chosen, if they were measured."""
    known = prepared.costs
    if known is not None and (prepared.topology.hosts > 1 or known.origin != TYPICAL_ORIGIN):
        return known
    return costs_on(replace(prepared.topology, hosts=2), prepared.request, prepared.program)


def _given_rates(text: str) -> dict[str, float]:
    """Return rates by name from a text such as `view=5k/s,view(7)=20`, or from a YAML file of them. Raises UsageError, PlanFileError.

    >>> _given_rates("view=5k/s, view(7)=20")
    {'view': 5000.0, 'view(7)': 20.0}
    >>> _given_rates("view('a,b')=5,view(7)=20")
    {"view('a,b')": 5.0, 'view(7)': 20.0}
    """
    if not text:
        raise UsageError(message="--rates is empty: write TAG=RATE,..., or name a file or a run directory")
    if "=" in text and not os.path.exists(text):  # noqa: PTH110 - not if the text is too long for a path
        pairs = [part.rpartition("=")[::2] for part in re.split(r",(?![^(]*\))", text)]
        names = [name.strip() for name, _ in pairs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if "" in names:
            raise UsageError(message=f"--rates {text}: write TAG=RATE,..., such as view=5k/s,view(7)=20")
        if twice is not None:
            raise UsageError(message=f"--rates gives two rates for {twice}")
        return {name.strip(): _rate(rate) for name, rate in pairs}
    try:
        data = parse(Path(text).read_text(encoding="utf-8"), text, {}).data
    except (OSError, UnicodeError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise UsageError(message=f"--rates {text}: {problem}; write TAG=RATE,... or name a file") from None
    if not isinstance(data, dict):
        raise UsageError(message=f"--rates {text}: the file is no mapping of tags to rates")
    return {str(name): _rate(rate) for name, rate in data.items()}


def _rate(text: Any) -> float:
    """Return events per second: a rate with a unit, or a number."""
    try:
        rate = float(text)
    except (TypeError, ValueError):
        try:
            return parse_rate(text)
        except ValueError as error:
            raise UsageError(message=f"--rates: {error}") from None
    if not 0 <= rate <= MOST_PER_SECOND:
        raise UsageError(message=f"--rates: expected a rate such as 100/s, 2k/s or 3/h, got {text!r}")
    return rate


def at_given_rates(prepared: Prepared, text: str) -> Prepared:
    """Return a job at other rates: by name, from a file, or from the report of an earlier run, which also corrects its costs.

    Raises UsageError, PlanFileError, UnknownRateError, ContradictoryRatesError.
    """
    if os.path.isdir(text) or "streams" in read_object(Path(text)):  # noqa: PTH112 - not if the text is too long for a path
        run = PastRun(Path(text))
        topology = run.topology(prepared)
        costs = run.costs(prepared, costs_of(prepared))
        return replace(prepared, topology=topology, costs=costs)
    streams = with_rates(prepared.topology.streams, _given_rates(text))
    return replace(prepared, topology=replace(prepared.topology, streams=streams))


def predicted(prepared: Prepared, costs: Costs) -> Prediction:
    """Return the prediction for a job as it is: its plan, on its hosts, or in this process."""
    loading = LOADING if COMPILER in sys.modules else None
    return Predictor(prepared.program, prepared.topology, costs, loading=loading).predict(prepared.plan)


def predictions(
    prepared: Prepared, hosts: Sequence[int], costs: Costs, *, simulates: bool = False
) -> list[OnHosts]:
    """Return one prediction per number of hosts. A plan written by hand is kept; otherwise each number gets its cheapest plan.

    `simulates`: also run each plan in virtual time. That raises UsageError for too many hosts.
    """
    if simulates and max(hosts) > MOST_SIMULATED:
        message = f"--simulate runs every worker of a plan, for up to {MOST_SIMULATED} hosts: --hosts {max(hosts)} is predicted only without it"
        raise UsageError(message=message)
    found = []
    for count in hosts:
        topology = replace(prepared.topology, machines=(Machine("predicted", cpus=count),), hosts=count)
        plan = prepared.plan
        if prepared.is_made:
            options = {"name": "cost", "max_leaves": None}
            plan = make_plan(prepared.config, prepared.program, topology, costs=costs, **options)
        predictor = Predictor(prepared.program, topology, costs, are_new=True)  # one is compared with several
        simulated = in_virtual_time(plan, prepared.program, topology, costs) if simulates else None
        found.append(OnHosts(count, len(plan), predictor.predict(plan), predictor.latency(plan), simulated))
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
    """Return the first prediction that no larger number of hosts improves by WORTH, None if there is none."""
    for i, one in enumerate(found[:-1]):
        best = max(later.prediction.throughput for later in found[i + 1 :])
        if best < WORTH * one.prediction.throughput:
            return one
    return None
