"""Epochs at a host: the open epoch of each of its workers, and the reports on epochs that are closed.

Workers close an epoch one after the other, so outputs of two epochs come out interleaved. The epoch of an output is the open
epoch of its worker at that moment.

>>> epochs = Epochs(["w1", "w2"], last=6)
>>> epochs.of("w1"), epochs.close("w1", 7), epochs.of("w1"), epochs.of("w2"), epochs.close("w2", 7)
(7, False, 8, 7, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dgs import codec
from dgs.errors import InternalError
from dgs.model.order import OrderKey
from dgs.model.outputs import OutputBatch
from dgs.workers.recovery.checkpoint import StagedOutput


class Epochs:
    """The open epoch of every worker of a host. `last`: the last epoch that was closed before the workers started."""

    def __init__(self, workers: Iterable[str], last: int) -> None:
        self._open = dict.fromkeys(workers, last + 1)

    def of(self, worker: str) -> int:
        """Return the epoch of a worker's outputs now."""
        return self._open[worker]

    def close(self, worker: str, epoch: int) -> bool:
        """Note that a worker has closed an epoch. Return whether all workers of the host have, so that it can be staged."""
        if self._open[worker] != epoch:
            raise InternalError(problem=f"worker {worker} closes epoch {epoch} in epoch {self._open[worker]}")
        self._open[worker] = epoch + 1
        return min(self._open.values()) > epoch


@dataclass(frozen=True, slots=True)
class HostReport:
    """A host's report that its outputs of an epoch are durable.

    `unaccepted`: outputs up to that epoch that idempotent sinks have not accepted yet (R7). `ends`: the key after the last event
    of each declared stream that this host has read to its end. `sources`: descriptions of its sources. `events`: the number of
    events in the states of its workers since the generation began. `outputs`: the number of outputs of this epoch.
    """

    host: int
    epoch: int
    files: tuple[StagedOutput, ...] = ()
    unaccepted: tuple[OutputBatch, ...] = ()
    ends: Mapping[str, OrderKey] = field(default_factory=dict)
    sources: Mapping[str, Any] = field(default_factory=dict)
    events: int = 0
    outputs: int = 0


@dataclass(frozen=True, slots=True)
class RootReport:
    """The root's snapshot of an epoch. `state`: codec bytes, None if it need not be saved."""

    epoch: int
    state: bytes | None
    positions: Mapping[int, OrderKey]
    is_final: bool


for _report in (HostReport, RootReport):
    codec.register(_report, name=f"dgs.{_report.__name__}", formerly=f"workers.epochs.{_report.__name__}")
