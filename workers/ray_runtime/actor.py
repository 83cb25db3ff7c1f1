"""The Ray actor around one engine: the loop in one thread, Ray's frames in another, and the driver's calls in a third."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import ray

from dgs import codec
from dgs.errors import CodecError, DgsError, InternalError
from dgs.model.columns import load_pandas
from dgs.model.outputs import OutputBatch, with_event
from dgs.model.user_code import shown
from dgs.planner.moving import Counts
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.observing.figures import HostFigures
from dgs.workers.observing.program_lines import ProgramLine, ProgramLines
from dgs.workers.protocol.folding.to_compile import load_compiler
from dgs.workers.protocol.story_words import StoryEntry
from dgs.workers.recovery.checkpoint import ResumePoint, encoded_state
from dgs.workers.recovery.coordinator import HostReport, RootReport
from dgs.workers.runtime import process
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.engine import Engine
from dgs.workers.runtime.job import Job
from dgs.workers.runtime.process import keep_freed_memory
from dgs.workers.runtime.stall import Standing
from dgs.workers.sinks.kept_outputs import bytes_of, in_parts
from dgs.workers.transport.contract import Transport
from dgs.workers.transport.ray_calls import RayTransport

if TYPE_CHECKING:
    from dgs.workers.transport.zeromq import Secret

Part = TypeVar("Part")

IDLE_SECONDS = 0.5
"""The time that an idle host sleeps when nothing arrives. A frame or a stop wakes it at once."""

STANDING_SECONDS = 2.0
"""The time for a host to say what it waits for. If it does not answer, it is at work."""

RELEASE_SECONDS = 0.5
"""The time for the loop to finish its step when a generation is lost. A host that takes longer is killed."""

ENDING_SECONDS = 5.0
"""The time for the loop to finish its step when a host is closed. If that takes longer, the driver kills the host."""

LOOPBACK = "127.0.0.1"


def _node_address() -> str:
    """Return the address by which Ray knows this machine."""
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


def _idle(engine: Engine) -> float:
    """Return how long an idle host sleeps: at most until a live source may bring an event."""
    return IDLE_SECONDS if engine.idle_seconds is None else min(engine.idle_seconds, IDLE_SECONDS)


def _encoded(made: OutputBatch | DeadLetter) -> bytes:
    """Return outputs or dead letters as bytes for the driver. Some payloads of dead letters cannot be encoded."""
    try:
        return codec.encode(made, keeps_order=True)
    except CodecError as error:
        if isinstance(made, OutputBatch):
            raise with_event(error, made, codec.encode) from error
        return codec.encode(replace(made, payload=shown(made.payload)), keeps_order=True)


def _opened(part: Part | None) -> Part:
    """Return a part that an open host has. Raises InternalError if the host was not opened."""
    if part is None:
        raise InternalError(problem="the host was not opened")
    return part


class HostActor:
    """One host of a run. Methods return a DgsError instead of raising it, so that it reaches the driver unchanged."""

    _job: Job
    _hosts: int
    _point: ResumePoint
    _index: int

    def __init__(self, paths: Sequence[str] = ()) -> None:
        """`paths`: where the driver looks for modules, as absolute paths. A host looks there last."""
        sys.path.extend(path for path in paths if path not in sys.path and Path(path).is_dir())
        keep_freed_memory()
        self._loading = load_pandas()  # while the driver starts other hosts
        self._lock = threading.Lock()
        self._lines = ProgramLines(clock=process.now)
        self._taken = ExitStack()
        self._polled = threading.Event()
        self._ended = threading.Event()
        self._ended.set()
        self._clear()

    def _clear(self) -> None:
        """Forget the generation."""
        self._ready: list[tuple[int, bytes]] = []
        self._ready_bytes = 0
        self._reports: list[HostReport | RootReport] = []
        self._figures: HostFigures | None = None  # the newest figures, until the driver takes them
        self._wanted: list[bool] = []  # snapshots that the driver asked for; True: save the state in any case
        self._stopping = False
        self._reads = True
        self._asking: SimpleQueue[Standing] | None = None
        self._transport: Transport | None = None
        self._engine: Engine | None = None

    @ray.method(concurrency_group="control")
    def place(self) -> tuple[str, int]:
        """Return the id of this host's machine, and of its process there."""
        return str(ray.get_runtime_context().get_node_id()), os.getpid()

    @ray.method(concurrency_group="control")
    def assign(self, job: Job, hosts: int, point: ResumePoint, index: int) -> None:
        """Make this actor host `index` of a generation."""
        self._job, self._hosts, self._point, self._index = job, hosts, point, index
        self._taken.close()
        self._taken.enter_context(self._lines.prints())

    @ray.method(concurrency_group="frames")
    def alive(self) -> bool:
        """Return at once, whatever the other threads do."""
        return True

    @ray.method(concurrency_group="control")
    def open(self, actors: list[Any], secret: Secret | None, is_one_node: bool) -> Any:
        """Load the program, make the workers, open sources and sinks. Return the address for the other hosts."""
        return self._guarded(lambda: self._open(actors, secret, is_one_node=is_one_node))

    def _open(self, actors: list[Any], secret: Secret | None, *, is_one_node: bool) -> str:
        self._loading.join()
        if self._job.program_ref is not None:
            from dgs.job.loading import load_program

            program = load_program(self._job.program_ref, self._job.base_dir)
            program.hold_at_most(self._job.runtime.buffer_bytes)
            self._job = replace(self._job, program=program)
        self._taken.enter_context(self._lines.logs())  # only now: the program may have set up logging
        if self._job.may_compile:
            load_compiler()
        deployment = Deployment(self._job, self._hosts, self._point)
        if secret is None:
            posts = [actor.deliver.options(num_returns=0).remote for actor in actors]
            self._transport = RayTransport(self._index, posts, bound=deployment.credit_bytes)
        else:
            self._transport = self._sockets(secret, deployment.credit_bytes, is_one_node=is_one_node)
        self._engine = Engine(deployment, self._index, in_flight=self._transport.in_flight)
        self._taken.enter_context(process.rarer_collections())
        gc.freeze()  # later, in the middle of a run, looking through all modules would take 70 ms
        return self._transport.address

    def _sockets(self, secret: Secret, bound: int, *, is_one_node: bool) -> Transport:
        """Return the transport over sockets: Unix sockets if all hosts are on one Linux machine, else ZeroMQ."""
        if is_one_node and sys.platform == "linux":
            from dgs.workers.transport.unix_sockets import LocalTransport

            return LocalTransport(self._index, self._hosts, secret.token, bound=bound)
        from dgs.workers.transport.zeromq import DirectTransport

        interface = LOOPBACK if is_one_node else _node_address()
        return DirectTransport(self._index, self._hosts, secret, interface=interface, bound=bound)

    @ray.method(concurrency_group="control")
    def connect(self, addresses: list[str]) -> Any:
        """Connect to all hosts, once all of them are open."""
        return self._guarded(lambda: self._channel().connect(addresses))

    @ray.method(concurrency_group="frames")
    def deliver(self, *letter: Any) -> None:
        """Take a frame of another host that came through Ray."""
        transport = self._channel()
        if isinstance(transport, RayTransport):
            transport.deliver(*letter)

    @ray.method(concurrency_group="loop")
    def run(self, generation: int) -> Any:
        """Work until the root is done, and return its final state, encoded; or until `stop`, and return None.

        Ray may deliver this call after the generation has ended. Then it does nothing.
        """
        with self._lock:
            if self._engine is None or self._point.generation != generation:
                return None
            self._ended.clear()
        try:
            return self._guarded(self._run)
        finally:
            self._ended.set()

    def _run(self) -> bytes | None:
        engine, transport = self._running(), self._channel()
        busy = True
        engine.while_blocked(lambda: self._tell(engine))
        while engine.final is None and not self._stopping:
            for frame in transport.receive(0 if busy else _idle(engine)):
                engine.take(frame)
            while self._wanted:
                engine.request_snapshot(always=self._wanted.pop())
            busy = engine.step(reads=self._reads, between=lambda: self._hand_over(engine))
            self._tell(engine)
            for target, frame in engine.take_frames():
                engine.load.note(target, frame, transport.send(target, frame))
            self._hand_over(engine)
            if reports := engine.take_reports():
                with self._lock:
                    self._reports += reports
        return None if engine.final is None else encoded_state(engine.final.state)

    def _hand_over(self, engine: Engine) -> None:
        """Leave outputs for the driver, in parts. Wait while it has not taken many: its sinks are slow, and this host must not make more."""
        bound = self._job.runtime.buffer_bytes // (4 * self._hosts)
        for epoch, made in engine.take_outputs():
            for part, _ in in_parts(made, bytes_of(made)) if isinstance(made, OutputBatch) else [(made, 0)]:
                encoded = _encoded(part)
                with self._lock:
                    self._ready.append((epoch, encoded))
                    self._ready_bytes += len(encoded)
                    self._polled.clear()
                while not self._stopping and self._ready_bytes > bound:
                    self._answer(engine)
                    self._polled.wait(IDLE_SECONDS)

    def _tell(self, engine: Engine) -> None:
        """Answer `standing`, and leave the figures for the driver if they are due."""
        self._answer(engine)
        self._figures = engine.figures_if_due() or self._figures

    def _answer(self, engine: Engine) -> None:
        """Answer `standing`, if it was asked for."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.put(engine.standing())

    @ray.method(concurrency_group="control")
    def poll(self, reads: bool) -> Any:
        """Return the numbers of events read and outputs made, new outputs for the driver, reports, figures, and the program's lines.

        `reads`: whether the host may read input from now on.
        """
        has_more_to_do = reads and not self._reads
        self._reads = reads
        if has_more_to_do:
            self._channel().wake()
        with self._lock:
            ready, self._ready, self._ready_bytes = self._ready, [], 0
            reports, self._reports = self._reports, []
            figures, self._figures = self._figures, None
            self._polled.set()
        counts = self._running().counts
        lines = self._lines.take()
        return self._guarded(
            lambda: (*counts, ready, codec.encode(reports, keeps_order=True), figures, lines)
        )

    @ray.method(concurrency_group="control")
    def request_snapshot(self, always: bool) -> None:
        """Ask the root, which is on this host, for a checkpoint."""
        self._wanted.append(always)
        self._channel().wake()

    @ray.method(concurrency_group="control")
    def standing(self) -> Standing | None:
        """Return what the workers here wait for; None if the loop is busy. Only the loop may read mailboxes, so it answers."""
        answer = self._asking = SimpleQueue()
        self._channel().wake()
        try:
            return answer.get(timeout=STANDING_SECONDS)
        except Empty:
            return None

    @ray.method(concurrency_group="control")
    def stop(self) -> None:
        """End the loop, since the root is done or a request ends the generation."""
        self._end_loop()

    def _end_loop(self) -> None:
        self._stopping = True
        if self._transport is not None:
            self._transport.wake()

    @ray.method(concurrency_group="control")
    def story(self) -> list[StoryEntry]:
        """Return the latest notes of this host; none if it was not opened."""
        return [] if self._engine is None else self._engine.story()

    @ray.method(concurrency_group="control")
    def last_lines(self) -> list[ProgramLine]:
        """Return the rest of what the program has printed and logged."""
        return self._lines.close()

    @ray.method(concurrency_group="control")
    def figures(self) -> HostFigures:
        """Return the figures of this host for the report."""
        return self._running().figures()

    @ray.method(concurrency_group="control")
    def take_counts(self) -> Counts:
        """Return the events by tag that this host has read since the last call."""
        return self._running().take_counts()

    @ray.method(concurrency_group="control")
    def close(self, complete: bool) -> Any:
        """End the loop, then close sources, sinks and the channel to the other hosts."""
        return self._guarded(lambda: self._close(complete=complete))

    def _close(self, *, complete: bool) -> None:
        self._end_loop()
        has_ended = self._ended.wait(ENDING_SECONDS)
        try:
            if self._engine is not None:
                self._engine.close(complete=complete)
        finally:
            if self._transport is not None and has_ended:  # the sockets belong to the loop while it runs
                self._transport.close()

    @ray.method(concurrency_group="control")
    def release(self) -> bool:
        """Give up the generation, and be ready for another one. Return False if that is impossible because the loop does not end."""
        self._end_loop()
        self._ended.wait(RELEASE_SECONDS)
        with self._lock:  # a loop that begins now waits for this lock, and then finds no engine
            if not self._ended.is_set() or self._guarded(lambda: self._close(complete=False)) is not None:
                return False
            self._clear()
        gc.unfreeze()
        gc.collect()  # states and events refer to each other in cycles
        return True

    def _running(self) -> Engine:
        return _opened(self._engine)

    def _channel(self) -> Transport:
        return _opened(self._transport)

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except DgsError as error:
            return error
