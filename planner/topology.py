"""The planner's view of the world: input streams with their tags and rates, and machines.

>>> from dgs.model.tags import kind
>>> VIEW = kind("view", key=("a", "b"))
>>> stream = Stream("clicks", TagSet.of(VIEW), rates={VIEW("a"): 90.0})
>>> stream.rate(VIEW("a")), stream.rate(VIEW("b"))
(90.0, 0.0)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dgs.model.impl_tags import ImplTagSet
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag


@dataclass(frozen=True)
class Stream:
    """An input stream as the planner sees it.

    `tags`: the tags that may arrive on it. `rates`: events per second (any one unit) of single tags; `other_rate`: of all other
    tags together. `location`: the machine it arrives at, None for anywhere. `events`: their number, infinite if it is not known.
    Split streams appear as `flights/0`, ....
    """

    id: str
    tags: TagSet
    rates: Mapping[Tag, float] = field(default_factory=dict)
    other_rate: float = 0.0
    location: str | None = None
    events: float = math.inf

    def rate(self, tag: Tag) -> float:
        """Return the known rate of a tag, 0 if unknown."""
        return self.rates.get(tag, 0.0)


@dataclass(frozen=True)
class Machine:
    """A computer that can run workers."""

    id: str
    cpus: int = 1


@dataclass(frozen=True)
class Topology:
    """Streams in their declared order, and machines. `hosts`: the number of processes that share the workers."""

    streams: Sequence[Stream]
    machines: Sequence[Machine] = (Machine("local"),)
    hosts: int = 1

    def impl_tags(self) -> ImplTagSet:
        """Return the implementation tags of all streams; a plan must own each exactly once."""
        return ImplTagSet.of({stream.id: stream.tags for stream in self.streams})

    @property
    def events(self) -> float:
        """The number of events of all streams together, infinite if it is not known."""
        return sum(stream.events for stream in self.streams)

    @property
    def cpus(self) -> int:
        """CPUs of all machines together."""
        return sum(machine.cpus for machine in self.machines)
