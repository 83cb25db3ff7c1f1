"""The events of a unit's root, in files that tasks read. Their order keys separate the windows.

The driver reads the root's stream once, a batch at a time, and keeps nothing of it in memory. Tasks map the keys, and read the events.
Payloads that the codec cannot encode are not written: the task that needs them then reads the stream again.

>>> import tempfile
>>> from dgs.model.tags import Tag
>>> batch = EventBatch.of("barriers", rank=0, tags=[Tag("barrier")], ts=[5, 9], payload=["a", "b"])
>>> root = RootEvents.written(Path(tempfile.mkdtemp()) / "unit", [batch])
>>> root.count, root.keys().ts.tolist(), [part.payload for part in pieces(root.batches(), 1)]
(2, [5, 9], [['a'], ['b']])
>>> odd = EventBatch.of("barriers", rank=0, tags=[Tag("barrier")], ts=[5], payload=[object()])
>>> RootEvents.written(Path(tempfile.mkdtemp()) / "unit", [odd]).has_events
False
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from dgs import codec
from dgs.errors import CodecError
from dgs.job import private_files
from dgs.model.events import EventBatch
from dgs.workers.storage.disk import make_directory, refusing

_LENGTH = struct.Struct("<Q")
TS, SEQ, EVENTS = "ts", "seq", "events"
"""The files: the times and the row numbers as int64s, and the batches, each after its length."""


@dataclass(frozen=True, slots=True)
class RootEvents:
    """The files of the root's events in a directory. `sample`: a batch without events, with what all keys have in common.

    `has_events`: whether the events are there, and not only their keys.
    """

    directory: Path
    count: int
    sample: EventBatch | None
    has_events: bool = True

    @classmethod
    def written(cls, directory: Path, batches: Iterable[EventBatch]) -> RootEvents:
        """Write the batches, which are in order, into a new directory. Raises OutputUnwritableError."""
        count, sample, has_events = 0, None, True
        with refusing(directory):
            make_directory(directory)
            with _new(directory / TS) as ts, _new(directory / SEQ) as seq, _new(directory / EVENTS) as events:
                for batch in batches:
                    sample = batch.cut(0, 0).keys_only() if sample is None else sample
                    batch.ts.tofile(ts)
                    np.asarray(batch.seq, dtype=np.int64).tofile(seq)
                    has_events = has_events and _is_put(batch, events)
                    count += len(batch)
        return cls(directory, count, sample, has_events)

    def keys(self) -> EventBatch | None:
        """Return the order keys of the events, which are read as they are looked at; None if there are no events."""
        if self.sample is None or not self.count:
            return None
        sample, mapped = self.sample, partial(np.memmap, dtype=np.int64, mode="r")
        ts, seq = (np.asarray(mapped(self.directory / name)) for name in (TS, SEQ))
        return EventBatch(sample.stream, sample.rank, ts, seq, sample.tags)

    def batches(self) -> Iterator[EventBatch]:
        """Yield the events in order."""
        with (self.directory / EVENTS).open("rb") as file:
            while head := file.read(_LENGTH.size):
                yield codec.decode(file.read(_LENGTH.unpack(head)[0]))


def pieces(batches: Iterable[EventBatch], size: int) -> Iterator[EventBatch]:
    """Yield batches in pieces, cut at each multiple of `size` events."""
    place = 0
    for batch in batches:
        start = 0
        while start < len(batch):
            stop = min(len(batch), start + size - place % size)
            yield batch.cut(start, stop)
            place += stop - start
            start = stop


def _is_put(batch: EventBatch, file: IO[bytes]) -> bool:
    """Append a batch to a file; return whether the codec can encode it."""
    try:
        data = codec.encode(batch, keeps_order=True)
    except CodecError:
        return False
    file.write(_LENGTH.pack(len(data)))
    file.write(data)
    return True


def _new(path: Path) -> IO[bytes]:
    return open(path, "wb", opener=private_files.opener)
