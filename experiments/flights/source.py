"""The sources of the flights join: a year of departures from New York and the weather at its airports, in UTC seconds.

The files neither give departure times directly nor are in order; see the README of the data. A departure's wall-clock time
is day + sched + dep_delay, with sched = (dep_time - dep_delay) mod one day, because its day is the *scheduled* one and a delay
may move it past midnight. Cancelled flights have no departure and are left out. Both streams are sorted stably, so that ties
keep the order of the file.

Wall-clock times become UTC with the two clock changes of 2013. No departure lies in the skipped hour or in the repeated one
(no flight leaves at 2 at night), so the choice of the earlier reading for these has no effect.

>>> winter_and_summer = np.array(["2013-01-01T05:17", "2013-07-01T05:17"], dtype="datetime64[s]")
>>> to_utc(winter_and_summer).astype(str).tolist()
['2013-01-01T10:17:00', '2013-07-01T09:17:00']
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

Times = npt.NDArray[np.datetime64]
Minutes = npt.NDArray[np.int64]

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "nycflights13"
"""Default directory of flights.csv.gz and weather.csv.gz; the argument `data` of a source names another."""
BATCH_ROWS = 16384

SPRING_FORWARD = np.datetime64("2013-03-10T02:00", "s")
FALL_BACK = np.datetime64("2013-11-03T02:00", "s")
SUMMER_OFFSET = np.timedelta64(4, "h")
WINTER_OFFSET = np.timedelta64(5, "h")
"""America/New_York is behind UTC by this much; the changes are given in wall-clock time."""


def weather(data: str | None = None) -> Iterator[pa.Table]:
    """Yield the hourly reports of all airports in order of time: `ts` (UTC seconds), `origin` and the measurements."""
    table = _read("weather.csv.gz", data, {"time_hour": pa.string()})
    hours = np.char.rstrip(table["time_hour"].to_numpy().astype(str), "Z").astype("datetime64[s]")
    yield from _in_order(table, hours)


def flights(data: str | None = None) -> Iterator[pa.Table]:
    """Yield the departures in order of time: `ts` (UTC seconds), `origin` and the columns of the file."""
    table = _read("flights.csv.gz", data, {})
    table = table.filter(table["dep_time"].is_valid())
    yield from _in_order(table, departures(table))


def departures(table: pa.Table) -> Times:
    """Return the departure time of each flight, in UTC, to the second. The table must have no cancelled flights."""
    year, month, day, dep_time, delay = (
        table[name].to_numpy() for name in ("year", "month", "day", "dep_time", "dep_delay")
    )
    months = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
    midnight = months.astype("datetime64[D]") + (day - 1)
    scheduled = (_minutes(dep_time) - delay) % (24 * 60)
    return to_utc((midnight.astype("datetime64[m]") + (scheduled + delay)).astype("datetime64[s]"))


def to_utc(local: Times) -> Times:
    """Return wall-clock times of New York in 2013, or adjacent winter days, as UTC."""
    summer = (local >= SPRING_FORWARD) & (local < FALL_BACK)
    return local + np.where(summer, SUMMER_OFFSET, WINTER_OFFSET)


def _minutes(clock: Minutes) -> Minutes:
    """Return HHMM (2400 too) as minutes since midnight."""
    return clock // 100 * 60 + clock % 100


def _read(name: str, data: str | None, types: dict[str, Any]) -> pa.Table:
    path = (Path(data) if data else DATA) / name
    if not path.is_file():
        raise MissingInputError(stream=name.removesuffix(".csv.gz"), path=path)
    convert = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True, column_types=types)
    # with several threads that find the types of columns, this failed once
    alone = csv.ReadOptions(use_threads=False)
    return csv.read_csv(path, alone, convert_options=convert)


def _in_order(table: pa.Table, times: Times) -> Iterator[pa.Table]:
    order = np.argsort(times, kind="stable")
    table = table.append_column("ts", pa.array(times.astype(np.int64))).take(order).combine_chunks()
    for start in range(0, table.num_rows, BATCH_ROWS):
        yield table.slice(start, BATCH_ROWS)
