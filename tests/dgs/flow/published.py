"""The flows of the published cases, most of them from the experiments, with their inputs: word count, Yahoo I to VI, Apache logs,
exchange rates, smart homes."""

import csv
import gzip
import hashlib
import io
import json
import math
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from dgs.flow import KeyedUnordered, count, every, flow, tumbling
from dgs.job.loading import load_callable
from dgs.monoids import COUNT, SUM, FieldOf

SHARED = Path(__file__).parents[4] / "shared"
CASES = SHARED / "cases" / "flows"
DATA = SHARED / "data"
HAS_CASES = CASES.is_dir()
EXPERIMENTS = Path(__file__).parents[3] / "experiments"
REGIONS = ("DAYTON", "DEOK", "EKPC", "FE")


def named(place, *names):
    """Return flows of an experiment."""
    return [
        load_callable(f"{place.rpartition('/')[2]}:{name}", EXPERIMENTS / place.rpartition("/")[0])
        for name in names
    ]


enriched, per_ad, per_city, campaigns, campaigns_tumbling, clusters, views = named(
    "yahoo/ads.py", "enriched", "per_ad", "per_city", "campaigns", "campaigns_tumbling", "clusters", "views"
)
(seconds,) = named("apache_logs/log_lines.py", "seconds")
hits, since_404 = named("apache_logs/flows.py", "hits", "since_404")
word_bag, word_stream = named("word_count/words.py", "bag", "stream")
power, plugs = named("smart_home/flows.py", "power", "plugs")


def digest(rows):
    """Return the number of rows and the digest that the cases compare."""
    lines = sorted(json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows)
    return len(lines), hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


def expected(name):
    """Return the number of rows and the digest of a case."""
    found = json.loads((CASES / "summary.json").read_text())[name]
    return found["rows"], found["digest"]


def text(path):
    return gzip.open(DATA / path, "rt", encoding="utf-8").read()


@cache
def yahoo_events():
    with (CASES / "yahoo_events.csv").open() as file:
        return {"events": [(int(row["ts"]), {**row, "ts": int(row["ts"])}) for row in csv.DictReader(file)]}


@cache
def shakespeare():
    return {"lines": list(enumerate(text("tinyshakespeare/input.txt.gz").splitlines()))}


@cache
def apache():
    lines = [line for line in text("apache_logs/apache_logs.gz").split("\n") if line]
    return {"log": sorted(((seconds(line), line) for line in lines), key=lambda row: row[0])}


def rates():
    lines = [line for line in text("fx_ticks/quote_tick_data.csv.gz").split("\n") if line]
    return {"quotes": [(row, float(line.split(",")[1])) for row, line in enumerate(lines)]}


@cache
def loads():
    def read(region):
        rows = csv.DictReader(io.StringIO(text(f"pjm_hourly/{region}_hourly.csv.gz")))
        times = [
            (datetime.fromisoformat(row["Datetime"]).replace(tzinfo=UTC), row[f"{region}_MW"]) for row in rows
        ]
        return sorted(
            ((int(when.timestamp()) // 3600, float(mw)) for when, mw in times), key=lambda row: row[0]
        )

    hours = {region.lower(): read(region) for region in REGIONS}
    return {name: [row for row in rows if row[0] >= 376_944] for name, rows in sorted(hours.items())}


def plug_readings():
    rows = [json.loads(line) for line in (CASES / "plugs.jsonl").read_text().splitlines()]
    return {"readings": [(row["ts"], row) for row in rows]}


def tiny():
    rows = [json.loads(line) for line in (CASES / "tiny.jsonl").read_text().splitlines()]
    return {"rows": [(row["ts"], row) for row in rows]}


@flow(clock=every("1s"))
def campaigns_tumbling_in_seconds(events):
    return views(events).aggregate(COUNT, over=tumbling("10s")).each(lambda c, n, at: [at, c, n])


@flow()
def rate_windows(quotes: float):
    windows = quotes.fold(lambda past, price: [*past, price], [], over=count(10, 5))
    return windows.map(lambda _, prices: [min(prices), max(prices), math.fsum(prices) / 10])


@flow(clock=every(10))
def tiny_tumbling(rows, *, idle):
    sums = rows.key_by("key").aggregate(FieldOf(SUM, "value"), idle=idle)
    return sums.each(lambda key, total, at: [at, key, total])


class Markers(KeyedUnordered):
    """Counts markers."""

    monoid = COUNT

    def initial_state(self):
        return 0

    def update_state(self, state, found):
        return state + 1

    def on_marker(self, state, key, at, emit):
        emit(key, [at, key, state])


@flow(clock=every(10))
def tiny_start(rows):
    return rows.key_by("key").apply(Markers())


SMALL = {
    "yahoo_1": (enriched, yahoo_events),
    "yahoo_2_skip": (per_ad, yahoo_events),
    "yahoo_3_all": (per_city, yahoo_events),
    "yahoo_4_all": (campaigns, yahoo_events),
    "yahoo_4_skip": (campaigns.bind(idle="skip"), yahoo_events),
    "yahoo_5": (campaigns_tumbling, yahoo_events),
    "yahoo_6": (clusters, yahoo_events),
    "plugs_as_published": (plugs, plug_readings),
    "plugs_hold": (plugs.bind(hold=True), plug_readings),
    "tiny_tumbling_skip": (tiny_tumbling.bind(idle="skip"), tiny),
    "tiny_tumbling_all": (tiny_tumbling.bind(idle="all"), tiny),
    "tiny_start_state": (tiny_start, tiny),
    "apache_hourly": (hits, apache),
    "apache_6h_every_1h": (hits.bind(hours=6), apache),
    "apache_since_404": (since_404, apache),
    "fx_stats": (rate_windows, rates),
}
"""Flow and input of each case that the definition answers in less than two seconds."""

LARGE = {
    "wordcount_bag": (word_bag, shakespeare),
    "wordcount_stream_1000": (word_stream, shakespeare),
    "smart_home_as_published": (power, loads),
    "smart_home_hold": (power.bind(hold=True), loads),
}
