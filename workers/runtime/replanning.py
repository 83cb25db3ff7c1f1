"""Replanning: a run looks now and then whether another plan would be faster, and says so or moves to it.

The hosts count events by tag, and `dgs.planner.moving` decides. Plans are compared in a thread of their own, since planning takes up to a
second, and the loop of a local run must not wait for it.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dgs.errors import OutputUnwritableError
from dgs.job import private_files
from dgs.job.document import dump
from dgs.model.events import declared_stream
from dgs.model.tags import Tag
from dgs.planner.moving import Counts, Moving
from dgs.planner.plan_data import to_data
from dgs.planner.prediction.choice import rate
from dgs.workers.observing.figures import Move
from dgs.workers.recovery.coordinator import ControlRequest
from dgs.workers.runtime.control import post
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.job import Caller, Comparison, Job
from dgs.workers.runtime.run_story import in_a_line
from dgs.workers.sources.rows import SECOND

BETTER_PLAN = "better-plan.yaml"
"""The name of the plan in the control directory of the run."""

BY = "`replan: auto`"


@dataclass
class _Comparing:
    """A comparison in a thread. `found`: its result, or the error that ended it. `took`: its processor time in seconds."""

    found: Comparison | Exception | None = None
    took: float = 0.0


def _in_a_thread(compare: Callable[[], None]) -> None:
    threading.Thread(target=compare, name="dgs-replan", daemon=True).start()


class Replanning:
    """Replanning of one run, over all its generations. Without `replan:` or a run directory it does nothing.

    `moves`: the moves to plans that it proposed. `counted`: all events so far by declared stream and tag. `clock`: seconds, of which only
    differences matter. `start` begins a comparison.
    """

    def __init__(
        self,
        job: Job,
        caller: Caller,
        *,
        clock: Callable[[], float] = time.monotonic,
        start: Callable[[Callable[[], None]], None] = _in_a_thread,
    ) -> None:
        config = job.replan
        self._caller, self._clock, self._start = caller, clock, start
        self._is_on = config is not None and caller.compared is not None and job.control_dir is not None
        self._is_automatic = config is not None and config.mode == "auto"
        after, gain = (30.0, 2.0) if config is None else (config.after / SECOND, config.gain)
        self._after = after
        self._moving = Moving(after=after, gain=gain)
        self._deployment: Deployment | None = None
        self._comparing: _Comparing | None = None
        self._proposed: Move | None = None
        self._is_new = False  # the current plan was proposed here, and has not been measured yet
        self.moves: list[Move] = []
        self.counted: dict[tuple[str, Tag | None], float] = {}
        self._rates: dict[str, dict[Tag, float]] | None = None

    def begin(self, deployment: Deployment) -> None:
        """Start counting anew: a generation begins, perhaps under another plan."""
        self._deployment = deployment
        self._comparing = None
        self._moving.begin()

    def look(self, taken: Callable[[], Iterable[Counts]]) -> None:
        """Look whether it is time to compare plans. `taken`: the events by tag that each host has read since the last look."""
        if not self._is_on or self._deployment is None:
            return
        now = self._clock()
        self._judge(now)
        if not self._is_on or not self._moving.is_due(now):
            return
        rates = self._moving.counted(now, self._counted(taken()))
        self._say_what_a_move_has_brought()
        if rates is not None and self._comparing is None:
            if self._proposed is None:  # else the run stops reading, to move, and the rates would show that
                self._rates = _by_stream(rates)
            self._comparing = self._started(self._deployment, rates)

    def end(self, taken: Callable[[], Iterable[Counts]]) -> None:
        """Count what the hosts of a generation that ends have read since the last look."""
        if self._deployment is not None and self._deployment.job.replan is not None:
            self._counted(taken())

    def _counted(self, taken: Iterable[Counts]) -> Counts:
        new = _sum(taken)
        for (stream, tag), events in new.items():
            key = declared_stream(stream), tag
            self.counted[key] = self.counted.get(key, 0.0) + events
        return new

    def moved(self, job: Job, path: str) -> Job:
        """Return a job that has moved to the plan of a file, with the current rates, by which its workers are placed."""
        if self._proposed is not None and Path(path).name == BETTER_PLAN:
            self.moves.append(self._proposed)
            self._proposed, self._is_new = None, True
        return job if self._rates is None else replace(job, rates=self._rates)

    def _started(self, deployment: Deployment, rates: Counts) -> _Comparing:
        comparing, compared = _Comparing(), self._caller.compared

        def compare() -> None:
            began = time.thread_time()
            found: Comparison | Exception | None
            try:
                found = compared(deployment.home, rates) if compared else None
            except Exception as error:  # noqa: BLE001 - the run is more important than advice
                found = error
            comparing.took = time.thread_time() - began
            comparing.found = found  # last, since others look for it

        self._start(compare)
        return comparing

    def _judge(self, now: float) -> None:
        """Act on the result of a comparison."""
        comparing = self._comparing
        if comparing is None or comparing.found is None:
            return
        self._comparing, found = None, comparing.found
        if isinstance(found, Exception):
            self._is_on = False
            self._caller.notify(f"plans cannot be compared any more: {in_a_line(found)}")
        elif self._moving.compared(now, found.gain, took=comparing.took):
            self._propose(found)

    def _propose(self, found: Comparison) -> None:
        """Write a better plan into the run directory, and tell the caller; in automatic mode, request the move."""
        deployment = self._deployment
        if deployment is None or deployment.job.control_dir is None:
            return
        job, directory = deployment.job, deployment.job.control_dir
        path = directory / BETTER_PLAN
        streams = [name for config in job.streams for name in config.impl_streams]
        try:
            private_files.make_directory(directory)
            private_files.write(path, dump({"plan": to_data(found.plan, job.program, streams=streams)}))
            if self._is_automatic:
                post(directory, ControlRequest("replan", BY, str(path)))
        except (OSError, OutputUnwritableError) as error:
            self._caller.notify(f"a better plan cannot be written: {in_a_line(error)}")
            return
        better = (
            f"at the rates of the last {self._after:g} s a plan with {_workers(len(found.plan))} is predicted to be "
            f"{found.gain:.2g} times as fast as that with {_workers(len(job.plan))} "
            f"({rate(found.best)} instead of {rate(found.current)})"
        )
        if self._is_automatic:
            self._proposed = Move(len(found.plan), found.gain, self._moving.rate or 0.0)
            self._caller.notify(f"{better}: the run moves to it")
        else:
            run, plan = (os.path.relpath(place) for place in (directory.parent, path))
            self._caller.notify(f"{better}: {shlex.join(['dgs', 'replan', run, '--plan', plan])}")

    def _say_what_a_move_has_brought(self) -> None:
        """Compare the throughput before and after a move, once the new plan has been used for long enough."""
        if not self._is_new or self._moving.rate is None:
            return
        move = self.moves[-1] = replace(self.moves[-1], after=self._moving.rate)
        self._is_new = False
        self._caller.notify(
            f"since the run has moved it processes {rate(self._moving.rate)}, and {rate(move.before)} before"
        )


def _workers(count: int) -> str:
    return "one worker" if count == 1 else f"{count} workers"


def _sum(taken: Iterable[Counts]) -> dict[tuple[str, Tag | None], float]:
    """Return the counts of all hosts together."""
    total: dict[tuple[str, Tag | None], float] = {}
    for counts in taken:
        for tag, count in counts.items():
            total[tag] = total.get(tag, 0.0) + count
    return total


def _by_stream(rates: Counts) -> dict[str, dict[Tag, float]]:
    """Return the rates of single tags by implementation stream."""
    streams: Mapping[str, dict[Tag, float]] = {stream: {} for stream, _ in rates}
    for (stream, tag), per_second in rates.items():
        if tag is not None:
            streams[stream][tag] = per_second
    return dict(streams)
