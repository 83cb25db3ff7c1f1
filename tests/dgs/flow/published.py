"""The flows of the published cases, with their inputs: word count, Yahoo I to VI, Apache logs, exchange rates, smart homes."""

import csv
import gzip
import hashlib
import io
import json
import math
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import dgs
from dgs.flow import KeyedOrdered, KeyedUnordered, Table, count, every, flow, merge, sliding, tumbling
from dgs.monoids import COUNT, MAX, SUM, AllOf, FieldOf, MapOf

SHARED = Path(__file__).parents[4] / "shared"
CASES = SHARED / "cases" / "flows"
DATA = SHARED / "data"
HAS_CASES = CASES.is_dir()
ADS = Table.json(CASES / "yahoo_ads.json") if HAS_CASES else Table({})
HOMES = Table.json(CASES / "yahoo_homes.json") if HAS_CASES else Table({})
KINDS = Table({"DAYTON": "ohio", "FE": "ohio", "DEOK": "south", "EKPC": "south"})


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
        return {"events": [(int(row["ts"]), row) for row in csv.DictReader(file)]}


@cache
def shakespeare():
    return {"lines": list(enumerate(text("tinyshakespeare/input.txt.gz").splitlines()))}


@cache
def apache():
    lines = [line for line in text("apache_logs/apache_logs.gz").split("\n") if line]
    return {"log": sorted(((parse(line)["ts"], line) for line in lines), key=lambda row: row[0])}


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

    hours = {region.lower(): read(region) for region in KINDS}
    return {name: [row for row in rows if row[0] >= 376_944] for name, rows in sorted(hours.items())}


def plug_readings():
    rows = [json.loads(line) for line in (CASES / "plugs.jsonl").read_text().splitlines()]
    return {"readings": [(row["ts"], row) for row in rows]}


def tiny():
    rows = [json.loads(line) for line in (CASES / "tiny.jsonl").read_text().splitlines()]
    return {"rows": [(row["ts"], row) for row in rows]}


def tokens(lines):
    return lines.flat_map(lambda _, line: line.split()).key_by(lambda _, word: word)


@flow()
def word_bag(lines: str):
    return tokens(lines).aggregate(COUNT).each(lambda word, n, _: [word, n])


@flow(clock=every(1000))
def word_stream(lines: str):
    return tokens(lines).aggregate(COUNT).each(lambda word, n, at: [at, word, n])


@flow(clock=every("1s"))
def enrich(events):
    return events.lookup(ADS, key="ad", into="campaign").each(
        lambda _, e, at: [at, e["user"], e["page"], e["ad"], e["event"], e["campaign"]]
    )


@flow(clock=every("1s"))
def per_ad(events):
    counts = events.key_by("ad").aggregate(COUNT, over="history", idle="skip")
    return counts.each(lambda ad, n, at: [at, ad, n])


class Summary(KeyedUnordered):
    """Counts of each kind of event and the time of the last, of all history."""

    monoid = AllOf(kinds=MapOf(COUNT, key="event", value=None), last=FieldOf(MAX, "ts"))

    def initial_state(self):
        return (0, 0, 0, 0)

    def update_state(self, state, found):
        kinds = found["kinds"]
        counts = (state[i] + kinds.get(kind, 0) for i, kind in enumerate(("view", "click", "purchase")))
        return (*counts, max(state[3], int(found["last"] or 0)))

    def on_marker(self, state, key, at, emit):
        emit(key, [at, key, *state])


@flow(clock=every("1s"))
def per_city(events):
    cities = events.lookup(HOMES, key="user", into="city").key_by("city")
    return cities.apply(Summary()).each(lambda _, row, __: row)


def views(events):
    return events.filter_by("event", "view").lookup(ADS, key="ad", into="campaign").key_by("campaign")


@flow(clock=every("1s"))
def campaigns(events, *, idle="all"):
    counts = views(events).aggregate(COUNT, over=sliding("10s"), idle=idle)
    return counts.each(lambda c, n, at: [at, c, n])


@flow(clock=every("10s"))
def campaigns_tumbling(events):
    return views(events).aggregate(COUNT, over=tumbling("10s")).each(lambda c, n, at: [at, c, n])


@flow(clock=every("1s"))
def campaigns_tumbling_in_seconds(events):
    return views(events).aggregate(COUNT, over=tumbling("10s")).each(lambda c, n, at: [at, c, n])


def kmeans(points, k=3, rounds=10):
    centres = list(dict.fromkeys(point for _, point in points))[:k]

    def nearest(point):
        return min(
            (sum((a - b) ** 2 for a, b in zip(point, c, strict=True)), i) for i, c in enumerate(centres)
        )[1]

    for _ in range(rounds):
        near = [nearest(point) for _, point in points]
        for i in set(near):
            mine = [point for (_, point), which in zip(points, near, strict=True) if which == i]
            centres[i] = tuple(math.fsum(column) / len(mine) for column in zip(*mine, strict=True))
    return [(name, which) for (name, _), which in zip(points, near, strict=True)]


@flow(clock=every("10s"))
def clusters(events):
    kinds = MapOf(COUNT, key="event", value=None)
    users = events.lookup(HOMES, key="user", into="city").key_by("user", "city")
    features = users.aggregate(kinds, over="history", idle="all")
    points = features.pairs(
        lambda uc, f: (uc[1], (uc[0], tuple(float(f.get(k, 0)) for k in ("view", "click", "purchase"))))
    )
    return points.block(lambda city, bag, at: [[at, city, u, c] for u, c in kmeans(sorted(bag))])


LOG = re.compile(r'^(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) (\S+) [^"]*" (\d{3}) (\S+)')


def parse(line):
    found = LOG.match(line)
    when = datetime.strptime(found[2], "%d/%b/%Y:%H:%M:%S %z")
    directory = found[4].split("?")[0].strip("/").split("/")[0]
    return {"ts": int(when.timestamp()), "method": found[3], "directory": directory, "status": int(found[5])}


@flow(clock=every(3600))
def hits(log: str, *, size=3600):
    good = log.map(lambda _, line: parse(line)).filter_by("method", "GET").filter_by("status", 200)
    return good.key_by("directory").aggregate(COUNT, over=sliding(size)).each(lambda d, n, at: [at, d, n])


HIT, MISS = dgs.kind("hit", key=str), dgs.kind("miss", key=str)


class SinceLastMiss(dgs.Program):
    """A 404 emits the good hits of its directory since the 404 before."""

    depends = dgs.Dependence((MISS, MISS, dgs.SAME_KEY), (MISS, HIT, dgs.SAME_KEY))
    accumulates = (HIT,)

    def init(self):
        return {}

    def identity(self):
        return {}

    def update(self, state, event, emit):
        directory = event.tag.key
        if event.tag.kind == HIT:
            state[directory] = state.get(directory, 0) + 1
        else:
            emit([event.ts, directory, state.pop(directory, 0)])
        return state

    def join(self, left, right):
        return {d: left.get(d, 0) + right.get(d, 0) for d in sorted(left.keys() | right.keys())}


@flow()
def since_404(log: str):
    found = log.map(lambda _, line: parse(line)).filter(
        lambda _, h: (h["method"] == "GET" and h["status"] == 200) or h["status"] == 404
    )
    return found.into(
        SinceLastMiss(),
        tag=lambda _, h: (MISS if h["status"] == 404 else HIT)(h["directory"]),
        payload=lambda _, __: None,
    )


@flow()
def rate_windows(quotes: float):
    windows = quotes.fold(lambda past, price: [*past, price], [], over=count(10, 5))
    return windows.map(lambda _, prices: [min(prices), max(prices), math.fsum(prices) / 10])


class Interpolate(KeyedOrdered):
    """Fills the hours between two readings; `hold` also fills up to the marker with the last value."""

    def __init__(self, *, hold=False):
        self.hold = hold

    def on_item(self, state, key, value, emit):
        t, x = value
        if state is None:
            emit((t, float(x)))
        else:
            u, y = state
            for j in range(1, t - u + 1):
                emit((u + j, y + j * (x - y) / (t - u)))
        return value

    def on_marker(self, state, key, at, emit):
        if not self.hold or state is None:
            return state
        t, x = state
        for u in range(t + 1, at):
            emit((u, x))
        return (max(t, at - 1), x)


class Predict(KeyedOrdered):
    """Predicts the next load from those of the last day."""

    def initial_state(self):
        return []

    def on_item(self, state, key, value, emit):
        t, v = value
        past = [*state, v][-24:]
        mean = math.fsum(past) / len(past)
        guess = v if t % 24 < 6 else (mean + v) / 2 if v > mean else mean
        emit([t, key, round(v, 6), round(guess, 6)])
        return past


def exact_mean(_, values, __):
    return [math.fsum(values) / len(values)]


@flow(clock=every(24))
def power(dayton, deok, ekpc, fe, *, hold=False):
    regions = {"DAYTON": dayton, "DEOK": deok, "EKPC": ekpc, "FE": fe}
    plugs = merge(*(edge.key_by(name) for name, edge in regions.items())).each(
        lambda _, mw, at: (at, int(mw))
    )
    plugs = plugs.sort(by=0).apply(Interpolate(hold=hold), keeps=hold)
    values = plugs.pairs(lambda region, v: ((KINDS[region], v[0]), v[1]))
    means = values.block(exact_mean, accept_parts=not hold)
    series = means.pairs(lambda k, m: (k[0], (k[1], m))).sort(by=0)
    return series.apply(Predict())


@flow(clock=every(10))
def plugs(readings, *, hold=False):
    points = readings.key_by("plug").each(lambda _, row, at: (at, row["load"]))
    points = points.apply(Interpolate(hold=hold))
    means = points.pairs(lambda _, v: (v[0], v[1])).block(exact_mean)
    return means.each(lambda t, mean, at: [at, t, round(mean, 6)])


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
    "yahoo_1": (enrich, yahoo_events),
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
    "apache_6h_every_1h": (hits.bind(size=6 * 3600), apache),
    "apache_since_404": (since_404, apache),
    "fx_stats": (rate_windows, rates),
}
"""Flow and input of each case that takes less than two seconds by its definition."""

LARGE = {
    "wordcount_bag": (word_bag, shakespeare),
    "wordcount_stream_1000": (word_stream, shakespeare),
    "smart_home_as_published": (power, loads),
    "smart_home_hold": (power.bind(hold=True), loads),
}
