"""Parallel and synchronised stateful stream programs: dependency-guided synchronization.

>>> import dgs
>>> dgs.kind("view", key=str)("home")
view('home')
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "ALWAYS": "dgs.model.dependence",
    "SAME_KEY": "dgs.model.dependence",
    "Dependence": "dgs.model.dependence",
    "DgsError": "dgs.errors",
    "Event": "dgs.model.events",
    "EventBatch": "dgs.model.events",
    "ForkJoin": "dgs.model.program",
    "Heartbeat": "dgs.model.order",
    "ImplTag": "dgs.model.tags",
    "Kind": "dgs.model.tags",
    "OrderKey": "dgs.model.order",
    "Program": "dgs.model.program",
    "Run": "dgs.api",
    "StateType": "dgs.model.program",
    "Tag": "dgs.model.tags",
    "TagSet": "dgs.model.tag_sets",
    "check": "dgs.check",
    "kind": "dgs.model.tags",
    "read_state": "dgs.api.state_files",
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
