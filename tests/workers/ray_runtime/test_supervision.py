"""Hosts that die (real processes, SIGKILL): the run goes on from its last checkpoint without loss or repetition."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dgs
from dgs.api.preparing import Launch, Options, from_program, prepare
from dgs.errors import WorkerLostError
from dgs.job.schema import SinkConfig, SourceConfig
from dgs.job.settings import Given
from dgs.workers.event_log import LogWriter
from dgs.workers.event_log.event_tables import event_table
from dgs.workers.ray_runtime import hosts as ray_hosts
from dgs.workers.ray_runtime import ray_driver
from dgs.workers.ray_runtime.actor import HostActor
from dgs.workers.ray_runtime.hosts import RayHosts
from dgs.workers.ray_runtime.ray_driver import run_ray
from dgs.workers.recovery.checkpoint import BEGINNING
from dgs.workers.recovery.coordinator import ControlRequest
from dgs.workers.runtime.control import post
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.job import Caller, Job, JobResult
from dgs.workers.runtime.run_story import read_story
from dgs.workers.sinks.files.owned import LIST
from dgs.workers.transport import zeromq
from dgs.workers.transport.unix_door import directories_of
from experiments.crash.processes import family
from tests.programs import BARRIER, VALUE, EchoWindow
from tests.selection import rest_is_slow

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

EVENTS = 400
PATIENCE = 60.0
"""Seconds until a test that waits gives up."""

STREAMS: dict[str, list[Any]] = {
    "barriers": [(BARRIER(), ts, 0) for ts in range(50, EVENTS + 1, 50)],
    "a": [(VALUE(0), ts, ts) for ts in range(1, EVENTS)],
    "b": [(VALUE(1), ts, ts + 1000) for ts in range(1, EVENTS)],
}
SHORT = (",", ":")


class Falls(EchoWindow):
    """Echoing windows, a millisecond per value, whose host dies at certain events: `falls[tag, ts]` times, and `falls["init",]`."""

    def __init__(self, folder: Path, falls: dict[Any, int], signal: int) -> None:
        self.folder, self.falls, self.signal, self.driver = folder, falls, signal, os.getpid()

    def update(self, state, event, emit):
        if event.tag.kind == VALUE:
            time.sleep(0.001)
        self.fall(event.tag, event.ts)
        return super().update(state, event, emit)

    def init(self):
        self.fall("init")
        return super().init()

    def fall(self, *where):
        for number in range(0 if os.getpid() == self.driver else self.falls.get(where, 0)):
            try:
                (self.folder / f"{where}-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), self.signal)


@dataclass
class Falling:
    """A run whose hosts die. `falls`: how often, by tag and time.

    `pauses_at`: events from this time on arrive after the first commit, however late it is.
    """

    tmp_path: Path
    falls: dict[Any, int]
    every: str | None = "50ms"
    settings: dict[str, Any] = field(default_factory=dict)
    signal: int = signal.SIGKILL
    sink: Any = None
    pauses_at: int | None = None
    program: type[Falls] = Falls
    told: list[tuple[float, str]] = field(default_factory=list)

    @property
    def job(self) -> Job:
        folder = self.tmp_path / "fallen"
        folder.mkdir(exist_ok=True)
        settings = {"runtime.kind": "ray", "runtime.hosts": 2, "runtime.batch_rows": 10, **self.settings}
        # the notices are about losses
        settings |= {"runtime.stall_after": "1h", "optimizer.name": "greedy"}
        if self.every is not None:
            settings["checkpoint.every"] = self.every
        given = {path: Given(value, "test") for path, value in settings.items()}
        program = self.program(folder, self.falls, self.signal)
        job = Launch(
            prepare(from_program(program, STREAMS, given)), options=Options(collect=self.sink is None)
        ).job
        if self.pauses_at is not None:
            streams = tuple(
                one.model_copy(update={"source": SourceConfig(log={"path": str(self.tmp_path / "log")})})
                for one in job.streams
            )
            job = replace(job, streams=streams, memory={})
        return replace(
            job,
            sinks=(SinkConfig.model_validate(self.sink or {"jsonl": {"path": str(self.tmp_path / "out")}}),),
            checkpoint_dir=None if self.every is None else self.tmp_path / "checkpoints",
            output_dir=self.tmp_path,
        )

    def run(self, **changed: Any) -> JobResult:
        caller = Caller(notify=lambda text: self.told.append((time.time(), text)))
        job = replace(self.job, **changed)
        with self.feeding() if self.pauses_at is not None else nullcontext():
            self.result = run_ray(job, caller)
        return self.result

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """Write the streams: some events before anything is committed, the others after that."""
        logs = {name: LogWriter(self.tmp_path / "log", name, "test") for name in STREAMS}
        early = {name: sum(ts < self.pauses_at for _, ts, _ in STREAMS[name]) for name in STREAMS}
        has_ended = threading.Event()

        def feed() -> None:
            for name, log in logs.items():
                log.append(0, as_table(STREAMS[name][: early[name]]), keep_order=True)
            while not list(self.tmp_path.glob("checkpoints/state-*.dgs")):
                if has_ended.wait(0.01):
                    return
            for name, log in logs.items():
                log.append(1, as_table(STREAMS[name][early[name] :]), keep_order=True)
                log.close()

        with ThreadPoolExecutor(1) as pool:
            fed = pool.submit(feed)
            try:
                yield
            finally:
                has_ended.set()
            fed.result()

    def check(self) -> None:
        """Compare collected outputs and those in files with the sequential program's; no other files may be left."""
        assert Counter(json.dumps(v) for batch in self.result.outputs for v in batch.to_list()) == expected()
        self.check_files()

    def check_files(self) -> None:
        files = sorted(path for path in (self.tmp_path / "out").iterdir() if path.name != LIST)
        written = Counter(line for file in files for line in file.read_text().splitlines())
        assert written == Counter(json.dumps(json.loads(line), separators=SHORT) for line in expected())
        assert {file.suffix for file in files} == {".jsonl"}

    @property
    def fallen(self) -> list[float]:
        """The times at which hosts died."""
        return sorted(path.stat().st_mtime for path in (self.tmp_path / "fallen").iterdir())

    @property
    def notices(self) -> list[str]:
        """The notices to the caller, after the second colon."""
        return [text.rpartition(": ")[2] for _, text in self.told]


def as_table(events: list[Any]) -> pa.Table:
    tags = tuple(dict.fromkeys(tag for tag, _, _ in events))
    codes = np.array([tags.index(tag) for tag, _, _ in events], dtype=np.int32)
    times = np.array([ts for _, ts, _ in events])
    return event_table(times, tags, codes, [payload for *_, payload in events])


def leaf_tag(tmp_path: Path) -> Any:
    """Return the values of the leaf whose host is not the root's."""
    deployment = Deployment(Falling(tmp_path, {}).job, 2)
    (stream,) = (name for name in "ab" if deployment.readers[name] != deployment.root_host)
    return VALUE("ab".index(stream))


@cache
def expected() -> Counter[str]:
    run = dgs.run(EchoWindow(), streams=STREAMS, runtime="local", optimizer="sequential")
    return Counter(map(json.dumps, run.outputs))


def no_host_is_left() -> bool:
    """Return whether no host of this process is alive, by Ray's names of processes. Idle hosts may take a moment to end."""
    return comes_true(lambda: not any("HostActor" in name for name in family(os.getpid()).values()))


def comes_true(claim: Callable[[], bool]) -> bool:
    """Return whether a claim becomes true soon."""
    deadline = time.monotonic() + PATIENCE
    while not (is_so := claim()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return is_so


@pytest.fixture
def tokens(monkeypatch) -> list[bytes]:
    """The tokens of the hosts of each generation. They distinguish directories of this test from those of other runs."""
    made, new_secret = [], zeromq.new_secret

    def noted():
        secret = new_secret()
        made.append(secret.token)
        return secret

    monkeypatch.setattr(zeromq, "new_secret", noted)
    return made


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("transport", rest_is_slow(["direct", "ray"]))
def test_a_killed_host_is_noticed_at_once_and_the_run_resumes_from_its_last_checkpoint(
    tmp_path, monkeypatch, transport
):
    monkeypatch.setattr(ray_hosts, "ANSWER_SECONDS", 10 * PATIENCE)  # its silence is not noticed
    settings = {"runtime.transport": transport}
    run = Falling(tmp_path, {(leaf_tag(tmp_path), 300): 1}, settings=settings, pauses_at=300)
    figures = run.run().figures
    run.check()
    assert run.notices == ["the run starts again from its last checkpoint, now"]
    assert run.told[0][0] - run.fallen[0] < PATIENCE
    assert figures.restarts == 1
    assert figures.events == sum(map(len, STREAMS.values()))
    assert figures.outputs == expected().total()


def test_a_run_survives_the_roots_host_and_then_another_and_leaves_nothing_of_them(
    tmp_path, monkeypatch, tokens
):
    monkeypatch.setattr(ray_driver, "REFILL_SECONDS", 0.1)  # idle hosts take over
    leaf = leaf_tag(tmp_path)
    files = open_files()
    falls = {(BARRIER(), 150): 1, (leaf, 350): 1, ("init",): 1}
    settings = {"runtime.restarts.max": 2}  # without progress in between
    run = Falling(tmp_path, falls, settings=settings, pauses_at=350)
    restarts = run.run().figures.restarts
    assert len(run.fallen) == 3
    assert restarts in (2, 3)  # two may die together
    run.check()
    assert no_host_is_left()
    assert len(tokens) == restarts + 1
    assert not [left for token in tokens for left in directories_of(token)]
    assert comes_true(lambda: open_files() <= files + 2)


@pytest.fixture
def generations(monkeypatch) -> list[set[int]]:
    """The processes of the hosts of each generation."""
    found: list[set[int]] = []
    start = RayHosts.start

    def noted(hosts: RayHosts) -> bool:
        is_one_node = start(hosts)
        found.append(set(hosts._processes.values()))
        return is_one_node

    monkeypatch.setattr(RayHosts, "start", noted)
    return found


def test_a_host_that_survives_takes_part_in_the_next_generation(tmp_path, generations):
    run = Falling(tmp_path, {(leaf_tag(tmp_path), 300): 1}, pauses_at=300)
    run.run()
    run.check()
    before, after = generations
    assert len(before & after) == 1


class Busy(Falls):
    """Falls whose leaf kills the other host at an event, once, and is then busy for a long time."""

    def fall(self, *where):
        self.folder.joinpath(str(os.getpid())).touch()
        if where in self.falls and not (busy := self.folder.parent / "busy").exists():
            busy.touch()
            for path in self.folder.iterdir():
                if path.name not in (str(os.getpid()), str(self.driver)):
                    os.kill(int(path.name), signal.SIGKILL)
            time.sleep(PATIENCE)


@pytest.mark.slow
def test_a_host_that_is_busy_after_a_loss_is_killed(tmp_path, generations):
    run = Falling(tmp_path, {(leaf_tag(tmp_path), 300): 1}, pauses_at=300, program=Busy)
    run.run()
    run.check()
    assert (tmp_path / "busy").exists()
    before, after = generations
    assert not before & after


def test_no_collection_visits_what_a_host_had_loaded_before_it_runs():
    streams = {"v": [dgs.EventBatch.of("v", rank=0, tags=[dgs.Tag("value")], ts=[1])]}
    job = Launch(prepare(from_program(EchoWindow(), streams, {}))).job
    host = HostActor()
    gc.unfreeze()
    try:
        host.assign(job, 1, BEGINNING, 0)
        assert not isinstance(host.open([], zeromq.new_secret(), is_one_node=True), Exception)
        assert gc.get_freeze_count() > len(sys.modules)
        assert host.release()
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()


def test_a_host_does_not_run_for_a_generation_that_is_over():
    host = HostActor()
    assert host.release()
    assert host.run(1) is None
    assert host.release()


@pytest.mark.slow
def test_a_run_starts_over_when_nothing_is_committed_yet(tmp_path):
    run = Falling(tmp_path, {(BARRIER(), 300): 1}, every="1h")
    run.run()
    run.check()
    assert run.notices == ["the run starts again from the beginning, now"]


@pytest.mark.slow
def test_a_run_without_checkpoints_starts_over(tmp_path):
    run = Falling(tmp_path, {(leaf_tag(tmp_path), 300): 1}, every=None)
    assert run.run().figures.restarts == 1
    run.check()


def test_a_run_that_has_shown_outputs_on_stdout_cannot_start_over(tmp_path):
    run = Falling(tmp_path, {(BARRIER(), 300): 1}, every=None, sink="stdout")
    with pytest.raises(WorkerLostError):
        run.run()
    assert run.told == []


def test_remaining_hosts_report_their_notes_when_a_run_fails(tmp_path):
    run = Falling(tmp_path, {(BARRIER(), 300): 1}, every=None, sink="stdout")
    with pytest.raises(WorkerLostError):
        run.run(control_dir=tmp_path / "control")
    root = Deployment(run.job, 2).root_host
    entries = read_story(tmp_path / "story.jsonl")
    assert {entry.host for entry in entries} == {None, 1 - root}
    assert any("receives frame" in entry.text for entry in entries)
    assert [entry.text for entry in entries][-1].startswith("the run fails: WorkerLostError")


@pytest.mark.slow
def test_restarts_without_progress_are_bounded_and_pause_and_the_run_can_be_resumed(tmp_path):
    settings = {"runtime.restarts": {"max": 2, "backoff": "100ms"}}
    run = Falling(tmp_path, {(BARRIER(), 50): 3}, every="1h", settings=settings)
    with pytest.raises(WorkerLostError) as error:
        run.run()
    assert error.value.exit_code == 5
    assert [notice.rpartition(" ")[2] for notice in run.notices] == ["now", "s"]
    assert run.notices[1].endswith("in 0.1 s")
    run.run(resumes=True)
    run.check_files()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["running", "opening"])
def test_a_host_that_hangs_is_lost_once_it_has_not_answered(tmp_path, monkeypatch, where):
    falls = {(BARRIER(), 300): 1} if where == "running" else {("init",): 1}
    run = Falling(tmp_path, falls, signal=signal.SIGSTOP)
    asked = RayHosts._asked

    def ask(hosts: RayHosts, call: Any, *, is_long: bool = False) -> list[Any]:
        """Healthy hosts may be slow: only the first stopped host must be found soon."""
        hangs = bool(run.fallen and not run.told)
        return asked(hosts, call, 1.5 if hangs or is_long else PATIENCE, is_long=is_long)

    monkeypatch.setattr(RayHosts, "ask", ask)
    run.run()
    run.check()
    # 1.5 s; PATIENCE if it was asked just before it stopped
    assert "it has not answered for" in run.told[0][1]
    assert no_host_is_left()


@pytest.mark.slow
def test_a_host_that_takes_long_to_open_is_not_lost(tmp_path, monkeypatch):
    driver, opening, alive = os.getpid(), tmp_path / "opening", tmp_path / "alive"
    asked = RayHosts._asked

    class Slow(EchoWindow):
        def init(self):
            if os.getpid() != driver and not alive.exists():
                opening.touch()
                assert comes_true(alive.exists)
            return super().init()

    def ask(hosts: RayHosts, call: Any, *, is_long: bool = False) -> list[Any]:
        """Let long calls time out at once, so hosts are asked whether they are alive."""
        answers = asked(hosts, call, 0.1 if is_long else PATIENCE, is_long=is_long)
        if opening.exists() and not is_long:
            alive.touch()
        return answers

    monkeypatch.setattr(RayHosts, "ask", ask)
    run = Falling(tmp_path, {})
    run.run(program=Slow())
    run.check()
    assert alive.exists()
    assert run.told == []


def blocked(batch: Any, folder: str) -> None:
    """A sink that blocks from some time on until it is freed, or for PATIENCE seconds."""
    place = Path(folder)
    if batch.ts.max() >= 300 and not (place / "free").exists():
        (place / "blocked").touch()
        if not comes_true((place / "free").exists):
            (place / "waited").touch()


def test_a_stop_ends_hosts_that_do_not_end_and_the_run_can_be_resumed(tmp_path):
    """A sink that blocks keeps its host from committing and from ending. Uncommitted outputs are made again."""
    run = Falling(tmp_path, {}, settings={"runtime.stop_timeout": "1s"})
    ref = {"ref": f"{__name__}:blocked", "args": {"folder": str(tmp_path)}}
    sinks = (*run.job.sinks, SinkConfig.model_validate({"callable": ref}))

    def stop() -> None:
        assert comes_true((tmp_path / "blocked").exists)
        post(tmp_path / "control", ControlRequest("stop"))

    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(stop)
        result = run.run(sinks=sinks, control_dir=tmp_path / "control")
        stopped.result()
    assert (result.stopped_by, result.stopped_at) == ("dgs stop", None)
    assert not (tmp_path / "waited").exists()
    assert no_host_is_left()
    (tmp_path / "free").touch()
    run.run(resumes=True, sinks=sinks)
    run.check_files()
