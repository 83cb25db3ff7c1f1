"""The pool of hosts of a run: the hosts without work, so that a run resumes quickly after a loss.

Starting Python and importing modules takes about a second of work for each host, which is most of the time between a kill and the
next commit. So hosts that survive a generation take part in the next one. A checkpointed run on its own cluster also keeps one host
in reserve, which takes the place of a lost one. Another one is started once the next generation has committed something.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dgs.workers.ray_runtime.hosts import Released, wait_until_gone
from dgs.workers.runtime.job import Job

KNOWN_SECONDS = 0.1
"""The time for Ray to report that an idle host has died."""


class HostPool:
    """Makes actors of `ray_runtime.actor.HostActor`. A host in reserve takes none of Ray's CPUs, but memory and 1 s of start-up."""

    def __init__(self, ray: Any, job: Job) -> None:
        from dgs.workers.ray_runtime.actor import HostActor

        threads = {"loop": 1, "frames": 1, "control": 1}
        self._ray = ray
        self._make = ray.remote(max_restarts=0, max_task_retries=0, concurrency_groups=threads)(HostActor)
        self._paths = [str(Path(path).resolve()) for path in sys.path if Path(path).is_dir()]
        self._keeps = job.checkpoint is not None and job.runtime.address == "local"
        self._idle: list[Released] = []
        # the nodes for the next hosts, one for each CPU, while another node is cut off
        self.places: list[str] = []
        self._leaving: list[int] = []
        self._tokens: set[bytes] = set()

    def take(self, count: int) -> list[Any]:
        """Return `count` hosts: idle ones that are alive, and new ones for the rest."""
        waiting, self._idle = self._idle[:count], self._idle[count:]
        alive = [one for one in waiting if self._is_alive(one.actor)]
        free = list(self.places)
        for one in alive:
            if one.node in free:
                free.remove(one.node)
        new = count - len(alive)
        places = [*free[:new], *[""] * (new - len(free))]
        return [one.actor for one in alive] + [self._new(place) for place in places]

    def _new(self, place: str) -> Any:
        """Start a host: on a node, or where Ray has a CPU for it."""
        if not place:
            return self._make.options(num_cpus=1).remote(self._paths)
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(place, soft=False)
        return self._make.options(num_cpus=1, scheduling_strategy=there).remote(self._paths)

    def _is_alive(self, actor: Any) -> bool:
        """Return whether a host is alive as far as Ray knows. A host that is still starting counts as alive."""
        reference = actor.alive.remote()
        done, _ = self._ray.wait([reference], timeout=KNOWN_SECONDS)
        try:
            self._ray.get(done)
        except self._ray.exceptions.RayError:
            return False
        return True

    def refill(self) -> None:
        """Start a host in reserve if there is none, and this run keeps one."""
        if self._keeps and not self._idle:
            self._idle.append(Released(self._make.options(num_cpus=0).remote(self._paths)))

    def keep(self, released: Iterable[Released]) -> None:
        """Keep hosts for the next generation. They come before those in reserve, which may be starting."""
        self._idle[:0] = released

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

    def forget(self) -> None:
        """Forget hosts without work: their cluster is gone, and they with it."""
        self._idle.clear()
        self.places = []

    def end(self) -> None:
        """Wait until killed hosts are gone, and kill the idle ones."""
        self.settle()
        for one in self._idle:
            self._ray.kill(one.actor, no_restart=True)
        self._idle.clear()


def _sweep(token: bytes) -> None:
    """Remove the socket directories of hosts that were killed before all were connected."""
    if sys.platform == "linux":
        from dgs.workers.transport.unix_door import directories_of

        for left in directories_of(token):
            shutil.rmtree(left, ignore_errors=True)
