"""A standalone cluster of Spark whose worker has another loopback, another user and a Python without dgs: the flights are verified."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import spark_cluster

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_flights_on_a_cluster_are_those_of_the_sequential_program():
    if (problem := spark_cluster.unavailable()) is not None:
        pytest.skip(problem)
    done = subprocess.run(
        [sys.executable, "-m", "experiments.spark_cluster"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["runtime"], one["outputs"], one["verified"]) for one in told] == [
        ("local", 354_636, True),
        ("spark", 354_636, True),
    ]
