"""The result of a simulated run, for the oracles to judge.

>>> result = Simulated(trace=["1 act 0"])
>>> result.digest == Simulated(trace=["1 act 0"]).digest, result.values(), result.is_complete
(True, [], False)
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dgs.model.events import EventBatch
from dgs.model.outputs import OutputBatch
from dgs.workers.protocol.story import MOST_NOTES, Log
from dgs.workers.protocol.story_words import as_lines, entries_of
from dgs.workers.recovery.checkpoint import Checkpoint, ResumePoint
from dgs.workers.recovery.positions import Positions
from dgs.workers.simulated.layout import Layout
from dgs.workers.transport.frames import NetworkLoad


@dataclass
class Simulated:
    """The result of a simulated run.

    `outputs`: the batches that sinks have accepted or published, in that order. `snapshots`: state (codec bytes) and positions of every
    snapshot on the way. `commits`: the durable checkpoints. `begun`: for each generation, the number of commits before it and its
    point. `ends`: counts of the reasons why generations ended. `problems`: broken promises. `state`: the final state.
    `calm_steps`: the steps after the last fault. `is_refused`: the checkpoints were damaged beyond the promise. `trace`: a line
    per step. `streams`: the events of each stream, if heartbeats decided which rows count. `log`: the latest notes, see `story`.
    `load`: the frames of the last generation.
    """

    outputs: list[OutputBatch] = field(default_factory=list)
    snapshots: list[tuple[bytes, Positions]] = field(default_factory=list)
    commits: list[Checkpoint] = field(default_factory=list)
    begun: list[tuple[int, ResumePoint]] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    state: Any = None
    steps: int = 0
    calm_steps: int = 0
    crashes: int = 0
    is_complete: bool = False
    is_refused: bool = False
    streams: Mapping[str, Sequence[EventBatch]] | None = None
    trace: list[str] = field(default_factory=list)
    load: NetworkLoad | None = None
    log: Log = field(default_factory=lambda: deque(maxlen=MOST_NOTES))

    def story(self, last: int) -> Iterator[str]:
        """Yield the `last` entries of the story of all hosts and of the driver, each in a line."""
        return as_lines(entries_of(self.log)[-last:], when=lambda step: f"step {step:<5.0f}")

    @property
    def digest(self) -> str:
        """A hash of every step taken: equal for equal seeds, in any process."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def values(self) -> list[Any]:
        """Return the outputs as Python objects, in the order of delivery."""
        return [value for batch in self.outputs for value in batch.to_list()]
