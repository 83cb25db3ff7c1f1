"""The flows of the experiments give the rows of the published cases, on every runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dgs

ROOT = Path(__file__).parents[2]
COMPARE = ROOT.parent / "shared" / "cases" / "flows" / "compare.py"
CASES = {
    "word_count/bag": "wordcount_bag",
    "word_count/stream": "wordcount_stream_1000",
    "yahoo/one": "yahoo_1",
    "yahoo/two": "yahoo_2_skip",
    "yahoo/three": "yahoo_3_all",
    "yahoo/four": "yahoo_4_all",
    "yahoo/four_skip": "yahoo_4_skip",
    "yahoo/five": "yahoo_5",
    "yahoo/six": "yahoo_6",
}
pytestmark = pytest.mark.skipif(not COMPARE.is_file(), reason="the cases are not beside the checkout")


def check(name: str, directory: Path, **options: object) -> None:
    """Run a plan file, and compare its output files with the case."""
    dgs.run(ROOT / "experiments" / f"{name}.yaml", run_dir=directory / "run", fresh=True, **options)
    files = [str(file) for file in sorted((directory / "run" / "outputs").glob("*.jsonl"))]
    told = subprocess.run(
        [sys.executable, str(COMPARE), CASES[name], *files], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr


LONG = [pytest.param(name, marks=pytest.mark.slow) for name in CASES if name.startswith("word_count")]


@pytest.mark.parametrize("name", [*(name for name in CASES if name.startswith("yahoo")), *LONG])
def test_local_runs_give_the_published_rows(name: str, tmp_path: Path) -> None:
    check(name, tmp_path, runtime="local")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("name", CASES)
def test_random_plans_give_the_published_rows(name: str, seed: int, tmp_path: Path) -> None:
    check(name, tmp_path, runtime="local", optimizer={"name": "random", "seed": seed, "max_leaves": 6})


@pytest.mark.slow
def test_ray_with_two_hosts_gives_the_published_rows(tmp_path: Path) -> None:
    check("yahoo/four", tmp_path)


def test_every_plan_file_is_a_case() -> None:
    files = (
        file for folder in ("word_count", "yahoo") for file in (ROOT / "experiments" / folder).glob("*.yaml")
    )
    assert {f"{file.parent.name}/{file.stem}" for file in files} == set(CASES)
