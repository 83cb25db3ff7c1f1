"""What a simulated generation sees of the run that it is part of: chance, time, the program and its input, and the sinks."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from dgs.events import EventBatch
from dgs.outputs import OutputBatch
from dgs.program import Program
from workers.checkpoints import Checkpoint
from workers.faults import Faults
from workers.positions import Positions


class World(Protocol):
    """What outlives a generation."""

    random: random.Random
    program: Program
    skips: bool
    streams: Mapping[str, Sequence[EventBatch]]
    is_transactional: bool
    buffer_bytes: int | None
    faults: Faults

    @property
    def now(self) -> int:
        """Virtual time: the number of steps."""

    def is_odd(self) -> bool:
        """Return whether a legal but rare path is to be taken here."""

    def write(self, path: str, batch: OutputBatch) -> None:
        """Append to a staged file."""

    def has_staged(self, path: str) -> bool:
        """Return whether there is such a file."""

    def accept(self, generation: int, batch: OutputBatch, splits: int) -> None:
        """Let the idempotent sink take outputs. Raises FencedError."""

    def saw_snapshot(self, state: bytes, positions: Positions) -> None:
        """Note a snapshot, for the oracle."""

    def committed(self, checkpoint: Checkpoint) -> None:
        """Note a commit, for the oracle."""

    def object_to(self, problem: str) -> None:
        """Note what should not be."""
