"""The Spark tasks of a batch run: a task computes a unit of the plan, or folds accumulating events below a unit into windows.

A task gets its number and answers with rows: outputs if the caller wants them, partial states, its last state, and a report; or
one row with the error that ended it. Its outputs go to sinks of its own, as a host's do, and wait there for the driver's commit. A
repeated task writes the same files again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from dgs import codec
from dgs.errors import DgsError, InternalError
from dgs.job.loading import load_program
from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.outputs import OutputBatch
from dgs.model.program import Program
from dgs.planner.plan import Plan, PlanNode
from dgs.spark_bridge.batch.task_errors import error_row
from dgs.spark_bridge.batch.task_inputs import Inputs
from dgs.spark_bridge.batch.task_outputs import TaskOutputs
from dgs.spark_bridge.batch.window_states import chunks
from dgs.workers.protocol.folding.fold import NOTHING, Folder
from dgs.workers.protocol.host import Host
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.making import make_worker
from dgs.workers.protocol.messages import EpochClosed, Skipped, Snapshot
from dgs.workers.recovery.checkpoint import ResumePoint, StagedOutput
from dgs.workers.runtime import process
from dgs.workers.runtime.job import Job

SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("unit", "chunk", "task", "number")),
        ("what", pa.string()),
        ("data", pa.binary()),
    ]
)
DDL = "unit bigint, chunk bigint, task bigint, number bigint, what string, data binary"

OUTPUTS, LETTER, WINDOWS, STATE, REPORT, ERROR = "outputs", "letter", "windows", "state", "report", "error"

NO_CHUNK = -1
"""Stands for the chunk number in rows without partial states."""


class Row(NamedTuple):
    """One row of a task's answer. `chunk`: the number of its chunk of windows, if it holds partial states."""

    what: str
    data: bytes
    chunk: int = NO_CHUNK


class Answer(NamedTuple):
    """A row with its task and the task's unit. `number` counts the rows of a task."""

    unit: int
    chunk: int
    task: int
    number: int
    what: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one task on the events with `tags`.

    `unit`: the number of its unit. If it computes the whole unit, `plan` is the plan of the unit's workers and `state` the encoded first
    state. If it folds, `node` is a worker below the unit's root, and `keys` are the encoded order keys of the root's events, which
    separate the windows; None if there are none.
    """

    number: int
    tags: ImplTagSet
    keeps: frozenset[str] = frozenset()
    plan: Plan | None = None
    state: bytes = b""
    node: PlanNode | None = None
    keys: bytes | None = None
    unit: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """A task's report at its end: staged files and figures. `began`, `ended`, `first_output`: seconds since 1970."""

    files: tuple[StagedOutput, ...]
    unaccepted: tuple[OutputBatch, ...]
    events: int
    outputs: int
    drops: dict[str, int]
    sources: dict[str, Any]
    per_worker: dict[str, dict[str, int]] = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0
    first_output: float | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """The data that all tasks of a run share; Spark ships it to them. `collects`: whether outputs come back as rows."""

    job: Job
    point: ResumePoint
    tasks: tuple[Task, ...]
    collects: bool

    @classmethod
    def of(cls, job: Job, point: ResumePoint, tasks: tuple[Task, ...], *, collects: bool) -> Work:
        """Return the work as it is shipped: without the state, and without the program if tasks can load it."""
        shipped = replace(job, program=None) if job.program_ref is not None else job  # type: ignore[arg-type]
        return cls(shipped, replace(point, state=None, outbox=()), tasks, collects)

    def loaded(self) -> Job:
        """Return the job with its program."""
        if self.job.program_ref is None:
            return self.job
        program = load_program(self.job.program_ref, self.job.base_dir)
        program.hold_at_most(self.job.runtime.buffer_bytes)
        return replace(self.job, program=program)


def batches_of(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow` over a column `id` of the places of tasks in `work`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column("id").to_pylist():
                task = work.tasks[place]
                for answer in guarded(work, task):
                    yield pa.RecordBatch.from_pylist([answer._asdict()], schema=SCHEMA)

    return run


def guarded(work: Work, task: Task) -> Iterator[Answer]:
    """Run a task; a DgsError becomes an answer, so that it reaches the driver whole."""
    for number, row in enumerate(_caught(work, task)):
        yield Answer(task.unit, row.chunk, task.number, number, row.what, row.data)


def _caught(work: Work, task: Task) -> Iterator[Row]:
    try:
        yield from run_task(work, task)
    except DgsError as error:
        yield Row(ERROR, error_row(error))


def run_task(work: Work, task: Task) -> Iterator[Row]:
    """Run a task in this process. Raises any DgsError."""
    job, began = work.loaded(), process.now()
    with (
        closing(Inputs(job, task.tags, task.keeps, work.point)) as inputs,
        TaskOutputs(job, work.point, task.number) as outputs,
    ):
        figures: dict[str, dict[str, int]] = {}
        for made in _made(job, task, inputs, figures):
            if isinstance(made, OutputBatch):
                new = outputs.write(made)
                if work.collects and len(new):
                    yield Row(OUTPUTS, codec.encode(new, keeps_order=True))
            elif isinstance(made, Skipped):
                if outputs.leave_out(made):
                    yield Row(LETTER, codec.encode(made.letter, keeps_order=True))
            else:
                yield made
        staged = outputs.stage()
        yield Row(
            REPORT,
            codec.encode(
                Report(
                    staged.files,
                    staged.unaccepted,
                    inputs.events,
                    outputs.count,
                    inputs.drops(),
                    inputs.described(),
                    figures,
                    began,
                    process.now(),
                    outputs.first,
                )
            ),
        )


def _made(
    job: Job, task: Task, inputs: Inputs, figures: dict[str, dict[str, int]]
) -> Iterator[OutputBatch | Skipped | Row]:
    if task.plan is not None:
        yield from _unit(job, task.plan, task, inputs, figures)
    elif task.node is not None:
        yield from _windows(job.program, task.node, task, inputs)
        figures[task.node.id] = {"host": task.number, "events": inputs.events, "synchronisations": 0}


def _unit(
    job: Job, plan: Plan, task: Task, inputs: Inputs, figures: dict[str, dict[str, int]]
) -> Iterator[OutputBatch | Skipped | Row]:
    """Run the workers of a unit on one host, as every runtime does."""
    lanes = Lanes(plan, job.program.dependence)
    skips, compiles = job.on_error == "skip", job.runtime.compile
    workers = [
        make_worker(node.id, job.program, lanes, skips=skips, compiles=compiles) for node in plan.nodes()
    ]
    home = dict.fromkeys((worker.id for worker in workers), 0)
    size = job.runtime.buffer_bytes
    host = Host(0, workers, lanes, home, hosts=1, sources=inputs.streams, buffer_bytes=size)
    host.workers[plan.root.id].start(codec.decode(task.state))
    host.wake(plan.root.id)
    is_over = False
    while not is_over:
        name = host.next_source()
        if name is not None:
            reading = inputs.read(name)
            host.ingest(name, reading.batches, reading.frontier)
        busy = name is not None
        for _, effect in host.pump():
            busy = True
            if isinstance(effect, Snapshot):
                yield Row(STATE, codec.encode(effect.state, keeps_order=True))
                is_over = True
            elif not isinstance(effect, EpochClosed):
                yield effect
        if not busy and not is_over:
            raise InternalError(problem=f"unit {plan.root.id} waits for events that have all been read")
    for worker in workers:
        counts = {"events": worker.events, "synchronisations": worker.synchronisations}
        figures[worker.id] = {"host": task.number, **counts}


def _windows(program: Program, node: PlanNode, task: Task, inputs: Inputs) -> Iterator[OutputBatch | Row]:
    """Fold accumulating events into partial states: one per window; the last window lies after all keys."""
    keys: EventBatch | None = None if task.keys is None else codec.decode(task.keys)
    count = 0 if keys is None else len(keys)
    types = {state_type.name: state_type for state_type in program.states()}
    folder = Folder(program, types[node.state_type], node.id)
    before: list[Any] = [NOTHING] * count
    last: list[Any] = [NOTHING]
    for batch in inputs.batches():
        below = 0 if keys is None else batch.position_of(keys.key(count - 1))
        if below:
            yield from folder.fold_windows(before, batch.cut(0, below), keys)
        if below < len(batch):
            yield from folder.fold_windows(last, batch.cut(below, len(batch)), None)
    filled = ((i, state) for i, state in enumerate([*before, *last]) if state is not NOTHING)
    for chunk, data in chunks(filled):
        yield Row(WINDOWS, data, chunk)


codec.register(Report, name="dgs.spark.Report")
