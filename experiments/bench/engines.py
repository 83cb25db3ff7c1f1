"""The contestants for one application: the baselines, and the runtimes in all chosen shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dgs.bench.contestants import runtime
from dgs.bench.measuring import Contestant
from experiments.bench.applications import Application
from experiments.bench.baselines import by_hand, loops


@dataclass(frozen=True)
class Shapes:
    """The engines, leaves of plans and numbers of hosts to measure; `settings` are values of plan.yaml for the runtimes."""

    engines: Sequence[str] = ("loop", "numpy", "local", "ray")
    leaves: Sequence[int] = (1, 4)
    hosts: Sequence[int] = (1, 2)
    settings: Mapping[str, Any] | None = None


def contestants(small: Application, large: Application, shapes: Shapes) -> Iterator[Contestant]:
    """Yield all contestants of an application: event by event on the small data, vectorised on the large."""
    if "loop" in shapes.engines:
        yield from loops(small)
    if "numpy" in shapes.engines:
        yield from by_hand(large)
    for app, mode in ((small, "scalar"), (large, "vectorised")):
        if mode == "scalar" or app.program.is_vectorised:
            for leaves in shapes.leaves:
                yield from runtimes(app, mode, leaves, shapes)


def runtimes(app: Application, mode: str, leaves: int, shapes: Shapes) -> Iterator[Contestant]:
    """Yield the runtimes on one plan. A plan of one worker uses one host."""
    prepared = app.prepared(leaves=leaves, settings=shapes.settings)
    places = [("local", 1)] if "local" in shapes.engines else []
    places += [("ray", count) for count in shapes.hosts if "ray" in shapes.engines and count <= leaves]
    for engine, hosts in places:
        yield runtime(prepared, app.name, engine=engine, hosts=hosts, mode=mode, expects=app.expected)
