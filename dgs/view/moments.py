"""The data shown of a run: its plans, its moments with rates and states, and what happened between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WorkerState = Literal["working", "waiting", "held", "idle"]
"""`waiting`: for a stream or another worker. `held`: its events wait for a waiting worker."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A worker of a plan. `parent`: its position in the plan, None for the root."""

    name: str
    parent: int | None
    tags: str = ""
    lanes: str = ""


@dataclass(frozen=True, slots=True)
class WorkerNow:
    """A worker at one moment. Rates are per second; `busy` and `blocked` are shares of its time. `host`: empty before it has reported.

    `waits_for`: the stream or the worker that it waits for, for `waited` seconds by now.
    """

    state: WorkerState
    host: str = ""
    rate: float = 0.0
    events: int = 0
    synchronisations: float = 0.0
    busy: float = 0.0
    blocked: float = 0.0
    held: int = 0
    held_bytes: int = 0
    waits_for: str | None = None
    waits_for_stream: bool = False
    waited: float = 0.0

    @property
    def is_stuck(self) -> bool:
        """Whether it waits, or is held back."""
        return self.state in ("waiting", "held")


@dataclass(frozen=True, slots=True)
class StreamNow:
    """A stream at one moment. `frontier`, `newest`: event times. `note`: its state in a few words."""

    name: str
    frontier: float | None
    newest: float | None = None
    rate: float = 0.0
    note: str = ""
    is_waited_for: bool = False
    has_ended: bool = False
    dropped: int = 0
    letters: int = 0
    disorder: int = 0


@dataclass(frozen=True, slots=True)
class SinkNow:
    """A sink at one moment."""

    name: str
    outputs: int
    bytes: int = 0
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """A run at one moment, `at` seconds after it began. `sentence`: what holds it back; `more`: the figures behind that.

    `plan`: the position of its plan in `Seen.plans`. `cause`: the stream or worker that holds the run back, empty if nothing does.
    `chain`: the workers that wait for it. `hosts`: their number, 0 if that is not known.
    """

    at: float
    status: str
    sentence: str
    more: str
    plan: int
    rate: float
    events: int
    outputs: int
    hosts: int
    workers: tuple[WorkerNow, ...]
    streams: tuple[StreamNow, ...]
    sinks: tuple[SinkNow, ...] = ()
    lag: float | None = None
    synchronisation_ms: float = 0.0
    held: int = 0
    held_bytes: int = 0
    progress: str = ""
    epoch: int | None = None
    checkpoint: str = ""
    restarts: int = 0
    between_hosts: str = ""
    cause: str = ""
    chain: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened, `at` seconds after the run began."""

    at: float
    kind: Literal["checkpoint", "failed checkpoint", "restart", "switch", "notice", "end"]
    text: str
    height: float = 1.0


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is shown of a run. `unit`: of event times. `note`: what is missing, such as figures that were cut off."""

    id: str
    name: str
    status: str
    about: str
    unit: str
    plans: tuple[tuple[Placed, ...], ...]
    moments: tuple[Moment, ...]
    happenings: tuple[Happening, ...] = ()
    note: str = ""
    resume: str = ""
