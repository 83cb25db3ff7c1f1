"""The sources of the outlier detection: connections of the KDD Cup 1999 data, dealt to several streams, and queries.

A connection has 7 categories, which are texts, and 34 features, which are small integers: rates in hundredths, and all other numbers x,
which have no bound (bytes, seconds, counts), as ten times the logarithm of 1 + x to base 2. So sums of products of features are exact.

The time of a connection is its row in the file, in milliseconds at one row a second.

>>> [int(value) for value in small_integers("src_bytes", np.array([0, 1, 1023]))], int(small_integers("serror_rate", np.array([0.29]))[0])
([0, 10, 100], 29)
>>> next(queries(every=1000, events=3000))["ts"].tolist()
[1000000, 2000000, 3000000]
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from dgs.errors import MissingInputError

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
"""Default directory of the data; the argument `data` of a source names another."""
WITH_ATTACKS = "kddcup99_10pct_head50k/kddcup_10pct_rows_0_49999.csv.gz"
STEP = 1000
"""Milliseconds between two rows."""
BATCH_ROWS = 4096

CATEGORIES = ("protocol_type", "service", "flag", "land", "logged_in", "is_host_login", "is_guest_login")
COLUMNS = (
    *("duration", "protocol_type", "service", "flag", "src_bytes", "dst_bytes", "land", "wrong_fragment"),
    *("urgent", "hot", "num_failed_logins", "logged_in", "num_compromised", "root_shell", "su_attempted"),
    *("num_root", "num_file_creations", "num_shells", "num_access_files", "num_outbound_cmds"),
    *("is_host_login", "is_guest_login", "count", "srv_count", "serror_rate", "srv_serror_rate"),
    *("rerror_rate", "srv_rerror_rate", "same_srv_rate", "diff_srv_rate", "srv_diff_host_rate"),
    *("dst_host_count", "dst_host_srv_count", "dst_host_same_srv_rate", "dst_host_diff_srv_rate"),
    *("dst_host_same_src_port_rate", "dst_host_srv_diff_host_rate", "dst_host_serror_rate"),
    *("dst_host_srv_serror_rate", "dst_host_rerror_rate", "dst_host_srv_rerror_rate", "label"),
)
"""The columns of the file, in its order."""


def connections(
    *,
    stream: int = 0,
    of: int = 1,
    events: int | None = None,
    file: str = WITH_ATTACKS,
    data: str | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield every `of`-th of the first `events` connections, from row `stream` on.

    Their payloads are records of the label, the categories and the features.
    """
    path = (Path(data) if data else DATA) / file
    if not path.is_file():
        raise MissingInputError(stream=f"connections-{stream}", path=path)
    texts = {name: pa.string() for name in (*CATEGORIES, "label")}
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=COLUMNS),
        convert_options=csv.ConvertOptions(column_types=texts),
    )
    for start in range(0, table.num_rows if events is None else events, BATCH_ROWS * of):
        rows = np.arange(table.num_rows)[:events][start + stream : start + BATCH_ROWS * of : of]
        part = table.take(pa.array(rows)).combine_chunks()
        payload = {name: part[name].chunk(0) if name in texts else _feature(part, name) for name in COLUMNS}
        yield {"ts": rows * STEP, "payload": payload}


def _feature(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    return small_integers(name, table[name].to_numpy())


def small_integers(name: str, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return a feature on its scale: a rate in hundredths, another number on the logarithmic one."""
    scaled = 100 * values if name.endswith("_rate") else 10 * np.log2(1.0 + values)
    return np.rint(scaled).astype(np.int64)


def queries(*, every: int = 1000, events: int = 50_000) -> Iterator[dict[str, npt.NDArray[np.int64]]]:
    """Yield a query after every `every` of `events` connections: `ts` and `payload` (its number)."""
    ends = np.arange(every, events + 1, every, dtype=np.int64)
    yield {"ts": ends * STEP, "payload": np.arange(len(ends), dtype=np.int64)}
