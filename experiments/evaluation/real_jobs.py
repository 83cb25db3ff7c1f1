"""Jobs over the recorded data: real rates, skew of keys and payloads, to compare plans on.

The data are beside the checkout. Without them there are no such jobs.

>>> [batch.ts.tolist() for batch in marks("ends", 0, CLOSE(), np.array([5, 61, 119]), every=60)]
[[60, 120]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

import dgs
from dgs.job.loading import load_callable
from dgs.semantics.sequential import without_batches
from experiments.apache_logs.log_lines import lines
from experiments.bench.applications import application
from experiments.evaluation.real_programs import CLOSE, ITEM, READ, WRITE, Counts, Latest, Range, Running
from experiments.event_window.program import BARRIER, VALUE, EventWindow
from experiments.outlier_detection.program import OutlierDetection
from experiments.smart_home.program import LoadPrediction

EXPERIMENTS = Path(__file__).resolve().parents[1]
DATA = EXPERIMENTS.parents[1] / "shared" / "data"
HOUR, DAY = 3600, 86_400
REGIONS = ("DAYTON", "DEOK", "EKPC", "FE")
CONNECTIONS, CONNECTION_STREAMS = 20_000, 4

Streams = Mapping[str, Sequence[dgs.EventBatch]]
Job = tuple[dgs.Program, Streams]
Columns = Mapping[str, Any]


def batches(stream: str, rank: int, tag: dgs.Tag, ts: Any, payload: Any) -> list[dgs.EventBatch]:
    """Return a stream of one tag, sorted by time."""
    order = np.argsort(ts, kind="stable")
    return [dgs.EventBatch.of(stream, rank=rank, tags=[tag], ts=ts[order], payload=payload[order])]


def keyed(stream: str, rank: int, kind: Any, *, ts: Any, keys: Any, payload: Any) -> list[dgs.EventBatch]:
    """Return a stream of one kind with a column of keys, sorted by time."""
    order = np.argsort(ts, kind="stable")
    names, codes = np.unique(keys[order], return_inverse=True)
    tags = [kind(str(name)) for name in names]
    return [
        dgs.EventBatch.of(stream, rank=rank, tags=tags, ts=ts[order], codes=codes, payload=payload[order])
    ]


def marks(stream: str, rank: int, tag: dgs.Tag, ts: Any, *, every: int) -> list[dgs.EventBatch]:
    """Return a stream with an event at every multiple of `every` seconds from the first of some times to behind the last."""
    ends = np.arange(ts.min() // every + 1, ts.max() // every + 2, dtype=np.int64) * every
    return [dgs.EventBatch.of(stream, rank=rank, tags=[tag], ts=ends, payload=np.arange(len(ends)))]


def _table(name: str) -> pa.Table:
    return csv.read_csv(DATA / name)


def _seconds(column: Any) -> Any:
    texts = pc.utf8_slice_codeunits(column, 0, 19) if pa.types.is_string(column.type) else column
    return texts.cast(pa.timestamp("s"), safe=False).cast(pa.int64()).to_numpy()


def _windows(parts: Mapping[str, tuple[Any, Any]], every: int) -> Job:
    """Return sums of integer values between two marks. `parts`: times and values by stream."""
    everything = np.concatenate([ts for ts, _ in parts.values()])
    streams = {"marks": marks("marks", 0, BARRIER(), everything, every=every)}
    for rank, (name, (ts, values)) in enumerate(parts.items(), 1):
        streams[name] = batches(name, rank, VALUE(), ts, values.astype(np.int64))
    return EventWindow(), streams


def _tweets(every: int) -> Job:
    parts = {}
    for path in sorted((DATA / "nab_tweets").glob("*.csv.gz")):
        table = csv.read_csv(path)
        name = path.name.split("_")[2].partition(".")[0].lower()
        parts[name] = _seconds(table["timestamp"]), table["value"].to_numpy()
    return _windows(parts, every)


def _regions(every: int) -> Job:
    tables = {name: _table(f"pjm_hourly/{name}_hourly.csv.gz") for name in REGIONS}
    return _windows(
        {
            name.lower(): (_seconds(table["Datetime"]), table[f"{name}_MW"].to_numpy())
            for name, table in tables.items()
        },
        every,
    )


def _ads() -> Job:
    tables = {
        path.name.partition("_results")[0]: csv.read_csv(path)
        for path in sorted((DATA / "nab_realAdExchange").glob("*.gz"))
    }
    return _windows(
        {
            name: (_seconds(table["timestamp"]), 1000 * table["value"].to_numpy())
            for name, table in tables.items()
        },
        DAY,
    )


def _quakes(least: float) -> Job:
    """Return sums of magnitudes in windows that the stronger earthquakes end."""
    table = _table("usgs_quakes_2015_08/all_month.csv.gz")
    ts, strength = _seconds(table["time"]), np.rint(100 * table["mag"].to_numpy()).astype(np.int64)
    strong = strength >= 100 * least
    streams = {"strong": batches("strong", 0, BARRIER(), ts[strong], strength[strong])}
    streams["weak"] = batches("weak", 1, VALUE(), ts[~strong], strength[~strong])
    return EventWindow(), streams


def _meters(every: int) -> Job:
    here = EXPERIMENTS / "smart_home"
    read = load_callable("plugs.py:meters", here)
    found = {house: next(read(house=house)) for house in range(5)}
    everything = np.concatenate([part["ts"] for part in found.values()])
    streams = {"slices": marks("slices", 0, dgs.Tag("slice"), everything, every=every)}
    for house, part in found.items():
        name, payload = f"house-{house}", {key: part[key] for key in ("household", "plug", "load")}
        tags = [dgs.Tag("load", house)]
        streams[name] = [dgs.EventBatch.of(name, rank=house + 1, tags=tags, ts=part["ts"], payload=payload)]
    return LoadPrediction(every=every), streams


def _flights() -> Job:
    app = application("flights", events=0)
    return app.program, app.streams


def _carriers() -> Job:
    read = load_callable("source.py:flights", EXPERIMENTS / "flights")
    table = pa.concat_tables(read(), promote_options="default")
    ts, carriers = table["ts"].to_numpy(), table["carrier"].to_numpy(zero_copy_only=False).astype(str)
    return Running(), {
        "departures": keyed(
            "departures", 0, WRITE, ts=ts, keys=carriers, payload=table["distance"].to_numpy()
        )
    }


def _edits() -> Job:
    """Return edits of a page as reads of the last new page of their channel: 51 keys, of which two have half of all."""
    table = _table("wikiticker/wikiticker_2015-09-12.csv.gz")
    ts, channel = _seconds(table["time"]), table["channel"].to_numpy(zero_copy_only=False).astype(str)
    new, added = table["isNew"].to_numpy(zero_copy_only=False).astype(bool), table["added"].to_numpy()
    return Latest(), {
        "new": keyed("new", 0, WRITE, ts=ts[new], keys=channel[new], payload=added[new]),
        "edits": keyed("edits", 1, READ, ts=ts[~new], keys=channel[~new], payload=added[~new]),
    }


def _counted(ts: Any, items: Any, every: int) -> Job:
    streams = {"ends": marks("ends", 0, CLOSE(), ts, every=every)}
    half = np.arange(len(ts)) % 2 == 0
    for rank, (name, part) in enumerate({"even": half, "odd": ~half}.items(), 1):
        streams[name] = batches(name, rank, ITEM(), ts[part], items[part])
    return Counts(), streams


def _hits() -> Job:
    (table,) = lines()
    pages = [line.split('"')[1].split(" ")[1:2] for line in table["line"].to_pylist()]
    items = np.empty(len(pages), dtype=object)
    items[:] = pages
    return _counted(table["ts"].to_numpy(), items, HOUR)


def _messages() -> Job:
    options = csv.ParseOptions(delimiter=" ")
    names = csv.ReadOptions(column_names=["from", "to", "ts"])
    table = csv.read_csv(DATA / "collegemsg/CollegeMsg.txt.gz", names, options)
    items = np.empty(table.num_rows, dtype=object)
    items[:] = list(zip(table["from"].to_pylist(), table["to"].to_pylist(), strict=True))
    return _counted(table["ts"].to_numpy(), items, DAY)


def _words() -> Job:
    read = load_callable("words.py:lines", EXPERIMENTS / "word_count")
    texts = [line for part in read() for line in part["payload"]]
    return _counted(np.arange(len(texts)), np.array(texts, dtype=object), 1000)


def _ticks() -> Job:
    names = csv.ReadOptions(column_names=["ts", "bid", "ask", "volume"])
    table = csv.read_csv(DATA / "fx_ticks/quote_tick_data.csv.gz", names)
    clock = [
        int(text[9:11]) * HOUR + int(text[11:13]) * 60 + int(text[13:15]) for text in table["ts"].to_pylist()
    ]
    ts, streams = np.array(clock), {}
    streams["minutes"] = marks("minutes", 0, CLOSE(), ts, every=60)
    for rank, name in enumerate(("bid", "ask"), 1):
        prices = np.rint(1e6 * table[name].to_numpy()).astype(np.int64)
        streams[name] = batches(name, rank, ITEM(), ts, prices)
    return Range(), streams


def _outliers() -> Job:
    here = EXPERIMENTS / "outlier_detection"
    read = load_callable("connections.py:connections", here)
    ends = np.arange(1000, CONNECTIONS + 1, 1000) * 1000
    streams = {"queries": batches("queries", 0, dgs.Tag("query"), ends, ends)}
    for number in range(CONNECTION_STREAMS):
        name, parts = f"connections-{number}", []
        for part in read(stream=number, of=CONNECTION_STREAMS, events=CONNECTIONS):
            seq = np.arange(len(part["ts"])) + sum(map(len, parts))
            tags = [dgs.Tag("connection")]
            parts.append(
                dgs.EventBatch.of(
                    name, rank=number + 1, tags=tags, ts=part["ts"], seq=seq, payload=part["payload"]
                )
            )
        streams[name] = parts
    return OutlierDetection(), streams


def _scalar(made: Callable[[], Job]) -> Callable[[], Job]:
    def job() -> Job:
        program, streams = made()
        return without_batches(program), streams

    return job


REAL: Mapping[str, Callable[[], Job]] = {
    "tweets hourly": _scalar(lambda: _tweets(HOUR)),
    "tweets hourly vectorised": lambda: _tweets(HOUR),
    "tweets daily": _scalar(lambda: _tweets(DAY)),
    "tweets daily vectorised": lambda: _tweets(DAY),
    "regions hourly": _scalar(lambda: _regions(HOUR)),
    "regions hourly vectorised": lambda: _regions(HOUR),
    "regions daily vectorised": lambda: _regions(DAY),
    "ads daily": _scalar(_ads),
    "quakes from 4.5": _scalar(lambda: _quakes(4.5)),
    "quakes from 2.5 vectorised": lambda: _quakes(2.5),
    "meters hourly vectorised": lambda: _meters(HOUR),
    "meters daily": _scalar(lambda: _meters(DAY)),
    "flights": _flights,
    "carriers": _carriers,
    "edits": _scalar(_edits),
    "edits vectorised": _edits,
    "hits hourly": _hits,
    "messages daily": _messages,
    "words": _words,
    "ticks": _scalar(_ticks),
    "ticks vectorised": _ticks,
    "outliers vectorised": _outliers,
}
"""The jobs by name; they read the data when they are called."""
