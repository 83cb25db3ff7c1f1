"""The lines of an Apache access log of May 2015, with their times in seconds since 1970. They are within a minute of order."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "apache_logs"


def lines(data: str | None = None) -> Iterator[pa.Table]:
    """Yield a table of columns `ts` and `line`. `data`: the directory of `apache_logs.gz`."""
    path = (Path(data) if data else DATA) / "apache_logs.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = [line for line in file.read().split("\n") if line]
    yield pa.table({"ts": [seconds(line) for line in found], "line": found})


def seconds(line: str) -> int:
    """Return the time of a line.

    >>> seconds('10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1')
    1431857103
    """
    begin = line.index("[") + 1
    return int(datetime.strptime(line[begin : line.index("]", begin)], "%d/%b/%Y:%H:%M:%S %z").timestamp())
