"""The workload of fraud detection: streams of transactions, and one stream of rules.

Between two rules, 10,000 units of time apart, every transaction stream has 10,000 transactions, about ten of them
fraudulent.

>>> first = next(transactions(stream=0, events=20_000))
>>> sorted(first), len(first["ts"])
(['payload', 'ts'], 10000)
>>> next(rules(events=20_000))["ts"].tolist()
[10000, 20000]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Columns = dict[str, npt.NDArray[np.int64]]

PERIOD = 10_000
"""Transactions per stream, and units of time, between two rules."""
AMOUNTS = 10_000


def transactions(*, stream: int, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the transactions of one stream, a period at a time: `ts` and `payload` (the amount), sorted by `ts`.

    `events`: how many transactions the stream has. The same arguments give the same transactions.
    """
    random = np.random.default_rng([seed, stream])
    for start in range(0, events, PERIOD):
        count = min(PERIOD, events - start)
        yield {
            "ts": start
            + np.sort(random.integers(0, PERIOD, count, dtype=np.uint16)).astype(
                np.int64
            ),  # short sorts fast
            "payload": random.integers(0, AMOUNTS, count),
        }


def rules(*, events: int = 250_000, seed: int = 1) -> Iterator[Columns]:
    """Yield the rules that go with transaction streams of `events` transactions: `ts` and `payload`."""
    random = np.random.default_rng([seed, 2**31])
    ends = np.arange(PERIOD, events + 1, PERIOD, dtype=np.int64)
    yield {"ts": ends, "payload": random.integers(0, AMOUNTS, len(ends))}
