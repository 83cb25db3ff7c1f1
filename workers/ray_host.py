"""The Ray actor around one engine: a loop in one thread, arriving frames in another, questions of the driver in a third."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any

import ray

from dgs import codec
from dgs.errors import DgsError
from workers.deployment import Deployment
from workers.engine import Engine
from workers.job import Job
from workers.messages import Frame

IDLE_SECONDS = 0.5
"""How long an idle host sleeps when nothing arrives. A frame or a stop wakes it at once."""


class HostActor:
    """One host of a run. Methods return a DgsError instead of raising it, so that it crosses processes whole."""

    def __init__(self, job: Job, hosts: int, index: int) -> None:
        self._job, self._hosts, self._index = job, hosts, index
        self._frames: SimpleQueue[bytes | None] = SimpleQueue()
        self._early: dict[tuple[int, int], Frame] = {}
        self._next = dict.fromkeys(range(hosts), 1)
        self._lock = threading.Lock()
        self._ready: list[bytes] = []
        self._stopping = False
        self._engine: Engine | None = None

    @ray.method(concurrency_group="control")
    def open(self, actors: list[Any]) -> Any:
        """Load the program, make the workers, open sources and sinks."""
        return self._guarded(lambda: self._open(actors))

    def _open(self, actors: list[Any]) -> None:
        if self._job.program_ref is not None:
            from dgs.loading import load_program

            self._job = replace(self._job, program=load_program(self._job.program_ref, self._job.base_dir))
        self._send = [actor.deliver.options(num_returns=0).remote for actor in actors]
        self._engine = Engine(Deployment(self._job, self._hosts), self._index)

    @ray.method(concurrency_group="frames")
    def deliver(self, frame: bytes) -> None:
        """Take a frame of another host."""
        self._frames.put(frame)

    @ray.method(concurrency_group="loop")
    def run(self) -> Any:
        """Work until the root is done (returns its final state, encoded) or until told to stop (returns None)."""
        return self._guarded(self._run)

    def _run(self) -> bytes | None:
        engine = self._running()
        while engine.final is None and not self._stopping:
            self._receive(wait=False)
            busy = engine.step()
            for target, frame in engine.take_frames():
                self._send[target](codec.encode(frame))
            if batches := engine.take_outputs():
                encoded = [codec.encode(batch) for batch in batches]
                with self._lock:
                    self._ready += encoded
            if not busy:
                self._receive(wait=True)
        return None if engine.final is None else codec.encode(engine.final.state)

    def _receive(self, *, wait: bool) -> None:
        """Hand the frames that have arrived to the engine; with `wait`, sleep until one comes."""
        try:
            while (data := self._frames.get(block=wait, timeout=IDLE_SECONDS if wait else None)) is not None:
                self._take_in_order(codec.decode(data))
                wait = False
        except Empty:
            return

    def _take_in_order(self, frame: Frame) -> None:
        """Put frames back into the order in which they were sent: Ray may start one-way calls out of order."""
        sender = frame.sender
        self._early[sender, frame.sequence] = frame
        while (ready := self._early.pop((sender, self._next[sender]), None)) is not None:
            self._running().take(ready)
            self._next[sender] += 1

    @ray.method(concurrency_group="control")
    def poll(self) -> tuple[int, int, list[bytes]]:
        """Return the events read, the outputs made, and the outputs the driver wants that are new."""
        with self._lock:
            ready, self._ready = self._ready, []
        counts = self._running().counts
        return counts["events"], counts["outputs"], ready

    @ray.method(concurrency_group="control")
    def stop(self) -> None:
        """End the loop: the root is done."""
        self._stopping = True
        self._frames.put(None)

    @ray.method(concurrency_group="control")
    def figures(self) -> dict[str, Any]:
        """Return what this host has to say for the report."""
        return self._running().figures()

    @ray.method(concurrency_group="control")
    def close(self, complete: bool) -> Any:
        """Close sources and sinks."""
        self._stopping = True
        self._frames.put(None)
        if self._engine is None:
            return None
        return self._guarded(lambda: self._running().close(complete=complete))

    def _running(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("the host was not opened")
        return self._engine

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except DgsError as error:
            return error
