"""The cost of reading: a small file that unpacks to a large one is refused at the cost of the limits, not of the unpacked file."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dgs.workers.sources.readers import csv, jsonl, parquet

MEGABYTE = 2**20
LENGTH = 300 * MEGABYTE

READ = """
import json, os, resource, sys
from dgs.errors import MalformedRowError
from tests.workers.reading import events, stream

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

source, good = json.loads(sys.argv[1]), json.loads(sys.argv[2])
list(events(stream(good, payload="a")))  # what reading loads is not what the file costs
before = peak()
try:
    events(stream(source, payload="a"))
except MalformedRowError as error:
    print(json.dumps([str(error), peak() - before]), flush=True)
os._exit(0)  # as commands end: a thread of Arrow may still read ahead, and want the interpreter
"""


def cost(source, good):
    """Return the error of a source, and the bytes of memory for reading it."""
    arguments = [json.dumps(source), json.dumps(good)]
    done = subprocess.run(
        [sys.executable, "-c", READ, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def packed(path, start, piece, end):
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(start)
        for _ in range(LENGTH // len(piece)):
            file.write(piece)
        file.write(end)


@pytest.mark.parametrize(
    ("form", "start", "end", "limit"),
    [
        ("csv", b"ts,a\n1,", b"\n", csv.BLOCK_BYTES),
        ("csv", b'ts,a\n1,"', b'"\n', csv.BLOCK_BYTES),
        ("csv", b"ts,a,", b"\n1,1\n", csv.BLOCK_BYTES),
        ("jsonl", b'{"ts": 1, "a": "', b'"}\n', jsonl.LONGEST_LINE),
    ],
)
def test_a_line_of_300_megabytes_costs_twice_the_limit_at_most(tmp_path, form, start, end, limit):
    packed(tmp_path / "a.gz", start, b"x" * MEGABYTE, end)
    (tmp_path / "good").write_bytes({"csv": b"ts,a\n1,1\n", "jsonl": b'{"ts": 1, "a": 1}\n'}[form])
    sources = [{form: {"path": str(tmp_path / name)}} for name in ("a.gz", "good")]
    said, peak = cost(*sources)
    assert "longer than" in said or "more than" in said
    assert peak < max(2 * limit, 16 * MEGABYTE), f"{peak:,} bytes"


def test_a_parquet_bomb_is_refused_before_it_is_unpacked(tmp_path):
    table = pa.table({"ts": np.zeros(LENGTH // 16, np.int64), "a": np.zeros(LENGTH // 16)})
    pq.write_table(table.slice(0, 10), tmp_path / "good")
    pq.write_table(table, tmp_path / "a", compression="zstd", use_dictionary=False, row_group_size=2**30)
    sources = [{"parquet": {"path": str(tmp_path / name)}} for name in ("a", "good")]
    sources[0]["parquet"]["ts"] = "a"
    said, peak = cost(*sources)
    assert "unpacks" in said
    assert peak < 2 * parquet.BATCH_BYTES
