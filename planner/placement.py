"""Placing workers on machines, near their inputs."""

from __future__ import annotations

from planner.plan import Plan
from planner.topology import Topology


def placed(plan: Plan, topology: Topology) -> Plan:
    """Return the plan with machines."""
    return plan
