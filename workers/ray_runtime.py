"""The Ray runtime: every host is a Ray actor. Ray starts, places and watches them, and introduces them to each other.

Ray's own restarts and retries are off (R12): a host that dies ends the run. Frames and outputs are bytes of our codec;
frames travel over a `Transport`, which `runtime.transport` chooses.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dgs import codec
from dgs.errors import DgsError, InternalError, MissingPackageError, WorkerLostError
from workers.central import Central, merged_figures
from workers.deployment import Deployment
from workers.job import Job, JobResult, Progress
from workers.ray_cluster import cluster

if TYPE_CHECKING:
    from workers.transport_direct import Secret

POLL_SECONDS = 0.05
CLOSE_SECONDS = 30.0


def run_ray(job: Job, progress: Progress | None = None) -> JobResult:
    """Run a job on Ray and return its result.

    Raises RayUnavailableError if Ray is absent or does not start, MissingPackageError if ZeroMQ is absent and
    `runtime.transport` is `direct`, WorkerLostError if a host dies, and any DgsError that a host raises; outputs are then
    left as `.partial`.
    """
    hosts = host_count(job)
    secret = _secret(job, hosts)
    with cluster(job.runtime.address, hosts) as ray:
        driver = _Driver(ray, job, hosts, secret, progress)
        complete = False
        try:
            result = driver.run()
            complete = True
        finally:
            driver.close(complete=complete)
        return result


def host_count(job: Job) -> int:
    """Return how many hosts to start: as configured, else one per CPU, never more than there are workers."""
    return min(job.runtime.hosts or os.cpu_count() or 1, len(job.plan))


def _secret(job: Job, hosts: int) -> Secret | None:
    """Return the key of the run for hosts that talk directly, None for those that talk through Ray or to nobody."""
    if job.runtime.transport == "ray" or hosts == 1:
        return None
    try:
        from workers.transport_direct import new_secret
    except ImportError as error:
        raise MissingPackageError(feature="`transport: direct`", package="pyzmq") from error
    return new_secret()


class _Driver:
    """Watches the hosts of one run: collects outputs and figures, and ends the run when the root has or a host fails."""

    def __init__(
        self, ray: Any, job: Job, hosts: int, secret: Secret | None, progress: Progress | None
    ) -> None:
        from workers.ray_host import HostActor

        self._ray = ray
        self._secret = secret
        self._progress = progress
        self._deployment = Deployment(job, hosts)
        self._central = Central(job)
        threads = {"loop": 1, "frames": 1, "control": 1}
        actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0, concurrency_groups=threads)(
            HostActor
        )
        shipped = replace(job, program=None) if job.program_ref is not None else job  # type: ignore[arg-type]
        self._actors = [actor.remote(shipped, hosts, index) for index in range(hosts)]

    def run(self) -> JobResult:
        self._open()
        started = time.time()
        loops = {actor.run.remote(): index for index, actor in enumerate(self._actors)}
        final: bytes | None = None
        while loops:
            done, _ = self._ray.wait(list(loops), timeout=POLL_SECONDS)
            self._poll()
            for reference in done:
                index = loops.pop(reference)
                answer = self._answer(reference, index)
                if index == self._deployment.root_host:
                    final = answer
                    self._call_all(lambda actor: actor.stop.remote())
        if final is None:
            raise InternalError(problem="all hosts have stopped and the root gave no state")
        self._poll()
        seconds = time.time() - started
        figures = self._call_all(lambda actor: actor.figures.remote())
        return JobResult(
            codec.decode(final),
            self._central.outputs,
            merged_figures(figures, seconds=seconds, started=started),
        )

    def _open(self) -> None:
        """Open all hosts, then let them reach each other."""
        is_one_node = len(set(self._call_all(lambda actor: actor.node.remote()))) == 1
        addresses = self._call_all(lambda actor: actor.open.remote(self._actors, self._secret, is_one_node))
        self._call_all(lambda actor: actor.connect.remote(addresses))

    def _poll(self) -> None:
        """Collect outputs and counts of all hosts."""
        events = outputs = 0
        for read, written, batches in self._call_all(lambda actor: actor.poll.remote()):
            events, outputs = events + read, outputs + written
            self._central.write(codec.decode(batch) for batch in batches)
        if self._progress is not None:
            self._progress(events, outputs)

    def _call_all(self, call: Callable[[Any], Any]) -> list[Any]:
        references = [call(actor) for actor in self._actors]
        return [self._answer(reference, index) for index, reference in enumerate(references)]

    def _answer(self, reference: Any, host: int) -> Any:
        """Return what a call gave. Hosts return their own errors as values: those are raised here."""
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            raise WorkerLostError(host=host, problem=str(error).splitlines()[0]) from error
        except self._ray.exceptions.RayTaskError as error:
            raise InternalError(problem=f"host {host}: {error}") from error
        if isinstance(answer, DgsError):
            raise answer
        return answer

    def close(self, *, complete: bool) -> None:
        """Let the hosts close their files, then end them. A host that does not answer is killed."""
        references = [actor.close.remote(complete) for actor in self._actors]
        self._ray.wait(references, num_returns=len(references), timeout=CLOSE_SECONDS)
        try:
            if complete:
                for index, reference in enumerate(references):
                    self._answer(reference, index)
        finally:
            self._central.close(complete=complete)
            for actor in self._actors:
                self._ray.kill(actor, no_restart=True)
