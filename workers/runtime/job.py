"""Jobs and their results: the seam between the command line and the runtimes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dgs.errors import hidden_values
from dgs.job import private_files
from dgs.job.run_directory import STORY, UNPRINTED
from dgs.job.schema import (
    CheckpointConfig,
    ObserveConfig,
    ProgramConfig,
    ReplanConfig,
    RuntimeConfig,
    SinkConfig,
    SparkConfig,
    StreamConfig,
)
from dgs.job.units import TimeUnit
from dgs.model.order import OrderKey
from dgs.model.outputs import OutputBatch
from dgs.model.program import Program
from dgs.model.tags import Tag
from dgs.planner.moving import Counts
from dgs.planner.plan import Plan
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.observing.figures import RunFigures
from dgs.workers.observing.run_log import LOG, LogFormat
from dgs.workers.recovery.checkpoint import CheckpointStore
from dgs.workers.sources.contract import SourceContext


@dataclass(frozen=True)
class Job:
    """A resolved run: everything is loaded and validated, and nothing is opened yet.

    `program_ref`: how another process loads the program (None: ship the object itself). `base_dir`: where relative paths
    of sources and sinks start. `memory`: data of `memory` sources by name. `output_dir`: the place of file sinks without a path, and of
    `.partial` files. `owner`: identifies the job in its outputs: the path of its plan file, or a path with the program's name. `collect`:
    bring all outputs to the caller (for `run.outputs`, `--verify`).
    `until`: leave out events at or above this key (`--max-events`). `rates`: known
    events per second by implementation stream and tag, to place workers and readers. `events`: their number, infinite if it is not known.
    `checkpoint`: when checkpoints are taken, None for never. `checkpoint_dir`: their directory, also for that of a clean stop
    (None: the run cannot be resumed). `keeps_logs`: event logs in the run directory are not truncated. `replan`: whether the run looks for
    a better plan (None: it does not). `resumes`: go on from the newest checkpoint in `checkpoint_dir`; with `accepts_duplicates` even if
    the record is lost. `run_id`: identifies a run over all its generations and resumes (the supervisor sets it). `control_dir`: where `dgs
    stop` and `dgs replan` post requests. `umask`: for the run's own files. `name`: the plan file's, for figures and the log. `log_format`:
    of the log. `observe`: how often figures are taken, None for never.
    """

    program: Program
    plan: Plan
    streams: tuple[StreamConfig, ...]
    base_dir: Path
    output_dir: Path
    runtime: RuntimeConfig
    owner: Path | None = None
    sinks: tuple[SinkConfig, ...] = ()
    program_ref: ProgramConfig | None = None
    unit: TimeUnit = "none"
    memory: Mapping[str, Any] = field(default_factory=dict)
    collect: bool = False
    until: OrderKey | None = None
    rates: Mapping[str, Mapping[Tag, float]] = field(default_factory=dict)
    events: float = math.inf
    checkpoint: CheckpointConfig | None = None
    checkpoint_dir: Path | None = None
    keeps_logs: bool = False
    replan: ReplanConfig | None = None
    resumes: bool = False
    accepts_duplicates: bool = False
    run_id: str = ""
    control_dir: Path | None = None
    on_error: Literal["stop", "skip"] = "stop"
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"
    spark: SparkConfig = field(default_factory=SparkConfig)
    umask: str = private_files.OWNER_ONLY
    name: str = ""
    log_format: LogFormat = "text"
    observe: ObserveConfig | None = field(default_factory=ObserveConfig)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, with the values of secret environment variables, which no text there may show."""
        return {**self.__dict__, "hidden": hidden_values.all_hidden()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the job in another process, with the umask and the secrets of the first."""
        hidden = state.pop("hidden")
        self.__dict__.update(state)
        private_files.allow(self.umask)
        for name, value in hidden.items():
            hidden_values.hide(name, value)

    @property
    def is_kept(self) -> bool:
        """Whether checkpoints are durable from the beginning, and not only for a clean stop."""
        return self.checkpoint is not None or self.resumes

    @property
    def may_compile(self) -> bool:
        """Whether a worker that has had many events may have its `update` compiled. With an `update_batch`, this is for streams that alternate."""
        is_several = len(self.streams) > 1
        return self.runtime.compile != "off" and any(
            is_several or one.update_batch is None for one in self.program.states()
        )

    @property
    def log_dir(self) -> Path | None:
        """The default directory for event logs of sockets and Spark queries: in the run directory, None without one."""
        return None if self.control_dir is None else self.output_dir / "logs"

    @property
    def source_context(self) -> SourceContext:
        """The context for opening sources."""
        skips = self.on_error == "skip"
        return SourceContext(self.program, self.unit, self.base_dir, self.memory, self.log_dir, skips)

    @property
    def dead_letter_dir(self) -> Path | None:
        """The directory of dead letters (`on_error: skip`), None if only the caller gets them."""
        return self.output_dir if self.on_error == "skip" and self.control_dir is not None else None

    @property
    def story_path(self) -> Path | None:
        """The file for the story of a failed run: in the run directory, None without one."""
        return None if self.control_dir is None else self.output_dir / STORY

    @property
    def unprinted_path(self) -> Path | None:
        """The file for outputs that the reader of stdout has not taken: in the run directory, None without one."""
        return None if self.control_dir is None else self.output_dir / UNPRINTED

    @property
    def figures_dir(self) -> Path | None:
        """The directory of the figures: that of the run, None without one."""
        return None if self.control_dir is None else self.output_dir

    @property
    def run_log(self) -> Path | None:
        """The file for the log of the run: in the run directory, None without one."""
        return None if self.control_dir is None else self.output_dir / LOG

    @property
    def ray_log(self) -> Path | None:
        """The file for what Ray prints: in the run directory, None without one."""
        return None if self.control_dir is None else self.output_dir / "ray.log"

    @property
    def splits(self) -> dict[str, int]:
        """The number of implementation streams of each declared stream."""
        return {config.id: config.split for config in self.streams}


@dataclass
class JobResult:
    """The result of a runtime: the final state, the collected outputs (iterate over them as often as you like), and the figures for the report.

    `stopped_by`: what stopped the run before its streams ended, a signal's name or `dgs stop`; None otherwise. `stopped_at`: the
    epoch committed for the stop, None if that took too long. `dead_letters`: events that `on_error: skip` left out, if collected.
    `counted`: events by declared stream and tag, if the run counts them for `replan:`.
    """

    state: Any
    outputs: Iterable[OutputBatch]
    figures: RunFigures
    stopped_by: str | None = None
    stopped_at: int | None = None
    dead_letters: list[DeadLetter] = field(default_factory=list)
    counted: Counts = field(default_factory=dict)


def _silent(*_what: object) -> None:
    """Say nothing."""


def _on_stderr(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201 - the caller gave no other place


def _same(store: CheckpointStore, _job: Job) -> CheckpointStore:
    return store


@dataclass(frozen=True)
class Ports:
    """Attachments to a run from outside, such as tables of Spark. There are none by default.

    `store` wraps the store of checkpoints of a job. `outputs` is entered before anything is opened and left when the run ends;
    it may raise any DgsError.
    """

    store: Callable[[CheckpointStore, Job], CheckpointStore] = _same
    outputs: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True, slots=True)
class Comparison:
    """The best plan at some rates, with its predicted events per second and those of the current plan."""

    plan: Plan
    current: float
    best: float

    @property
    def gain(self) -> float:
        """The predicted speed of the best plan, in multiples of this one's."""
        return self.best / self.current if self.current else 1.0


@dataclass(frozen=True)
class Caller:
    """The callbacks of a run. By default, notices go to stderr.

    `progress` is called with the figures of the run, at most every `observe.every`, `notify` with a notice in one
    sentence, `ready` with the name of what has started, such as Ray. `rows` is called with two numbers of rows: those that Spark has read,
    and those in the log. `replanned` returns the job under the plan of another plan file, or raises InvalidError. `compared` compares the
    plan with the best one, given the host of each worker and events per second; another thread calls it.
    """

    progress: Callable[[RunFigures], None] = _silent
    notify: Callable[[str], None] = _on_stderr
    ready: Callable[[str], None] = _silent
    rows: Callable[[int, int], None] = _silent
    replanned: Callable[[Job, str], Job] | None = None
    compared: Callable[[Mapping[str, int], Counts], Comparison] | None = None
    ports: Ports = Ports()
