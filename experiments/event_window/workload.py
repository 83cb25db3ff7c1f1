"""The workload of the event window: streams of integers, and one stream of barriers.

Between two barriers, 10,000 units of time apart, every value stream has 10,000 values.

>>> first = next(values(stream=0, events=20_000))
>>> sorted(first), len(first["ts"])
(['payload', 'ts'], 10000)
>>> next(barriers(events=20_000))["ts"].tolist()
[10000, 20000]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Columns = dict[str, npt.NDArray[np.int64]]

WINDOW = 10_000
"""Values per stream, and units of time, between two barriers."""


def values(*, stream: int, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the values of one stream, a window at a time: `ts` and `payload` (0 to 999), sorted by `ts`.

    `events`: how many values the stream has. The same arguments give the same values.
    """
    random = np.random.default_rng([seed, stream])
    for start in range(0, events, WINDOW):
        count = min(WINDOW, events - start)
        yield {
            "ts": start
            + np.sort(random.integers(0, WINDOW, count, dtype=np.uint16)).astype(
                np.int64
            ),  # short sorts fast
            "payload": random.integers(0, 1000, count),
        }


def barriers(*, events: int = 250_000) -> Iterator[Columns]:
    """Yield the barriers that go with value streams of `events` values: `ts` and `payload` (their number)."""
    ends = np.arange(WINDOW, events + 1, WINDOW, dtype=np.int64)
    yield {"ts": ends, "payload": np.arange(len(ends), dtype=np.int64)}
