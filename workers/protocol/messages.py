"""Messages between workers, effects that workers ask their host for, and the frames that carry messages between hosts.

A source sends a worker `Events` and `Frontiers`. A parent sends `JoinRequest`, `Frontiers`, `ForkedState` and `Prepare`; its child
answers with `JoinAnswer` and `Prepared`. Lanes are numbered: see `dgs.workers.protocol.lanes`. Between hosts, messages travel in frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dgs.model.events import EventBatch
from dgs.model.order import END, OrderKey
from dgs.model.outputs import OutputBatch
from dgs.semantics.skipped_events import DeadLetter


@dataclass(frozen=True, slots=True)
class Send:
    """A message for another worker."""

    target: str
    message: Message


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state, at the root, with the position of every lane: state = fold over the events below the positions.

    The worker goes on with this state, so the host copies it before it asks for the next effect.
    """

    state: Any
    positions: dict[int, OrderKey]
    is_final: bool
    epoch: int


@dataclass(frozen=True, slots=True)
class EpochClosed:
    """The worker has output everything of an epoch: later outputs belong to the next one."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """An event that was left out because its `update` raised (`on_error: skip`). `event`: a batch of that event alone."""

    event: EventBatch
    letter: DeadLetter


Effect = Send | OutputBatch | Skipped | EpochClosed | Snapshot


@dataclass(frozen=True, slots=True)
class Events:
    """Events of a lane, from its source to the worker that owns it."""

    lane: int
    batch: EventBatch


@dataclass(frozen=True, slots=True)
class Frontiers:
    """Frontiers of lanes. From a source: everything below has arrived. From a parent: no join request below will come."""

    by_lane: tuple[tuple[int, OrderKey], ...]


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A parent's request for the state, once or many times. R4: children answer in the order of the numbers.

    With a lane, it asks for the state before each of the lane's events in `keys`, a batch without payload; the requests are
    numbered `number`, `number + 1`, .... Without a lane it is one *keyless* request: it waits for its turn but for no event. The
    last one, `is_final`, is made when everything is processed. It closes `epoch`: outputs of a worker before its answer belong to that epoch.
    """

    number: int
    lane: int | None
    keys: EventBatch | None
    is_final: bool = False
    epoch: int = 0

    def __len__(self) -> int:
        return 1 if self.keys is None else len(self.keys)

    def cut(self, start: int, stop: int) -> JoinRequest:
        """Return the requests `start` to `stop` of these."""
        if self.keys is None or (start == 0 and stop == len(self)):
            return self
        return JoinRequest(self.number + start, self.lane, self.keys.cut(start, stop))


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """A child's states for the requests `number`, `number + 1`, ....

    `positions`: for every lane of its subtree, the position of the last of these states (R5).
    """

    child: str
    number: int
    states: Sequence[Any]
    positions: Mapping[int, OrderKey]


@dataclass(frozen=True, slots=True)
class ForkedState:
    """A child's part of the state, from its parent."""

    state: Any


@dataclass(frozen=True, slots=True)
class Prepare:
    """A parent's question when everything before the event `key` of a lane is processed, or all events (None)."""

    lane: int | None
    key: OrderKey


@dataclass(frozen=True, slots=True)
class Prepared:
    """A child's news: its subtree has processed everything that a request at `key` of the lane would wait for."""

    child: str
    lane: int | None
    key: OrderKey


EVERYTHING = Prepare(None, END)
"""The question before the last request of a run."""


Message = Events | Frontiers | JoinRequest | JoinAnswer | ForkedState | Prepare | Prepared


@dataclass(frozen=True, slots=True)
class Frame:
    """Messages from one host to another, in order.

    R1: `generation` and `sequence` number the frames of an edge. R11 needs the other two fields: `lowest_frontier` is that of
    the sender's open sources (END when all have ended), and `load` counts the bytes that its workers hold.
    """

    sender: int
    generation: int
    sequence: int
    messages: tuple[tuple[str, Message], ...]
    lowest_frontier: OrderKey
    load: int
