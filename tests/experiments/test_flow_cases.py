"""The flows and pipelines of the experiments have the rows of the published cases, under several plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.dgs.flow.published import CASES as PUBLISHED
from tests.dgs.flow.published import EXPERIMENTS, HAS_CASES, digest, expected
from tests.experiments.flow_cases import CASES, ran

LARGE = ("wordcount", "smart_home", "stock_")
QUICK_OR_SLOW = [
    pytest.param(name, marks=pytest.mark.slow) if name.startswith(LARGE) else name for name in CASES
]
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not HAS_CASES, reason="the cases are not beside the checkout"),
]


@pytest.mark.parametrize("case", QUICK_OR_SLOW)
def test_local_runs_give_the_published_rows(case: str, tmp_path: Path) -> None:
    ran(case, tmp_path, runtime="local")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("case", CASES)
def test_random_plans_give_the_published_rows(case: str, seed: int, tmp_path: Path) -> None:
    most = 3 if case.startswith(LARGE) else 6  # workers above others join these at each of their events
    ran(case, tmp_path, runtime="local", optimizer={"name": "random", "seed": seed, "max_leaves": most})


@pytest.mark.parametrize("case", ["plugs_as_published", "plugs_hold", "apache_since_404"])
def test_some_random_plans_give_the_published_rows(case: str, tmp_path: Path) -> None:
    ran(case, tmp_path, runtime="local", optimizer={"name": "random", "seed": 3})


def test_a_stream_that_is_dealt_out_gives_the_published_rows(tmp_path: Path) -> None:
    settings = {"optimizer.name": "random", "optimizer.seed": 3, "streams.log.split": 3}
    ran("apache_6h_every_1h", tmp_path, runtime="local", settings=settings)


def test_the_last_total_of_each_ad_is_that_of_the_case(tmp_path: Path) -> None:
    outputs = ran("yahoo_2_skip", tmp_path, runtime="local").outputs
    last = {ad: total for _, ad, total in sorted(outputs)}
    assert digest([[ad, total] for ad, total in last.items()]) == expected("yahoo_2_last")


def test_hits_after_the_last_miss_stay_in_the_state(tmp_path: Path) -> None:
    found = json.loads((PUBLISHED / "summary.json").read_text())["apache_since_404"]
    assert sum(ran("apache_since_404", tmp_path, runtime="local").state.values()) == found["left"]


@pytest.mark.slow
def test_the_last_word_of_a_list_is_that_of_the_last_line(tmp_path: Path) -> None:
    assert ran("wordcount_list", tmp_path, runtime="local").outputs[-1][0] == "waking."


def test_every_plan_file_of_a_flow_is_a_case() -> None:
    files = EXPERIMENTS.glob("*/*.yaml")
    flows = {f"{file.parent.name}/{file.stem}" for file in files if "\nflow:" in file.read_text()}
    assert flows == {name for name, _ in CASES.values()}
