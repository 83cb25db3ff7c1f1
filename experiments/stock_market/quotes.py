"""The sources of the stock market: counts of tweets that name a ticker, used as its prices, and quotes of a currency.

The files of the tickers are those of the Numenta Anomaly Benchmark. A price is the number of mentions in five minutes, plus one.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
"""Default directory of the data; the argument `data` of a source names another."""
HALF = 5
"""The number of tickers of the first market; the others are of the second."""

Columns = dict[str, Any]


def prices(*, market: str, data: str | None = None) -> Iterator[Columns]:
    """Yield the prices of the tickers of a market, "a" or "b": `ts` in seconds since 1970, `ticker`, `price`."""
    files = sorted(_directory(data).glob("nab_tweets/*.csv.gz"))
    yield _columns(files[:HALF] if market == "a" else files[HALF:])


def tweets(*, above: int, data: str | None = None) -> Iterator[Columns]:
    """Yield the prices of all tickers that are above a limit."""
    yield _columns(sorted(_directory(data).glob("nab_tweets/*.csv.gz")), above)


def bids(*, data: str | None = None) -> Iterator[Columns]:
    """Yield the bids for a currency; their ts is their number."""
    with gzip.open(_directory(data) / "fx_ticks" / "quote_tick_data.csv.gz", "rt", encoding="utf-8") as file:
        found = [float(line.split(",")[1]) for line in file if line.strip()]
    yield {"ts": list(range(len(found))), "bid": found}


def _directory(data: str | None) -> Path:
    return Path(data) if data else DATA


def _columns(files: list[Path], above: int = 0) -> Columns:
    rows = []
    for file in files:
        ticker = file.name.split("_")[2].split(".")[0]
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                seconds = datetime.fromisoformat(f"{row['timestamp']}+00:00").timestamp()
                rows.append((int(seconds), ticker, int(row["value"]) + 1))
    kept = sorted((row for row in rows if row[2] > above), key=lambda row: row[0])
    return dict(zip(("ts", "ticker", "price"), map(list, zip(*kept, strict=True)), strict=True))
