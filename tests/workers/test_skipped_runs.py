"""Whole runs with `on_error: skip`: the place of dead letters, the run's report on them, and each letter once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dgs
from dgs.errors import WorkerLostError
from dgs.semantics.skipped_events import StateNotSavedError
from dgs.workers.runtime.engine import Engine
from tests.programs import BARRIER, VALUE, EventWindow

STREAMS: dict[str, list[Any]] = {
    "barriers": [(BARRIER(), ts, ts % 20 == 0) for ts in range(10, 101, 10)],
    "a": [(VALUE(0), ts, ts % 10) for ts in range(100)],
    "b": [(VALUE(1), ts, None if ts % 25 == 7 else ts) for ts in range(100)],
}
"""Streams in which every barrier with a true payload, every value 3 of `a`, and every None fails."""

SKIPPED = sorted(
    [
        *(("barriers", ts, row) for row, ts in enumerate(range(10, 101, 10)) if ts % 20 == 0),
        *(("a", ts, ts) for ts in range(100) if ts % 10 == 3),
        *(("b", ts, ts) for ts in (7, 32, 57, 82)),
    ]
)


class Touchy(EventWindow):
    """Event windows that raise for some events."""

    update_batch = dgs.Program.update_batch

    def update(self, state: Any, event: Any, emit: Any) -> Any:
        state = super().update(state, event, emit)
        if event.stream.startswith("a") and event.payload == 3:
            raise ValueError("three is too much")
        if event.tag.kind == BARRIER and event.payload:
            raise KeyError(event.ts)
        return state


def run(path: Path | None = None, **settings: Any) -> dgs.Run:
    return dgs.run(
        Touchy(),
        streams=STREAMS,
        runtime=settings.pop("runtime", "local"),
        settings={"on_error": "skip", **settings},
        verify=True,
        run_dir=path,
    )


def letters(path: Path) -> list[dict[str, Any]]:
    files = sorted(path.glob("dead-letter-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def events(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((one["stream"], one["ts"], one["seq"]) for one in found)


def check(done: dgs.Run, path: Path) -> None:
    """Check that a run has skipped the failing events, has reported them, and has skipped nothing else."""
    assert done.verified, done.differences
    assert events(letters(path)) == sorted(one.identity for one in done.dead_letters) == SKIPPED
    assert done.report["skipped"] == len(SKIPPED)
    assert done.report["events_in"] == 210
    assert not list(path.rglob("*.partial"))


def test_letters_of_a_run_are_in_its_directory(tmp_path):
    path = tmp_path / "run"
    check(run(path), path)
    (first, *_), *_ = [[one for one in letters(path) if one["stream"] == name] for name in ("a", "b")]
    worker = first.pop("worker")
    assert worker in json.loads((path / "results.json").read_text())["per_worker"]
    assert first == {
        "stream": "a", "ts": 3, "seq": 3, "kind": "value", "key": 0, "payload": 3,
        "error": "ValueError: three is too much", "function": "update", "row": 3,
    }  # fmt: skip
    results = json.loads((path / "results.json").read_text())
    assert (results["skipped"], results["dead_letters"]) == (19, str(path / "dead-letter-0.jsonl"))


def test_letters_are_written_once_although_a_host_is_lost(tmp_path, monkeypatch):
    """The host is lost right before its third epoch is staged: two are committed, with the letters of both.

    A checkpoint is always due, so their number does not depend on the speed of the machine.
    """
    stage, calls = Engine._close_epoch, []

    def staged(engine: Engine, worker: str, epoch: int) -> None:
        calls.append(epoch)
        if epoch == 3 and calls.count(3) == 1:
            raise WorkerLostError(host=0, problem="pulled the plug")
        stage(engine, worker, epoch)

    monkeypatch.setattr(Engine, "_close_epoch", staged)
    path = tmp_path / "run"
    settings = {"checkpoint.every": "1ns", "runtime.restarts.backoff": "1ms", "runtime.batch_rows": 5}
    done = run(path, **settings)
    assert done.report["restarts"] == 1
    assert len(list(path.glob("dead-letter-*.jsonl"))) > 1
    assert done.report["dead_letters"] == str(path / "dead-letter-*.jsonl")
    check(done, path)


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_letters_of_several_hosts_are_one_run_of_letters(tmp_path):
    path = tmp_path / "run"
    check(run(path, runtime={"kind": "ray", "hosts": 2}, **{"optimizer.name": "greedy"}), path)


def test_run_without_a_directory_gives_its_letters_to_the_caller_only(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    done = run()
    assert sorted(one.identity for one in done.dead_letters) == SKIPPED
    assert (done.report["skipped"], done.report["dead_letters"]) == (19, None)
    assert [repr(one.payload) for one in done.dead_letters if one.stream == "b"] == ["None"] * 4
    assert list(tmp_path.iterdir()) == []


def test_run_that_skips_nothing_has_no_letters(tmp_path):
    path = tmp_path / "run"
    streams = {"values": [(VALUE(0), 1, 4)], "barriers": [(BARRIER(), 2, 0)]}
    settings = {"on_error": "skip"}
    done = dgs.run(Touchy(), streams=streams, runtime="local", settings=settings, run_dir=path)
    assert (done.outputs, done.report["skipped"], done.report["dead_letters"]) == ([4], 0, None)
    assert not list(path.glob("dead-letter*"))


def test_verify_tells_which_events_were_skipped_by_chance():
    class Moody(dgs.Program):
        runs = 0

        def init(self) -> int:
            Moody.runs += 1
            return 0

        def update(self, state: int, event: Any, emit: Any) -> int:
            if event.ts == 2 and Moody.runs == 1:
                raise RuntimeError("not now")
            return state

    streams = {"s": [("n", ts, None) for ts in (1, 2, 3)]}
    done = dgs.run(Moody(), streams=streams, runtime="local", settings={"on_error": "skip"}, verify=True)
    assert done.verified is False
    assert done.differences == [
        "the run skipped other events (stream, ts, row) than the sequential program:",
        "  unexpected: ('s', 2, 1)",
    ]


def test_state_that_cannot_be_copied_is_refused_at_the_first_event():
    class Odd(dgs.Program):
        def init(self) -> Any:
            return iter(())

        def update(self, state: Any, event: Any, emit: Any) -> Any:
            return state

    with pytest.raises(StateNotSavedError, match="copy of every state of program Odd") as caught:
        dgs.run(Odd(), streams={"s": [("n", 1, None)]}, runtime="local", settings={"on_error": "skip"})
    assert caught.value.code == "DGS512"
