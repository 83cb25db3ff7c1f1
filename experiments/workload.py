"""The workloads of the paper's three applications: four dense streams each, and one stream that synchronises them.

A *window* is 10,000 units of time. In each, every dense stream has 10,000 events and the other stream has one, at the end.
All streams are columns of int64 sorted by `ts`, yielded a window at a time; the same arguments give the same events.

>>> first = next(values(stream=0, events=20_000))
>>> sorted(first), len(first["ts"])
(['payload', 'ts'], 10000)
>>> next(barriers(events=20_000))["ts"].tolist()
[10000, 20000]
>>> next(updates(events=20_000))["page"].tolist()
[0, 1, 0, 1]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Columns = dict[str, npt.NDArray[np.int64]]

WINDOW = 10_000
"""Events per dense stream, and units of time, between two events that synchronise."""
PAGES = 2
SYNCHRONISING = 2**31
"""In place of the number of a stream in the seed of its random numbers."""


def values(*, stream: int, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the values of one stream of the event window: `ts` and `payload` (0 to 999), `events` of them."""
    return _dense(stream, events, seed, payload=1000)


def barriers(*, events: int = 250_000) -> Iterator[Columns]:
    """Yield the barriers that go with value streams of `events` values: `ts` and `payload` (their number)."""
    ends = _ends(events)
    yield {"ts": ends, "payload": np.arange(len(ends), dtype=np.int64)}


def transactions(*, stream: int, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the transactions of one stream: `ts` and `payload` (the amount). About ten of a window are fraudulent."""
    return _dense(stream, events, seed, payload=10_000)


def rules(*, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the rules that go with transaction streams of `events` transactions: `ts` and `payload`."""
    ends = _ends(events)
    random = np.random.default_rng([seed, SYNCHRONISING])
    yield {"ts": ends, "payload": random.integers(0, 10_000, len(ends))}


def views(*, stream: int, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the views of one stream: `ts`, `page` (one of two hot ones, half of the views each), `payload` (the visitor)."""
    return _dense(stream, events, seed, page=PAGES, payload=1_000_000)


def updates(*, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the updates that go with view streams of `events` views: `ts`, `page`, `payload` (the new metadata).

    Every page has an update at time 0, then one of them has one at the end of each window, in turn: so every stream has
    10,000 views of a page per update of it.
    """
    ts = np.concatenate([np.zeros(PAGES, dtype=np.int64), _ends(events)])
    random = np.random.default_rng([seed, SYNCHRONISING])
    page = np.arange(len(ts), dtype=np.int64) % PAGES
    yield {"ts": ts, "page": page, "payload": random.integers(0, 10**9, len(ts))}


def _dense(stream: int, events: int, seed: int, **below: int) -> Iterator[Columns]:
    """Yield a stream a window at a time: `ts`, and columns of integers from 0 to below the bounds given."""
    random = np.random.default_rng([seed, stream])
    for start in range(0, events, WINDOW):
        count = min(WINDOW, events - start)
        ts = np.sort(random.integers(0, WINDOW, count, dtype=np.uint16))  # short integers sort fast
        columns = {name: random.integers(0, bound, count) for name, bound in below.items()}
        yield {"ts": start + ts.astype(np.int64), **columns}


def _ends(events: int) -> npt.NDArray[np.int64]:
    return np.arange(WINDOW, events + 1, WINDOW, dtype=np.int64)
