"""Parallel and synchronised stateful stream programs: dependency-guided synchronization.

The names here are public, and so are `monoids`, `keyed`, `vectorised`, `connectors`, `testing`, `check`, `codec` and `errors`.
From the ground up: `errors`, `codec`, `model`, `semantics`, `job`; `planner`, `workers`, `spark_bridge`; `api`, `bench`, `cli`.

>>> import dgs
>>> dgs.kind("view", key=str)("home")
view('home')
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the table below, for type checkers
    from dgs.api import Run, replan, resume, run, stop
    from dgs.api.state_files import read_state
    from dgs.check import check
    from dgs.errors import DgsError
    from dgs.frames.frame_stream import stream
    from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
    from dgs.model.events import Event, EventBatch
    from dgs.model.order import Heartbeat, OrderKey
    from dgs.model.program import Emit, EmitBatch, ForkJoin, Program, StateType
    from dgs.model.tag_sets import TagSet
    from dgs.model.tags import ANY, ImplTag, Kind, Tag, kind
    from dgs.query import query

_HOME = {
    name: module
    for module, names in {
        "dgs.api": "Run replan resume run stop",
        "dgs.api.state_files": "read_state",
        "dgs.check": "check",
        "dgs.errors": "DgsError",
        "dgs.frames.frame_stream": "stream",
        "dgs.model.dependence": "ALWAYS Dependence SAME_KEY",
        "dgs.model.events": "Event EventBatch",
        "dgs.model.order": "Heartbeat OrderKey",
        "dgs.model.program": "Emit EmitBatch ForkJoin Program StateType",
        "dgs.model.tag_sets": "TagSet",
        "dgs.model.tags": "ANY ImplTag Kind Tag kind",
        "dgs.query": "query",
    }.items()
    for name in names.split()
}

__all__ = [
    "ALWAYS", "ANY", "SAME_KEY", "Dependence", "DgsError", "Emit", "EmitBatch", "Event", "EventBatch",
    "ForkJoin", "Heartbeat", "ImplTag", "Kind", "OrderKey", "Program", "Run", "StateType", "Tag", "TagSet",
    "check", "kind", "query", "read_state", "replan", "resume", "run", "stop", "stream",
]  # fmt: skip
__version__ = "0.1.0"

if not TYPE_CHECKING:  # with `__getattr__`, type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'dgs' has no attribute {name!r}")
        return getattr(import_module(_HOME[name]), name)


logging.getLogger("dgs").addHandler(logging.NullHandler())  # the user decides what is shown


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
