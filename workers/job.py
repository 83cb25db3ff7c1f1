"""What a runtime is asked to do, and what it answers. The seam between the command line and the runtimes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dgs.config import ProgramConfig, RuntimeConfig, SinkConfig, StreamConfig
from dgs.order import OrderKey
from dgs.outputs import OutputBatch
from dgs.program import Program
from dgs.tags import Tag
from dgs.units import TimeUnit
from planner.plan import Plan


@dataclass(frozen=True)
class Job:
    """A resolved run: everything is loaded and validated, nothing is opened.

    `program_ref`: how another process loads the program (None: ship the object itself). `base_dir`: where relative paths
    of sources and sinks start. `memory`: data of `memory` sources by name. `output_dir`: where file sinks without a path
    of their own, and `.partial` files, go. `collect`: bring all outputs to the caller (for `run.outputs`, `--verify`).
    `until`: leave out events at or above this key (`--max-events`). `rates`: known
    events per second by implementation stream and tag, to place workers and readers.
    """

    program: Program
    plan: Plan
    streams: tuple[StreamConfig, ...]
    base_dir: Path
    output_dir: Path
    runtime: RuntimeConfig
    sinks: tuple[SinkConfig, ...] = ()
    program_ref: ProgramConfig | None = None
    unit: TimeUnit = "none"
    memory: Mapping[str, Any] = field(default_factory=dict)
    collect: bool = False
    until: OrderKey | None = None
    rates: Mapping[str, Mapping[Tag, float]] = field(default_factory=dict)


@dataclass
class JobResult:
    """What a runtime answers: the final state, the collected outputs, and the figures of the report.

    `figures` holds `events_in`, `outputs`, `seconds` (from the first read to the last output), `hosts`, `workers`,
    `drops` (per stream), `per_worker` and `per_stream` dictionaries.
    """

    state: Any
    outputs: list[OutputBatch]
    figures: dict[str, Any]


Progress = Callable[[int, int], None]
"""Called now and then with the events read and the outputs written so far."""
