"""The plans recorded from the prototype's greedy optimizer, as programs and topologies of ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from dgs.model.dependence import Dependence
from dgs.model.impl_tags import ImplTagSet
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.planner.topology import Machine, Stream, Topology

FOLDER = Path(__file__).parents[2].parent / "shared" / "cases" / "optimizer"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


class Recorded(Program):
    """A program with the dependence, state types and splits of a recorded case; it computes nothing."""

    def __init__(self, case: dict[str, Any]) -> None:
        listed = {as_tag(tag): {as_tag(other) for other in others} for tag, others in case["dependencies"]}
        self.depends = Dependence.from_function(lambda a, b: b in listed[a], listed)
        self._states = tuple(
            StateType(name, TagSet.of(*map(as_tag, tags)), max) for name, tags in case["state_types"]
        )
        self._states = tuple(sorted(self._states, key=lambda state: state.name != case["init_type"]))
        self._forks = tuple(ForkJoin(f"split{i}", *types, max, max) for i, types in enumerate(case["splits"]))

    def states(self):
        return self._states

    def fork_joins(self):
        return self._forks


@dataclass(frozen=True)
class Case:
    program: Recorded
    topology: Topology
    root_tree: dict[str, Any]


def as_tag(recorded: Any) -> Tag:
    return Tag(*recorded) if isinstance(recorded, list) else Tag(recorded)


def load(name: str) -> Case:
    data = json.loads((FOLDER / f"{name}.json").read_text())
    program = Recorded(data)
    streams = [
        Stream(node, TagSet.of(as_tag(tag)), rates={as_tag(tag): float(rate)}, location=node)
        for node, tag, rate in data["streams_node_tag_rate"]
    ]
    machines = [Machine(stream.id) for stream in streams]
    return Case(program, Topology(streams, machines), data["root_tree"])


def recorded_shape(tree: dict[str, Any]) -> tuple[Any, ...]:
    """Return a recorded tree up to child order."""
    own = reduce(
        or_,
        (ImplTagSet.of({node: TagSet.of(as_tag(tag))}) for tag, node in tree["own_impl_tags"]),
        ImplTagSet(),
    )
    return repr(own), sorted(recorded_shape(child) for child in tree["children"])
