"""Pipelines in plan files: `flow:` names one, or a function that makes one, for every verb."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dgs
from dgs.api.preparing import from_file, prepare
from dgs.api.verifying import case_of
from dgs.cli.app import app
from dgs.errors import PlanFileError, ProgramImportError, UserCodeError
from dgs.flow import FlowError
from dgs.job.loading import load_callable

STOCKS = """\
from pathlib import Path

import dgs
from dgs.flow import flow
from dgs.pico import *

pairs = map(tuple)


def checked(row):
    if row[1] == 13 and Path(__file__).with_name("stop").exists():
        raise ValueError("boom")
    return tuple(row)


def smaller(a, b):
    return min(a, b, key=second)


read = new(from_stream("b")) + new(from_stream("a")) | new(map(checked))
lowest = read | new(w_p(reduce(smaller), by=first, over=window(3, 2, "count")))
seconds = read | new(w_p(reduce(smaller), by=first, over=window("2s", "1s", "time")))
listed = (new(from_stream("b", structure="list")) + new(from_stream("a", structure="list"))
          | new(pairs) | new(p(reduce(smaller), by=first)))
files = new(from_lines("a.txt")) | new(to_jsonl("out/"))


def windows(size=3, partial="drop"):
    return read | new(w_p(reduce(smaller), by=first, over=window(size, size, "count", partial=partial)))


def wrong():
    return new(from_stream("a")) | new(p(reduce(smaller), by=first))


def plain(a, b):
    return a


def number():
    return 5


class Total(dgs.Program):
    pass
"""
ROWS = {
    "a": [(ts, [name, value]) for ts, name, value in [(1, "x", 7), (2, "y", 3), (2, "x", 4), (5, "x", 9), (8, "y", 1), (9, "x", 2)]],
    "b": [(ts, [name, value]) for ts, name, value in [(1, "x", 8), (2, "y", 5), (3, "x", 6), (5, "y", 9), (9, "z", 13)]],
}  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Any:
    (tmp_path / "stocks.py").write_text(STOCKS)
    for name, rows in ROWS.items():
        lines = (json.dumps({"ts": ts, "payload": value}) + "\n" for ts, value in rows)
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))

    def written(flow: str, *, streams: str = "ba", args: dict[str, Any] | None = None, **more: Any) -> Path:
        sections = [{"id": name, "source": {"jsonl": {"path": f"{name}.jsonl"}}} for name in streams]
        named = {"ref": f"stocks.py:{flow}", **({"args": args} if args else {})}
        data = {
            "version": 1,
            "name": "stocks",
            "flow": named,
            "streams": sections,
            "runtime": {"kind": "local"},
        }
        (tmp_path / "plan.yaml").write_text(json.dumps({**data, **more}))
        return tmp_path / "plan.yaml"

    return written


def meant(directory: Path, name: str, **args: Any) -> list[Any]:
    found = load_callable(f"stocks.py:{name}", directory)
    return [list(value) for value in (found(**args) if args else found).denote(ROWS)]


def counted(values: list[Any]) -> Counter[str]:
    return Counter(json.dumps(value) for value in values)


@pytest.mark.parametrize("name", ["lowest", "seconds", "listed"])
def test_a_run_has_the_outputs_of_the_definition_of_its_pipeline(
    write: Any, tmp_path: Path, name: str
) -> None:
    for seed in range(3):
        path = write(name, time={"unit": "ms"}, optimizer={"name": "random", "seed": seed})
        assert counted(dgs.run(path, verify=True).outputs) == counted(meant(tmp_path, name))


def test_a_list_keeps_its_order_whatever_the_order_of_the_streams(write: Any, tmp_path: Path) -> None:
    for streams in ("ab", "ba"):
        assert [*map(list, dgs.run(write("listed", streams=streams)).outputs)] == meant(tmp_path, "listed")


def test_streams_of_equal_times_are_in_order_of_their_names(write: Any, tmp_path: Path) -> None:
    for streams in ("ab", "ba"):
        found = dgs.run(write("lowest", streams=streams)).outputs
        assert counted(found) == counted(meant(tmp_path, "lowest"))


def test_a_function_makes_a_pipeline_with_arguments(write: Any, tmp_path: Path) -> None:
    args = {"size": 2, "partial": "emit"}
    path = write("windows", args=args)
    assert counted(dgs.run(path).outputs) == counted(meant(tmp_path, "windows", **args))
    other = dgs.run(path, settings={"flow.args.size": 4}).outputs
    assert counted(other) == counted(meant(tmp_path, "windows", size=4, partial="emit"))


@pytest.mark.parametrize(
    "command",
    [
        "run --verify",
        "plan",
        "explain",
        "explain --types",
        "check --max-examples 5",
        "simulate --seeds 2",
        "predict",
    ],
)
def test_commands_take_a_pipeline(write: Any, command: str) -> None:
    verb, *flags = command.split()
    done = CliRunner().invoke(app, [verb, str(write("lowest")), *flags])
    assert done.exit_code == 0, done.output
    if "--types" in flags:
        assert done.output.splitlines()[0] == "flow lowest"


def test_the_simulation_runs_a_pipeline(write: Any) -> None:
    case = case_of(prepare(from_file(write("windows", args={"partial": "emit"}), {})))
    for seed in range(4):
        case.check(seed)


def test_a_failed_run_of_a_pipeline_resumes(write: Any, tmp_path: Path) -> None:
    path = write("lowest", checkpoint={"every": "1ms"}, optimizer={"name": "random", "seed": 1})
    (tmp_path / "stop").touch()
    with pytest.raises(UserCodeError, match="boom"):
        dgs.run(path, run_dir=tmp_path / "run")
    (tmp_path / "stop").unlink()
    dgs.resume(tmp_path / "run")
    files = (tmp_path / "run" / "outputs").glob("*.jsonl")
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert counted(lines) == counted(meant(tmp_path, "lowest"))


@pytest.mark.parametrize(
    ("plan", "error", "problem"),
    [
        (
            {"flow": "lowest", "streams": "a"},
            PlanFileError,
            "its source 'b' has no stream: add one with `id: b`",
        ),
        ({"flow": "lowest", "streams": "abc"}, PlanFileError, "stream 'c' is no source of it; it has a, b"),
        ({"flow": "files", "streams": "a"}, PlanFileError, "stream 'a' is no source of it; it has a.txt"),
        ({"flow": "wrong", "streams": "a"}, FlowError, "P04 p.reduce.smaller..: works on whole"),
        (
            {"flow": "lowest", "args": {"size": 2}},
            ProgramImportError,
            "a pipeline already, so `args:` cannot",
        ),
        ({"flow": "windows", "args": {"sice": 2}}, ProgramImportError, "unexpected keyword argument 'sice'"),
        ({"flow": "plain"}, ProgramImportError, "missing a required argument: 'a'. A flow has `@flow"),
        ({"flow": "number"}, ProgramImportError, "it makes an int, not a flow or a pipeline"),
        ({"flow": "Total"}, ProgramImportError, "the class Total, not a flow: write `program:` for it"),
        ({"flow": "pairs"}, ProgramImportError, "it is an Elementwise, not a flow or a pipeline"),
        (
            {"flow": "seconds", "time": {"unit": "s"}},
            PlanFileError,
            "its clock is every 1000ms, and ts is in s",
        ),
    ],
)
def test_wrong_plan_files_name_the_problem(
    write: Any, plan: dict[str, Any], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        dgs.run(write(**plan))


def test_sinks_of_a_pipeline_are_those_of_the_plan_file(write: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt.jsonl").write_text("")
    path = write("files", streams=["a.txt"])
    with pytest.raises(PlanFileError, match=r"leave it out, and write `sinks: \[{jsonl: {path: out}}\]`"):
        dgs.run(path)
