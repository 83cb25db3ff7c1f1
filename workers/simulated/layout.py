"""The layout of a generation: its plan and the splits of its streams, which may differ from one generation to the next.

>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.planner.plan import PlanNode
>>> layout = Layout(Plan(PlanNode("w0", ImplTagSet.of())), {"s": 2})
>>> layout.impl_streams("s"), layout.split("s/1"), layout.impl_streams("other")
(('s/0', 's/1'), 2, ('other',))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dgs.model.dependence import Dependence
from dgs.planner.plan import Plan
from dgs.workers.protocol.bounds import BOUNDS, Bounds
from dgs.workers.protocol.lanes import Lanes


@dataclass(frozen=True)
class Layout:
    """A plan, and the number of splits of each stream. Its lanes are made once, for all generations with this layout."""

    plan: Plan
    splits: Mapping[str, int] = field(default_factory=dict)
    _lanes: dict[tuple[Dependence, int], Lanes] = field(default_factory=dict, repr=False, compare=False)

    def lanes(self, dependence: Dependence, bounds: Bounds = BOUNDS) -> Lanes:
        """Return the lanes of the plan."""
        which = dependence, bounds.most_told_apart
        if which not in self._lanes:
            self._lanes[which] = Lanes(self.plan, dependence, bounds)
        return self._lanes[which]

    def split(self, stream: str) -> int:
        """Return the number of splits of a stream, given its name or that of one of its implementation streams."""
        return self.splits.get(stream.partition("/")[0], 1)

    def impl_streams(self, stream: str) -> tuple[str, ...]:
        """Return the implementation streams of a declared one."""
        return impl_streams(stream, self.splits.get(stream, 1))


def impl_streams(stream: str, splits: int) -> tuple[str, ...]:
    """Return the implementation streams of a stream with `splits` splits."""
    return (stream,) if splits == 1 else tuple(f"{stream}/{i}" for i in range(splits))
