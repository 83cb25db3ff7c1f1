"""The writer through Spark Connect, whose server runs in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from dgs.errors import ResourceError
from dgs.job.schema import SparkConfig
from tests.spark_bridge.writing import batches_in, put_file, rows_in

ROOT = Path(__file__).parents[3]

SCRIPT = """
import sys
from pathlib import Path
from dgs.job.schema import SparkConfig
from dgs.spark_bridge.session.session import session
from tests.spark_bridge.test_faults import forget_last_commit
from tests.spark_bridge.using import BRIEF
from tests.spark_bridge.writing import put_file, write
place = Path(sys.argv[1])
with session(SparkConfig(remote="local[1]", conf=BRIEF), place / "spark") as spark:
    write(spark, place / "in", place / "log", place / "checkpoint")
    forget_last_commit(place / "checkpoint")
    put_file(place / "in", 2, [(20, 2)])
    write(spark, place / "in", place / "log", place / "checkpoint")
    try:
        write(spark, place / "in", place / "log", place / "another")
    except Exception as error:
        assert "OwnedLogError" in str(error), error
        print("refused")
"""


@pytest.mark.slow
def test_repeated_batches_are_written_once_through_spark_connect(tmp_path):
    pytest.importorskip("pyspark")
    from dgs.spark_bridge.session.session import check_installed

    try:
        check_installed(SparkConfig(remote="local[1]"))
    except ResourceError as error:
        pytest.skip(str(error))
    for number in range(2):
        put_file(tmp_path / "in", number, [(10 * number + 1, 0), (10 * number, 1)])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "refused\n"
    assert batches_in(tmp_path / "log") == [(0, 2), (1, 2), (2, 1)]
    assert rows_in(tmp_path / "log") == [(0, 1), (1, 0), (10, 1), (11, 0), (20, 2)]
