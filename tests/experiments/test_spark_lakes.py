"""The flights in tables of lakes, by runs that are each killed five times."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "nycflights13"


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="the nycflights13 data is not beside the checkout")
def test_killed_runs_leave_the_rows_of_the_sequential_program_and_a_prefix_at_each_epoch():
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    command = [sys.executable, "-m", "experiments.spark_lakes"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["table"], one["rows"], one["verified"], one["kills"]) for one in told] == [
        ("delta", 354_636, True, 5),
        ("iceberg", 354_636, True, 5),
    ]
