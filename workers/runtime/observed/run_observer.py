"""Observes a run over all its generations: gathers the figures of its hosts, writes them to the run directory, and shows them to the caller.

Law: it reads what the hosts report, and gives nothing back to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dgs.workers.observing.figures import Generation, HostFigures, Move, Phase, RunFigures
from dgs.workers.observing.figures_file import FiguresFile
from dgs.workers.recovery.checkpoint import Checkpoint
from dgs.workers.runtime import process
from dgs.workers.runtime.checkpointing import Commits
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.job import Caller, Job
from dgs.workers.runtime.observed.gathering import first_output, gathered, seconds_of_work
from dgs.workers.sources.live.waiting import SECOND

MOST_GENERATIONS = 20
"""So many of the latest generations are kept in the figures."""


class RunObserver:
    """Observes one run. `figures`: the newest ones. `commits`: its checkpoints. With `observe: off` it only makes the last figures."""

    def __init__(self, job: Job, caller: Caller, commits: Commits) -> None:
        config, directory = job.observe, job.figures_dir
        self._caller, self._commits = caller, commits
        self._every = None if config is None else config.every / SECOND
        self._file = None
        if config is not None and directory is not None:
            self._file = FiguresFile(directory, warn=caller.notify)
        self._hosts: dict[int, HostFigures] = {}
        self._parents: dict[str, str | None] = {}
        self._events = self._outputs = 0  # in the state and committed, when the generation began
        self._last = 0.0
        now = process.now()
        self.figures = RunFigures(t=now, name=job.name, unit=job.unit, began=now)

    def begin(self, deployment: Deployment) -> None:
        """Note that a generation begins. Nothing is known of its hosts yet: what the one before did is no part of it."""
        point, plan = deployment.point, deployment.plan
        first = not self.figures.generations
        self._hosts.clear()
        parents = ((node.id, plan.parent(node.id)) for node in plan.nodes())
        self._parents = {name: None if parent is None else parent.id for name, parent in parents}
        self._events, self._outputs = point.events, self._commits.figures.outputs
        new = Generation(point.generation, process.now(), len(plan), deployment.hosts)
        self.figures = replace(
            self.figures,
            phase="starting",
            generation=point.generation,
            events_before=point.events if first else self.figures.events_before,
            generations=(*self.figures.generations, new)[-MOST_GENERATIONS:],
        )
        self.figures = gathered((), self.figures)
        self._show()

    def take(self, host: HostFigures) -> None:
        """Take the newest figures of a host."""
        self._hosts[host.host] = host

    def show_if_due(self, *, is_stopping: bool = False) -> None:
        """Write and show the newest figures of all hosts, unless the last ones are not `observe.every` old."""
        if self._every is None or not self._hosts or process.now() - self._last < self._every:
            return
        self._gather("stopping" if is_stopping else "running")
        self._show()

    def lost(self, why: str) -> None:
        """Note that a generation was lost, and that the run starts again."""
        self._end_generation(why)
        self.figures = replace(self.figures, phase="restarting", restarts=self.figures.restarts + 1)
        self._show()

    def moved(self, why: str, moves: Sequence[Move]) -> None:
        """Note that a generation has ended for a request."""
        self._end_generation(why)
        self.figures = replace(self.figures, moves=tuple(moves))
        self._show()

    def generation(
        self,
        hosts: Sequence[HostFigures],
        last: Checkpoint | None,
        *,
        seconds: float,
        started: float,
        waited: Sequence[str] | None = None,
    ) -> RunFigures:
        """Return the figures of the generation at its end. `last`: its newest checkpoint. `seconds`: the driver's measure.

        If the last checkpoint saved no state, the hosts' times from the first read to the last output replace it. `started`: seconds
        since 1970.
        """
        self._hosts = {host.host: host for host in hosts}
        self._gather("stopping")
        if last is not None and last.state is None:
            seconds = seconds_of_work(hosts, seconds)
        first = first_output(hosts)
        self.figures = replace(
            self.figures,
            events=0 if last is None else last.events,
            seconds=seconds,
            first_output_seconds=None if first is None else first - started,
            waited=None if waited is None else tuple(waited),
        )
        return self.figures

    def end(self, phase: Phase, figures: RunFigures | None = None, why: str = "") -> None:
        """Note how the run has ended, with its last figures."""
        if self.figures.is_over:
            return
        if figures is not None:
            self.figures = figures
        elif self._hosts:
            self._gather(phase)
        self._end_generation(why)
        self.figures = replace(self.figures, phase=phase)
        self._show()

    def _end_generation(self, why: str) -> None:
        *before, last = self.figures.generations or (Generation(0, self.figures.began),)
        self.figures = replace(self.figures, generations=(*before, replace(last, why=why)))

    def _gather(self, phase: Phase) -> None:
        """Make the figures of what the hosts have last reported."""
        now, hosts = process.now(), [self._hosts[index] for index in sorted(self._hosts)]
        known = replace(
            self.figures,
            t=now,
            phase=phase,
            events=self._events + sum(host.events_in for host in hosts),
            outputs=self._outputs + sum(host.outputs for host in hosts),
            seconds=now - self.figures.began,
            checkpoints=self._commits.figures,
        )
        self.figures = gathered(hosts, known, self._parents)

    def _show(self) -> None:
        self._last = process.now()
        self.figures = replace(self.figures, t=self._last, checkpoints=self._commits.figures)
        if self._file is not None:
            self._file.add(self.figures)
        if self._every is not None:
            self._caller.progress(self.figures)
