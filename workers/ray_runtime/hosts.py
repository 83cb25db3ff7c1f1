"""The hosts of one generation as their driver sees them: every call has a deadline, and a host that does not answer is lost.

After a host dies, Ray answers the next call with an error, within milliseconds. A host that hangs, or whose machine is cut off,
does not answer in time. A call may take long for a good reason, such as opening a large source; then `alive`, which any host
answers at once, tells a slow host from a lost one. No host outlives its generation (R10): `end` kills all hosts that do not give up their
part in it. Before the next generation opens anything, `wait_until_gone` waits until their files are unlocked.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dgs.errors import (
    ChannelUnavailableError,
    DgsError,
    InternalError,
    NoPlaceError,
    ProgramImportError,
    WorkerLostError,
)
from dgs.workers.observing.program_lines import ProgramLine
from dgs.workers.protocol.story_words import StoryEntry
from dgs.workers.ray_runtime.ray_leader import RayLeader

_LACKING = re.compile(
    r"input arguments for this task could not be computed.*No module named '([^']+)'", re.DOTALL
)
ABSENT = (
    "the program is of this module, and the hosts of the run do not have it: install it in their environment, or name the program by its "
    "file, as in `program: {ref: 'program.py:Program'}`"
)

CONNECT_SECONDS = 1.0
"""The time for the process that manages a node to take a connection. No user code runs in it, so it is not busy."""

Node = Mapping[str, Any]
"""A node as `ray.nodes()` describes it."""


def answers(node: Node) -> bool:
    """Return whether a node is alive for Ray and takes a connection: Ray notices only after half a minute that a machine is cut off."""
    if not node["Alive"]:
        return False
    try:
        socket.create_connection(
            (node["NodeManagerAddress"], node["NodeManagerPort"]), CONNECT_SECONDS
        ).close()
    except OSError:
        return False
    return True


STAYS_AWAY = "Ray ends a node that was away for half a minute: start it again"


def lost_among(nodes: Iterable[Node], there: Sequence[Node]) -> str:
    """Return the addresses of nodes that were lost, unless others run there now. `there`: the nodes that answer."""
    known = {node["NodeManagerAddress"] for node in there}
    return ", ".join(sorted({node["NodeManagerAddress"] for node in nodes} - known))


def cpus_of(node: Node) -> int:
    """Return the number of CPUs of a node."""
    return int(node["Resources"].get("CPU", 0))


ANSWER_SECONDS = 10.0
"""A host that takes longer than this to answer a quick call is lost."""

SILENT_SECONDS = 2.0
"""After this time without an answer it is checked whether the nodes of the hosts answer. If not, the hosts are lost at once."""

START_SECONDS = 120.0
"""The time for Ray to place the hosts and start them."""

CLOSE_SECONDS = 30.0
"""The time for hosts to close their files when a generation ends."""

ABANDON_SECONDS = 10.0
"""Seconds for hosts to close incomplete outputs. A signal may be the reason."""

STORY_SECONDS = 2.0
"""The time for hosts to send their stories when a run has failed, and the last lines of the program when one ends."""

GONE_SECONDS = 60.0
"""The time to wait for killed hosts to be gone, since new ones would find their files locked. Ray takes 5 s for a stopped one."""

DEATH_SECONDS = 0.2
"""The time for Ray to notice a death. It is then asked whether a host that cannot be reached has died."""

RELEASED_SECONDS = 1.0
"""The time for hosts to give up a lost generation. Starting a new process takes longer than that."""

LOOK_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Released:
    """A host that has no part in any generation. `node`: the id of its machine, empty if Ray does not know it."""

    actor: Any
    node: str = ""


class RayHosts:
    """Actors of `dgs.workers.ray_runtime.actor.HostActor`, numbered from 0."""

    def __init__(self, ray: Any, actors: Sequence[Any], leader: RayLeader | None = None) -> None:
        self._ray = ray
        self._leader = leader
        self.actors = tuple(actors)
        self._processes: dict[int, int] = {}  # those processes on this machine, by host
        self._nodes: dict[int, Node] = {}  # the nodes that hosts are on

    def start(self) -> bool:
        """Wait until all have started; return whether all are on one machine. Raises RayUnavailableError after the deadline."""
        places = self._asked(lambda actor: actor.place.remote(), START_SECONDS, is_starting=True)
        known = {node["NodeID"]: node for node in self._ray.nodes()}
        self._nodes = {host: known[node] for host, (node, _) in enumerate(places) if node in known}
        here = self._ray.get_runtime_context().get_node_id()
        self._processes = {host: process for host, (node, process) in enumerate(places) if node == here}
        return len({node for node, _ in places}) == 1

    def ask(self, call: Callable[[Any], Any], *, is_long: bool = False) -> list[Any]:
        """Return the answers of all hosts to a call. `is_long`: the call may take as long as it likes while its host is alive.

        Raises WorkerLostError if a host is dead or does not answer, else the first DgsError that one of them returns.
        """
        return self._asked(call, ANSWER_SECONDS, is_long=is_long)

    def _asked(
        self, call: Callable[[Any], Any], within: float, *, is_long: bool = False, is_starting: bool = False
    ) -> list[Any]:
        """Call all hosts, and return their answers in order. Raises the first error; WorkerLostError, or NoPlaceError at the start, for a silent host."""
        pending = {call(actor): index for index, actor in enumerate(self.actors)}
        answers: dict[int, Any] = {}
        deadline = time.monotonic() + within
        while pending:
            left = max(deadline - time.monotonic(), 0.0)
            done, _ = self._ray.wait(list(pending), timeout=min(left, SILENT_SECONDS))
            for reference in done:
                index = pending.pop(reference)
                answers[index] = self._got(reference, index)
            if not done:
                self._check_nodes(pending.values())
                if self._leader is not None:
                    self._leader.check()
            if done or time.monotonic() < deadline:
                continue
            if is_long:
                self.ask(lambda actor: actor.alive.remote())
                deadline = time.monotonic() + within
            else:
                host = min(pending.values())
                raise self._no_place(host, within) if is_starting else _silent(host, within)
        found = [answers[index] for index in range(len(self.actors))]
        self._raise_first(found)
        return found

    def _no_place(self, host: int, seconds: float) -> NoPlaceError:
        nodes = self._ray.nodes()
        gone = lost_among(nodes, [node for node in nodes if answers(node)])
        lost = f", and node {gone} is lost. {STAYS_AWAY}" if gone else ""
        return NoPlaceError(host=host, seconds=f"{seconds:g}", lost=lost)

    def _check_nodes(self, hosts: Iterable[int]) -> None:
        """Raise WorkerLostError if a node of these hosts does not answer: it has crashed, or is cut off."""
        for host in hosts:
            if host in self._nodes and not answers(self._nodes[host]):
                address = self._nodes[host]["NodeManagerAddress"]
                raise WorkerLostError(host=host, problem=f"its node {address} does not answer")

    def _raise_first(self, answers: Sequence[Any]) -> None:
        for answer in answers:
            if isinstance(answer, ChannelUnavailableError):  # the host that it could not reach may have died
                time.sleep(DEATH_SECONDS)
                self.ask(lambda actor: actor.alive.remote())
            if isinstance(answer, DgsError):
                raise answer

    def answers(self, references: Mapping[Any, int], *, timeout: float) -> dict[Any, Any]:
        """Return the answers to calls of single hosts that have come. Raises an error that a host returns."""
        done, _ = self._ray.wait(list(references), timeout=timeout)
        found = {reference: self._got(reference, references[reference]) for reference in done}
        self._raise_first(list(found.values()))
        return found

    def _got(self, reference: Any, host: int) -> Any:
        """Return the result of a call. Raises WorkerLostError if the host is lost or says that another one is."""
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(reference)
        except errors.RayTaskError as error:
            if (lacking := _LACKING.search(str(error))) is not None:
                raise ProgramImportError(ref=lacking[1], problem=ABSENT) from None
            raise InternalError(problem=f"host {host}: {error}") from error
        except errors.RayError as error:
            self._check_nodes([host])
            where = f" (on node {self._nodes[host]['NodeManagerAddress']})" if host in self._nodes else ""
            is_away = isinstance(
                error, errors.ActorUnavailableError
            )  # Ray says so in a page, with numbers of its own
            problem = "its process cannot be reached" if is_away else str(error).splitlines()[0]
            raise WorkerLostError(host=host, problem=problem + where) from error
        if isinstance(answer, WorkerLostError):
            raise answer
        return answer

    def stories(self) -> list[StoryEntry]:
        """Return the latest notes of the hosts that answer in time."""
        return [
            note for notes in self._in_time(lambda actor: actor.story.remote()).values() for note in notes
        ]

    def last_lines(self) -> dict[int, list[ProgramLine]]:
        """Return the program's remaining lines, of the hosts that answer in time."""
        return self._in_time(lambda actor: actor.last_lines.remote())

    def _in_time(self, call: Callable[[Any], Any]) -> dict[int, Any]:
        references = {call(actor): index for index, actor in enumerate(self.actors)}
        done, _ = self._ray.wait(list(references), num_returns=len(references), timeout=STORY_SECONDS)
        found: dict[int, Any] = {}
        for reference in done:
            with suppress(self._ray.exceptions.RayError):  # the host is gone
                found[references[reference]] = self._ray.get(reference)
        return found

    def close(self, *, complete: bool) -> None:
        """Let the hosts close their files. Raises an error of a host only if the run is complete."""
        references = {actor.close.remote(complete): index for index, actor in enumerate(self.actors)}
        done, late = self._ray.wait(
            list(references),
            num_returns=len(references),
            timeout=CLOSE_SECONDS if complete else ABANDON_SECONDS,
        )
        if complete:
            if late:
                raise _silent(references[late[0]], CLOSE_SECONDS)
            self._raise_first([self._got(reference, references[reference]) for reference in done])

    def released(self) -> list[Released]:
        """Return the hosts that have given up the generation, and may take part in the next one."""
        references = {actor.release.remote(): index for index, actor in enumerate(self.actors)}
        done, _ = self._ray.wait(list(references), num_returns=len(references), timeout=RELEASED_SECONDS)
        found = []
        for index in (references[reference] for reference in done if self._is_true(reference)):
            node = self._nodes[index]["NodeID"] if index in self._nodes else ""
            found.append(Released(self.actors[index], node))
        return found

    def _is_true(self, reference: Any) -> bool:
        try:
            return bool(self._ray.get(reference))
        except self._ray.exceptions.RayError:  # the host is gone, or its sinks or sources cannot be closed
            return False

    def end(self, released: Iterable[Released] = ()) -> tuple[int, ...]:
        """Kill all hosts but released ones. Return their processes here, for `wait_until_gone` before their files are touched."""
        stay = {id(one.actor) for one in released}
        killed = [index for index, actor in enumerate(self.actors) if id(actor) not in stay]
        for index in killed:
            self._ray.kill(self.actors[index], no_restart=True)
        here = tuple(self._processes[index] for index in killed if index in self._processes)
        if self._leader is not None and not self._leader.is_there:  # it is what kills hosts for Ray
            for process in here:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
        return here


def wait_until_gone(processes: Iterable[int]) -> None:
    """Wait until the processes of killed hosts are gone."""
    left, deadline = tuple(processes), time.monotonic() + GONE_SECONDS
    while any(map(_exists, left)) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def _silent(host: int, seconds: float) -> WorkerLostError:
    return WorkerLostError(host=host, problem=f"it has not answered for {seconds:g} s")


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, PermissionError):  # the process has ended; its number may be in use again
        return False
    return True
