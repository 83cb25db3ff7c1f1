"""The workload of the page-view join: view streams over two hot pages, and one stream of page updates.

In a *round* of 10,000 units of time every view stream has 10,000 views, half of them of each page, and the update stream
has one update. Updates alternate between the pages, so every stream sees 10,000 views of a page per update of it.

>>> first = next(views(stream=0, events=20_000))
>>> sorted(first), len(first["ts"])
(['page', 'payload', 'ts'], 10000)
>>> next(updates(events=20_000))["page"].tolist()
[0, 1, 0, 1]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Columns = dict[str, npt.NDArray[np.int64]]

ROUND = 10_000
"""Events per stream, and units of time, between two updates."""
PAGES = 2
VISITORS = 1_000_000


def views(*, stream: int, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the views of one stream, a round at a time: `ts`, `page`, `payload` (the visitor), sorted by `ts`.

    `events`: how many views the stream has. The same arguments give the same views.
    """
    random = np.random.default_rng([seed, stream])
    for start in range(0, events, ROUND):
        count = min(ROUND, events - start)
        yield {
            "ts": start
            + np.sort(random.integers(0, ROUND, count, dtype=np.uint16)).astype(np.int64),  # short sorts fast
            "page": random.integers(0, PAGES, count),
            "payload": random.integers(0, VISITORS, count),
        }


def updates(*, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the updates that go with view streams of `events` views: `ts`, `page`, `payload` (the new metadata).

    Every page has an update at time 0, then one of them has one at the end of each round, in turn.
    """
    random = np.random.default_rng([seed, 2**31])
    ends = np.arange(ROUND, events + 1, ROUND, dtype=np.int64)
    ts = np.concatenate([np.zeros(PAGES, dtype=np.int64), ends])
    yield {
        "ts": ts,
        "page": np.arange(len(ts), dtype=np.int64) % PAGES,
        "payload": random.integers(0, 10**9, len(ts)),
    }
