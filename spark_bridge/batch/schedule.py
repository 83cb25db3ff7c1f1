"""The schedule of a batch run: its tasks and replays, and the join of last states up the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from math import ceil, inf
from pathlib import Path

from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.program import State
from dgs.planner.plan import Plan, PlanNode
from dgs.spark_bridge.batch.plan_units import Division, Unit, cut
from dgs.spark_bridge.batch.root_events import RootEvents
from dgs.spark_bridge.batch.task_inputs import Inputs
from dgs.spark_bridge.batch.tasks import Replay, Task
from dgs.workers.recovery.checkpoint import ResumePoint, encoded_state
from dgs.workers.recovery.positions import declared
from dgs.workers.runtime.job import Job
from dgs.workers.sources.row_groups import parts, row_groups

LEAST_ROWS = 250_000
"""The least number of rows, about, in a part of a stream: with fewer, its task would mostly start and end."""

PARTS_A_CORE = 2
"""Large parts for each core, over all streams and units in windows, so that a slow part holds up less."""

LARGE_PART = 4_000_000
"""The rows of a part that are worth the start of one more task."""

LEAST_IN_WINDOW = 16
"""The least average number of rows in a window for which a unit of one worker is cut: each window's state goes to another task."""


class Schedule:
    """The tasks and replays of a job from a resume point on.

    `state`: the whole state there, which is not used again. `directory`: where the events of roots go, for the tasks. `cores`: the
    tasks that Spark runs at a time. Raises the errors of the roots' sources.
    """

    def __init__(self, job: Job, point: ResumePoint, state: State, *, directory: Path, cores: int) -> None:
        self._job, self._point, self._directory, self._cores = job, point, directory, cores
        self._has_one_type = len(job.program.states()) == 1
        in_windows = self._has_one_type and job.on_error == "stop"
        self._division = Division(job.program, job.plan, in_windows=in_windows)
        self._states, self._kept = self._division.fork(state)
        self._units = self._in_windows() if in_windows else self._division.units
        tasks: list[Task] = []
        self._roots: dict[int, Replay] = {}
        self._kept_by_roots: set[str] = set()
        for unit in self._division.units:
            for task in self._folds_of(self._units[unit.number]) or [self._whole(unit)]:
                tasks.append(replace(task, number=len(tasks), unit=unit.number))
        self.tasks = self._kept_by(tasks)
        self.replays = tuple(
            replace(replay, number=len(tasks) + i) for i, replay in enumerate(self._roots.values())
        )

    def notices(self) -> Iterator[str]:
        """Yield a notice for each group of the plan's workers that cannot work in parallel on Spark."""
        for unit in self._division.units:
            count = sum(1 for _ in unit.node.walk())
            if count > 1 and unit.number not in self._roots:
                yield (
                    f"{count} workers of the plan, {unit.node.id} and those below it, hand states to each other while they run, "
                    "which tasks of Spark cannot: they work in one task"
                )

    def joined(self, states: Mapping[int, State]) -> State:
        """Return the last state of the whole plan, from the last states of its units by their numbers."""
        last = {unit.node.id: states[unit.number] for unit in self._division.units}
        return self._division.join(last, self._kept)

    def _whole(self, unit: Unit) -> Task:
        node = unit.node
        tags = node.subtree_tags()
        alone = PlanNode(node.id, tags, node.state_type)  # one worker does the work of all, sequentially
        plan = Plan(alone if self._has_one_type else node)
        return Task(0, tags, plan=plan, state=self._first_state(unit))

    def _in_windows(self) -> tuple[Unit, ...]:
        """Return the units, those of one worker cut where there would be fewer tasks than cores.

        A plan that the user asks for is taken as it is: sums of floats by one worker are those of the sequential program, bit for bit.
        """
        units = self._division.units
        if len(units) >= self._cores or self._job.plan.optimizer in (None, "sequential"):
            return units
        return tuple(unit if unit.folds else cut(unit, self._job.program) or unit for unit in units)

    def _folds_of(self, unit: Unit) -> list[Task]:
        """Return the tasks that fold for a unit: one for each part of a stream that has parts, else one for each worker.

        There are none if the unit is not computed in windows: it was cut, and that would give no more tasks, or many small windows.
        """
        in_parts = self._parts_of(unit)
        most = inf
        if not self._division.units[unit.number].folds:
            if not in_parts:
                return []
            most = (
                sum(rows.stop - rows.start for ranges in in_parts.values() for rows in ranges)
                // LEAST_IN_WINDOW
            )
        replay = self._replay(unit, most)
        if replay is None:
            return []
        self._roots[unit.number] = replay
        return list(self._folding(unit, in_parts, replay.root))

    def _folding(
        self, unit: Unit, in_parts: Mapping[str, Sequence[range]], root: RootEvents
    ) -> Iterator[Task]:
        for node in unit.folds:
            tags = ImplTagSet.of({s: some for s, some in node.tags if declared(s)[0] not in in_parts})
            if tags:
                yield Task(0, tags, node=node, root=root)
        for name, ranges in in_parts.items():
            owners = [node for node in unit.folds if _of_stream(node, name)]
            tags = ImplTagSet()
            for node in owners:
                tags |= _of_stream(node, name)
            for i, rows in enumerate(ranges):
                yield Task(0, tags, node=owners[i % len(owners)], root=root, rows={name: rows})

    def _parts_of(self, unit: Unit) -> dict[str, list[range]]:
        """Return the parts of the streams that have several, or that several workers of a unit would read."""
        owners = Counter(
            name for node in unit.folds for name in {declared(stream)[0] for stream, _ in node.tags}
        )
        return {
            name: ranges
            for name, ranges in self._parts.items()
            if name in owners and max(owners[name], len(ranges)) > 1
        }

    @cached_property
    def _parts(self) -> dict[str, list[range]]:
        """The parts of each stream that can be read in parts. After a resume and up to a cut, streams are read as a whole.

        With many units there are fewer parts, since each unit reads all parts of a stream that they share.
        """
        if self._point.epoch or self._job.until is not None:
            return {}
        in_windows = [unit for unit in self._units if unit.folds]
        streams = set().union(*map(_folded, in_windows))
        groups = {
            config.id: row_groups(config, self._job.source_context)
            for config in self._job.streams
            if config.id in streams
        }
        rows = sum(map(sum, groups.values()))
        most = max(1, self._cores // max(len(in_windows), 1))
        if rows >= most * PARTS_A_CORE * LARGE_PART:
            most *= PARTS_A_CORE
        return {
            name: parts(sizes, least=LEAST_ROWS, most=ceil(sum(sizes) * most / rows))
            for name, sizes in groups.items()
            if sizes
        }

    def _replay(self, unit: Unit, most: float) -> Replay | None:
        """Read the events of a unit's root, and keep its stream unless tasks read it, too. Return None if there are more than `most`."""
        node, others = unit.node, [other for other in self._job.plan.nodes() if other.id != unit.node.id]
        theirs = {stream for other in (*others, *unit.folds) for stream, _ in other.tags}
        keeps = frozenset(stream for stream, _ in node.tags) - theirs
        with closing(Inputs(self._job, node.tags, keeps, self._point)) as inputs:
            root = RootEvents.written(self._directory / str(unit.number), _until(inputs.batches(), most))
            drops, sources = inputs.drops(), inputs.described()
        if root.count > most:
            return None
        self._kept_by_roots |= keeps
        return Replay(0, unit.number, node, root, self._first_state(unit), drops, sources)

    def _first_state(self, unit: Unit) -> bytes:
        return encoded_state(self._states[unit.node.id])

    def _kept_by(self, tasks: Sequence[Task]) -> tuple[Task, ...]:
        """Return the tasks, with each stream kept by the first task that reads it, and by all that read other parts of it.

        The first task keeps streams that none reads.
        """
        keeps: list[set[str]] = [set() for _ in tasks]
        for stream in (name for config in self._job.streams for name in config.impl_streams):
            readers = [task for task in tasks if task.tags.stream(stream)]
            if stream in self._kept_by_roots and not readers:
                continue
            first = readers[0] if readers else tasks[0]
            rest = [one for one in readers if one.unit == first.unit and one.rows.keys() == first.rows.keys()]
            for task in rest if readers and first.rows else [first]:
                keeps[task.number].add(stream)
        return tuple(replace(task, keeps=frozenset(mine)) for task, mine in zip(tasks, keeps, strict=True))


def _until(batches: Iterable[EventBatch], most: float) -> Iterator[EventBatch]:
    """Yield batches until they have more than `most` events."""
    count = 0
    for batch in batches:
        yield batch
        count += len(batch)
        if count > most:
            return


def _folded(unit: Unit) -> set[str]:
    """Return the streams whose events are folded for a unit."""
    return {declared(stream)[0] for node in unit.folds for stream, _ in node.tags}


def _of_stream(node: PlanNode, name: str) -> ImplTagSet:
    return ImplTagSet.of({stream: tags for stream, tags in node.tags if declared(stream)[0] == name})
