"""The sources of the smart homes: plugs of the DEBS data, smart meters of houses, loads of regions, and made-up plugs in any number.

>>> [part["ts"].tolist() for part in slices(start=0, stop=180, every=60)]
[[60, 120, 180]]
>>> some = next(made_up(house=2, plugs=3, stop=4))
>>> some["ts"].tolist(), some["plug"].tolist(), some["household"].tolist()
([0, 0, 0, 2, 2, 2], [0, 1, 2, 0, 1, 2], [0, 0, 0, 0, 0, 0])
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from dgs.errors import MissingInputError

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
"""Default directory of the data; the argument `data` of a source names another."""
COLUMNS = ("id", "ts", "value", "property", "plug", "household", "house")
LOAD = 1
"""The `property` of a row with a load; the others have work."""
REPORTS_EVERY = 2
"""Seconds between two loads of a made-up plug, about as in the DEBS data."""
PLUGS_PER_HOUSEHOLD = 5
CHUNK_ROWS = 65_536

Columns = dict[str, Any]


def plugs(*, house: int, data: str | None = None) -> Iterator[Columns]:
    """Yield the loads of the plugs of a house of the DEBS sample: `ts` in seconds, household, plug, load in milliwatts."""
    path = _path(f"debs2014_sample/sample_debs_house_{house}.csv", data, f"house-{house}")
    table = csv.read_csv(path, read_options=csv.ReadOptions(column_names=COLUMNS))
    table = table.filter(pc.equal(table["property"], LOAD))
    load = np.rint(1000 * table["value"].to_numpy()).astype(np.int64)
    yield {"load": load, **{name: table[name].to_numpy() for name in ("ts", "household", "plug")}}


def meters(*, house: int, data: str | None = None) -> Iterator[Columns]:
    """Yield the half-hourly readings of the smart meter of a house (0 to 4), in watt-hours. It counts as one plug."""
    path = _path("smart_meter10/smart_meter_1_5.csv.gz", data, f"house-{house}")
    table = csv.read_csv(path)
    customers = pc.unique(table["customer_id"]).to_pylist()
    table = table.filter(pc.equal(table["customer_id"], customers[house]))
    ts = table["reading_datetime"].cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
    zero = np.zeros(len(ts), dtype=np.int64)
    load = np.rint(1000 * table["general_supply_kwh"].to_numpy()).astype(np.int64)
    yield {"ts": ts, "household": zero, "plug": zero, "load": load}


def region(*, name: str, first: int = 0, data: str | None = None) -> Iterator[Columns]:
    """Yield the hourly loads of a region of the PJM data in megawatts, from `first` on: `ts` in hours since 1970, `load`.

    The file has its days in reverse order, and an hour twice at the end of summer time. Rows of one hour keep their order.
    """
    table = csv.read_csv(_path(f"pjm_hourly/{name}_hourly.csv.gz", data, name))
    hours = table["Datetime"].cast(pa.timestamp("s")).cast(pa.int64()).to_numpy() // 3600
    order = np.argsort(hours, kind="stable")
    order = order[hours[order] >= first]
    yield {"ts": hours[order], "load": table[f"{name}_MW"].to_numpy()[order].astype(np.int64)}


def made_up(*, house: int, plugs: int = 53, start: int = 0, stop: int = 86_400) -> Iterator[Columns]:
    """Yield a load of every plug of a house every two seconds, in milliwatts: a base load and noise."""
    random = np.random.default_rng([7, house])
    base = random.integers(1_000, 200_000, plugs)
    plug = np.arange(plugs, dtype=np.int64)
    instants = max(1, CHUNK_ROWS // plugs)
    for first in range(start, stop, instants * REPORTS_EVERY):
        times = np.arange(first, min(stop, first + instants * REPORTS_EVERY), REPORTS_EVERY, dtype=np.int64)
        load = np.tile(base, len(times)) + random.integers(0, 1_000, len(times) * plugs)
        number = np.tile(plug, len(times))
        yield {
            "ts": np.repeat(times, plugs),
            "household": number // PLUGS_PER_HOUSEHOLD,
            "plug": number,
            "load": load,
        }


def slices(*, start: int, stop: int, every: int) -> Iterator[Columns]:
    """Yield the ends of the slices from `start` to `stop`."""
    ends = np.arange(start + every, stop + 1, every, dtype=np.int64)
    yield {"ts": ends, "payload": np.arange(len(ends), dtype=np.int64)}


def _path(name: str, data: str | None, stream: str) -> Path:
    path = (Path(data) if data else DATA) / name
    if not path.is_file():
        raise MissingInputError(stream=stream, path=path)
    return path
