"""The replay of units in windows, each in a task: the events of a unit's root over the partial states of the windows.

An update of the root's events need not be associative, so one task goes through the windows of a unit, in order. It gets the partial
states chunk by chunk, joins those of a chunk, and has one chunk in memory.

Law: the state and the outputs are those of the sequential program, because kinds that accumulate satisfy
`update(s, e) == join(s, update(identity(), e))`, with the same outputs for every s.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain, groupby

import pyarrow as pa

from dgs import codec
from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.outputs import OutputBatch
from dgs.model.program import State
from dgs.planner.plan import PlanNode
from dgs.spark_bridge.batch.root_events import pieces
from dgs.spark_bridge.batch.task_inputs import Inputs
from dgs.spark_bridge.batch.task_outputs import TaskOutputs
from dgs.spark_bridge.batch.tasks import (
    ERROR,
    NO_CHUNK,
    REPORT,
    STATE,
    Answer,
    Replay,
    Report,
    Row,
    Work,
    answers_of,
    in_arrow,
    read_answers,
    written,
)
from dgs.spark_bridge.batch.window_states import WINDOWS_A_CHUNK, folder_of, joined
from dgs.workers.protocol.folding.joined_windows import NOTHING
from dgs.workers.protocol.forking import Forking
from dgs.workers.recovery.checkpoint import encoded_state
from dgs.workers.runtime import process
from dgs.workers.runtime.job import Job

Batches = Iterator[pa.RecordBatch]


def replaying(work: Work) -> Callable[[Batches], Batches]:
    """Return the function for `mapInArrow` over answers of tasks, which come unit by unit, chunk by chunk and in order."""
    return lambda batches: in_arrow(replayed(work, read_answers(batches)))


def replayed(work: Work, answers: Iterable[Answer]) -> Iterator[Answer]:
    """Yield the answers of tasks, with the partial states of each unit replaced by the answers of its replay.

    A unit of which a task has failed is not replayed.
    """
    replays = {replay.unit: replay for replay in work.replays}
    for unit, group in groupby(answers, key=lambda answer: answer.unit):
        yield from _of_unit(work, replays.get(unit), group)


def _of_unit(work: Work, replay: Replay | None, answers: Iterator[Answer]) -> Iterator[Answer]:
    has_failed = False
    for answer in answers:
        if answer.chunk != NO_CHUNK:  # the partial states come after all others
            answers = chain([answer], answers)
            break
        has_failed = has_failed or answer.what == ERROR
        yield answer
    if replay is not None and not has_failed:
        yield from answers_of(replay.unit, replay.number, _rows(work, replay, answers))


def _rows(work: Work, replay: Replay, answers: Iterator[Answer]) -> Iterator[Row]:
    """Replay one unit. `answers`: those with its partial states."""
    job, root, began = work.loaded(), replay.root, process.now()
    own = ImplTagSet() if root.has_events else replay.node.tags
    with (
        closing(Inputs(job, own, frozenset(), work.point)) as inputs,
        TaskOutputs(job, work.point, replay.number) as outputs,
    ):
        batches = root.batches() if root.has_events else inputs.batches()
        state, write = codec.decode(replay.state), partial(written, outputs=outputs, collects=work.collects)
        state = yield from _replayed(job, replay.node, state, batches, answers, write=write)
        staged = outputs.stage()
    yield Row(STATE, encoded_state(state))
    figures = {replay.node.id: {"host": replay.number, "events": root.count, "synchronisations": root.count}}
    report = Report(
        staged.files,
        staged.unaccepted,
        root.count,
        outputs.count,
        replay.drops,
        replay.sources,
        figures,
        began,
        process.now(),
        outputs.first,
    )
    yield Row(REPORT, codec.encode(report))


def _replayed(
    job: Job,
    node: PlanNode,
    state: State,
    batches: Iterable[EventBatch],
    answers: Iterable[Answer],
    *,
    write: Callable[[OutputBatch], Iterator[Row]],
) -> Generator[Row, None, State]:
    """Yield the rows of outputs; return the last state."""
    forking = Forking(job.program, node, [])
    chunks = (
        (chunk, joined((codec.decode(answer.data) for answer in group), forking.joined_with))
        for chunk, group in groupby(answers, key=lambda answer: answer.chunk)
    )
    folder = folder_of(job, node)
    chunk, windows, passed = -1, dict[int, State](), 0
    for batch in pieces(batches, WINDOWS_A_CHUNK):
        if chunk < passed // WINDOWS_A_CHUNK:
            chunk, windows = next(chunks, (chunk, {}))
        part = [windows.get(i, NOTHING) for i in range(passed, passed + len(batch))]
        state, made = folder.fold_joined(state, batch, [part])
        passed += len(batch)
        for one in made:
            yield from write(one)
    if chunk < passed // WINDOWS_A_CHUNK:
        _, windows = next(chunks, (chunk, {}))
    return forking.joined_with(state, windows[passed]) if passed in windows else state
