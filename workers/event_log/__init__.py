"""Event logs: streams of events as durable, sorted, numbered segments, between a source of events and the workers.

A source that cannot be replayed (a socket), or that replays by rules of its own (a Spark query), writes its rows here first.
Workers read them from here, from any position, as often as needed. A log is a directory:

    LOG/STREAM/owner.dgs                                      the writer of the stream
    LOG/STREAM/0000000/0000000012-000000000003400-HASH.dgs    segment 12: its first row is 3400; the hash is that of its batch
    LOG/STREAM/0000000/0000000013-000000000003412-end.dgs     the end of the stream

docs/event-log.md describes the format. Reading order: `segments`, `event_tables`, `row_order`, `merging`, `row_files`, `owner`,
`truncation`, `writer`, `reader`, `failure`, `summary`.
"""

from dgs.workers.event_log.reader import LogReader
from dgs.workers.event_log.segments import Segment
from dgs.workers.event_log.writer import LogWriter, close_stream

__all__ = ["LogReader", "LogWriter", "Segment", "close_stream"]
