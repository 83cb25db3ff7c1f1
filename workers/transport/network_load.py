"""The network load of one host: the bytes that it sends to other hosts, by edge of the plan.

An edge is named by its child. `down` is what a parent sends, `up` what the child answers, and `input` the events and frontiers of the
child's own lanes, from the host that reads their stream. Frames without messages, with news of a host for all others, are `news`.

>>> from dgs.model.dependence import Dependence
>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.model.order import BEGIN
>>> from dgs.planner.plan import Plan, PlanNode
>>> from dgs.workers.protocol.messages import ForkedState
>>> load = NetworkLoad(Lanes(Plan(PlanNode("w0", ImplTagSet(), children=(PlanNode("w1", ImplTagSet()),))), Dependence()))
>>> load.note(1, Frame(0, 0, 1, (("w1", ForkedState(7)),), BEGIN, 0), [21])
>>> load.note(1, Frame(0, 0, 2, (), BEGIN, 0), [18])
>>> load.pairs, load.sent
({1: PairFigures(frames=2, bytes=39)}, {('w1', 'down'): 21, ('', 'news'): 18})
"""

from __future__ import annotations

from collections.abc import Sequence

from dgs.workers.observing.figures import PairFigures, Way
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.messages import Events, Frame, Frontiers, JoinAnswer, Message, Prepared


class NetworkLoad:
    """Counts the frames that one host sends, and their bytes: those of the frames, without what sockets add.

    `pairs`: by the host that gets them. `sent`: by edge and way.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.pairs: dict[int, PairFigures] = {}
        self.sent: dict[tuple[str, Way], int] = {}

    def note(self, target: int, frame: Frame, sizes: Sequence[int]) -> None:
        """Count a frame for another host. `sizes`: see `dgs.workers.transport.frames.encoded_with_sizes`."""
        pair = self.pairs.get(target, PairFigures())
        self.pairs[target] = PairFigures(pair.frames + 1, pair.bytes + sum(sizes))
        edges = [self._edge(*message) for message in frame.messages] or [("", "news")]
        for edge, size in zip(edges, sizes, strict=True):
            self.sent[edge] = self.sent.get(edge, 0) + size

    @property
    def frames(self) -> int:
        """The frames to all hosts."""
        return sum(pair.frames for pair in self.pairs.values())

    def _edge(self, target: str, message: Message) -> tuple[str, Way]:
        if isinstance(message, JoinAnswer | Prepared):
            return message.child, "up"
        if isinstance(message, Events):
            return target, "input"
        if isinstance(message, Frontiers):  # a parent sends those of its own lanes, or of lanes above it
            first = next((lane for lane, _ in message.by_lane), None)
            is_own = first is not None and self._lanes.all[first].owner == target
            return target, "input" if is_own else "down"
        return target, "down"
