"""The contract between sources and runtimes: a source returns batches of events, and a frontier with each.

>>> Reading((), END).frontier == END        # nothing more will come
True

The sources of a job share a `SourceContext`.

>>> SourceContext(Program()).unit
'none'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dgs.job.units import TimeUnit
from dgs.model.events import EventBatch
from dgs.model.order import END, OrderKey
from dgs.model.program import Program

__all__ = ["END", "Counted", "EventSource", "Reading"]


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one `read`: batches of the source's implementation streams, each in order, and the frontier.

    Every event below `frontier` has been read, on all implementation streams of the source; END when it has ended.
    Law: the events of later readings are at or above the frontier of earlier ones, which never goes back.
    """

    batches: tuple[EventBatch, ...]
    frontier: OrderKey


class Counted(NamedTuple):
    """The progress of a source. `rows`: raw rows. `held`: events that wait to be put in order. `share`: of its input, 0 to 1, None if unknown."""

    rows: int = 0
    held: int = 0
    share: float | None = None


class EventSource(Protocol):
    """A declared input stream, opened: it gives batches of events.

    `stream`: its declared id. Sources that users write give rows: see `dgs.workers.sources.custom_source`.
    """

    stream: str

    @property
    def drops(self) -> int:
        """The number of events that `on_disorder: drop` has left out so far."""

    @property
    def counted(self) -> Counted:
        """Its progress so far. It is asked once a second, and must be cheap."""

    @property
    def wait(self) -> float:
        """Seconds until there may be something to read. Always 0 for files and memory.

        A live source that does not know returns the time after which to ask again.
        """

    @property
    def description(self) -> Mapping[str, Any]:
        """The identity of the source and how far it has been read, as plain data for a checkpoint.

        It has `rows`, the raw rows read, and `end`: the key after its last event once it has ended, else None.
        """

    def resume(self, before: Mapping[str, Any]) -> None:
        """Check, before the first read, that the source still fits its description `before`. Raises SourceChangedError."""

    def skip_to(self, base: OrderKey) -> None:
        """Allow the source to leave out events below `base`. Call this before the first read."""

    def read(self) -> Reading:
        """Read on. Do not call this after a frontier of END. Raises RunError for rows that are not events.

        It never blocks: a live source that is read too early returns no events and its old frontier.
        """

    def close(self) -> None:
        """Close files. It may be called at any time, and twice."""


@dataclass(frozen=True)
class SourceContext:
    """The values with which every source of a job is opened.

    `unit`: the plan's unit of time. `base_dir`: the start of relative paths. `memory`: the data of `memory` sources by name.
    `log_dir`: the directory for logs of sockets and Spark queries that have no `log` in the plan.
    `skips`: rows that cannot be read become placeholder events (`on_error: skip`).
    """

    program: Program
    unit: TimeUnit = "none"
    base_dir: Path = field(default_factory=Path)
    memory: Mapping[str, Any] = field(default_factory=dict)
    log_dir: Path | None = None
    skips: bool = False
