"""What workers and hosts say to each other.

Sources and parents speak to a worker with `Events`, `Progress`, `JoinRequest` and `Forked`; a child answers its parent with
`JoinAnswer`. Lanes are numbered (see `workers.lanes`). Between hosts, messages travel in `Frame`s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dgs import codec
from dgs.events import EventBatch
from dgs.order import OrderKey


@dataclass(frozen=True, slots=True)
class Events:
    """Events of a lane, from its source to its owner."""

    lane: int
    batch: EventBatch


@dataclass(frozen=True, slots=True)
class Progress:
    """Frontiers of lanes: from a source "all below has arrived", from a parent "no join request below will come"."""

    frontiers: tuple[tuple[int, OrderKey], ...]


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A parent asks for the state (R4: children answer in the order of `number`).

    With a lane: the state of everything ordered before the event of that lane at `key`. Without a lane the request is
    *keyless*: with `key` None it waits for nothing but its turn, with `key` END for everything.
    """

    number: int
    lane: int | None
    key: OrderKey | None


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """A child hands up its state, with the position of every lane of its subtree folded into it (R5)."""

    child: str
    number: int
    state: Any
    positions: Mapping[int, OrderKey]


@dataclass(frozen=True, slots=True)
class Forked:
    """A parent hands down the child's part of the state."""

    state: Any


Message = Events | Progress | JoinRequest | JoinAnswer | Forked


@dataclass(frozen=True, slots=True)
class Frame:
    """Messages from one host to another, in order.

    R1: `generation` and `sequence` count frames per edge. `low` is the lowest frontier of the sender's open sources (END
    when all have ended), `load` the bytes its mailboxes hold: what R11 needs to know of the others.
    """

    sender: int
    generation: int
    sequence: int
    messages: tuple[tuple[str, Message], ...]
    low: OrderKey
    load: int


for _message in (Events, Progress, JoinRequest, JoinAnswer, Forked, Frame):
    codec.register(_message)
