"""The smart homes against separate sequential programs, in plain Python from the raw files, and against recorded outputs."""

import csv
import gzip
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import dgs
from dgs.errors import MissingInputError
from dgs.job.loading import load_callable
from tests.selection import rest_is_slow

HOME = Path(__file__).parents[2] / "experiments" / "smart_home"
SHARED = Path(__file__).parents[2].parent / "shared"
DEBS, METERS, REGIONS = (
    SHARED / "data" / name for name in ("debs2014_sample", "smart_meter10", "pjm_hourly")
)
RECORDED = SHARED / "cases" / "flows"

HOUR, DAY = 3600, 86_400
START, STOP = 1_362_096_000, 1_362_096_000 + 12 * DAY  # March 2013: all five houses have readings
OPENED, CLOSED = 1_377_986_401, 1_377_986_429

OPTIMIZERS = [
    {"name": "sequential"},
    {"name": "greedy", "max_leaves": 2},
    {"name": "cost"},
    *({"name": "random", "seed": seed} for seed in range(4)),
]
by_all_optimizers = pytest.mark.parametrize(
    "optimizer", rest_is_slow(OPTIMIZERS, keep=4), ids=lambda one: "-".join(map(str, one.values()))
)


def needs(path):
    """Mark tests that read data."""
    absent = pytest.mark.skipif(not path.is_dir(), reason=f"the data {path.name} is not beside the checkout")
    return lambda test: pytest.mark.data(absent(test))


def predictions(readings, slices, every, slots):
    """Return the outputs for readings (ts, house, household, plug, load) and the ends of slices."""
    past, outputs = {}, []
    for end in slices:
        loads = {}
        for ts, *plug, load in readings:
            if end - every <= ts < end:
                loads.setdefault(tuple(plug), []).append(load)
        places = {}
        for (house, household, plug), some in loads.items():
            for place in ((house,), (house, household), (house, household, plug)):
                places.setdefault(place, []).append(sum(some) / len(some))
        for place in sorted(places):
            load = sum(places[place])
            then = past.get((place, (end + every) % DAY // slots), [])
            predicted = (load + sum(then) / len(then)) / 2 if then else load
            outputs.append((end + every, *(*place, None, None)[:3], round(predicted, 6)))
        for place, means in places.items():
            past.setdefault((place, (end - every) % DAY // slots), []).append(sum(means))
    return outputs


def as_rows(run):
    names = ("ts", "house", "household", "plug")
    return [(*(output[name] for name in names), round(output["load"], 6)) for output in run.outputs]


def batches(stream, rank, tag, parts):
    """Return the part of a source's rows from START to STOP."""
    (rows,) = parts
    kept = (rows["ts"] >= START) & (rows["ts"] <= STOP)
    names = [name for name in rows if name != "ts"]
    payload = {name: rows[name][kept] for name in names} if len(names) > 1 else rows[names[0]][kept]
    return [dgs.EventBatch.of(stream, rank=rank, tags=[tag], ts=rows["ts"][kept], payload=payload)]


def source(name, **args):
    return load_callable(f"plugs.py:{name}", HOME)(**args)


def meters():
    ends = source("slices", start=START, stop=STOP, every=HOUR)
    made = {"slices": batches("slices", 0, dgs.Tag("slice"), ends)}
    for house in range(5):
        stream, tag = f"house-{house}", dgs.Tag("load", house)
        made[stream] = batches(stream, house + 1, tag, source("meters", house=house))
    return made


def run_of(program, inputs, optimizer):
    settings = {f"optimizer.{name}": value for name, value in optimizer.items()}
    run = dgs.run(program, streams=inputs, runtime="local", settings=settings)
    assert len(run.plan.leaves) == optimizer.get("max_leaves", len(run.plan.leaves))
    return run


@pytest.fixture(scope="module")
def of_plugs():
    rows = []
    for house in (0, 1):
        with (DEBS / f"sample_debs_house_{house}.csv").open(newline="") as file:
            for _, ts, value, kind, plug, household, _ in csv.reader(file):
                if kind == "1":
                    rows.append((int(ts), house, int(household), int(plug), round(1000 * float(value))))
    return predictions(rows, range(OPENED + 1, CLOSED + 1), 1, HOUR)


@pytest.fixture(scope="module")
def of_meters():
    rows, customers = [], {}
    with gzip.open(METERS / "smart_meter_1_5.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            house = customers.setdefault(row["customer_id"], len(customers))
            ts = int(datetime.fromisoformat(row["reading_datetime"]).replace(tzinfo=UTC).timestamp())
            if START <= ts < STOP:
                rows.append((ts, house, 0, 0, round(1000 * float(row["general_supply_kwh"]))))
    return predictions(rows, range(START + HOUR, STOP + 1, HOUR), HOUR, HOUR)


@needs(DEBS)
@pytest.mark.parametrize(
    "optimizer",
    rest_is_slow([*OPTIMIZERS, {"name": "exhaustive"}], keep=4),
    ids=lambda one: "-".join(map(str, one.values())),
)
def test_plugs_have_the_sequential_predictions_each_second(of_plugs, optimizer, tmp_path):
    settings = {f"optimizer.{name}": value for name, value in optimizer.items()}
    run = dgs.run(HOME / "plan_debs.yaml", runtime="local", settings=settings, run_dir=tmp_path / "run")
    assert as_rows(run) == of_plugs
    assert {row[3] is None for row in of_plugs} == {True, False}


@needs(METERS)
@by_all_optimizers
def test_houses_have_the_sequential_predictions_each_hour(of_meters, optimizer):
    run = run_of(load_callable("program.py:LoadPrediction", HOME)(), meters(), optimizer)
    assert as_rows(run) == of_meters
    assert {row[1] for row in of_meters} == set(range(5))


@needs(DEBS)
@pytest.mark.slow
def test_predictions_keep_the_laws():
    report = dgs.check(HOME / "plan_debs.yaml", max_examples=20)
    assert report.ok, str(report)


def interpolated(**args):
    return load_callable("interpolation.py:InterpolatedLoads", HOME)(**args)


def plug_streams():
    rows = [json.loads(line) for line in (RECORDED / "plugs.jsonl").read_text().splitlines()]
    made = {"blocks": [(dgs.Tag("block"), end, None) for end in (10, 20)]}
    for plug in ("p", "q"):
        made[plug] = [
            (dgs.Tag("reading", plug), row["ts"], row["load"]) for row in rows if row["plug"] == plug
        ]
    return made


@needs(RECORDED)
@pytest.mark.parametrize("hold", [False, True], ids=["as_published", "hold"])
@by_all_optimizers
def test_interpolated_plugs_are_as_recorded(hold, optimizer):
    program = interpolated(period=10, hold=hold, groups={"p": "all", "q": "all"})
    run = run_of(program, plug_streams(), optimizer)
    rows = [[block["end"], ts, round(mean, 6)] for block in run.outputs for ts, _, mean, _ in block["rows"]]
    name = "plugs_hold" if hold else "plugs_as_published"
    recorded = (RECORDED / f"{name}.expected.jsonl").read_text().splitlines()
    assert sorted(rows) == sorted(map(json.loads, recorded))


@needs(RECORDED)
@needs(REGIONS)
@pytest.mark.parametrize(
    ("hold", "optimizer"), rest_is_slow([(True, OPTIMIZERS[-1]), (False, OPTIMIZERS[1])])
)
def test_interpolated_regions_are_as_recorded(hold, optimizer, tmp_path):
    settings = {f"optimizer.{name}": value for name, value in optimizer.items()}
    settings["program.args.hold"] = hold
    plan = HOME / "plan_interpolated.yaml"
    run = dgs.run(plan, runtime="local", settings=settings, run_dir=tmp_path / "run")
    rows = [[ts, g, round(v, 6), round(p, 6)] for block in run.outputs for ts, g, v, p in block["rows"]]
    lines = sorted(json.dumps(row, separators=(",", ":")) for row in rows)
    recorded = json.loads((RECORDED / "summary.json").read_text())
    case = recorded["smart_home_hold" if hold else "smart_home_as_published"]
    assert len(lines) == case["rows"]
    assert hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest() == case["digest"]


def test_absent_data_is_named(tmp_path):
    with pytest.raises(MissingInputError, match=r"sample_debs_house_0\.csv"):
        next(source("plugs", house=0, data=str(tmp_path)))
