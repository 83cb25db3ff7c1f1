"""`dgs predict`, and the plans that `--optimizer cost` makes."""

import errno
import json
import os
import re
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dgs.job import private_files


def test_predict_says_what_bounds_the_job(project, dgs):
    done = dgs("predict plan.yaml --hosts 2,1")
    assert (done.code, done.err) == (0, "")
    head, *rows = done.out.splitlines()
    assert head.split()[:3] == ["hosts", "workers", "throughput"]
    assert [row.split()[0] for row in rows[:2]] == ["1", "2"]


def test_predict_as_json_has_one_prediction_for_each_number_of_hosts(project, dgs):
    found = json.loads(dgs("predict plan.yaml --hosts 1,2,1000 --json").out)["predictions"]
    assert [one["hosts"] for one in found] == [1, 2, 1000]
    rates = [one["throughput"] for one in found]
    assert 0 < rates[0] <= rates[1] <= rates[2]


def test_predict_keeps_a_plan_by_hand(project, dgs):
    dgs("plan plan.yaml --optimizer greedy --save mine.yaml")
    found = json.loads(dgs("predict plan.yaml --plan mine.yaml --hosts 1,2 --json").out)["predictions"]
    assert [one["workers"] for one in found] == [3, 3]


@pytest.mark.parametrize("hosts", ["none", "0", "1,-2", ""])
def test_predict_refuses_wrong_numbers_of_hosts(project, dgs, hosts):
    done = dgs(f"predict plan.yaml --hosts '{hosts}'")
    assert done.code == 2
    assert "numbers of hosts, such as 1,2,4,8,16" in done.err


def test_predict_refuses_more_hosts_than_a_run_may_have(project, dgs):
    done = dgs("predict plan.yaml --hosts 1,1000000000")
    assert (done.code, "a run has at most 1024 hosts" in done.err) == (2, True)


def test_predict_says_that_there_are_no_events(project, dgs):
    done = dgs("predict plan.yaml --rates value=0,barrier=0 --at-least 1/s")
    assert (done.code, "0 events/s, where no event comes at these rates" in done.err) == (1, True), done.err


def test_cost_makes_one_worker_for_one_process(project, dgs):
    done = dgs("plan plan.yaml --optimizer cost --set runtime.kind=local")
    assert done.out.splitlines() == ["w0: barrier from barriers; value from left, right"]
    assert "one worker: no other is predicted to be faster (3 workers: " in done.err
    assert " times as slow as one worker, where " in done.err


def test_a_run_with_the_optimizer_cost_is_verified(project, dgs):
    assert json.loads(dgs("run plan.yaml --optimizer cost --runtime local --verify --json").out)["verified"]


def test_predict_says_whether_a_rate_is_reached_and_what_stops_it(project, dgs):
    assert dgs("predict plan.yaml --hosts 1,2 --at-least 1/s").code == 0
    done = dgs("predict plan.yaml --hosts 1,2 --at-least 900000M/s")
    assert done.code == 1
    assert "would not reach 900000M/s: on " in done.err
    assert ", where " in done.err


@pytest.mark.parametrize("rate", ["5K/s", "5k", "300000/m", "0.3M/m", "1/h", " 7 "])
def test_a_rate_to_reach_is_written_as_in_a_plan_file(project, dgs, rate):
    assert dgs(f"predict plan.yaml --hosts 1 --at-least '{rate}'").code == 0


def test_a_rate_to_reach_has_the_unit_of_its_notation(project, dgs):
    reached = json.loads(dgs("predict plan.yaml --hosts 1 --json").out)["predictions"][0]["throughput"]
    codes = [dgs(f"predict plan.yaml --hosts 1 --at-least {reached * 10:.0f}/{unit}").code for unit in "smh"]
    assert codes == [1, 0, 0]


@pytest.mark.parametrize("rate", ["fast", "5G", "-1", "", "5M/", "5/y", "1e16/s", "nan"])
def test_predict_refuses_wrong_rates(project, dgs, rate):
    done = dgs(f"predict plan.yaml --at-least '{rate}'")
    assert done.code == 2
    assert "write events per second, such as 5M/s, 20k or 300" in done.err


def test_plan_prints_the_costs_of_the_job(project, dgs):
    done = dgs("plan plan.yaml --costs --set runtime.kind=local")
    assert done.code == 0
    assert {"update of barrier", "update of value", "fork", "join", "state_bytes"} <= {
        line[:24].strip() for line in done.out.splitlines()
    }
    _, found = (json.loads(dgs("plan plan.yaml --costs --json").out) for _ in range(2))
    assert 0 < found["costs"]["kinds"]["value"] < 1
    assert (found["origin"], found["problem"]) == ("kept from an earlier trial", None)


def test_compare_predicts_each_optimizers_plan(project, dgs):
    rows = json.loads(dgs("plan plan.yaml --compare --json").out)["optimizers"]
    found = {row["optimizer"]: row["throughput"] for row in rows}
    # a gain of a tenth does not justify a second worker
    assert 0 < max(found.values()) <= 1.2 * found["cost"]


@pytest.mark.parametrize(("kind", "optimizer"), [("local", "cost"), ("ray", "cost"), ("spark", "greedy")])
def test_the_default_plan_is_one_of_cost_but_on_spark(project, dgs, kind, optimizer):
    done = dgs(f"plan plan.yaml --json --optimizer auto --set runtime.kind={kind}")
    assert json.loads(done.out)["optimizer"] == optimizer


def test_a_program_that_cannot_be_tried_gets_the_plan_of_typical_costs_and_a_notice(project, dgs, edit):
    edit(
        "program.py",
        "def update(self, state, event, emit):",
        "def update(self, state, event, emit):\n        import os; os._exit(3)",
    )
    done = dgs("plan plan.yaml --optimizer cost --set runtime.kind=ray --set runtime.hosts=2")
    assert done.code == 0
    assert done.err.count("since they could not be measured: its process exited with 3") == 1


def test_predict_as_json_is_complete(project, dgs):
    (one,) = json.loads(dgs("predict plan.yaml --hosts 2 --json").out)["predictions"]
    assert set(one["latency"]) == {"p50", "p99", "utilisation"}
    assert 0 < one["latency"]["p50"] < one["latency"]["p99"]
    assert one["bytes_between_per_second"] == pytest.approx(one["bytes_between"] * one["throughput"])
    assert set(one["busiest"]) == {"worker", "share", "events", "joins", "because"}


def test_predict_says_how_often_the_bounding_worker_joins(project, dgs):
    dgs("plan plan.yaml --optimizer greedy --save mine.yaml")
    done = dgs("predict plan.yaml --plan mine.yaml --hosts 1,2")
    assert re.search(r"\nmore than 1 host would not help: .* a second\)\n", done.out), done.out
    *_, two = (line for line in done.out.splitlines() if "bound by" not in line and " 3 " in line)
    # messages take longest
    assert re.search(r"w0 joins its 2 children .* \(w0 joins [0-9,]+ times a second\)", two)


def test_predict_draws_the_throughput_over_the_hosts(project, dgs):
    assert dgs("predict plan.yaml --hosts 1,2,8 --plot chart.svg").code == 0
    drawing = ET.parse(project / "chart.svg").getroot()
    assert len(drawing.findall("{*}circle")) == 3


@pytest.mark.parametrize(
    ("code", "place", "said"),
    [
        (4, "nowhere/chart.svg", ": its directory does not exist. "),
        (4, "plan.yaml/chart.svg", ": its directory does not exist. "),
        (3, "foreign.svg", " is there and was not made by `dgs predict --plot`"),
    ],
)
def test_a_drawing_that_has_no_place_is_refused_before_the_work(project, dgs, code, place, said):
    (project / "foreign.svg").write_text("<svg/>")
    done = dgs(f"predict plan.yaml --hosts 1 --plot {place}")
    assert (done.code, place + said in done.err, done.out) == (code, True, ""), done.err
    assert "`dgs predict --plot`" in done.err
    assert (project / "foreign.svg").read_text() == "<svg/>"


def test_a_drawing_is_refused_before_the_plan_file_is_read(dgs, tmp_path):
    assert dgs(f"predict {tmp_path / 'no.yaml'} --plot {tmp_path / 'nowhere' / 'a.svg'}").code == 4


def test_the_predictions_are_printed_before_a_drawing_fails(project, dgs, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(private_files, "write_whole", full)
    done = dgs("predict plan.yaml --hosts 1 --plot chart.svg")
    assert (done.code, "bound by" in done.out) == (4, True)
    assert "chart.svg: No space left on device. Make room there" in done.err


@pytest.mark.parametrize("flags", ["predict plan.yaml --plot", "report --picture", "report -o"])
def test_a_page_or_a_picture_never_takes_the_place_of_another_kind_of_file(project, dgs, flags):
    before = (project / "plan.yaml").read_bytes()
    done = dgs(f"{flags} plan.yaml")
    assert done.code == 2
    assert re.search(r"plan.yaml: name a file that ends in .(svg|html)", done.err)
    assert (project / "plan.yaml").read_bytes() == before


def test_predict_takes_rates_of_a_flag_or_a_file(project, dgs):
    (project / "rates.yaml").write_text("barrier: 500/s\nvalue: 500\n")
    sampled, flag, file = (
        json.loads(dgs(f"predict plan.yaml --hosts 1 --json {more}").out)["predictions"][0]["throughput"]
        for more in ("", "--rates barrier=500/s,value=0.5k/s", "--rates rates.yaml")
    )
    assert sampled != flag == file


def test_rates_of_an_earlier_run_are_those_that_it_has_counted(project, dgs):
    with tempfile.TemporaryDirectory() as own, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", own)  # other tests measure the costs of the machine meanwhile, too
        check_rates_of_a_run(project, dgs)


def check_rates_of_a_run(project, dgs):
    """Predict at the rates of a run, of its report, and at the same rates given by hand."""
    report = json.loads(dgs("run plan.yaml --json").out)
    rows = report["streams"] | {"left": {"events": 5_999, "tags": {"value": 5_999}, "others": 0}}
    (project / "report.json").write_text(json.dumps(report | {"streams": rows, "seconds": 2.0}))
    by_run, by_file, by_hand = (
        json.loads(dgs(f"predict plan.yaml --hosts 1 --json --rates {rates}").out)["predictions"][0]
        for rates in (report["run_dir"], "report.json", "barrier=1.5/s,value=3001/s")
    )
    assert by_run["throughput"] < by_file["throughput"] == pytest.approx(by_hand["throughput"], rel=0.01)
    assert dgs(f"plan plan.yaml --rates {report['run_dir']}").code == 0


def test_costs_by_the_report_of_a_run_are_the_times_of_its_events(project, dgs):
    report = json.loads(dgs("run plan.yaml --optimizer sequential --json").out)
    events = {name: {"events": 100_000} for name in report["streams"]}
    worker = report["per_worker"]["w0"] | {"events": 300_000, "update_seconds": 30.0, "compile_seconds": 0.0}
    slow = {"streams": events, "seconds": 60.0, "per_worker": {"w0": worker}, "sinks": {}}
    results = Path(report["run_dir"]) / "results.json"
    results.write_text(json.dumps(report | slow))
    (one,) = json.loads(dgs(f"predict plan.yaml --hosts 1 --json --rates {results}").out)["predictions"]
    assert one["throughput"] == pytest.approx(10_000, rel=0.05)  # 300,000 events in 30 s of work
    assert "corrected by" in json.loads(dgs(f"plan plan.yaml --costs --json --rates {results}").out)["origin"]


@pytest.mark.parametrize(
    "damage",
    [
        {"seconds": 0.0},
        {"per_worker": []},
        {"per_worker": {"w0": {"events": 100_000}}},  # the run moved: these are its events since then
        {"sinks": None},
        {"machine": "elsewhere (arm64, 8 cores)"},
    ],
)
def test_a_report_whose_figures_do_not_fit_corrects_no_costs(project, dgs, damage):
    report = json.loads(dgs("run plan.yaml --optimizer sequential --json").out)
    events = {name: {"events": 100_000} for name in report["streams"]}
    worker = report["per_worker"]["w0"] | {"events": 300_000, "update_seconds": 30.0, "compile_seconds": 0.0}
    whole = {"streams": events, "seconds": 60.0, "per_worker": {"w0": worker}, "sinks": {}}
    results = Path(report["run_dir"]) / "results.json"
    results.write_text(json.dumps(report | whole | damage))
    done = dgs(f"plan plan.yaml --costs --json --rates {results}")
    assert (done.code, done.err) == (0, "")
    origin = json.loads(done.out)["origin"]
    assert "corrected by" not in origin
    assert ("on another machine, elsewhere (arm64, 8 cores), and this is" in origin) == ("machine" in damage)


def test_a_run_with_a_silent_stream_gives_rates(project, dgs):
    (project / "left.csv").write_text((project / "left.csv").read_text().splitlines()[0] + "\n")
    report = json.loads(dgs("run plan.yaml --json").out)
    assert report["streams"]["left"]["events"] == 0
    for verb in ("predict", "plan"):
        assert dgs(f"{verb} plan.yaml --rates {report['run_dir']}").code == 0


@pytest.mark.parametrize(
    ("rates", "expected"),
    [(",".join(f"value(k{i})=1" for i in range(99)), "value(k0)"), (f"value({'k' * 300})=1", "value(kkk")],
)
def test_long_rates_are_no_path(project, dgs, rates, expected):
    done = dgs(f"predict plan.yaml --rates {rates}")
    assert (done.code, f"a rate is given for {expected}" in done.err) == (3, True), done.err


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"program": "Other"}, 2, "of the program Other, and this job's is Sums"),
        ({"streams": {"left": {"events": 3}}}, 2, "had no stream barriers, only left"),
        ({"streams": {}}, 2, "no report of a run that has counted"),
        ({"streams": {"left": {"events": "many"}}}, 2, "no report of a run that has counted"),
        ({"seconds": None}, 2, "no report of a run that has counted"),
        ({"tags": {"value": 700}}, 3, "counts 3 events of left, and those of its tags are not as many"),
        ({"tags": {"value": -1, "barrier": 4}}, 3, "those of its tags are not as many"),
        ({"tags": {"barrier": 3}}, 3, "barrier, which no stream carries"),
        ({"tags": {"value(": 3}}, 3, "value(, which no stream carries"),
    ],
)
def test_a_report_of_another_job_or_with_contradictions_is_refused(project, dgs, change, code, said):
    report = json.loads(dgs("run plan.yaml --json").out)
    if tags := change.pop("tags", None):
        report["streams"]["left"]["tags"] = tags
    (project / "report.json").write_text(json.dumps(report | change))
    for verb in ("predict", "plan"):
        done = dgs(f"{verb} plan.yaml --rates report.json")
        assert (done.code, said in done.err) == (code, True), done.err


@pytest.mark.parametrize(
    ("rates", "code", "said"),
    [
        ("valeu=3/s", 3, "did you mean 'value'?"),
        ("value=3/s,value=4/s", 2, "two rates for value"),
        ("value=often", 2, "expected a rate such as"),
        ("value=nan", 2, "expected a rate such as"),
        ("=3", 2, "write TAG=RATE"),
        ("''", 2, "--rates is empty"),
        ("nothing.yaml", 2, "No such file"),
        ("program.py", 3, "program.py"),
    ],
)
def test_predict_refuses_rates_that_make_no_sense(project, dgs, rates, code, said):
    done = dgs(f"predict plan.yaml --rates {rates}")
    assert (done.code, said in done.err) == (code, True), done.err


def test_predict_prints_the_figures_of_virtual_time_beside_the_model(project, dgs):
    done = dgs("predict plan.yaml --hosts 1,2 --simulate")
    assert (done.code, done.err) == (0, "")
    assert "model / virtual time = ratio" in done.out
    assert dgs("predict plan.yaml --hosts 1,65 --simulate").code == 2


def test_predict_as_json_has_the_figures_of_virtual_time(project, dgs):
    (one,) = json.loads(dgs("predict plan.yaml --hosts 1 --simulate --json").out)["predictions"]
    found = one["simulated"]
    assert found["throughput"] * found["ratios"]["throughput"] == pytest.approx(one["throughput"])
    assert 0.8 < found["ratios"]["throughput"] < 1.25
