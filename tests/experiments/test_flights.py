"""The flights join on the real data: counts, and a sample of flights looked up by brute force in the raw files."""

import csv
import gzip
from bisect import bisect_right
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow.compute as pc
import pytest

from dgs import EventBatch, Tag
from dgs.errors import MissingInputError
from dgs.job.loading import load_callable
from dgs.semantics import sequential

FLIGHTS = Path(__file__).parents[2] / "experiments" / "flights"
DATA = Path(__file__).parents[2].parent / "shared" / "data" / "nycflights13"
AIRPORTS = ("EWR", "JFK", "LGA")
SEEN = ("carrier", "flight", "tailnum", "dest", "dep_delay")
MEASURED = ("time_hour", "temp", "wind_speed", "visib")
CUT = datetime(2013, 3, 17, tzinfo=UTC)
"""The end of the data in the quick tests: ten weeks of winter time and one of summer time."""
YEAR = datetime(2015, 1, 1, tzinfo=UTC)
"""A time after all of the data."""

needs_data = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason="the nycflights13 data is not beside the checkout"),
]


def batches(source, stream, rank, kind, payload, *, cut):
    """Yield the rows of a source before a time, as event batches."""
    row = 0
    for whole in load_callable(f"source.py:{source}", FLIGHTS)(str(DATA)):
        table = whole.filter(pc.less(whole["ts"], int(cut.timestamp())))
        columns = {name: table[name].to_pylist() for name in payload}
        yield EventBatch.of(
            stream,
            rank=rank,
            tags=[Tag(kind, airport) for airport in AIRPORTS],
            codes=[AIRPORTS.index(airport) for airport in table["origin"].to_pylist()],
            ts=table["ts"].to_numpy(),
            seq=np.arange(row, row + table.num_rows),
            payload=columns,
        )
        row += table.num_rows


def outputs_before(cut):
    """Return the sequential run over the data before a time."""
    program = load_callable("program.py:FlightsJoin", FLIGHTS)()
    weather = batches("weather", "weather", 0, "update", MEASURED, cut=cut)
    flights = batches("flights", "flights", 1, "view", SEEN, cut=cut)
    return sequential.run(program, [weather, flights])


@pytest.fixture(scope="module")
def run():
    return outputs_before(CUT)


def raw_rows(name):
    with gzip.open(DATA / name, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def departure(row, zone):
    """Return the departure of a flight in the raw file, in UTC seconds, by the data's README and the standard library."""
    hours, minutes = divmod(int(row["dep_time"]), 100)
    delay = int(row["dep_delay"])
    scheduled = (hours * 60 + minutes - delay) % 1440
    day = datetime(int(row["year"]), int(row["month"]), int(row["day"]), tzinfo=None)  # noqa: DTZ001 - wall clock
    wall_clock = day + timedelta(minutes=scheduled + delay)
    return int(wall_clock.replace(tzinfo=zone).astimezone(UTC).timestamp())


class TestRealData:
    pytestmark = needs_data

    @pytest.mark.slow
    def test_outputs_one_for_every_departure_and_report(self):
        run = outputs_before(YEAR)
        counts = Counter(output.tag for output in run.outputs)
        assert {tag.key: n for tag, n in counts.items() if tag.kind == "view"} == {
            "EWR": 117_596,
            "JFK": 109_416,
            "LGA": 101_509,
        }
        assert sum(n for tag, n in counts.items() if tag.kind == "update") == 26_115
        assert run.events == len(run.outputs) == 354_636

    def test_departures_have_the_latest_report_of_their_airport(self, run):
        try:
            zone = ZoneInfo("America/New_York")
        except ZoneInfoNotFoundError:
            pytest.skip("no time zone database here")
        reports = {airport: [] for airport in AIRPORTS}
        for row in raw_rows("weather.csv.gz"):
            at = datetime.fromisoformat(row["time_hour"])
            reports[row["origin"]].append((int(at.timestamp()), row["time_hour"]))
        found = {}
        for output in run.outputs:
            if output.tag.kind == "view":
                flight = output.value["flight"]
                left = (output.key.ts, output.tag.key, flight["carrier"], flight["flight"], flight["dest"])
                found.setdefault(left, []).append(output.value["weather"])
        winter = [
            row for row in raw_rows("flights.csv.gz") if row["month"] in "123" and row["dep_time"] != "NA"
        ]
        checked = 0
        for row in winter[::197]:
            ts, airport = departure(row, zone), row["origin"]
            if ts >= CUT.timestamp():
                continue
            known = bisect_right(reports[airport], ts, key=lambda report: report[0])
            expected = reports[airport][known - 1][1] if known else None
            weather = found[ts, airport, row["carrier"], int(row["flight"]), row["dest"]]
            assert {report and report["time_hour"] for report in weather} == {expected}
            checked += 1
        assert checked > 200

    def test_reports_replace_the_one_before_none_at_first(self, run):
        previous = dict.fromkeys(AIRPORTS)
        before = (row for row in raw_rows("weather.csv.gz") if datetime.fromisoformat(row["time_hour"]) < CUT)
        rows = sorted(before, key=lambda row: row["time_hour"])
        replaced = {airport: [] for airport in AIRPORTS}
        for row in rows:
            replaced[row["origin"]].append(previous[row["origin"]])
            previous[row["origin"]] = row["time_hour"]
        for airport in AIRPORTS:
            emitted = [o.value["replaced"] for o in run.outputs if o.tag == Tag("update", airport)]
            assert [report and report["time_hour"] for report in emitted] == replaced[airport]

    def test_sources_are_in_order_and_keep_ties_as_in_the_file(self):
        tables = list(load_callable("source.py:weather", FLIGHTS)(str(DATA)))
        rows = [
            pair
            for table in tables
            for pair in zip(*(table[c].to_pylist() for c in ("ts", "origin")), strict=True)
        ]
        assert rows == sorted(rows)  # the airports' blocks are in the order of their names


def test_absent_data_is_named(tmp_path):
    source = load_callable("source.py:flights", FLIGHTS)
    with pytest.raises(MissingInputError, match=r"flights\.csv\.gz"):
        next(source(str(tmp_path)))
