"""Parallel and synchronised stateful stream programs: dependency-guided synchronization.

>>> import dgs
>>> dgs.kind("view", key=str)("home")
view('home')
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "ALWAYS": "dgs.dependence",
    "SAME_KEY": "dgs.dependence",
    "Dependence": "dgs.dependence",
    "DgsError": "dgs.errors",
    "Event": "dgs.events",
    "EventBatch": "dgs.events",
    "ForkJoin": "dgs.program",
    "Heartbeat": "dgs.order",
    "ImplTag": "dgs.tags",
    "Kind": "dgs.tags",
    "OrderKey": "dgs.order",
    "Program": "dgs.program",
    "Run": "dgs.api",
    "StateType": "dgs.program",
    "Tag": "dgs.tags",
    "TagSet": "dgs.tagset",
    "check": "dgs.check",
    "kind": "dgs.tags",
    "read_state": "dgs.saved_state",
    "replan": "dgs.api",
    "resume": "dgs.api",
    "run": "dgs.api",
    "stop": "dgs.api",
}

__all__ = list(_HOME)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dgs' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
