"""The workloads of the paper's three applications: four dense streams each, and one that synchronises them.

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
"""The stream's number in the seed of a synchronising stream's random numbers."""


def values(*, stream: int, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the values of one stream of the event window: `ts` and `payload` (0 to 999), `events` of them."""
    return _dense(stream, events, seed, payload=1000)


def barriers(*, events: int = 250_000) -> Iterator[Columns]:
    """Yield the barriers of value streams with `events` values each: `ts` and `payload` (the barrier's number)."""
    ends = _ends(events)
    yield {"ts": ends, "payload": np.arange(len(ends), dtype=np.int64)}


def transactions(*, stream: int, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the transactions of one stream: `ts` and `payload` (the amount). About ten of a window are fraudulent."""
    return _dense(stream, events, seed, payload=10_000)


def rules(*, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the rules of transaction streams with `events` transactions each: `ts` and `payload`."""
    ends = _ends(events)
    random = np.random.default_rng([seed, SYNCHRONISING])
    yield {"ts": ends, "payload": random.integers(0, 10_000, len(ends))}


def views(*, stream: int, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the views of one stream: `ts`, `page` (one of two hot pages, with half of the views each), `payload` (the visitor)."""
    return _dense(stream, events, seed, page=PAGES, payload=1_000_000)


def updates(*, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the updates of view streams with `events` views each: `ts`, `page`, `payload` (the new metadata).

    Every page has an update at time 0; then the pages take turns, with one update at the end of each window. So every stream has
    10,000 views of a page per update of it.
    """
    ts = np.concatenate([np.zeros(PAGES, dtype=np.int64), _ends(events)])
    random = np.random.default_rng([seed, SYNCHRONISING])
    page = np.arange(len(ts), dtype=np.int64) % PAGES
    yield {"ts": ts, "page": page, "payload": random.integers(0, 10**9, len(ts))}


def _dense(stream: int, events: int, seed: int, **below: int) -> Iterator[Columns]:
    """Yield a stream window by window: `ts`, and columns of integers from 0 to below the given bounds."""
    random = np.random.default_rng([seed, stream])
    for start in range(0, events, WINDOW):
        count = min(WINDOW, events - start)
        ts = np.sort(random.integers(0, WINDOW, count, dtype=np.uint16))  # short integers sort fast
        columns = {name: random.integers(0, bound, count) for name, bound in below.items()}
        yield {"ts": start + ts.astype(np.int64), **columns}


def _ends(events: int) -> npt.NDArray[np.int64]:
    return np.arange(WINDOW, events + 1, WINDOW, dtype=np.int64)
