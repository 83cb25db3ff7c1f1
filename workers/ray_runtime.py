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
from workers.central import merged_figures
from workers.checkpointing import Checkpointing
from workers.checkpoints import ResumePoint
from workers.control import Wish
from workers.deployment import Deployment
from workers.epochs import HostReport, RootReport
from workers.job import NOBODY, Caller, Job, JobResult
from workers.ray_cluster import cluster
from workers.sources.live import SECOND
from workers.supervisor import Ended, Session, supervise
from workers.waiting import sentence
from workers.watchdog import Watchdog

if TYPE_CHECKING:
    from workers.transport_direct import Secret

POLL_SECONDS = 0.05
CLOSE_SECONDS = 30.0


def run_ray(job: Job, caller: Caller = NOBODY) -> JobResult:
    """Run a job on Ray and return its result.

    A host that dies ends its generation; the next one starts from the last checkpoint, on new hosts. Raises RayUnavailableError
    if Ray is absent or does not start, MissingPackageError if ZeroMQ is absent and `runtime.transport` is `direct`,
    WorkerLostError if hosts die too often, and any DgsError that a host raises; outputs are then left as `.partial`.
    """
    with cluster(job.runtime.address, host_count(job)) as ray:

        def drive(deployment: Deployment, session: Session) -> Ended:
            driver = _Driver(ray, deployment, session, _secret(deployment.job, deployment.hosts))
            complete = False
            try:
                ended = driver.run()
                complete = ended.wish is None
            finally:
                driver.close(complete=complete)
            return ended

        return supervise(job, drive, host_count, caller)


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


def _point_of(deployment: Deployment, host: int) -> ResumePoint:
    """Return the point as a host needs it: the state goes to the root's host only."""
    point = deployment.point
    return point if host == deployment.root_host else replace(point, state=None)


class _Driver:
    """Drives one generation: collects outputs and reports, and ends it when its end is committed or a host fails."""

    def __init__(self, ray: Any, deployment: Deployment, session: Session, secret: Secret | None) -> None:
        from workers.ray_host import HostActor

        self._ray = ray
        self._secret = secret
        self._session = session
        self._deployment = deployment
        job = deployment.job
        self._watchdog = Watchdog(after=job.runtime.stall_after / SECOND, now=time.monotonic())
        threads = {"loop": 1, "frames": 1, "control": 1}
        actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0, concurrency_groups=threads)(
            HostActor
        )
        shipped = replace(job, program=None) if job.program_ref is not None else job  # type: ignore[arg-type]
        self._actors = [
            actor.remote(shipped, deployment.hosts, _point_of(deployment, index), index)
            for index in range(deployment.hosts)
        ]

    def run(self) -> Ended:
        """Run until the end of all streams is committed, or a wish is."""
        self._open()
        started = time.time()
        checkpoints = self._session.checkpointing(self._deployment)
        loops = {actor.run.remote(): index for index, actor in enumerate(self._actors)}
        final: bytes | None = None
        wish: Wish | None = None
        root = self._actors[self._deployment.root_host]
        while loops:
            done, _ = self._ray.wait(list(loops), timeout=POLL_SECONDS)
            self._poll(checkpoints)
            for reference in done:
                index = loops.pop(reference)
                answer = self._answer(reference, index)
                final = answer if index == self._deployment.root_host else final
            if wish is None and final is None:
                wish = checkpoints.attend(root.request_snapshot.remote)
            if wish is not None or final is not None:
                self._call_all(lambda actor: actor.stop.remote())
        if wish is None:
            self._poll(checkpoints)
            if not checkpoints.is_over:
                raise InternalError(problem="all hosts have stopped and the end is not committed")
        seconds = time.time() - started
        figures = merged_figures(
            self._call_all(lambda actor: actor.figures.remote()),
            checkpoints.last,
            seconds=seconds,
            started=started,
        )
        state = None if final is None else codec.decode(final)
        return Ended(state, {**figures, "waited": self._watchdog.sentences}, wish)

    def _open(self) -> None:
        """Open all hosts, then let them reach each other."""
        is_one_node = len(set(self._call_all(lambda actor: actor.node.remote()))) == 1
        addresses = self._call_all(lambda actor: actor.open.remote(self._actors, self._secret, is_one_node))
        self._call_all(lambda actor: actor.connect.remote(addresses))

    def _poll(self, checkpoints: Checkpointing) -> None:
        """Collect outputs, reports and counts of all hosts; commit what is complete."""
        events = outputs = 0
        reports: list[HostReport | RootReport] = []
        for read, written, batches, new in self._call_all(lambda actor: actor.poll.remote()):
            events, outputs = events + read, outputs + written
            self._session.central.write((epoch, codec.decode(batch)) for epoch, batch in batches)
            reports += codec.decode(new)
        checkpoints.hear(reports)
        self._session.caller.progress(events, outputs)
        if self._watchdog.is_due(events + outputs, now=time.monotonic()):
            standings = [s for s in self._call_all(lambda actor: actor.standing.remote()) if s is not None]
            if len(standings) == len(self._actors):
                self._watchdog.say(sentence(standings, unit=self._deployment.job.unit))

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
            for actor in self._actors:
                self._ray.kill(actor, no_restart=True)
