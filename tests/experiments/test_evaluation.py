"""The evaluation: every command runs with `--quick`, and its JSON, table and drawing are complete."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from dgs.planner.prediction.choice import ALIKE
from experiments.evaluation import __main__ as command
from experiments.evaluation import choices, principles
from experiments.evaluation.published import NODES, PAPER, RECORDED

DATA = Path(__file__).parents[3] / "shared" / "data" / "kddcup99_10pct_head50k"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a finding once with `--quick`, by the command; return its JSON and its directory."""
    known = {}

    def make(name):
        if name not in known:
            app, directory = typer.Typer(), tmp_path_factory.mktemp(name)
            app.command()(command.main)
            done = CliRunner().invoke(app, [name, "--quick", "--out", str(directory)])
            assert done.exit_code == 0, done.output
            known[name] = json.loads((directory / f"{name}.json").read_text()), directory
        return known[name]

    return make


LONG = ("figure4", "figure8", "figure10", "predictions", "choices", "moving", "table1")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in command.FINDINGS],
)
def test_finding_is_written_as_data_and_table_and_drawing(made, name):
    data, directory = made(name)
    assert data["name"] == name
    assert data["rows"]
    assert data["notes"]
    assert data["machine"]["cpus"]
    assert data["options"] == {"name": name, "quick": True}
    table = (directory / f"{name}.md").read_text()
    assert all(note in table for note in data["notes"])
    drawing = directory / f"{name}.svg"
    assert drawing.exists() == (name != "table1")
    if drawing.exists():
        assert ET.parse(drawing).getroot().tag.endswith("svg")


@pytest.mark.slow
def test_throughput_is_measured_here_and_predicted_for_more_nodes(made):
    data, directory = made("figure8")
    nodes = {row["nodes"] for row in data["rows"] if not row["is_measured"]}
    assert {1, NODES, 20} <= nodes
    for app in ("event-window", "page-view", "fraud"):
        rows = [row for row in data["rows"] if row["app"] == app]
        assert {row["is_measured"] for row in rows} == {True, False}
        assert all(row["eps"] > 0 and row["problem"] is None for row in rows)
        assert [row["scaling"] for row in rows if row["nodes"] == 1] == [1, 1]
    # three predicted, and the ideal
    assert (directory / "figure8.svg").read_text().count("stroke-dasharray") == 4


def test_keys_alone_do_not_scale_and_a_plan_does(made):
    rows = made("figure6")[0]["rows"]
    at = {
        (row["app"], row["system"], row["nodes"]): row["scaling"]
        for row in rows
        if row["source"] == "predicted"
    }
    for app, most in (("page-view", 2.0), ("fraud", 1.0)):
        assert at[app, "dgs, by keys alone", NODES] <= most + 0.01
        assert at[app, "dgs, synchronisation plan", NODES] > most + 0.5


@pytest.mark.slow
def test_rates_of_other_engines_are_those_recorded(made):
    for name, which in (("figure4", "automatic"), ("figure6", "manual")):
        data = made(name)[0]
        found = {
            (row["app"], row["system"]): row["eps"] for row in data["rows"] if row["source"] == "recorded"
        }
        rates = {(one.app, one.engine): getattr(one, which) for one in RECORDED}
        assert found == {key: rate * 1e6 for key, rate in rates.items() if rate is not None}
        assert any("the project's design, page 7" in note for note in data["notes"])


@pytest.mark.slow
def test_latency_is_measured_over_workers_and_heartbeats(made):
    rows = made("figure10")[0]["rows"]
    assert {row["sweep"] for row in rows} == {"workers", "heartbeats"}
    late = [[row["p10_ms"], row["p50_ms"], row["p90_ms"]] for row in rows]
    assert all(percentiles == sorted(percentiles) and percentiles[0] > 0 for percentiles in late), late
    assert all(row["problem"] is None and row["outputs"] > 1 for row in rows)


@pytest.mark.slow
def test_programs_keep_all_three_principles(made):
    rows = made("table1")[0]["rows"]
    ours = [row for row in rows if row["system"] == "dgs"]
    assert [row["app"] for row in ours] == [
        "event-window",
        "page-view",
        "fraud",
        "outlier-detection",
        "smart-home",
    ]
    assert all(row["pip3"] for row in ours)
    assert all(row["pip1"] and row["pip2"] for row in ours[:3])
    assert all(0 < row["lines_parallel"] < row["lines"] for row in ours)
    assert len([row for row in rows if row["system"].endswith("(paper)")]) == len(PAPER) == 12


def test_plumbing_of_the_runtime_breaks_the_third_principle(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import dgs\nfrom dgs.keyed import KeyedState\nfrom dgs.model import columns\n")
    assert principles.keeps_api(path)
    path.write_text("import dgs\nfrom dgs.workers.transport import sockets\n")
    assert not principles.keeps_api(path)


def test_lines_of_code_are_counted_without_docstrings_and_comments():
    source = 'def f(x):\n    """Say.\n\n    More.\n    """\n    # why\n\n    y = [\n        x,\n        1,\n    ]\n    return y\n'
    assert principles.code_lines(source) == 6


def test_case_studies_are_predicted_beside_the_paper(made):
    data = made("cases")[0]
    homes = {row["nodes"]: row for row in data["rows"] if row["app"] == "smart homes"}
    scaling = [homes[nodes]["scaling"] for nodes in sorted(homes)]
    # similar plans are equally good
    assert all(more >= less / ALIKE for less, more in pairwise(scaling))
    assert homes[8]["scaling"] > 1
    assert 0 < homes[8]["share"] < 362 / 29_000
    outliers = [row for row in data["rows"] if row["app"] == "outlier detection"]
    assert bool(outliers) == DATA.is_dir()
    assert any("7.3 x in the paper" in note for note in data["notes"]) == DATA.is_dir()


@pytest.mark.slow
def test_hot_key_moves_without_a_change_of_outputs(made):
    rows = made("moving")[0]["rows"]
    assert [row["plan"] for row in rows][-1] == "`replan: auto`"
    assert all(row["problem"] is None and row["seconds"] > 0 for row in rows)


@pytest.mark.skipif(not DATA.is_dir(), reason="the recorded data are not beside the checkout")
@pytest.mark.slow
def test_one_recorded_job_is_compared_with_the_plain_loop_here(tmp_path):
    app = typer.Typer()
    app.command()(command.main)
    only = ["--job", "quakes from 4.5", "--place", "local"]
    done = CliRunner().invoke(app, ["choices", *only, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    (row,) = json.loads((tmp_path / "choices.json").read_text())["rows"]
    assert (row["job"], row["place"], row["problem"]) == ("quakes from 4.5", "local", None)
    assert row["of_loop"] > 0
    assert row["slower"] >= 1


@pytest.mark.parametrize("given", [["--place", "ray"], ["--job", "fraud"], []])
def test_quick_is_small_beside_other_options(given, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(command, "OF_JOBS", {"choices": (asked.append, None, choices.QUICK)})
    app = typer.Typer()
    app.command()(command.main)
    CliRunner().invoke(app, ["choices", "--quick", *given, "--out", str(tmp_path)])
    (trials,) = asked
    named = {
        option.removeprefix("--") + "s": (value,)
        for option, value in zip(given[::2], given[1::2], strict=True)
    }
    assert trials == replace(choices.QUICK, **{name: [*value] for name, value in named.items()})


@pytest.mark.parametrize(("name", "job"), [("choices", "nothing"), ("table1", "dear keys")])
def test_unknown_job_is_refused(tmp_path, name, job):
    app = typer.Typer()
    app.command()(command.main)
    done = CliRunner().invoke(app, [name, "--job", job, "--out", str(tmp_path)])
    assert (done.exit_code, list(tmp_path.iterdir())) == (2, [])


def test_unknown_name_is_refused(tmp_path):
    app = typer.Typer()
    app.command()(command.main)
    done = CliRunner().invoke(app, ["figure5", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert not list(tmp_path.iterdir())
