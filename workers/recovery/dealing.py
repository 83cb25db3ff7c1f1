"""Dealing: the rows of a split stream go to its implementation streams in blocks, round robin.

The raw number of a row alone decides its split. Splits keep the stream's rank and the row's number, so splitting never changes
the order of events.

>>> from dgs.model.tags import Tag
>>> batch = EventBatch.of("flights", rank=0, tags=[Tag("view")], ts=[5, 6, 7], seq=[1023, 1024, 2048])
>>> [(part.stream, part.seq.tolist()) for part in dealt(batch, ("flights/0", "flights/1"), wanted=None)]
[('flights/0', [1023, 2048]), ('flights/1', [1024])]
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from dgs.model.events import EventBatch

BLOCK = 1024
"""Rows per block. It decides where rows go and is saved in checkpoints, so it must not change."""


def dealt(
    batch: EventBatch, streams: tuple[str, ...], wanted: Collection[str] | None, *, block: int = BLOCK
) -> Iterator[EventBatch]:
    """Yield the events of each wanted implementation stream that has any, in the order of the streams."""
    if not len(batch):
        return
    if len(streams) == 1:
        if wanted is None or streams[0] in wanted:
            yield replace(batch, stream=streams[0])
        return
    which = (np.asarray(batch.seq) // block) % len(streams)
    for number, stream in enumerate(streams):
        if wanted is not None and stream not in wanted:
            continue
        rows = np.flatnonzero(which == number)
        if len(rows):
            yield replace(batch.take(rows), stream=stream)
