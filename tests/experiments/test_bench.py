"""The benchmarks: right outputs, the baselines, the sweeps, the report, and a failure for wrong outputs."""

import json
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from dgs.bench.fingerprint import fingerprint
from dgs.bench.measuring import measured, medians
from dgs.semantics import sequential
from experiments.bench import __main__ as command
from experiments.bench import baselines, memory, report, sync
from experiments.bench.applications import application, available
from experiments.bench.baselines import Shapes, contestants
from experiments.bench.sequential import expected
from experiments.bench.targets import Ratios
from tests.selection import rest_is_slow

SYNTHETIC = ("event-window", "page-view", "fraud", "fraud-cyclic")
every_app = pytest.mark.parametrize("name", SYNTHETIC)
LOCAL = Shapes(engines=("loop", "numpy", "local"))


@pytest.fixture(scope="module")
def apps():
    return {name: application(name, events=20_000) for name in SYNTHETIC}


def row(**values):
    named = {"app": "fraud", "engine": "local", "mode": "vectorised", "leaves": 4, "hosts": 1}
    return {**named, "eps": 0.0, "problem": None, "figures": {}, "seconds": 1.0, "samples": 1, **values}


@every_app
def test_expected_outputs_are_those_of_the_specification(apps, name, monkeypatch):
    monkeypatch.setattr("experiments.bench.sequential.PIECE", 7_000)
    app = apps[name]
    specified = sequential.run(app.program, list(app.streams.values()))
    found = expected(app.program, list(app.streams.values()))
    assert found.fingerprint == fingerprint([[output.value for output in specified.outputs]])
    assert found.events == specified.events == app.events


@pytest.mark.parametrize("name", rest_is_slow(SYNTHETIC))
def test_every_contestant_has_the_expected_outputs(apps, name):
    group = list(contestants(apps[name], apps[name], LOCAL))
    rows = medians(measured(group, repetitions=1))
    assert [one["problem"] for one in rows] == [None] * len(group)
    named = {(one["engine"], one["mode"], one["leaves"]) for one in rows}
    assert named == {
        ("loop", "scalar", 1),
        ("loop-premerged", "scalar", 1),
        ("loop-columns", "scalar", 1),
        ("numpy", "vectorised", 1),
        *(("local", mode, leaves) for mode in ("scalar", "vectorised") for leaves in (1, 4)),
    }


@every_app
def test_by_hand_leaves_nothing_out(apps, name):
    """A baseline must do all the work: without its last stream the outputs differ."""
    app = apps[name]
    fewer = dict(list(app.columns.items())[:-1])
    assert fingerprint(baselines.BY_HAND[name](fewer)) != app.expected.fingerprint


@pytest.mark.data
@pytest.mark.skipif("flights" not in available(), reason="the nycflights13 data is not beside the checkout")
def test_flights_are_all_departures_and_reports():
    assert application("flights", events=0).events == 354_636


def test_page_view_plan_has_the_updates_of_each_page_above_split_views(apps):
    plan = apps["page-view"].prepared(leaves=4).plan
    assert len(plan.leaves) == 4
    assert [plan.parent(leaf.id).id for leaf in plan.leaves] == ["page0", "page0", "page1", "page1"]


def run(*arguments):
    app = typer.Typer()
    app.command()(command.main)
    return CliRunner().invoke(
        app, [*arguments, "--events", "10000", "--large-events", "10000", "--repeat", "2"]
    )


@pytest.mark.slow
def test_command_writes_every_sample_and_the_surroundings(tmp_path):
    files = tmp_path / "all.json", tmp_path / "all.svg"
    one = ("--app", "event-window", "--engine", "numpy", "--engine", "local", "--leaves", "4")
    done = run(*one, "--json", str(files[0]), "--plot", str(files[1]))
    assert done.exit_code == 0, done.output
    data = json.loads(files[0].read_text())
    assert {"machine", "versions", "commit", "options", "medians", "targets"} <= set(data)
    assert len(data["rows"]) == 2 * 3
    for sample in data["rows"]:
        assert {"app", "engine", "mode", "leaves", "hosts", "events", "seconds"} <= set(sample)
        assert sample["eps"] == pytest.approx(sample["events"] / sample["seconds"])
    assert files[1].read_text().count("<rect") == 3


def test_command_fails_if_an_answer_is_wrong(monkeypatch):
    monkeypatch.setitem(baselines.BY_HAND, "event-window", lambda _: [[1, 2, 3]])
    done = run("--app", "event-window", "--engine", "numpy")
    assert done.exit_code == 1
    assert "WRONG" in done.output


def test_command_refuses_unknown_engines_and_applications():
    assert run("--engine", "abacus").exit_code == 2
    assert run("--app", "chess").exit_code == 2


@pytest.mark.parametrize(
    ("values", "baseline", "met"),
    [
        ({"eps": 50.0}, "numpy", True),
        ({"eps": 49.0}, "numpy", False),
        ({"engine": "ray", "hosts": 2, "eps": 30.0}, "numpy", True),
        ({"engine": "ray", "hosts": 2, "eps": 30.0, "app": "page-view"}, "numpy", False),
        ({"mode": "scalar", "eps": 100.0}, "loop", True),
        ({"mode": "scalar", "eps": 99.0}, "loop", False),
        ({"mode": "scalar", "engine": "ray", "hosts": 2, "eps": 179.0}, "loop", False),
        ({"mode": "scalar", "engine": "ray", "hosts": 2, "eps": 180.0}, "loop", True),
        ({"eps": 1000.0, "problem": "wrong"}, "numpy", False),
    ],
)
def test_target_is_met_by_its_ratio_to_the_baseline(values, baseline, met):
    one = row(**values)
    verdict = Ratios([row(app=one["app"], engine=baseline, eps=100.0), one]).verdict(one)
    assert verdict.is_met is met


def test_baselines_and_one_ray_host_have_no_vectorised_target():
    rows = [row(engine="numpy", eps=1.0), row(engine="ray", eps=1.0)]
    assert [Ratios(rows).verdict(one) for one in rows] == [None, None]


def test_sweeps_have_no_target_of_the_applications():
    rows = [row(app="window-100", engine="numpy", eps=1.0), row(app="window-100", eps=1.0)]
    assert Ratios(rows).verdict(rows[1]) is None


@pytest.mark.slow
def test_sweeps_have_the_expected_outputs():
    shapes = replace(LOCAL, leaves=(4,))
    groups = [
        *sync._per_barrier(100, 2_000, 3_000, shapes),
        *sync._joins(4, shapes, quick=True),
        *sync._heartbeats(10, 20_000, shapes),
    ]
    found = list(measured(groups, repetitions=1))
    assert [sample.problem for sample in found] == [None] * len(groups)
    assert {
        sample.app: sample.figures["synchronisations"] for sample in found if sample.engine == "local"
    } == {
        "window-100": 30,
        "joins-window": 200,
        "joins-fraud": 200,
        "beats-10": 2,
    }


def test_sweep_verdicts_hold_the_time_of_each_join_against_the_target():
    figures = {"synchronisations": 1_000}
    four = row(app="joins-fraud", engine="ray", hosts=2, figures=figures, seconds=0.3)
    many = row(app="joins-fraud", engine="ray", hosts=2, leaves=64, figures=figures, seconds=0.91)
    said = list(sync.verdicts([four, many]))
    assert [line.split(":")[0] for line in said] == ["target 3 met", "target 3 missed"]


def test_memory_run_sums_every_value():
    done = memory.measure(200_000)
    assert (done["problem"], done["events"], done["leaves"]) == (None, 200_005, 4)
    assert done["peak_bytes"] > 0


def test_drawing_leaves_out_failed_rows():
    assert report.as_svg([row(eps=1e6), row(eps=1e6, problem="wrong")]).count("<rect") == 1


def test_table_shows_ratios(capsys):
    shown = row(events=10, wall_seconds=1.0, eps=5e6)
    report.print_table("title", [{**shown, "engine": "loop", "eps": 2e6}, shown])
    assert "2.50" in capsys.readouterr().out
