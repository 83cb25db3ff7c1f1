"""The cost of frames between two hosts: round-trip times and bytes per second over each kind of channel.

    python experiments/bench/transport.py [--json] [--count 2000]

`call` is a synchronous Ray call between the same two actors, for comparison.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from dgs import Tag
from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, OrderKey
from dgs.workers.protocol.messages import Events, Frame, Frontiers, Message
from dgs.workers.ray_runtime.cluster import cluster
from dgs.workers.transport.ray_calls import RayTransport
from dgs.workers.transport.unix_sockets import LocalTransport
from dgs.workers.transport.zeromq import DirectTransport, Secret, new_secret

BOUND = 32 * 2**20
ROWS = 16_384

KINDS = ("local", "network", "ray")
"""`direct` on one machine, `direct` between machines, and calls of Ray actors."""


class Echo:
    """One end of a channel: host 0 measures, host 1 answers every frame with a small one."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.sent = 0
        self.transport: Any = None

    def open(self, kind: str, actors: list[Any], secret: Secret) -> str:
        """Create this end of the channel; return its address."""
        if kind == "ray":
            posts = [actor.deliver.options(num_returns=0).remote for actor in actors]
            self.transport = RayTransport(self.index, posts, bound=BOUND)
        elif kind == "network":
            self.transport = DirectTransport(self.index, 2, secret, interface="127.0.0.1", bound=BOUND)
        else:
            self.transport = LocalTransport(self.index, 2, secret.token, bound=BOUND)
        self.sent = 0
        return str(self.transport.address)

    def connect(self, addresses: list[str]) -> None:
        """Connect to the other end."""
        self.transport.connect(addresses)

    def deliver(self, *letter: Any) -> None:
        """Take a frame that arrives through Ray."""
        self.transport.deliver(*letter)

    def close(self) -> None:
        """Close the sockets."""
        self.transport.close()

    def nothing(self) -> None:
        """Answer a synchronous call."""

    def call(self, other: Any, count: int) -> list[float]:
        """Return the seconds of `count` synchronous calls of the other actor."""
        import ray

        return _timed(lambda: ray.get(other.nothing.remote()), count)

    def _send(self, message: Message) -> None:
        self.sent += 1
        frame = Frame(self.index, 0, self.sent, (("w1", message),), BEGIN, 0)
        self.transport.send(1 - self.index, frame)

    def _receive(self, count: int) -> None:
        while count > 0:
            count -= len(self.transport.receive(1.0))

    def answer(self, count: int) -> None:
        """Answer `count` frames."""
        small = Frontiers(((0, OrderKey(1, 0, 0)),))
        while count > 0:
            for _ in self.transport.receive(1.0):
                count -= 1
                self._send(small)

    def round_trips(self, count: int) -> list[float]:
        """Return the seconds of `count` small frames there and back, one after the other."""
        small = Frontiers(((0, OrderKey(1, 0, 0)),))

        def once() -> None:
            self._send(small)
            self._receive(1)

        return _timed(once, count)

    def stream(self, count: int) -> float:
        """Return bytes per second of `count` large frames until the last answer, encoding and decoding included."""
        numbers = np.arange(ROWS)
        batch = EventBatch.of("values", rank=0, tags=[Tag("value", 1)], ts=numbers, payload=numbers)
        answered, started = 0, time.perf_counter()
        for _ in range(count):
            while self.transport.in_flight(1) > BOUND:
                answered += len(self.transport.receive(1.0))
            self._send(Events(0, batch))
        self._receive(count - answered)
        return count * batch.nbytes / (time.perf_counter() - started)


def _timed(action: Callable[[], Any], count: int) -> list[float]:
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - started)
    return seconds


def measure(ray: Any, transport: str, count: int) -> dict[str, float]:
    """Measure one transport between two fresh actors."""
    actor = ray.remote(num_cpus=0, concurrency_groups={"loop": 1, "frames": 1})(_with_groups(ray))
    actors = [actor.remote(index) for index in (0, 1)]
    secret = new_secret()
    addresses = ray.get([end.open.remote(transport, actors, secret) for end in actors])
    ray.get([end.connect.remote(addresses) for end in actors])
    zero, one = actors
    for warm in (True, False):
        trips = count // 10 if warm else count
        answers = one.answer.remote(trips)
        seconds = sorted(ray.get(zero.round_trips.remote(trips)))
        ray.get(answers)
    large = max(count // 10, 1)
    answers = one.answer.remote(large)
    rate = ray.get(zero.stream.remote(large))
    calls = ray.get(zero.call.remote(one, count // 4))
    ray.get([end.close.remote() for end in actors])
    for end in actors:
        ray.kill(end)
    return {
        "p50_us": round(statistics.median(seconds) * 1e6, 1),
        "p99_us": round(seconds[len(seconds) * 99 // 100] * 1e6, 1),
        "large_mb_per_s": round(rate / 1e6, 1),
        "call_p50_us": round(statistics.median(calls) * 1e6, 1),
    }


def _with_groups(ray: Any) -> type[Echo]:
    """Return the class of actors. Frames arrive in a separate thread of the actor."""

    class Actor(Echo):
        deliver = ray.method(concurrency_group="frames")(Echo.deliver)
        answer = ray.method(concurrency_group="loop")(Echo.answer)
        round_trips = ray.method(concurrency_group="loop")(Echo.round_trips)
        stream = ray.method(concurrency_group="loop")(Echo.stream)

    return Actor


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--count", type=int, default=2000, help="small frames to time (a tenth as many large ones)"
    )
    options = parser.parse_args()
    with cluster("local", 2) as ray:
        figures = {name: measure(ray, name, options.count) for name in KINDS}
    machine = {"machine": platform.machine(), "python": platform.python_version()}
    versions = {package: version(package) for package in ("ray", "pyzmq")}
    if options.json:
        print(json.dumps({**machine, "versions": versions, "rows": ROWS, "transports": figures}, indent=2))
        return
    print(f"{'transport':<10}{'p50 us':>10}{'p99 us':>10}{'MB/s':>10}{'Ray call us':>14}")
    for name, row in figures.items():
        print(
            f"{name:<10}"
            + "".join(f"{value:>{w}}" for value, w in zip(row.values(), (10, 10, 10, 14), strict=True))
        )


if __name__ == "__main__":
    main()
