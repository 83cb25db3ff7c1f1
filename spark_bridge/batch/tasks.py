"""The Spark tasks of a batch run: a task computes a unit of the plan, or folds accumulating events below a unit into windows.

A task gets its number and answers with rows: outputs and dead letters if the caller wants them, partial states, its last state, and
a report; or one row with the error that ended it. Its outputs go to sinks of its own, as a host's do, and wait there for the driver's
commit. A repeated task writes the same files again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from dgs import codec
from dgs.errors import DgsError, InternalError
from dgs.job.loading import load_program
from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import BEGIN, END
from dgs.model.outputs import OutputBatch
from dgs.planner.plan import Plan, PlanNode
from dgs.spark_bridge.batch.root_events import RootEvents
from dgs.spark_bridge.batch.task_inputs import Edges, Inputs
from dgs.spark_bridge.batch.task_outputs import TaskOutputs, error_row
from dgs.spark_bridge.batch.window_states import WINDOWS_A_CHUNK, OpenWindows, Window, chunks, folder_of
from dgs.workers.protocol.host import Host, make_worker
from dgs.workers.protocol.lanes import Lanes
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

LARGEST_BATCH = 2**20
"""The number of bytes at which answers go to Spark."""

NO_CHUNK = -1
"""The chunk number of rows without partial states."""


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
    """The work of one task on the events with `tags`. `rows`: the row groups to read of a stream; other streams are read as a whole.

    `unit`: the number of its unit. If it computes the whole unit, `plan` is the plan of the unit's workers and `state` the encoded first
    state. If it folds, `node` is a worker below the unit's root, and the keys of the events of `root` separate the windows.
    """

    number: int
    tags: ImplTagSet
    keeps: frozenset[str] = frozenset()
    plan: Plan | None = None
    state: bytes = b""
    node: PlanNode | None = None
    root: RootEvents | None = None
    unit: int = 0
    rows: Mapping[str, range] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replay:
    """The replay of a unit in windows: the events of its root over the joined partial states, from the encoded first `state` on.

    `number`: for its outputs, after the numbers of tasks; `drops` and `sources`: the driver's report on the root's stream.
    """

    number: int
    unit: int
    node: PlanNode
    root: RootEvents
    state: bytes
    drops: dict[str, int]
    sources: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """A task's report at its end: staged files and figures. `began`, `ended`, `first_output`: seconds since 1970.

    `skipped`: the events left out whose letters are not among the answers. `edges`: for each stream that it has read in part, the row and
    the time of the first event, and the time of the last.
    """

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
    skipped: int = 0
    edges: dict[str, Edges] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """The data that all tasks of a run share; Spark ships it to them. `collects`: whether outputs and dead letters come back as rows."""

    job: Job
    point: ResumePoint
    tasks: tuple[Task, ...]
    replays: tuple[Replay, ...]
    collects: bool

    @classmethod
    def of(
        cls,
        job: Job,
        point: ResumePoint,
        tasks: tuple[Task, ...],
        replays: tuple[Replay, ...],
        *,
        collects: bool,
    ) -> Work:
        """Return the work as it is shipped: without the state, and without the program if tasks can load it."""
        shipped = replace(job, program=None) if job.program_ref is not None else job  # type: ignore[arg-type]
        return cls(shipped, replace(point, state=None, outbox=()), tasks, replays, collects)

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
        places = (place for batch in batches for place in batch.column("id").to_pylist())
        return in_arrow(answer for place in places for answer in guarded(work, work.tasks[place]))

    return run


def read_answers(batches: Iterable[pa.RecordBatch]) -> Iterator[Answer]:
    """Yield the answers in batches that Spark passes on."""
    for batch in batches:
        yield from map(Answer, *(batch.column(name).to_pylist() for name in SCHEMA.names))


def in_arrow(answers: Iterable[Answer]) -> Iterator[pa.RecordBatch]:
    """Yield answers as batches of limited size."""
    held: list[Answer] = []
    size = 0
    for answer in answers:
        held.append(answer)
        size += len(answer.data)
        if size > LARGEST_BATCH:
            yield _in_batch(held)
            held, size = [], 0
    if held:
        yield _in_batch(held)


def _in_batch(answers: Sequence[Answer]) -> pa.RecordBatch:
    columns = zip(*answers, strict=True)
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA
    )


def guarded(work: Work, task: Task) -> Iterator[Answer]:
    """Run a task; a DgsError becomes an answer, so that it reaches the driver whole."""
    return answers_of(task.unit, task.number, run_task(work, task))


def answers_of(unit: int, task: int, rows: Iterable[Row]) -> Iterator[Answer]:
    """Yield the rows of a task as answers; a DgsError that ends them becomes the last one."""
    number = 0
    try:
        for row in rows:
            yield Answer(unit, row.chunk, task, number, row.what, row.data)
            number += 1
    except DgsError as error:
        yield Answer(unit, NO_CHUNK, task, number, ERROR, error_row(error))


def run_task(work: Work, task: Task) -> Iterator[Row]:
    """Run a task in this process. Raises any DgsError."""
    job, began = work.loaded(), process.now()
    with (
        closing(Inputs(job, task.tags, task.keeps, work.point, task.rows)) as inputs,
        TaskOutputs(job, work.point, task.number) as outputs,
    ):
        figures: dict[str, dict[str, int]] = {}
        for made in _made(job, task, inputs, figures):
            if isinstance(made, Row):
                yield made
            else:
                yield from written(made, outputs, collects=work.collects)
        staged = outputs.stage()
        report = Report(
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
            0 if work.collects else outputs.skipped,
            inputs.edges,
        )
        yield Row(REPORT, codec.encode(report))


def written(made: OutputBatch | Skipped, outputs: TaskOutputs, *, collects: bool) -> Iterator[Row]:
    """Write outputs, or the dead letter of a skipped event; yield the row for the caller if it collects them."""
    if isinstance(made, OutputBatch):
        new = outputs.write(made)
        if collects and len(new):
            yield Row(OUTPUTS, codec.encode(new, keeps_order=True))
    elif outputs.leave_out(made) and collects:
        yield Row(LETTER, codec.encode(made.letter, keeps_order=True))


def _made(
    job: Job, task: Task, inputs: Inputs, figures: dict[str, dict[str, int]]
) -> Iterator[OutputBatch | Skipped | Row]:
    if task.plan is not None:
        yield from _unit(job, task.plan, task, inputs, figures)
    elif task.node is not None:
        yield from _windows(job, task, inputs)
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


def _windows(job: Job, task: Task, inputs: Inputs) -> Iterator[OutputBatch | Row]:
    """Fold accumulating events into partial states, stream by stream; yield each window when the stream has passed it."""
    if task.node is None or task.root is None:
        raise InternalError(problem=f"task {task.number} has no windows")
    folder, keys = folder_of(job, task.node), task.root.keys()
    for name in inputs.streams:
        windows, passed = OpenWindows(folder, keys), list[Window]()
        frontier = BEGIN
        while frontier != END:
            reading = inputs.read(name)
            frontier = reading.frontier
            for batch in reading.batches:
                yield from windows.fold(batch)
            passed += windows.closed(frontier)
            if frontier == END or len(passed) >= WINDOWS_A_CHUNK:
                yield from (Row(WINDOWS, data, chunk) for chunk, data in chunks(passed))
                passed = []


codec.register(Report, name="dgs.spark.Report")
