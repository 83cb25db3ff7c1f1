"""Decisions: the places of heartbeats between the rows of a live stream, written to disk before they take effect, and replayed.

A heartbeat decides which later rows are too late. After a crash, a heartbeat by the clock of the machine would come at another row, and
other rows would be too late. So the host with the first split of a stream decides, and writes down each heartbeat with the row it comes
before. A resumed run, other hosts and `--verify` put the same heartbeats before the same rows.

Rows that passed without a heartbeat are also written down (`notes_rows`), in two cases. If several hosts read a stream, the others may pass
a row only when no heartbeat can come before it. And a user's source may pause at another row after a crash.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "clicks" / HEARTBEATS
>>> own = Decisions.owned(path, "clicks")
>>> own.note(3, 100)
>>> own.close()
>>> Decisions(RecordReader(path, "clicks")).ahead
deque([(3, 100)])
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dgs.model.order import MIN_TS, OrderKey
from dgs.workers.sources.rows import SECOND, Arrivals, Live, nothing
from dgs.workers.storage.record_file import RecordReader, RecordWriter

HEARTBEATS = "heartbeats.dgs"
"""The file in the directory of a stream's log."""

LOOK_EVERY = SECOND // 100
"""Nanoseconds between two looks of a host at what another one has decided."""

ROWS_ONLY = MIN_TS
"""In the place of a heartbeat: the rows before this one have passed."""


class Decisions:
    """The decisions of a stream, in order. `ahead`: (row, greatest heartbeat before it), of those still to be replayed.

    `rows`: the number of rows that have certainly passed: no heartbeat will come before one of them. Without a file nothing is kept.
    """

    def __init__(self, file: RecordReader | None = None) -> None:
        self._file = file
        self.ahead: deque[tuple[int, int]] = deque()
        self.rows = 0
        self._take(file.known if isinstance(file, RecordWriter) else [])
        self.look()

    @classmethod
    def owned(cls, path: Path, stream: str) -> Decisions:
        """Return the decisions in a file, open for new ones. Raises OutputUnwritableError, CorruptFileError."""
        return cls(RecordWriter(path, stream))

    def look(self) -> None:
        """Take what another host has decided. Raises CorruptFileError."""
        if self._file is not None:
            self._take(self._file.poll())

    def note(self, row: int, beat: int = ROWS_ONLY) -> None:
        """Decide: durable when this returns. Raises OutputUnwritableError."""
        if isinstance(self._file, RecordWriter):
            self._file.append(row, beat)
        self.rows = row

    def describe(self) -> list[Any]:
        """Return the number of decisions and the digest of the last, for a checkpoint."""
        return [0, ""] if self._file is None else [self._file.count, self._file.digest.hex()]

    def changed(self, before: Sequence[Any] | None) -> str | None:
        """Return how the decisions differ from those in a checkpoint, None if they do not. Checkpoints of earlier versions have none."""
        if before is None or self._file is None or not before[0]:
            return None
        count, digest = before
        found = RecordReader(self._file.path, self._file.name)
        found.poll(until=count)
        if found.count > count:
            return (
                f"the first {found.count} entries of {found.path} were cut off, more than the {count} it had"
            )
        if found.count < count:
            return f"{found.path} had {count} entries, and has {found.count} now"
        return None if found.digest.hex() == digest else f"{found.path} has other entries now"

    def close(self) -> None:
        """Close the file."""
        if isinstance(self._file, RecordWriter):
            self._file.close()

    def _take(self, found: Iterable[tuple[int, int]]) -> None:
        """Keep decisions: before each row, only the greatest heartbeat counts."""
        for row, beat in found:
            self.rows = max(self.rows, row)
            if self.ahead and self.ahead[-1][0] == row:
                self.ahead.append((row, max(beat, self.ahead.pop()[1])))
            elif beat != ROWS_ONLY:
                self.ahead.append((row, beat))


class Replay:
    """Puts decided heartbeats before their rows. Law: it returns exactly the rows that it is given."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self.beat = MIN_TS

    def merged(self, arrivals: Arrivals) -> Iterator[Arrivals]:
        """Yield arrivals in pieces, with the heartbeats before each of their rows and right after the last."""
        start, stop = arrivals.first, arrivals.first + len(arrivals)
        position, is_cut = 0, False
        for row, beat in self._until(stop):
            at = max(row - start, position)
            if at > position:
                yield arrivals.cut(position, at)
                position, is_cut = at, True
            yield nothing(start + at, beat)
        if position < len(arrivals) or not is_cut:
            yield arrivals.cut(position, len(arrivals))

    def _until(self, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the heartbeats up to a row that move the frontier."""
        ahead = self._decisions.ahead
        while ahead and ahead[0][0] <= stop:
            row, beat = ahead.popleft()
            if beat > self.beat:
                self.beat = beat
                yield row, beat


class Replayed(Live):
    """A live source with the decided heartbeats, for readers that only want the events, not new decisions."""

    def __init__(self, source: Live, decisions: Decisions) -> None:
        self._source, self._replay = source, Replay(decisions)
        self._ready: deque[Arrivals] = deque()

    def wait(self) -> float:
        """Return the seconds until there may be something."""
        return 0.0 if self._ready else self._source.wait()

    def __next__(self) -> Arrivals:
        """Return the next rows or heartbeats."""
        if not self._ready:
            self._ready.extend(self._replay.merged(next(self._source)))
        return self._ready.popleft()

    def begin_at(self, base: OrderKey) -> None:
        """Pass the key on to the source."""
        self._source.begin_at(base)

    def close(self) -> None:
        """Close the source."""
        self._source.close()


class Followed(Live):
    """A live source on a host that does not decide: rows pass once the heartbeats before them are decided."""

    def __init__(self, source: Live, decisions: Decisions, *, clock: Callable[[], int]) -> None:
        self._source, self._decisions, self._clock = source, decisions, clock
        self._replay = Replay(decisions)
        self._ready: deque[Arrivals] = deque()
        self._held: Arrivals | None = None
        self._row = 0
        self._next_look = -LOOK_EVERY

    def wait(self) -> float:
        """Return the seconds until there may be something, or it is time to look for decisions."""
        if self._ready or (self._held is None and self._source.wait() <= 0):
            return 0.0
        return max(0, self._next_look - self._clock()) / SECOND

    def __next__(self) -> Arrivals:
        """Return the next rows or heartbeats that are decided, nothing if none are. Raises CorruptFileError."""
        if not self._ready:
            self._next_look = self._clock() + LOOK_EVERY
            self._decisions.look()
            self._ready.extend(self._replay.merged(self._decided()))
        return self._ready.popleft()

    def begin_at(self, base: OrderKey) -> None:
        """Pass the key on to the source."""
        self._source.begin_at(base)

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def _decided(self) -> Arrivals:
        if self._held is None and self._source.wait() <= 0:
            self._held = next(self._source)
        held, self._held = self._held, None
        if held is None:
            return nothing(self._row)
        passed = max(0, min(len(held), self._decisions.rows - held.first))
        if passed < len(held):
            self._held = held.cut(passed, len(held))
            held = held.cut(0, passed) if passed else nothing(held.first)
        self._row = held.first + len(held)
        return held
