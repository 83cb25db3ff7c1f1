"""The local and the Ray runtime: the same state machines with real sources and processes give the same outputs."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import dgs
from dgs import codec
from dgs.errors import MissingPackageError, OutOfOrderError, UserCodeError, WorkerLostError
from dgs.model.events import EventBatch
from dgs.model.tags import Tag
from dgs.semantics import sequential
from dgs.workers.runtime.run_story import read_story
from tests.programs import BARRIER, VALUE, EventWindow
from tests.selection import rest_is_slow
from tests.strategies import Workload, random_workload

RAY_SEEDS = rest_is_slow(range(900, 904))
TRANSPORTS = ("direct", "ray")
LOCAL_SEEDS = range(500, 560)


def check_workload(work: Workload, seed: int, runtime: dict[str, object]) -> dgs.Run:
    run = dgs.run(
        work.program,
        streams=dict(zip(work.stream_ids, work.batches, strict=True)),
        optimizer={"name": "random", "seed": seed, "max_leaves": 4},
        runtime={"batch_rows": random.Random(seed).choice([1, 3, 1000]), **runtime},
    )
    expected = sequential.run(work.program, work.batches)
    wanted = Counter(codec.encode(output.value) for output in expected.outputs)
    assert Counter(map(codec.encode, run.outputs)) == wanted
    assert codec.encode(run.state) == codec.encode(expected.state)
    return run


@pytest.mark.parametrize("seed", LOCAL_SEEDS)
def test_local_runtime_gives_the_sequential_outputs_and_state(seed):
    check_workload(random_workload(random.Random(seed)), seed, {"kind": "local", "buffer_bytes": "1KiB"})


@pytest.mark.ray
@pytest.mark.parametrize("seed", RAY_SEEDS)
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.usefixtures("ray_cluster")
def test_ray_runtime_gives_the_sequential_outputs_and_state(seed, transport):
    runtime = {"kind": "ray", "hosts": 2, "buffer_bytes": "1KiB", "transport": transport}
    check_workload(random_workload(random.Random(seed)), seed, runtime)


RUNTIMES = [pytest.param("local"), pytest.param("ray", marks=pytest.mark.ray)]


@pytest.fixture
def runtime(request: pytest.FixtureRequest) -> Callable[..., dgs.Run]:
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")

    def run(program: dgs.Program, streams: dict[str, list[object]], **options: object) -> dgs.Run:
        hosts = {"kind": request.param} if request.param == "local" else {"kind": "ray", "hosts": 2}
        return dgs.run(program, streams=streams, runtime=hosts, optimizer="greedy", **options)

    return run


WINDOW = {
    "barriers": [(BARRIER(), 10, 0), (BARRIER(), 20, 0)],
    "a": [(VALUE(0), ts, ts) for ts in range(1, 25)],
    "b": [(VALUE(1), ts, 100) for ts in (5, 10, 15)],
}


@pytest.mark.parametrize("runtime", RUNTIMES, indirect=True)
def test_runtime_reports_events_outputs_workers_and_hosts(runtime):
    run = runtime(EventWindow(), WINDOW)
    assert sorted(run.outputs) == sorted(o for o in sequential_values(EventWindow(), WINDOW))
    assert run.report["events_in"] == 29
    assert run.report["outputs"] == len(run.outputs)
    assert sum(worker["events"] for worker in run.report["per_worker"].values()) == 29


@pytest.mark.parametrize("runtime", RUNTIMES, indirect=True)
def test_run_that_fails_leaves_the_story_of_every_host(runtime, tmp_path):
    with pytest.raises(UserCodeError) as failed:
        runtime(FailsInUpdate(), WINDOW, run_dir=tmp_path / "run")
    entries = read_story(tmp_path / "run" / "story.jsonl")
    hosts = {entry.host for entry in entries} - {None}
    assert hosts in ({0}, {0, 1})
    for host in hosts:
        texts = [entry.text for entry in entries if entry.host == host]
        assert texts[0].startswith("begins generation 1 from epoch 0, with ")
        assert any("reads" in text for text in texts)
    failures = [entry for entry in entries if "fails: UserCodeError" in entry.text and entry.host is not None]
    assert any(failed.value.worker in failure.workers for failure in failures)  # both hosts may have failed


def sequential_values(program: dgs.Program, streams: dict[str, list[object]]) -> list[object]:
    return dgs.run(program, streams=streams, runtime="local", optimizer="sequential").outputs


class Scalar(EventWindow):
    """Event windows one event at a time."""

    update_batch = dgs.Program.update_batch


NUMBERS = EventBatch.of("numbers", rank=0, tags=[Tag("n")], ts=np.arange(3), payload=np.arange(3))
"""Columns that no conversion of Arrow's has touched."""

SEES_PANDAS = """
import sys, dgs


class SeesPandas(dgs.Program):
    kinds = (dgs.kind("n"),)

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit("pandas" in sys.modules)
        return state
"""


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_hosts_import_pandas_before_the_first_event():
    scope: dict[str, object] = {
        "__name__": "__main__"
    }  # so its class is sent by value, and no test is imported
    exec(SEES_PANDAS, scope)
    run = dgs.run(
        scope["SeesPandas"](),
        streams={"numbers": [NUMBERS]},
        runtime={"kind": "ray", "hosts": 1},
        optimizer="sequential",
    )
    assert list(run.outputs) == [True] * 3


class FailsInUpdate(Scalar):
    def update(self, state, event, emit):
        if event.ts == 15:
            raise ValueError("fifteen")
        return super().update(state, event, emit)


class FailsInJoin(EventWindow):
    def join(self, left, right):
        raise ValueError("cannot join")


class Forking(EventWindow):
    """Event windows that do not accumulate, so that states are forked."""

    accumulates = ()

    def fork(self, state, left, right):
        return state, 0


class FailsInJoinAfterFork(Forking):
    def join(self, left, right):
        raise ValueError("cannot join")


class FailsInFork(Forking):
    def fork(self, state, left, right):
        raise ValueError("cannot fork")


class FailsInInit(EventWindow):
    def init(self):
        raise ValueError("cannot start")


class ForksInThree(Forking):
    def fork(self, state, left, right):
        return state, 0, 0


FAILING = [
    (FailsInUpdate(), ["update of program FailsInUpdate raised ValueError: fifteen", "row", "15"]),
    (FailsInJoin(), ["join of program FailsInJoin raised ValueError: cannot join"]),
    (FailsInJoinAfterFork(), ["join of program FailsInJoinAfterFork raised ValueError: cannot join"]),
    (FailsInFork(), ["fork of program FailsInFork raised ValueError: cannot fork"]),
    (FailsInInit(), ["init of program FailsInInit raised ValueError: cannot start"]),
]


@pytest.mark.parametrize(
    ("runtime", "program", "said"),
    [
        *(("local", *case) for case in FAILING),
        *rest_is_slow([("ray", *case) for case in FAILING], marks=(pytest.mark.ray,)),
    ],
    indirect=["runtime"],
)
def test_runtime_says_where_user_code_raised(runtime, program, said):
    with pytest.raises(UserCodeError) as error:
        runtime(program, WINDOW)
    text = str(error.value)
    assert all(part in text for part in said)
    assert text.startswith("Traceback") or "File" in text.splitlines()[0] or "File" in text.splitlines()[1]


@pytest.mark.parametrize("runtime", RUNTIMES, indirect=True)
def test_runtime_refuses_a_fork_into_three(runtime):
    with pytest.raises(dgs.DgsError, match="fork must return two states"):
        runtime(ForksInThree(), WINDOW)


@pytest.mark.parametrize("runtime", RUNTIMES, indirect=True)
def test_runtime_stops_at_disorder(runtime):
    streams = {**WINDOW, "a": [(VALUE(0), 5, 1), (VALUE(0), 4, 1)]}
    with pytest.raises(OutOfOrderError) as error:
        runtime(EventWindow(), streams)
    assert (error.value.stream, error.value.row, error.value.ts, error.value.previous) == ("a", 1, 4, 5)


@pytest.mark.ray
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.usefixtures("ray_cluster")
def test_ray_runtime_notices_a_host_that_dies(transport):
    class Dies(Scalar):
        def update(self, state, event, emit):
            if event.ts == 15:
                os._exit(1)
            return super().update(state, event, emit)

    runtime = {"kind": "ray", "hosts": 2, "transport": transport, "restarts": {"max": 0}}
    with pytest.raises(WorkerLostError):
        dgs.run(Dies(), streams=WINDOW, runtime=runtime, optimizer="greedy")


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("hosts", [1, 2])
def test_the_default_plan_on_ray_is_one_of_cost(hosts):
    class Dear(Scalar):
        def update(self, state, event, emit):
            sum(range(500_000 * (event.tag.kind == "value")))  # several hosts save time that can be noticed
            return super().update(state, event, emit)

    streams = {**WINDOW, "b": [(VALUE(1), ts, 100) for ts in range(1, 25)]}
    run = dgs.run(Dear(), streams=streams, runtime={"kind": "ray", "hosts": hosts}, verify=True)
    assert (run.plan.optimizer, run.verified) == ("cost", True)
    assert (len(run.plan.leaves) > 1) == (hosts > 1)


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_hosts_make_way_for_other_processes_no_more_than_the_driver_does():
    class Nice(EventWindow):
        def update(self, state, event, emit):
            if event.tag.kind == "barrier":
                emit((os.getpid(), os.getpriority(os.PRIO_PROCESS, 0)))
                return 0
            return super().update(state, event, emit)

        update_batch = dgs.Program.update_batch

    run = dgs.run(Nice, streams=WINDOW, runtime={"kind": "ray", "hosts": 2})
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert [(process != os.getpid(), nice) for process, nice in run.outputs] == [(True, own)] * 2


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_ray_runtime_needs_zeromq_only_for_the_direct_transport(monkeypatch):
    monkeypatch.delitem(sys.modules, "dgs.workers.transport.zeromq", raising=False)
    monkeypatch.setitem(sys.modules, "zmq", None)
    with pytest.raises(MissingPackageError, match="pyzmq"):
        dgs.run(EventWindow(), streams=WINDOW, runtime={"kind": "ray", "hosts": 2}, optimizer="greedy")
