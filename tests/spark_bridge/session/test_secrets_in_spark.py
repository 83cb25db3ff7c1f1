"""Values of environment variables in the sections of Spark: used there, but never written or shown."""

import json
import os
import subprocess
import sys

import pytest

from tests.dgs.projects import write_files
from tests.spark_bridge.using import BRIEF

pytest.importorskip("pyspark")

SECRET = "Xyzzy'\"\\7:%-unmistakable"

PROGRAM = """\
import dgs


class Count(dgs.Program):
    kinds = (dgs.kind("value"),)

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(event.payload)
        return state + 1
"""
PLAN = f"""\
version: 1
name: count
program: {{ref: "program.py:Count"}}
streams:
  - id: rows
    tags: {{kind: value}}
    payload: text
    source:
      spark:
        format: csv
        path: rows.csv
        columns: {{ts: long, text: string}}
        options: {{header: true, comment.password: "${{env:DGS_TEST_SECRET}}"}}
spark: {{master: "local[1]", conf: {{spark.hadoop.password: "x-${{env:DGS_TEST_SECRET}}", spark.driver.memory: 1g, {json.dumps(BRIEF)[1:-1]}}}}}
runtime: {{kind: local}}
on_error: skip
checkpoint: {{every: 1s}}
sinks: [{{jsonl: {{path: out}}}}]
"""
DGS = "import sys; from dgs.cli import main; sys.argv[0] = 'dgs'; main()"


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["ts,text\n1,a\nwrong,b\n", "ts,text\n1,a\n2,b\n"], ids=["wrong", "right"])
def test_no_file_and_no_message_shows_a_value_that_spark_gets(tmp_path, rows):
    write_files(tmp_path, {"program.py": PROGRAM, "plan.yaml": PLAN, "rows.csv": rows})
    done = subprocess.run(
        [sys.executable, "-c", DGS, "run", "plan.yaml", "--json", "--run-dir", "run"],
        cwd=tmp_path,
        env={**os.environ, "DGS_TEST_SECRET": SECRET},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == ("wrong" not in rows), done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "query.json" for path in files)
    assert not [path for path in files if b"unmistakable" in path.read_bytes()]
    assert "unmistakable" not in done.stdout + done.stderr
