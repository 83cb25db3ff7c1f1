"""The pool of hosts of a run: idle hosts are started in advance, so that the run resumes quickly after a loss.

Most of the time between a kill and the next commit goes into starting Python and importing modules, about a second of work for
each host. So a checkpointed run on its own cluster keeps as many idle hosts as it has busy ones. After a loss the idle hosts take
over, and new idle ones are started once the next generation is at work.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from typing import Any

from dgs.workers.ray_runtime.hosts import wait_until_gone
from dgs.workers.runtime.job import Job

KNOWN_SECONDS = 0.1
"""The time for Ray to report that an idle host has died."""


class HostPool:
    """Makes actors of `ray_runtime.actor.HostActor`. Idle ones reserve no Ray CPU; each costs its memory and 1 s of start-up."""

    def __init__(self, ray: Any, job: Job) -> None:
        from dgs.workers.ray_runtime.actor import HostActor

        threads = {"loop": 1, "frames": 1, "control": 1}
        self._ray = ray
        self._make = ray.remote(max_restarts=0, max_task_retries=0, concurrency_groups=threads)(HostActor)
        self._keeps = job.checkpoint is not None and job.runtime.address == "local"
        self._idle: list[Any] = []
        self.places: list[str] = []  # the nodes for the next new hosts while another one is cut off
        self._leaving: list[int] = []
        self._tokens: set[bytes] = set()

    def take(self, count: int) -> list[Any]:
        """Return `count` hosts: idle ones that are alive, and new ones for the rest."""
        waiting, self._idle = self._idle[:count], self._idle[count:]
        alive = [actor for actor in waiting if self._is_alive(actor)]
        return alive + [self._new(index) for index in range(count - len(alive))]

    def _new(self, index: int) -> Any:
        """Start a host: where Ray has a CPU for it, or on its place."""
        if index >= len(self.places):
            return self._make.options(num_cpus=1).remote()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(self.places[index], soft=False)
        return self._make.options(num_cpus=1, scheduling_strategy=there).remote()

    def _is_alive(self, actor: Any) -> bool:
        """Return whether a host is alive as far as Ray knows. A host that is still starting counts as alive."""
        reference = actor.alive.remote()
        done, _ = self._ray.wait([reference], timeout=KNOWN_SECONDS)
        try:
            self._ray.get(done)
        except self._ray.exceptions.RayError:
            return False
        return True

    def refill(self, count: int) -> None:
        """Start idle hosts until there are `count`, if this run keeps idle hosts."""
        while self._keeps and len(self._idle) < count:
            self._idle.append(self._make.options(num_cpus=0).remote())

    def leave(self, processes: Iterable[int], token: bytes | None) -> None:
        """Note the processes of killed hosts, and the token of their sockets. New hosts may start while these end."""
        self._leaving += processes
        if token is not None:
            self._tokens.add(token)

    def settle(self) -> None:
        """Wait until killed hosts are gone, so that their files may be touched. Remove directories that they left behind."""
        wait_until_gone(self._leaving)
        self._leaving.clear()
        while self._tokens:
            _sweep(self._tokens.pop())

    def end(self) -> None:
        """Wait until killed hosts are gone, and kill the idle ones."""
        self.settle()
        for actor in self._idle:
            self._ray.kill(actor, no_restart=True)
        self._idle.clear()


def _sweep(token: bytes) -> None:
    """Remove the socket directories of hosts that were killed before all were connected."""
    if sys.platform == "linux":
        from dgs.workers.transport.unix_door import directories_of

        for left in directories_of(token):
            shutil.rmtree(left, ignore_errors=True)
