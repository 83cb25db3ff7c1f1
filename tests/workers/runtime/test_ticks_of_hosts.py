"""Ticks where several hosts read: they follow the frontiers of all hosts, however late their frames arrive, and no run hangs."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path
from typing import Any

import pytest

import dgs
from dgs.api.preparing import Launch, Options, from_file, prepare
from dgs.model.order import OrderKey
from dgs.model.outputs import OutputBatch
from dgs.workers.protocol.edges import Edges, Peer, Period, TickReader
from dgs.workers.protocol.messages import Frame
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.engine import Engine
from dgs.workers.transport.frames import decoded, encoded
from tests.workers.sources.test_ticks import expected, plan_file, some_notes


def run_hosts(path: Path, *, hosts: int, seed: int) -> list[Any]:
    """Run the engines of a job in a random order, with frames that wait for random times; return the outputs by their stamps."""
    rnd = random.Random(seed)
    prepared = prepare(from_file(path, {}))
    launch = Launch(prepared, options=Options(collect=True))
    deployment = Deployment(launch.job, hosts)
    engines = [Engine(deployment, index) for index in range(hosts)]
    ways: dict[tuple[int, int], deque[bytes]] = {}
    slow = rnd.choice([0.1, 0.5, 1.0])
    try:
        for _ in range(20_000):
            engine = rnd.choice(engines)
            engine.step()
            for target, frame in engine.take_frames():
                ways.setdefault((engine.index, target), deque()).append(encoded(frame))
            for (sender, target), frames in ways.items():
                while frames and rnd.random() < slow:
                    engines[target].take(_read(frames.popleft(), sender))
            if any(one.final is not None for one in engines) and not any(map(len, ways.values())):
                break
        else:
            pytest.fail("it hangs: " + " ".join(str(one.standing()) for one in engines))
        taken = [batch for one in engines for _, batch in one.take_outputs()]
        made = [batch for batch in taken if isinstance(batch, OutputBatch)]  # not the dead letters
    finally:
        for one in engines:
            one.close(complete=False)
    rows = [row for b in made for row in zip(b.ts.tolist(), b.index.tolist(), b.to_list(), strict=True)]
    return [value for *_, value in sorted(rows, key=lambda row: row[:2])]


def _read(data: bytes, sender: int) -> Frame:
    return decoded(data, sender)


@pytest.mark.parametrize("seed", range(12))
def test_hosts_close_the_blocks_of_the_sequential_program(tmp_path: Path, seed: int) -> None:
    notes = some_notes(seed, streams=3)
    runtime = {
        "kind": "ray",
        "hosts": 3,
        "batch_rows": 1 + seed % 5,
        "buffer_bytes": "1KiB" if seed % 2 else "1MiB",
    }
    optimizer = {"name": "random", "seed": seed} if seed % 3 else {"name": "greedy"}
    path = plan_file(tmp_path, notes, runtime=runtime, optimizer=optimizer)
    assert run_hosts(path, hosts=3, seed=seed) == expected(notes)


@pytest.mark.slow
def test_two_hosts_on_ray(tmp_path: Path) -> None:
    notes = some_notes(5, streams=3, rows=3000)
    runtime = {"kind": "ray", "hosts": 2, "batch_rows": 64}
    path = plan_file(tmp_path, notes, runtime=runtime, optimizer={"name": "greedy"})
    assert dgs.run(path).outputs == expected(notes)


def test_a_frontier_that_has_passed_a_multiple_is_news_for_the_host_with_the_ticks() -> None:
    ticks = TickReader(1, Period(10))
    edges = Edges(0, hosts=3, generation=0, buffer_bytes=100, ticks=ticks)
    told = [[host for host, _ in edges.frames(Peer(OrderKey(ts, 1, 0)))] for ts in (5, 9, 10, 19, 47, 49)]
    assert told == [[1], [], [1], [], [1], []]
