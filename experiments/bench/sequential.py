"""The expected outputs: those of the sequential program, by its definition, as a fingerprint.

Events are merged and folded one span of time after the other, so ten million events fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import dgs
from dgs.bench.contestants import merged
from dgs.bench.fingerprint import Fingerprint, fingerprint
from dgs.bench.measuring import Expected
from dgs.model.events import EventBatch

PIECE = 250_000
"""Approximate number of events that are objects at a time."""


def expected(program: dgs.Program, streams: Sequence[Sequence[EventBatch]]) -> Expected:
    """Return the outputs of a program over streams given in the order that breaks ties."""
    state, update = program.init(), program.states()[0].update
    total, events = Fingerprint(), 0
    for piece in pieces(streams):
        outputs: list[Any] = []
        for event in piece:
            state = update(state, event, outputs.append)
        total, events = total + fingerprint([outputs]), events + len(piece)
    return Expected(total, events)


def pieces(streams: Sequence[Sequence[EventBatch]]) -> Iterator[list[dgs.Event]]:
    """Yield the events of all streams in their total order, in spans of time."""
    batches = list(chain.from_iterable(streams))
    events = sum(map(len, batches))
    if not events:
        return
    first = min(int(batch.ts[0]) for batch in batches if len(batch))
    last = max(int(batch.ts[-1]) for batch in batches if len(batch))
    count = max(1, events // PIECE)
    ends = [first + (last + 1 - first) * number // count for number in range(1, count + 1)]
    for start, stop in zip([first, *ends[:-1]], ends, strict=True):
        yield merged(_within(batch, start, stop) for batch in batches)


def _within(batch: EventBatch, start: int, stop: int) -> list[dgs.Event]:
    low, high = batch.ts.searchsorted([start, stop])
    return batch.cut(int(low), int(high)).events()
