"""Errors as data for programs: every problem has its text, its fix and its place, and no value is a repr."""

import json

from dgs.errors import CodeChangedError, InternalError, InvalidPlanError, MalformedRowError, OutOfOrderError
from dgs.errors.as_data import as_data
from dgs.model.tags import Tag
from dgs.planner.validity import Violation


def told(error):
    return json.loads(json.dumps(as_data(error)))


def test_an_error_has_its_remedy_apart():
    data = told(OutOfOrderError(stream="a", row=3, ts=1, previous=2))
    assert data["fix"].startswith("Streams must be non-decreasing")
    assert data["message"].endswith(data["fix"])
    assert data["facts"] == {"stream": "a", "row": 3, "ts": 1, "previous": 2}
    assert data["problems"] == [{name: data[name] for name in ("message", "fix", "file", "line", "column")}]


def test_the_problems_of_a_plan_are_objects():
    violation = Violation("V2", ("a", "b"), ("x@s",), "they overlap", "Remove one")
    data = told(InvalidPlanError(program="P", listing="...", violations=[violation]))
    [problem] = data["problems"]
    assert (problem["rule"], problem["nodes"], problem["message"], problem["fix"]) == (
        "V2",
        ["a", "b"],
        "they overlap",
        "Remove one",
    )
    assert "violations" not in data["facts"]


def test_a_bad_row_has_its_file_line_and_column():
    data = told(MalformedRowError(stream="a", row=3, problem="null", file="a.csv", line=5, field="ts"))
    assert (data["file"], data["line"], data["column"]) == ("a.csv", 5, "ts")
    assert (data["problems"][0]["file"], data["problems"][0]["line"]) == ("a.csv", 5)


def test_changes_of_code_are_listed():
    error = CodeChangedError(
        program="P", path="there", listing="...", changes=["a.py: f has changed", "b.py: g is new"]
    )
    assert [one["message"] for one in told(error)["problems"]] == ["a.py: f has changed", "b.py: g is new"]


def test_facts_of_any_type_are_data():
    data = told(InternalError(problem="x", pair=(1, None), tag=Tag("a"), by={1: {"k"}}))
    assert data["facts"] == {"problem": "x", "pair": [1, None], "tag": "a", "by": {"1": ["k"]}}


def test_the_command_line_tells_every_problem_of_a_plan_file(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from dgs.cli.app import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text("version: 1\nname: a\nprogram: {reff: p.py:P}\nstreams: []\n")
    done = CliRunner().invoke(app, ["run", "plan.yaml", "--json"])
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert error["code"] == "DGS301"
    assert {(one["file"], one["line"]) for one in error["problems"]} == {("plan.yaml", 3), ("plan.yaml", 4)}
    assert any("did you mean 'ref'" in one["message"] for one in error["problems"])
