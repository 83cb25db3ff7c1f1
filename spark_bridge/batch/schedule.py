"""The schedule of a batch run: its tasks, then the replay of windows and the join of last states up the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dgs import codec
from dgs.model.program import State
from dgs.planner.plan import Plan, PlanNode
from dgs.spark_bridge.batch.plan_units import Division, Unit
from dgs.spark_bridge.batch.replay import Replay
from dgs.spark_bridge.batch.tasks import Report, Task
from dgs.workers.recovery.checkpoint import ResumePoint
from dgs.workers.runtime.job import Job

Windows = Mapping[int, Sequence[tuple[int, State]]]


class Schedule:
    """The tasks of a job from a resume point on. `state`: the whole state there, which is not used again."""

    def __init__(self, job: Job, point: ResumePoint, state: State) -> None:
        self._job, self._point = job, point
        has_one_type = len(job.program.states()) == 1
        self._division = Division(job.program, job.plan, in_windows=has_one_type and job.on_error == "stop")
        self._parts, self._kept = self._division.fork(state)
        self._owners: list[Unit] = []
        self._replays: dict[str, Replay] = {}
        found = [task for unit in self._division.units for task in self._tasks_of(unit, has_one_type)]
        self.tasks = self._kept_by(found)

    def notices(self) -> Iterator[str]:
        """Yield a notice for each group of the plan's workers that cannot work in parallel on Spark."""
        for unit in self._division.units:
            count = sum(1 for _ in unit.node.walk())
            if count > 1 and unit.node.id not in self._replays:
                yield (
                    f"{count} workers of the plan, {unit.node.id} and those below it, hand states to each other while they run, "
                    "which tasks of Spark cannot: they work in one task"
                )

    def finished(
        self,
        states: Mapping[int, State],
        windows: Windows,
        show: Callable[[Any], None],
    ) -> tuple[State, list[Report]]:
        """Return the last state, and a report for each replayed unit; `show` gets its outputs."""
        last: dict[str, State] = {}
        reports: list[Report] = []
        for task, unit in zip(self.tasks, self._owners, strict=True):
            if task.plan is not None:
                last[unit.node.id] = states[task.number]
        for name, replay in self._replays.items():
            mine = zip(self.tasks, self._owners, strict=True)
            numbers = [task.number for task, unit in mine if unit.node.id == name]
            folds = [windows[number] for number in numbers if number in windows]  # joined: each window once
            number = len(self.tasks) + len(reports)
            last[name], report = replay.run(self._parts[name], folds, number, show)
            reports.append(report)
        return self._division.join(last, self._kept), reports

    def _tasks_of(self, unit: Unit, has_one_type: bool) -> list[Task]:
        replay = self._replay(unit)
        if replay is None:
            node = unit.node
            tags = node.subtree_tags()
            alone = PlanNode(node.id, tags, node.state_type)  # one worker does sequentially the work of all
            plan = Plan(alone if has_one_type else node)
            tasks = [Task(0, tags, plan=plan, state=codec.encode(self._parts[node.id], keeps_order=True))]
        else:
            self._replays[unit.node.id] = replay
            tasks = [Task(0, node.tags, node=node, keys=replay.keys) for node in unit.folds]
        first = len(self._owners)
        self._owners += [unit] * len(tasks)
        return [replace(task, number=first + i, unit=unit.number) for i, task in enumerate(tasks)]

    def _replay(self, unit: Unit) -> Replay | None:
        if not unit.folds:
            return None
        others = {
            stream for node in self._job.plan.nodes() if node is not unit.node for stream, _ in node.tags
        }
        replay = Replay(self._job, unit.node, self._point, keeps=frozenset([unit.stream]) - others)
        return replay if replay.is_possible else None

    def _kept_by(self, tasks: Sequence[Task]) -> tuple[Task, ...]:
        """Return the tasks, with each stream kept by the first task that reads it; the first task keeps streams that none reads."""
        keeps: list[set[str]] = [set() for _ in tasks]
        replayed = {stream for replay in self._replays.values() for stream in replay.keeps}
        for stream in (name for config in self._job.streams for name in config.impl_streams):
            readers = [i for i, task in enumerate(tasks) if task.tags.stream(stream)]
            if readers or stream not in replayed:
                keeps[readers[0] if readers else 0].add(stream)
        return tuple(replace(task, keeps=frozenset(mine)) for task, mine in zip(tasks, keeps, strict=True))
