"""Making the state machine of a plan node."""

from __future__ import annotations

from dgs.program import Program
from workers.inner import Inner
from workers.lanes import Lanes
from workers.leaf import Leaf
from workers.worker import Worker


def make_worker(node_id: str, program: Program, lanes: Lanes, *, skips: bool = False) -> Worker:
    """Return the worker of a node: a leaf, or one with children. `skips`: it leaves out events that raise."""
    node = lanes.plan.node(node_id)
    return (Leaf if node.is_leaf else Inner)(node, program, lanes, skips=skips)
