"""The experiments' plan files are valid, and their workloads have the paper's ratios: sorted, seeded, a million events."""

from pathlib import Path

import numpy as np
import pytest

from dgs import Event, Tag
from dgs.job.document import read
from dgs.job.loading import load_callable, load_program
from dgs.job.schema import PlanFile

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
PLANS = sorted(EXPERIMENTS.glob("*/plan*.yaml"))
BY_GENERATORS = [path for path in PLANS if "spark" not in path.stem]
SYNTHETIC = [
    path
    for path in BY_GENERATORS
    if path.parent.name in ("event_window", "page_view_join", "fraud_detection")
]
every_plan = pytest.mark.parametrize("path", BY_GENERATORS, ids=lambda p: f"{p.parent.name}/{p.stem}")
every_workload = pytest.mark.parametrize("path", SYNTHETIC, ids=lambda p: f"{p.parent.name}/{p.stem}")


def config(path):
    return PlanFile.model_validate(read(path).data)


def columns(path, stream, **changes):
    """Return all columns of a stream, its batches put together."""
    details = stream.source.details
    batches = list(load_callable(details.ref, path.parent)(**{**details.args, **changes}))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


@every_plan
def test_plan_file_names_a_program_and_sources_that_load(path):
    plan = config(path)
    program = load_program(plan.program, path.parent)
    for stream in plan.streams:
        assert callable(load_callable(stream.source.details.ref, path.parent))
        assert str(program.kind(stream.tags.kind)) == stream.tags.kind
        assert program.dependence.kinds.keys() >= {stream.tags.kind}


@every_workload
def test_workload_has_a_million_events_sorted_in_time(path):
    total = 0
    for stream in config(path).streams:
        data = columns(path, stream)
        assert (np.diff(data["ts"]) >= 0).all()
        assert {len(column) for column in data.values()} == {len(data["ts"])}
        assert all(column.dtype == np.int64 for column in data.values())
        total += len(data["ts"])
    assert total >= 1_000_000


@every_workload
def test_workload_has_ten_thousand_events_per_stream_between_synchronisations(path):
    synchronising, *others = config(path).streams
    cuts = np.unique(columns(path, synchronising)["ts"])
    for stream in others:
        between = np.diff(np.searchsorted(columns(path, stream)["ts"], cuts))
        assert (between == 10_000).all()
        assert len(between) >= 24


@every_workload
def test_workload_is_the_same_every_time_and_differs_by_stream_and_seed(path):
    _, one, two, *_ = config(path).streams
    first, again = columns(path, one, events=100), columns(path, one, events=100)
    assert all((first[name] == again[name]).all() for name in first)
    assert (first["payload"] != columns(path, two, events=100)["payload"]).any()
    assert (first["payload"] != columns(path, one, events=100, seed=2)["payload"]).any()
    assert len(first["ts"]) == 100


def test_page_view_updates_come_before_every_view_and_reach_both_pages():
    path = EXPERIMENTS / "page_view_join" / "plan.yaml"
    updates, views, *_ = config(path).streams
    data = columns(path, updates)
    assert sorted(data["page"][data["ts"] == 0]) == [0, 1]
    assert abs(int((data["page"] == 0).sum()) - int((data["page"] == 1).sum())) <= 1
    seen = columns(path, views)
    pages, counts = np.unique(seen["page"], return_counts=True)
    assert pages.tolist() == [0, 1]
    assert counts.min() > 0.4 * counts.sum()


@pytest.mark.parametrize("name", ["FraudDetection", "CyclicFraudDetection"])
def test_fraud_programs_aggregate_all_or_only_good_transactions(name):
    program = load_callable(f"program.py:{name}", EXPERIMENTS / "fraud_detection")()
    outputs, state = [], program.init()
    for kind, amount in [("transaction", 1000), ("transaction", 7), ("rule", 0), ("rule", 3)]:
        state = program.update(state, Event(Tag(kind), "s", 0, amount), outputs.append)
    assert outputs == [1000, 1007 if name == "FraudDetection" else 7, 0]


def test_split_flights_plan_gives_every_airport_four_workers():
    path = EXPERIMENTS / "flights" / "plan_split.yaml"
    plan = config(path)
    (split,) = (stream for stream in plan.streams if stream.id == "flights")
    assert split.impl_streams == ("flights/0", "flights/1", "flights/2", "flights/3")
    for airport in plan.plan["children"]:
        assert [next(iter(leaf["tags"])) for leaf in airport["children"]] == list(split.impl_streams)
