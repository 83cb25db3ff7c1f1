"""The optimizers by name: from a program and its streams to a valid plan, also as a plan file asks for it.

>>> from dgs.model.dependence import ALWAYS, Dependence
>>> from dgs.model.tags import kind
>>> from dgs.model.tag_sets import TagSet
>>> from dgs.planner.topology import Machine, Stream
>>> VALUE, BARRIER = kind("value"), kind("barrier")
>>> class Count(Program):
...     depends = Dependence((BARRIER, VALUE, ALWAYS))
...     def fork(self, state, left, right): return state, 0
...     def join(self, left, right): return left + right
>>> streams = [Stream("barriers", TagSet.of(BARRIER), rates={BARRIER(): 1.0})]
>>> streams += [Stream(f"values/{i}", TagSet.of(VALUE), rates={VALUE(): 100.0}) for i in range(3)]
>>> made = plan(Count(), Topology(streams, [Machine("here", cpus=4)]))
>>> [(node.id, node.tags) for node in made.nodes()][:2]
[('w0', {barriers: {barrier}}), ('w1', {values/0: {value}})]
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from dgs.errors import InternalError, UsageError
from dgs.model.program import Program
from dgs.planner.optimizers.atoms import CLASSES_PER_LEAF, MAX_CLASSES, atoms, coarse_atoms
from dgs.planner.optimizers.cheapest import MANY_ATOMS, all_trees, proposals
from dgs.planner.optimizers.graph import DependenceGraph
from dgs.planner.optimizers.greedy import greedy_tree
from dgs.planner.optimizers.matching import fitted, match
from dgs.planner.optimizers.random_trees import random_tree
from dgs.planner.optimizers.tag_tree import (
    TagTree,
    bound_fan_out,
    leaf,
    merge_leaves,
    one_sided,
    to_plan_node,
)
from dgs.planner.placement import placed
from dgs.planner.plan import Plan, PlanNode
from dgs.planner.prediction.choice import fastest
from dgs.planner.prediction.costs import TYPICAL, Costs
from dgs.planner.topology import Machine, Topology
from dgs.planner.validity import listing, violations

if TYPE_CHECKING:
    from dgs.job.schema import PlanFile


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options for an optimizer."""

    seed: int
    max_leaves: int
    max_fan_out: int


Optimizer = Callable[[DependenceGraph, Program, Options], Iterable[TagTree]]
"""Makes tag trees with independent sibling subtrees from the dependence graph of the atoms. The cheapest of several is used."""


def _sequential(graph: DependenceGraph, *_: object) -> Iterator[TagTree]:
    yield leaf(graph.atoms)


def _greedy(graph: DependenceGraph, program: Program, options: Options) -> Iterator[TagTree]:
    """Appendix B, then leaves merged down to the number of CPUs, then a bounded fan-out."""
    tree = merge_leaves(one_sided(greedy_tree(graph), program), options.max_leaves)
    yield bound_fan_out(tree, options.max_fan_out)


def _random(graph: DependenceGraph, program: Program, options: Options) -> Iterator[TagTree]:
    bounds = {"max_leaves": options.max_leaves, "max_fan_out": options.max_fan_out}
    tree = merge_leaves(
        one_sided(random_tree(graph, seed=options.seed, **bounds), program), options.max_leaves
    )
    yield bound_fan_out(tree, options.max_fan_out)


def _cost(graph: DependenceGraph, program: Program, options: Options) -> Iterator[TagTree]:
    """Yield one worker, and trees with more leaves."""
    yield from proposals(graph, program, max_leaves=options.max_leaves, max_fan_out=options.max_fan_out)


def _exhaustive(graph: DependenceGraph, _: Program, options: Options) -> Iterator[TagTree]:
    yield from all_trees(graph, max_leaves=options.max_leaves, max_fan_out=options.max_fan_out)


OPTIMIZERS: Mapping[str, Optimizer] = {
    "cost": _cost,
    "exhaustive": _exhaustive,
    "greedy": _greedy,
    "random": _random,
    "sequential": _sequential,
}
DEFAULT = "greedy"
RANDOM_LEAVES = 16
"""Default bound on the leaves of random plans: their shapes should not depend on the machine."""


def plan(
    program: Program,
    topology: Topology,
    *,
    name: str = DEFAULT,
    seed: int = 0,
    max_leaves: int | None = None,
    max_fan_out: int = 8,
    costs: Costs | Callable[[], Costs] | None = None,
) -> Plan:
    """Return a valid plan by the optimizer of that name. `max_leaves` defaults to the number of CPUs (random plans: 16).

    `costs`: for optimizers that compare plans by cost. A function is called only if there are several plans.

    Raises UsageError for an unknown optimizer or bound, NoPlanError if the initial state type does not handle all tags.
    """
    options = _options(topology, name, seed, max_leaves, max_fan_out)
    with _no_collection():
        return _planned(program, topology, name, options, costs)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Switch off garbage collection: planning makes many objects and hardly a cycle, and traversing them takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _planned(
    program: Program,
    topology: Topology,
    name: str,
    options: Options,
    costs: Costs | Callable[[], Costs] | None,
) -> Plan:
    """Return the fastest plan of the optimizer's trees. Without forks it is one worker, if that is valid."""
    if not program.fork_joins():
        alone = placed(Plan(PlanNode("w0", topology.impl_tags(), program.states()[0].name), name), topology)
        if not violations(alone, program, topology):
            return alone
    plans = [
        placed(Plan(match(to_plan_node(fitted(tree, program)), program), name), topology)
        for tree in _trees(program, topology, name, options)
    ]
    made = plans[0]
    # trees that fit no state types end as one worker, too
    plans = [made, *(one for one in plans[1:] if len(one) > 1)]
    if len(plans) > 1:
        made = fastest(plans, program, topology, costs() if callable(costs) else costs or TYPICAL)
    wrong = violations(made, program, topology)
    if wrong:
        raise InternalError(problem=f"optimizer {name} made an invalid plan:\n{listing(wrong)}")
    return made


def _trees(program: Program, topology: Topology, name: str, options: Options) -> Iterable[TagTree]:
    """Return the optimizer's trees. If there are many atoms, `cost` also gives those over fewer hash classes, of which it tries more.

    So a plan of few leaves is found for many machines, too.
    """
    classes = min(MAX_CLASSES, CLASSES_PER_LEAF * max(options.max_leaves, topology.cpus))
    graph = DependenceGraph(atoms(topology, program, classes=classes), program.dependence)
    if not graph.atoms or not program.fork_joins():
        return [leaf(graph.atoms)]
    trees = OPTIMIZERS[name](graph, program, options)
    few = []
    if name == "cost" and len(graph.atoms) > MANY_ATOMS:
        few = coarse_atoms(topology, program, most=MANY_ATOMS)
    if not few:
        return trees
    coarse = _cost(DependenceGraph(few, program.dependence), program, options)
    return chain(trees, islice(coarse, 1, None))  # the first is one worker


def _options(topology: Topology, name: str, seed: int, max_leaves: int | None, max_fan_out: int) -> Options:
    if name not in OPTIMIZERS:
        raise UsageError(message=f"there is no optimizer {name!r}; there are {', '.join(sorted(OPTIMIZERS))}")
    if (max_leaves is not None and max_leaves < 1) or max_fan_out < 2:  # noqa: PLR2004 - a fork has two sides
        raise UsageError(message="max_leaves must be at least 1 and max_fan_out at least 2")
    default = RANDOM_LEAVES if name == "random" else topology.cpus
    return Options(seed, max_leaves or default, max_fan_out)


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
