"""The bytes between hosts: a run counts the bytes of its frames by edge of its plan, and they are about as predicted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dgs.job.schema import RuntimeConfig, SinkConfig, StreamConfig
from dgs.model.impl_tags import ImplTagSet
from dgs.model.tag_sets import TagSet
from dgs.planner.plan import Plan, PlanNode
from dgs.planner.prediction.costs import Costs
from dgs.planner.prediction.model import Predictor
from dgs.planner.topology import Machine, Stream, Topology
from dgs.workers.observing.figures import RunFigures
from dgs.workers.protocol.messages import Frame, JoinAnswer, Message, Prepared
from dgs.workers.recovery.coordinator import HostReport
from dgs.workers.runtime import deployment
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.engine import Engine
from dgs.workers.runtime.job import Job
from dgs.workers.runtime.observed import gathered
from dgs.workers.simulated.network import Network
from dgs.workers.simulated.simulation import simulate
from dgs.workers.sources import open_source
from dgs.workers.transport.frames import decoded, encoded, encoded_with_sizes
from tests.programs import INC, READ, Counters

INCREMENTS, READS = 4000, 40
STREAMS = ("a", "b", "reads")


def plan() -> Plan:
    """Return a root with the reads over two leaves: `left` has stream a and a little of b, `right` the rest of b."""
    left = PlanNode("left", ImplTagSet.of(a=TagSet.of(INC(0)), b=TagSet.of(INC(1))))
    right = PlanNode("right", ImplTagSet.of(b=TagSet.of(INC(0))))
    return Plan(PlanNode("root", ImplTagSet.of(reads=TagSet.of(READ(0), READ(1))), children=(left, right)))


def rows() -> dict[str, list[tuple[object, int, int]]]:
    every = INCREMENTS // READS
    found: dict[str, list[tuple[object, int, int]]] = {name: [] for name in STREAMS}
    for ts in range(INCREMENTS):
        found["a"].append((INC(0), ts, 1))
        found["b"].append((INC(int(ts % 10 == 0)), ts, 1))
        if ts % every == 0:
            found["reads"].append((READ(ts // every % 2), ts, 0))
    return found


@pytest.fixture
def job(tmp_path: Path) -> Job:
    tags = {"a": [{"kind": "inc", "key": 0}], "b": [{"kind": "inc", "key": k} for k in (0, 1)]}
    tags["reads"] = [{"kind": "read", "key": k} for k in (0, 1)]
    streams = tuple(StreamConfig(id=name, source={"memory": name}, tags=tags[name]) for name in STREAMS)
    rates = {"a": {INC(0): 1.1}, "b": {INC(0): 0.9, INC(1): 0.1}, "reads": {READ(0): 0.01, READ(1): 0.01}}
    return Job(
        Counters(),
        plan(),
        streams,
        tmp_path,
        tmp_path,
        RuntimeConfig(),
        memory=rows(),
        rates=rates,
        collect=True,
    )


def worked(job: Job) -> tuple[list[Engine], list[Frame]]:
    """Let two hosts run a job. Return them, with all frames between them."""
    engines = [Engine(Deployment(job, hosts=2), index) for index in range(2)]
    frames = []
    while not any(engine.final for engine in engines):
        for engine in engines:
            engine.step()
            for target, frame in engine.take_frames():
                frames.append(frame)
                data, sizes = encoded_with_sizes(frame)
                engine.load.note(target, frame, sizes)
                engines[target].take(decoded(data, engine.index))
    for engine in engines:
        engine.close(complete=True)
    return engines, frames


def edge_of(target: str, message: Message) -> tuple[str, str]:
    """Return the edge of a message in this job: the root is on the host of `left`, which has some events of the other host's stream."""
    if isinstance(message, JoinAnswer | Prepared):
        return message.child, "up"
    return target, "input" if target == "left" else "down"


def test_bytes_between_hosts_are_those_of_the_frames_by_edge(job):
    engines, frames = worked(job)
    figures = gathered([engine.figures() for engine in engines], RunFigures())
    home = Deployment(job, hosts=2).home
    assert home["left"] == home["root"] != home["right"]
    assert sum(pair.frames for pair in figures.pairs.values()) == len(frames)
    assert sum(figures.sent.values()) == sum(len(encoded(frame)) for frame in frames)
    # the bytes of the messages without those of the frames around them
    alone: Counter[tuple[str, str]] = Counter()
    around = 0
    for frame in frames:
        empty = len(encoded(replace(frame, messages=())))
        around += empty
        for message in frame.messages:
            alone[edge_of(*message)] += len(encoded(replace(frame, messages=(message,)))) - empty
    assert set(figures.sent) - {":news"} == {":".join(edge) for edge in alone}
    assert len(alone) == 3
    for edge, size in alone.items():
        assert size <= figures.sent[":".join(edge)] <= size + around


def test_predicted_bytes_between_hosts_are_near_those_of_a_run(job):
    engines, frames = worked(job)
    measured = sum(len(encoded(frame)) for frame in frames) / sum(engine.events for engine in engines)
    streams = [Stream(name, TagSet.of(*tags), tags) for name, tags in job.rates.items()]
    topology = Topology(streams, [Machine("here", 2)], hosts=2)
    predicted = Predictor(Counters(), topology, Costs(state_bytes=10.0)).predict(plan())
    assert measured / 2 < predicted.bytes_between < 2 * measured


def test_simulated_run_counts_its_frames(job, monkeypatch):
    sent = []
    send = Network.send
    monkeypatch.setattr(
        Network, "send", lambda self, edge, data: (sent.append(len(data)), send(self, edge, data))
    )
    batches = {
        config.id: list(open_source(config, job.source_context, rank=rank, batch_rows=256).read().batches)
        for rank, config in enumerate(job.streams)
    }
    load = simulate(Counters(), plan(), batches, seed=1).load
    assert load is not None
    assert (load.frames, sum(load.sent.values())) == (len(sent), sum(sent))
    assert {worker for worker, _ in load.sent} - {""} == {"root", "left", "right"}


@pytest.mark.parametrize("busy", [0, 1])
def test_host_without_workers_ends_with_the_others(job, tmp_path, monkeypatch, busy):
    """If one of two hosts has all workers, it writes all outputs."""
    monkeypatch.setattr(deployment, "assign_hosts", lambda plan, *_: {node.id: busy for node in plan.nodes()})
    sink = SinkConfig.model_validate({"jsonl": {"path": str(tmp_path / "out")}})
    engines, _ = worked(replace(job, sinks=(sink,)))
    assert engines[busy].final is not None
    (report,) = (one for one in engines[busy].reports if isinstance(one, HostReport))
    assert [Path(file.path).name for file in report.files] == [f"part-{busy}.jsonl.partial"]
