"""Replay of a unit in windows: the driver applies the events of the unit's root between the partial states that tasks have folded.

Law: the state and the outputs are those of the sequential program, because kinds that accumulate satisfy
`update(s, e) == join(s, update(identity(), e))`, with the same outputs for every s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from dgs import codec
from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.outputs import OutputBatch
from dgs.model.program import State
from dgs.planner.plan import PlanNode
from dgs.spark_bridge.batch.task_inputs import Inputs
from dgs.spark_bridge.batch.task_outputs import TaskOutputs
from dgs.spark_bridge.batch.tasks import Report
from dgs.workers.protocol.folding.fold import NOTHING, Folder
from dgs.workers.protocol.forking import Forking
from dgs.workers.recovery.checkpoint import ResumePoint
from dgs.workers.runtime import process
from dgs.workers.runtime.job import Job

MOST_WINDOWS = 65_536
"""Most windows of a unit. With more, partial states would be about as many as events, so one task computes the unit."""


class Replay:
    """Reads all events of a unit's root in advance. `keeps`: the streams whose read positions only this replay reports."""

    def __init__(self, job: Job, node: PlanNode, point: ResumePoint, *, keeps: frozenset[str]) -> None:
        self._job, self._node, self._point, self.keeps = job, node, point, keeps
        self._began = process.now()
        own = ImplTagSet.of(dict(node.tags.streams))
        with closing(Inputs(job, own, keeps, point)) as inputs:
            self._batches = self._read(inputs)
            self._events, self._drops = inputs.events, inputs.drops()
            self._sources = inputs.described() if self.is_possible else {}

    def _read(self, inputs: Inputs) -> list[EventBatch]:
        found: list[EventBatch] = []
        for batch in inputs.batches():
            found.append(batch)
            if inputs.events > MOST_WINDOWS:
                break
        return found

    @property
    def is_possible(self) -> bool:
        """Whether the unit has at most MOST_WINDOWS root events."""
        return self._events <= MOST_WINDOWS

    @property
    def keys(self) -> bytes | None:
        """The order keys of the events, encoded; None if there are no events."""
        if not self._batches:
            return None
        first = self._batches[0]
        ts = np.concatenate([batch.ts for batch in self._batches])
        seq = np.concatenate([np.asarray(batch.seq) for batch in self._batches])
        return codec.encode(EventBatch.of(first.stream, rank=first.rank, tags=first.tags[:1], ts=ts, seq=seq))

    def run(
        self,
        state: State,
        folds: Sequence[Sequence[tuple[int, State]]],
        number: int,
        show: Callable[[OutputBatch], None],
    ) -> tuple[State, Report]:
        """Return the last state and a report.

        `folds`: the partial states of each task with the numbers of their windows; `number`: the number in the names of output
        files; `show` gets the outputs.
        """
        windows = [self._in_order(fold) for fold in folds or [()]]  # at least one fold, if all are empty
        types = {state_type.name: state_type for state_type in self._job.program.states()}
        folder = Folder(self._job.program, types[self._node.state_type], self._node.id)
        with TaskOutputs(self._job, self._point, number) as outputs:
            offset = 0
            for batch in self._batches:
                parts = [window[offset : offset + len(batch)] for window in windows]
                state, made = folder.fold_joined(state, batch, parts)
                offset += len(batch)
                for one in made:
                    show(outputs.write(one))
            forking = Forking(self._job.program, self._node, [])
            for window in windows:
                if window[-1] is not NOTHING:
                    state = forking.joined_with(state, window[-1])
            staged = outputs.stage()
            count, first = outputs.count, outputs.first
        counts: dict[str, Any] = {"events": self._events, "synchronisations": self._events}
        figures = {self._node.id: {"host": number, **counts}}
        return state, Report(
            staged.files,
            staged.unaccepted,
            self._events,
            count,
            self._drops,
            self._sources,
            figures,
            self._began,
            process.now(),
            first,
        )

    def _in_order(self, fold: Sequence[tuple[int, State]]) -> list[Any]:
        found: list[Any] = [NOTHING] * (self._events + 1)
        for window, state in fold:
            found[window] = state
        return found
