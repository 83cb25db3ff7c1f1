"""Faults of Spark's tasks: a task fails or stalls, and another attempt replaces it. The log has every row once.

Each Spark is a separate process, since only some masters repeat tasks.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import spark_cluster
from tests.spark_bridge.writing import batches_in, put_file, rows_in

ROOT = Path(__file__).parents[2]
FILES = 6

FAULTS = """
import json, os, sys, time
from pathlib import Path

from pyspark import TaskContext

from dgs.job.schema import SparkConfig
from dgs.spark_bridge.session.session import session
from tests.spark_bridge.writing import put, write

place, master, conf, faults = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), sys.argv[4:]


def is_first(mark):
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def faulty(fault, mark):
    def through(batches):
        context = TaskContext.get()
        yield from batches
        if fault == "fails" and is_first(mark):
            raise RuntimeError("this attempt fails")
        if fault == "stalls" and context.attemptNumber() == 0 and context.partitionId() == 0:
            patience = time.monotonic() + 60  # then it goes on beside the other attempt, as far as Spark lets it
            while not Path(mark).exists() and time.monotonic() < patience:
                time.sleep(0.005)
        if fault == "stalls" and context.attemptNumber():
            is_first(mark)

    return lambda rows: rows.mapInArrow(through, "ts bigint, v bigint")


with session(SparkConfig(master=master, conf=conf), place / "spark") as spark:
    for fault in faults:
        for way in (write, put):
            name = f"{fault} {way.__name__}"
            through = faulty(fault, str(place / f"{name}.mark"))
            way(spark, place / "in", place / name, place / f"{name}.checkpoint", at_once=2, through=through)
"""

REPEATING = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.executor.memory": "512m",
}


@pytest.mark.slow
def test_rows_of_a_task_that_fails_are_in_the_log_once(tmp_path):
    check(tmp_path, "local[2,4]", {}, ["fails"])


@pytest.mark.slow
def test_rows_of_a_task_that_stalls_are_in_the_log_once(tmp_path):
    """Spark runs a second attempt on another host only."""
    if (problem := spark_cluster.unavailable()) is not None:
        pytest.skip(problem)
    with spark_cluster.SPACE.made(), spark_cluster.cluster(tmp_path, user=0, beside=True) as address:
        check(tmp_path, address, REPEATING, ["stalls"])


def check(tmp_path, master, conf, faults):
    rows = [[(10 * number + i, i) for i in range(4)] for number in range(FILES)]
    for number, those in enumerate(rows):
        put_file(tmp_path / "in", number, those)
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, str(tmp_path), master, json.dumps(conf), *faults],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=360,
    )
    assert done.returncode == 0, done.stderr
    for fault in faults:
        for way in ("write", "put"):
            log = tmp_path / f"{fault} {way}"
            assert log.with_name(f"{log.name}.mark").exists(), "the fault did not come"
            assert rows_in(log) == [row for those in rows for row in those]
            assert batches_in(log) == [(number, 8) for number in range(FILES // 2)]
