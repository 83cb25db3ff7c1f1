"""The total order of events, and frontiers: the progress of a stream in it.

Events are ordered by (ts, rank of the stream, seq): the order in which the user declared the streams decides a tie between
streams, arrival a tie inside a stream. A *frontier* is exclusive: every event below it has arrived.

>>> OrderKey(10, 0, 5) < OrderKey(10, 1, 0) < OrderKey(11, 0, 0) < END
True
>>> after_heartbeat(10, rank=2)            # the next event of that stream is later than 10
OrderKey(ts=11, rank=2, seq=0, path=())
"""

from __future__ import annotations

from typing import NamedTuple

MIN_TS = -(2**63)
MAX_TS = 2**63 - 1
"""Reserved for the end of a stream: no event may carry it."""


class OrderKey(NamedTuple):
    """The position of an event in the total order. `path` is empty for events of sources (reserved for later stages)."""

    ts: int
    rank: int
    seq: int
    path: tuple[int, ...] = ()


BEGIN = OrderKey(MIN_TS, 0, 0)
END = OrderKey(MAX_TS, 0, 0)


class Heartbeat(NamedTuple):
    """A promise: every later event of `stream` has a timestamp greater than `ts`."""

    stream: str
    ts: int


def after_event(key: OrderKey) -> OrderKey:
    """Return the frontier of a stream whose last event is `key`."""
    return OrderKey(key.ts, key.rank, key.seq + 1)


def after_heartbeat(ts: int, rank: int) -> OrderKey:
    """Return the frontier of a stream of `rank` after a heartbeat at `ts`."""
    return END if ts >= MAX_TS - 1 else OrderKey(ts + 1, rank, 0)
