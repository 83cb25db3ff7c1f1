"""The common behaviour of all verbs, and the verbs without a test file of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dgs.job.document import parse
from dgs.job.schema import PlanFile

HEAVY = ("numpy", "pyarrow", "pydantic", "ruamel", "ray", "pyspark", "rich", "msgpack")


def test_help_imports_nothing_heavy_and_is_quick():
    script = f"import sys; from dgs.cli import app; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    both = [(python("-m", "dgs", "--help"), python("-c", "import typer")) for _ in range(3)]
    assert all("Usage: dgs" in shown for (shown, _), _ in both)
    help_seconds, typer_seconds = (min(seconds for _, seconds in runs) for runs in zip(*both, strict=True))
    assert help_seconds < 4 * typer_seconds  # 1.5 times; the ratio does not depend on the machine


def python(*arguments):
    """Run an interpreter; return its output and its CPU seconds."""
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as process:
        shown = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return shown, usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize("verb", ["run", "plan", "explain", "bench", "schema", "doctor"])
def test_every_verb_has_help_and_json(dgs, verb):
    done = dgs(f"{verb} --help")
    assert done.code == 0
    assert "--json" in done.out


def test_version(dgs):
    import dgs as package

    assert dgs("--version").out == f"dgs {package.__version__}\n"


def test_misspelt_verb_is_a_usage_error(dgs):
    done = dgs("rum plan.yaml")
    assert (done.code, done.out) == (2, "")


def test_plan_prints_the_tree(project, dgs):
    done = dgs("plan plan.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == "w0: barrier from barriers"
    assert len(done.out.splitlines()) == 3


@pytest.mark.parametrize(
    ("shape", "start"),
    [
        ("yaml", "plan:\n  id: w0"),
        ("mermaid", "flowchart"),
        ("dot", "graph plan"),
        ("svg", "<svg "),
        ("json", '{"plan":'),
    ],
)
def test_plan_and_explain_print_other_formats(project, dgs, shape, start):
    done = dgs(f"plan plan.yaml --format {shape}")
    assert done.code == 0
    assert done.out.startswith(start)
    if shape != "json":
        assert dgs(f"explain plan.yaml --format {shape}").out == done.out


@pytest.mark.parametrize(
    "line",
    ["explain", "explain --dependence", "plan", "predict --hosts 1", "simulate --seeds 1 --faults none", "check --max-examples 1",
     pytest.param("bench --repeat 1 --hosts 1", marks=pytest.mark.slow), "compile"],
)  # fmt: skip
def test_verbs_that_take_a_plan_file_take_a_run_directory_for_its_own_plan(project, dgs, line):
    assert dgs("run plan.yaml --run-dir run").code == 0
    taken, meant = dgs(f"{line} run"), dgs(f"{line} run/plan.yaml")
    assert taken.code == meant.code != 3, taken.err
    assert ("directory" in taken.err) is False
    if line.startswith(("explain", "plan")):
        assert taken.out == meant.out != ""


def test_a_plan_of_a_run_is_taken_in_place_of_a_new_one(project, dgs):
    assert dgs("run plan.yaml --run-dir run --optimizer sequential").code == 0
    assert (
        dgs("plan plan.yaml --plan run").out
        == dgs("plan run").out
        == dgs("plan plan.yaml --optimizer sequential").out
    )


def test_a_directory_in_the_place_of_a_plan_file_says_what_to_name(project, dgs):
    assert dgs("run plan.yaml --run-dir run").code == 0
    assert "`dgs resume run` goes on with it; a new run takes run/plan.yaml" in dgs("run run").err
    assert "its plan file is plan.yaml" in dgs("run .").err
    assert "is a directory, not a plan file" in dgs("explain run/outputs").err


def test_plan_json_holds_the_plan_and_its_figures(project, dgs):
    data = json.loads(dgs("plan plan.yaml --json --max-leaves 2").out)
    assert (data["workers"], data["leaves"], data["depth"], data["optimizer"]) == (3, 2, 2, "greedy")
    assert data["plan"]["id"] == "w0"


def test_saved_plan_is_the_plan_that_is_printed(project, dgs):
    shown = dgs("plan plan.yaml --format yaml").out
    done = dgs("plan plan.yaml --save saved.yaml")
    assert (done.code, done.out, done.err) == (0, "", "dgs: plan with 3 workers saved in saved.yaml\n")
    assert parse((project / "saved.yaml").read_text(), "saved", {}).data == parse(shown, "shown", {}).data
    assert dgs("plan plan.yaml --plan saved.yaml --format yaml").out == shown


def test_plan_seed_makes_the_same_random_plan(project, dgs):
    first, second = (dgs("plan plan.yaml --optimizer random --seed 7 --format yaml").out for _ in range(2))
    assert first == second


def test_saved_plan_of_one_worker_is_said_to_have_one(project, dgs):
    done = dgs("plan plan.yaml --optimizer sequential --save saved.yaml")
    assert "dgs: plan with 1 worker saved in saved.yaml" in done.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--compare --save saved.yaml", "--compare prints a table and no plan: leave out --save"),
        ("--costs --save saved.yaml", "--costs prints a table and no plan: leave out --save"),
        ("--compare --format text", "--compare prints a table and no plan: leave out --format"),
        ("--costs --format svg --save a.yaml", "no plan: leave out --save and --format"),
        ("--compare --costs", "give --compare or --costs, not both"),
    ],
)
def test_plan_refuses_flags_that_contradict_each_other(project, dgs, flags, said):
    done = dgs(f"plan plan.yaml {flags}")
    assert (done.code, said in done.err, done.out) == (2, True, ""), done.err


def test_plan_is_printed_in_one_format(project, dgs):
    done = dgs("plan plan.yaml --format svg --json")
    assert (done.code, "give --json or --format svg, not both" in done.err) == (2, True)
    assert dgs("plan plan.yaml --format json --json").code == 0


def test_plan_that_has_no_place_is_not_made(project, dgs):
    done = dgs("plan plan.yaml --set optimizer.name=none --save nowhere/saved.yaml")
    assert (done.code, "nowhere/saved.yaml: its directory does not exist" in done.err) == (4, True), done.err


def test_compare_shows_every_optimizer(project, dgs):
    done = dgs("plan plan.yaml --compare")
    assert [line.split()[0] for line in done.out.splitlines()] == [
        "optimizer",
        "cost",
        "greedy",
        "random",
        "sequential",
    ]
    rows = {
        row["optimizer"]: row for row in json.loads(dgs("plan plan.yaml --compare --json").out)["optimizers"]
    }
    assert rows["sequential"]["workers"] == 1
    assert rows["greedy"]["leaves"] == 2
    assert rows["greedy"]["leaf_share"] == pytest.approx(6 / 9, abs=0.1)


def test_compare_shows_a_plan_by_hand_and_an_exhaustive_one_beside_those_of_the_optimizers(project, dgs):
    def shown(flags):
        rows = json.loads(dgs(f"plan plan.yaml --compare --json {flags}").out)["optimizers"]
        return [(row["optimizer"], row["workers"]) for row in rows]

    assert dgs("plan plan.yaml --optimizer greedy --save mine.yaml").code == 0
    assert shown("--plan mine.yaml") == [*shown(""), ("by hand", 3)]
    assert shown("--optimizer exhaustive")[-1][0] == "exhaustive"


def test_explain_says_how_update_folds_and_why(project, dgs):
    done = dgs("explain plan.yaml --set runtime.compile=auto")
    assert "  barrier of stream 'barriers': compiled, states are int" in done.out.splitlines()
    text = Path("program.py").read_text()
    Path("program.py").write_text(
        text.replace("        if event", "        while state is None:\n            pass\n        if event")
    )
    line = 1 + text[: text.index("        if event")].count("\n")
    done = dgs("explain plan.yaml --set runtime.compile=auto")
    why = f"  value of stream 'left': interpreted: line {line}: `while state is None:` is not compiled"
    assert why in done.out
    assert "How update folds" not in dgs("explain plan.yaml").out


def test_explain_gives_reasons(project, dgs):
    done = dgs("explain plan.yaml")
    assert done.code == 0
    assert "w0 owns barrier from barriers" in done.out
    assert "barrier depends on value of w1, value of w2" in done.out


def test_explain_json_lists_the_tags(project, dgs):
    tags = json.loads(dgs("explain plan.yaml --json").out)["tags"]
    assert [(tag["node"], tag["stream"]) for tag in tags] == [
        ("w0", "barriers"),
        ("w1", "left"),
        ("w2", "right"),
    ]
    assert set(tags[0]["because"]) == {"w1", "w2"}


@pytest.mark.parametrize(("shape", "start"), [("mermaid", "graph LR"), ("dot", "graph")])
def test_explain_draws_the_dependence_graph(project, dgs, shape, start):
    done = dgs(f"explain plan.yaml --dependence --format {shape}")
    assert done.code == 0
    assert done.out.startswith(start)
    assert dgs("explain plan.yaml --dependence --format svg").code == 2


def test_schema_is_a_json_schema_with_the_sections_of_a_plan_file(dgs):
    schema = json.loads(dgs("schema").out)
    assert set(schema["properties"]) == set(PlanFile.model_fields)
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["RuntimeConfig"]["properties"]["linger"]["default"] == "5ms"
    assert json.loads(dgs("schema --json").out) == schema


def test_doctor_reports_every_check(project, dgs):
    done = dgs("doctor --no-ray --json")
    report = json.loads(done.out)
    assert (done.code, report["ok"]) == (0, True)
    names = {check["name"] for check in report["checks"]}
    assert {"python", "pyarrow", "ray", "java", "shared memory", "ports", "directory"} <= names
    assert "ok      python" in dgs("doctor --no-ray").out


def test_doctor_looks_for_java_where_spark_does(project, dgs, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/no-such-java")
    done = dgs("doctor --no-ray")
    assert done.code == 0
    assert re.search(r"absent  java +JAVA_HOME is /no-such-java", done.out)


def test_doctor_exits_4_if_something_is_broken(project, dgs, monkeypatch):
    from dgs.cli import doctor

    monkeypatch.setattr(doctor, "CORE", ("no-such-package-at-all",))
    done = dgs("doctor --no-ray")
    assert done.code == 4
    assert "broken  no-such-package-at-all" in done.out


@pytest.mark.parametrize(
    "flags",
    [
        "--set 'sinks=[{jsonl: {path: loop/}}]'",
        "--set checkpoint.dir=loop --set checkpoint.every=1s",
        "--set program.ref=loop.py:Sums",
    ],
)
def test_links_that_go_in_a_circle_are_named(project, dgs, flags):
    for name in ("loop", "loop.py"):
        (project / name).symlink_to(name)
    done = dgs(f"run plan.yaml {flags}")
    assert (done.code, "internal" in done.err) == (4, False)
    assert f"{project}/loop" in done.err
    assert "Too many levels of symbolic links" in done.err
