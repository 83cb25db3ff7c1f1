"""`make_worker`: the state machine of a plan node."""

from __future__ import annotations

from dgs.model.program import Program
from dgs.workers.observing.meter import NO_METER, NoMeter
from dgs.workers.protocol.bounds import BOUNDS, Bounds, Clock, no_time
from dgs.workers.protocol.inner import ForkingInner, KeepingInner, takers
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.leaf import Leaf
from dgs.workers.protocol.worker import CompileMode, Worker


def make_worker(
    node_id: str,
    program: Program,
    lanes: Lanes,
    *,
    skips: bool = False,
    compiles: CompileMode = "off",
    clock: Clock = no_time,
    bounds: Bounds = BOUNDS,
    meter: NoMeter = NO_METER,
) -> Worker:
    """Return the worker of a node: a leaf, or one of the two kinds with children.

    `skips`: it leaves out events that raise. `compiles`: whether its `update` is compiled. `clock`, `bounds`: for what is done at once and what is in flight. `meter`: where the time goes.
    """
    node = lanes.plan.node(node_id)
    with_children = ForkingInner if takers(node, program) else KeepingInner
    return (Leaf if node.is_leaf else with_children)(
        node,
        program.when_skipping() if skips else program,
        lanes,
        skips=skips,
        compiles=compiles,
        clock=clock,
        bounds=bounds,
        meter=meter,
    )
