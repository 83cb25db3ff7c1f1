"""What workers ask their host to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dgs.events import EventBatch
from dgs.order import OrderKey
from dgs.outputs import OutputBatch
from dgs.skipping import DeadLetter
from workers.messages import Message


@dataclass(frozen=True, slots=True)
class Send:
    """A message for another worker."""

    target: str
    message: Message


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state, at the root, with the position of every lane: state = fold over the events below the positions.

    Whoever receives it copies the state before it asks the worker for the next effect: the worker goes on with it.
    """

    state: Any
    positions: dict[int, OrderKey]
    is_final: bool
    epoch: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The worker has output everything of an epoch: what comes later belongs to the next one."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """An event was left out because its `update` raised (`on_error: skip`). `event`: a batch of that event alone."""

    event: EventBatch
    letter: DeadLetter


Effect = Send | OutputBatch | Skipped | Closed | Snapshot
