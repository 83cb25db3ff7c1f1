"""The driver of the Ray runtime: every host is a Ray actor, which Ray starts, places and watches.

Ray's own restarts and retries are off (R12): a host that dies ends its generation. Frames and outputs are encoded by our codec.
Frames travel over a `Transport`, which `runtime.transport` chooses.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dgs import codec
from dgs.errors import InternalError, MissingPackageError, RayLostError
from dgs.planner.moving import Counts
from dgs.workers.observing.figures import HostFigures, RunFigures
from dgs.workers.ray_runtime.cluster import Connection, connected
from dgs.workers.ray_runtime.hosts import START_SECONDS, STAYS_AWAY, RayHosts, answers, cpus_of, lost_among
from dgs.workers.ray_runtime.pool import HostPool
from dgs.workers.recovery.checkpoint import ResumePoint
from dgs.workers.recovery.coordinator import ControlRequest, HostReport, RootReport, Stage
from dgs.workers.runtime import process
from dgs.workers.runtime.checkpointing import Checkpointing
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.job import Caller, Job, JobResult
from dgs.workers.runtime.stall import Watchdog, sentence
from dgs.workers.runtime.supervisor import LOSSES, Ended, Session, supervise
from dgs.workers.sources.rows import SECOND

if TYPE_CHECKING:
    from dgs.workers.transport.zeromq import Secret

POLL_SECONDS = 0.05

LAST_SECONDS = 0.5
"""Seconds for hosts to end after a request to stop has timed out. Then they are killed: user code, such as a slow sink, blocks them."""

ENDING_SECONDS = 5.0
"""Seconds for hosts to end after a request in time."""

REFILL_SECONDS = 10.0
"""The time a generation works before a host in reserve is started, so that a short run does not pay for it."""


def run_ray(job: Job, caller: Caller = Caller()) -> JobResult:
    """Run a job on Ray and return its result.

    A host that dies ends its generation; the next one starts from the last checkpoint, on new hosts. Raises RayUnavailableError
    if Ray is absent or does not start, MissingPackageError if ZeroMQ is absent and `runtime.transport` is `direct`,
    WorkerLostError if hosts die too often, and any DgsError that a host raises; outputs are then left as `.partial`.
    """
    with connected(job.runtime.address, host_count(job), job.ray_log) as connection:
        ray, pool = connection.ray, HostPool(connection.ray, job)

        def hosts(job: Job) -> int:
            nonlocal connection
            if not connection.leader.is_there:
                pool.forget()
                connection = connection.renewed()
            return hosts_with_a_place(ray, job, caller, pool)

        def drive(deployment: Deployment, session: Session) -> Ended:
            return _Driver(connection, pool, deployment, session).drive()

        try:
            return supervise(job, drive, hosts, caller)
        finally:
            pool.end()


def host_count(job: Job) -> int:
    """Return how many hosts to start: as configured, else one per CPU, but never more than there are workers."""
    return min(job.runtime.hosts or os.cpu_count() or 1, len(job.plan))


def hosts_with_a_place(ray: Any, job: Job, caller: Caller, pool: HostPool | None = None) -> int:
    """Return how many hosts to start in the cluster as it is now: with `fewer_hosts: go_on`, no more than it has CPUs.

    A node that does not answer has none, whatever Ray knows, and the pool then puts hosts on others.
    """
    wanted = host_count(job)
    if job.runtime.address == "local":
        return wanted
    nodes = ray.nodes()
    there = [node for node in nodes if answers(node)]
    cpus = sum(map(cpus_of, there))
    is_one_cut_off = any(node["Alive"] and node not in there for node in nodes)
    if pool is not None:
        pool.places = (
            [node["NodeID"] for node in there for _ in range(cpus_of(node))] if is_one_cut_off else []
        )
    if cpus >= wanted:
        return wanted
    gone = lost_among(nodes, there)
    lost = f"node {gone} is lost, and " if gone else ""
    missing = f"{lost}the cluster has {cpus} CPUs for {wanted} hosts"
    if job.runtime.fewer_hosts == "wait" or not cpus:
        advice = f". {STAYS_AWAY}" if gone else ""
        caller.notify(f"{missing}: the run waits for others for {START_SECONDS:g} s{advice}")
        return wanted
    caller.notify(f"{missing}: the run goes on with {cpus}")
    return cpus


def _secret(job: Job, hosts: int) -> Secret | None:
    """Return the key pair of the run if hosts use sockets, None if there is one host or they talk through Ray."""
    if job.runtime.transport == "ray" or hosts == 1:
        return None
    try:
        from dgs.workers.transport.zeromq import new_secret
    except ImportError as error:
        raise MissingPackageError(feature="`transport: direct`", package="pyzmq") from error
    return new_secret()


def _point_of(deployment: Deployment, host: int) -> ResumePoint:
    """Return the point for a host. Only the root's host gets the state."""
    point = deployment.point
    return point if host == deployment.root_host else replace(point, state=None)


class _Driver:
    """Drives one generation: collects outputs and reports, and ends when the end is committed or a host fails."""

    def __init__(
        self, connection: Connection, pool: HostPool, deployment: Deployment, session: Session
    ) -> None:
        self._pool = pool
        self._leader = connection.leader
        self._secret = _secret(deployment.job, deployment.hosts)
        self._session = session
        self._deployment = deployment
        self._watchdog = Watchdog(
            after=deployment.job.runtime.stall_after / SECOND,
            now=time.monotonic(),
            notify=session.caller.notify,
        )
        self._checkpoints = session.checkpointing(deployment)
        self._started = process.now()
        self._request: ControlRequest | None = None
        self._is_abandoned = False
        self._goes_on = False  # the run, in another generation that the hosts may take part in
        self._hosts = RayHosts(connection.ray, pool.take(deployment.hosts), connection.leader)
        session.story.hosts = self._hosts.stories

    def drive(self) -> Ended:
        """Run until the end of all streams is committed or a request ends the generation. Then close and end all hosts."""
        try:
            ended = self._ended()
            if self._session.stop.stage is Stage.TIMED_OUT:
                self._session.story.keep()
            if ended.request is not None and ended.request.action == "replan":
                self._goes_on = not self._is_abandoned and self._is_fenced
            if not self._is_abandoned and not self._goes_on:
                self._hosts.close(complete=ended.request is None)
                self._note_last_lines()
        finally:
            released = self._hosts.released() if self._goes_on else []
            self._pool.keep(released)
            self._pool.leave(self._hosts.end(released), None if self._secret is None else self._secret.token)
        if self._is_abandoned:
            self._pool.settle()  # before what they have not committed is removed
        return ended

    def _ended(self) -> Ended:
        try:
            return self._run()
        except LOSSES as error:  # the generation is over, so the other hosts have nothing to close
            if self._request is not None:
                return self._abandon(str(error))
            if self._session.may_restart(self._deployment.point):
                self._goes_on = self._is_fenced and not isinstance(error, RayLostError)
            else:
                self._session.story.keep()
            raise
        except BaseException:
            self._session.story.keep()
            self._hosts.close(complete=False)
            self._note_last_lines()
            raise

    def _note_last_lines(self) -> None:
        for host, lines in self._hosts.last_lines().items():
            self._session.log.says_program(host, lines, is_elsewhere=True)

    def _run(self) -> Ended:
        """Start the hosts, and look after them until all have ended; then collect their results."""
        self._open()
        self._session.caller.ready("Ray")
        self._started = process.now()
        checkpoints, generation = self._checkpoints, self._deployment.point.generation
        loops = {actor.run.remote(generation): index for index, actor in enumerate(self._hosts.actors)}
        final: bytes | None = None
        last_moment = math.inf
        root = self._hosts.actors[self._deployment.root_host]
        while loops:
            done = self._hosts.answers(loops, timeout=POLL_SECONDS)
            outputs = self._poll(checkpoints)
            for reference, answer in done.items():
                index = loops.pop(reference)
                final = answer if index == self._deployment.root_host else final
            if self._request is None and final is None:
                self._request = checkpoints.poll(root.request_snapshot.remote, outputs)
                last_moment = time.monotonic() + (
                    LAST_SECONDS if self._session.stop.stage is Stage.TIMED_OUT else ENDING_SECONDS
                )
            if self._request is not None or final is not None:
                self._hosts.ask(lambda actor: actor.stop.remote())
            elif self._is_time_to_refill():
                self._pool.refill()
            if self._request is not None and loops and time.monotonic() > last_moment:
                return self._abandon(f"hosts {sorted(loops.values())} are busy")
        if self._request is None:
            self._poll(checkpoints)
            if not checkpoints.is_over:
                raise InternalError(problem="all hosts have stopped and the end is not committed")
        self._session.replanning.end(self._counts)
        figures = self._figures(self._hosts.ask(lambda actor: actor.figures.remote()))
        return Ended(None if final is None else codec.decode(final), figures, self._request)

    def _is_time_to_refill(self) -> bool:
        """Return whether the run is long enough for a host in reserve, or goes on after a loss."""
        has_progressed = self._session.commits.figures.events > self._deployment.point.events
        return process.now() - self._started > REFILL_SECONDS or (
            self._session.restarted > 0 and has_progressed
        )

    @property
    def _is_fenced(self) -> bool:
        """Whether the hosts' channels are of this generation only, so that none of its frames reaches a later one."""
        return self._deployment.hosts == 1 or self._secret is not None

    def _abandon(self, why: str) -> Ended:
        """Kill hosts that do not end for a request, and return the end of their generation. Uncommitted outputs are lost."""
        self._session.story.says(f"kills the hosts, which do not end: {why}")
        self._is_abandoned = True
        return Ended(None, self._figures([]), self._request)

    def _figures(self, hosts: Sequence[HostFigures]) -> RunFigures:
        return self._session.observer.generation(
            hosts,
            self._checkpoints.last,
            seconds=process.now() - self._started,
            started=self._started,
            waited=self._watchdog.sentences,
        )

    def _counts(self) -> list[Counts]:
        """Return the events by tag that each host has read since the last call."""
        return self._hosts.ask(lambda actor: actor.take_counts.remote())

    def _open(self) -> None:
        hosts, job, count = self._hosts, self._deployment.job, self._deployment.hosts
        is_one_node = hosts.start()
        shipped = replace(job, program=None) if job.program_ref is not None else job  # type: ignore[arg-type]
        shares = iter([(_point_of(self._deployment, index), index) for index in range(count)])
        hosts.ask(lambda actor: actor.assign.remote(shipped, count, *next(shares)), is_long=True)
        actors, secret = list(hosts.actors), self._secret
        self._pool.settle()
        addresses = hosts.ask(lambda actor: actor.open.remote(actors, secret, is_one_node), is_long=True)
        hosts.ask(lambda actor: actor.connect.remote(addresses), is_long=True)

    def _poll(self, checkpoints: Checkpointing) -> int:
        """Collect outputs, reports and counts of all hosts; commit complete checkpoints. Return how many outputs the hosts have made."""
        self._leader.is_needed = not (checkpoints.is_stopping or self._session.control.is_signalled)
        self._leader.check()
        events = outputs = 0
        reports: list[HostReport | RootReport] = []
        reads = self._session.may_read(is_stopping=checkpoints.is_stopping)
        answers = self._hosts.ask(lambda actor: actor.poll.remote(reads))
        for host, (read, written, batches, new, figures, lines) in enumerate(answers):
            self._session.log.says_program(host, lines, is_elsewhere=True)
            if figures is not None:
                self._session.observer.take(figures)
            events, outputs = events + read, outputs + written
            self._session.caller_outputs.write((epoch, codec.decode(batch)) for epoch, batch in batches)
            reports += codec.decode(new)
        checkpoints.take_reports(reports)
        self._session.observer.show_if_due(is_stopping=checkpoints.is_stopping)
        self._session.replanning.look(self._counts)
        if self._watchdog.is_due(events + outputs, now=time.monotonic()):
            standings = [s for s in self._hosts.ask(lambda actor: actor.standing.remote()) if s is not None]
            if len(standings) == len(self._hosts.actors):
                why = sentence(standings, unit=self._deployment.job.unit)
                self._watchdog.say(why if reads else self._session.caller_outputs.waiting)
                self._session.story.write()
        return outputs
