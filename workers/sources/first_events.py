"""The end of the first N events: the key at which `--max-events` cuts the streams.

>>> from dgs.model.program import Program
>>> streams = [StreamConfig(id=s, tags=["n"], source={"memory": s}) for s in ("a", "b")]
>>> memory = {"a": [("n", 1, None), ("n", 5, None)], "b": [("n", 1, None), ("n", 2, None)]}
>>> cutoff(streams, SourceContext(Program(), memory=memory), 2)
OrderKey(ts=2, rank=1, seq=1, path=())
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dgs.errors import UsageError
from dgs.job.schema import StreamConfig
from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.event_log import summary
from dgs.workers.sources import EventSource, SourceContext, open_source
from dgs.workers.sources.custom_source import is_live
from dgs.workers.sources.live.logged import LOGGED, log_path

BATCH_ROWS = 16384


def cutoff(streams: Sequence[StreamConfig], context: SourceContext, count: int) -> OrderKey | None:
    """Return the key of the first event after the first `count`; None if there are no more events.

    Reads the streams as far as needed, the one furthest behind first. Raises UsageError if a stream is still being written.
    """
    for stream in streams:
        _check_ended(stream, context)
    rows = min(BATCH_ROWS, count + 1)
    counted = [(rank, stream) for rank, stream in enumerate(streams) if stream.source.kind != "ticks"]
    sources = [open_source(stream, context, rank=rank, batch_rows=rows) for rank, stream in counted]
    try:
        return _key_at(count, sources)
    finally:
        for source in sources:
            source.close()


def _check_ended(stream: StreamConfig, context: SourceContext) -> None:
    if _is_open_log(stream, context) or is_live(stream, context):
        message = (
            f"max_events needs all streams in full to find the first events, but stream {stream.id!r} is still being "
            f"written ({stream.source.kind}): leave out max_events, or limit what the source reads"
        )
        raise UsageError(message=message)


def _is_open_log(stream: StreamConfig, context: SourceContext) -> bool:
    if stream.source.kind not in LOGGED:
        return False
    log = log_path(stream, base_dir=context.base_dir)
    return not any(found.stream == stream.id and found.is_closed for found in summary.streams(log))


def _key_at(position: int, sources: Sequence[EventSource]) -> OrderKey | None:
    """Return the key of the event at a position of the merged streams."""
    frontiers = [BEGIN] * len(sources)
    waiting: list[EventBatch] = []
    passed = 0
    while (low := min(frontiers)) < END:
        lagging = frontiers.index(low)
        reading = sources[lagging].read()
        waiting.extend(reading.batches)
        frontiers[lagging] = reading.frontier
        cuts = [(batch, batch.position_of(min(frontiers))) for batch in waiting]
        ready = sum(cut for _, cut in cuts)
        if passed + ready > position:
            return _nth([batch.cut(0, cut) for batch, cut in cuts], position - passed)
        passed += ready
        waiting = [batch.cut(cut, len(batch)) for batch, cut in cuts if cut < len(batch)]
    return None


def _nth(batches: Sequence[EventBatch], position: int) -> OrderKey:
    ts = np.concatenate([batch.ts for batch in batches])
    rank = np.concatenate([np.full(len(batch), batch.rank) for batch in batches])
    seq = np.concatenate([batch.seq for batch in batches])
    row = np.lexsort((seq, rank, ts))[position]
    return OrderKey(int(ts[row]), int(rank[row]), int(seq[row]))
