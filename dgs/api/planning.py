"""Making a plan for a job, by the optimizer and on the machines of its plan file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dgs.planner.optimizers.by_name import plan
from dgs.planner.topology import Machine

if TYPE_CHECKING:
    from dgs.job.schema import PlanFile
    from dgs.model.program import Program
    from dgs.planner.plan import Plan
    from dgs.planner.prediction.costs import Costs
    from dgs.planner.topology import Topology


def make_plan(
    config: PlanFile,
    program: Program,
    topology: Topology,
    *,
    costs: Costs | Callable[[], Costs] | None = None,
    **options: Any,
) -> Plan:
    """Return the plan of the optimizer named in the plan file; `options` override its section. `costs`: see `by_name.plan`."""
    chosen = {**config.optimizer.model_dump(), "name": optimizer_of(config)}
    return plan(program, topology, costs=costs, **{**chosen, **options})


def optimizer_of(config: PlanFile) -> str:
    """Return the name of the optimizer. On Spark, where a worker is a task and not a process that synchronises, `auto` is greedy."""
    named = config.optimizer.name
    return named if named != "auto" else "greedy" if config.runtime.kind == "spark" else "cost"


def hosts(config: PlanFile) -> int:
    """Return the number of processes that share the workers."""
    if config.runtime.kind != "ray":
        return 1
    return config.runtime.hosts or os.cpu_count() or 1


def machines(config: PlanFile) -> Sequence[Machine]:
    """Return the machines to plan for: those of `nodes:`, else this machine."""
    if config.nodes == "auto":
        return [Machine("local", cpus=max(os.cpu_count() or 1, config.runtime.hosts or 1))]
    return [Machine(node.id, node.cpus) for node in config.nodes]
