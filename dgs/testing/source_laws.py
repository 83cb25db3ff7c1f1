"""The laws of a source: `check_source` reads it from its beginning and from its positions, with several objects, and compares.

>>> class Numbers:
...     def read(self, after): yield from (({"ts": [n]}, n) for n in range((after or 0) + 1, 9))
...     def describe(self): return "numbers"
>>> check_source(Numbers)
>>> class Skips(Numbers):
...     def read(self, after): yield from (({"ts": [n]}, n) for n in range((after or -1) + 2, 9))
>>> check_source(Skips)
Traceback (most recent call last):
dgs.testing.broken_law.LawBroken: source Skips breaks the law `resume`: behind position 1, row 1 (time 2) is left out: row 2 (time 3) comes first
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from dgs import codec
from dgs.connectors import ConnectorError
from dgs.errors import RunError
from dgs.model import columns
from dgs.model.events import Event, EventBatch
from dgs.model.order import Heartbeat
from dgs.model.user_code import shown
from dgs.testing.broken_law import LawBroken
from dgs.workers.sources.custom_source import ConnectedSource
from dgs.workers.sources.readers.custom_rows import POLL
from dgs.workers.sources.shaping.times import Clock

MOST_POSITIONS = 24
"""The most positions from which a source is read again."""


class Row(NamedTuple):
    """A row: its time, and its whole content as text."""

    ts: int
    said: str


@dataclass
class Read:
    """The result of reading: rows, heartbeats with the number of the next row, positions with the number of rows before them."""

    rows: list[Row] = field(default_factory=list)
    beats: list[tuple[int, int]] = field(default_factory=list)
    positions: list[tuple[int, bytes]] = field(default_factory=list)


def check_source(
    make: Callable[[], Any], *, ts: str = "ts", ordered: bool = True, seconds: float = 1.0
) -> None:
    """Check the laws of a source. Raises LawBroken, and UserCodeError if the source itself raises.

    `make` returns a new object each time, as every process makes its own. The rows of the source must not change meanwhile; a few
    dozen rows in several pieces are best. `ts`: the column with the time. `ordered`: False for streams with `on_disorder: drop`
    or `sort_within`. `seconds`: a live source counts as complete when it has no rows for this long.
    """
    _SourceLaws(make, ts=ts, ordered=ordered, seconds=seconds).check()


class _SourceLaws:
    def __init__(self, make: Callable[[], Any], *, ts: str, ordered: bool, seconds: float) -> None:
        self._make, self._ts = make, ts
        self._ordered, self._seconds = ordered, seconds
        self._clock = Clock("s", plan_unit="none", column_unit=None)
        self._sample = make()

    def check(self) -> None:
        """Check one law after the other. Later checks rely on earlier ones."""
        first, second = self._opened(), self._opened()
        whole = self._read(first)
        if not whole.rows:
            self._broken("repeat", "it has no rows, so nothing can be checked")
        self._check_order(whole)
        self._compare(whole.rows, self._read(second).rows, "repeat", "the second object that reads it")
        self._check_turns(whole)
        self._check_positions(whole)
        self._check_identity(first, whole)
        self._check_closing(whole)

    def _opened(self) -> ConnectedSource:
        source = self._make()
        return ConnectedSource(source, ref=type(source).__name__, stream="s", program="of the suite")

    def _read(self, source: ConnectedSource, after: bytes | None = None) -> Read:
        found = Read()
        for piece in self._pieces(source, after):
            self._add(found, piece)
        return found

    def _pieces(self, source: ConnectedSource, after: bytes | None = None) -> Iterator[tuple[Any, bytes]]:
        """Yield the pieces of a source; for a live source, those that come in time."""
        patience = time.monotonic() + self._seconds
        pieces = source.pieces(after)
        while True:
            try:
                piece = next(pieces, False)
            except ConnectorError as error:
                raise LawBroken("source", self._sample, "plain", str(error.problem)) from error
            if piece is False or (piece is None and time.monotonic() > patience):
                return
            if piece is None:
                time.sleep(POLL)
            else:
                patience = time.monotonic() + self._seconds
                yield piece  # type: ignore[misc]

    def _add(self, found: Read, piece: tuple[Any, bytes]) -> None:
        rows, position = piece
        try:
            for one in self._rows(rows, len(found.rows)):
                if isinstance(one, Row):
                    found.rows.append(one)
                else:
                    found.beats.append((len(found.rows), one))
        except (TypeError, ValueError, KeyError, pa.ArrowException, RunError) as error:
            problem = f"row {len(found.rows)} and those that come with it are no rows: {error}"
            raise LawBroken("source", self._sample, "rows", problem) from error
        found.positions.append((len(found.rows), position))

    def _rows(self, rows: Any, first: int) -> Iterator[Row | int]:
        """Yield the rows of a piece, and the times of the heartbeats among them."""
        if isinstance(rows, EventBatch):
            rows = rows.events()
        if not isinstance(rows, list):
            yield from self._of_columns(rows, first)
            return
        for one in rows:
            if isinstance(one, Heartbeat):
                yield one.ts
                continue
            tag, ts, payload = (one.tag, one.ts, one.payload) if isinstance(one, Event) else one
            yield Row(self._time([ts], first)[0], shown((tag, payload)))

    def _of_columns(self, rows: Any, first: int) -> Iterator[Row]:
        if not isinstance(rows, dict):
            table = pa.table(rows)
            rows = {name: table.column(name) for name in table.column_names}
        if self._ts not in rows:
            raise KeyError(f"there is no column {self._ts!r}, only {', '.join(rows) or 'none'}")
        values = {name: columns.to_list(column) for name, column in rows.items()}
        times = self._time(values[self._ts], first)
        yield from (
            Row(ts, shown(row)) for ts, row in zip(times, zip(*values.values(), strict=True), strict=True)
        )

    def _time(self, values: list[Any], first: int) -> list[int]:
        found: list[int] = self._clock.times(values, first=first).tolist() if values else []
        return found

    def _check_order(self, whole: Read) -> None:
        latest = whole.rows[0].ts
        for number, row in enumerate(whole.rows):
            if self._ordered and row.ts < latest:
                self._broken("order", f"row {number} has the time {row.ts}, after {latest}")
            latest = max(latest, row.ts)
        for number, beat in whole.beats:
            late = next((i for i in range(number, len(whole.rows)) if whole.rows[i].ts <= beat), None)
            if late is not None:
                ts = whole.rows[late].ts
                self._broken(
                    "order", f"row {late} has the time {ts}, after a heartbeat that says {beat} is over"
                )

    def _check_turns(self, whole: Read) -> None:
        """Let two objects read in turns, as two hosts read splits of a stream."""
        found = [Read(), Read()]
        readers = [(self._pieces(self._opened()), read) for read in found]
        while readers:
            for reader, read in list(readers):
                piece = next(reader, None)
                if piece is None:
                    readers.remove((reader, read))
                else:
                    self._add(read, piece)
        for read in found:
            self._compare(whole.rows, read.rows, "repeat", "one of two objects that read it in turns")

    def _check_positions(self, whole: Read) -> None:
        step = max(1, len(whole.positions) // MOST_POSITIONS)
        for count, position in [*whole.positions[::step], whole.positions[-1]]:
            name = f"behind position {shown(codec.decode(position))}"
            read = self._read(self._opened(), position)
            self._compare(whole.rows[count:], read.rows, "resume", name, first=count)
            if read.positions and read.rows:
                more, further = read.positions[0]
                name = (
                    f"behind position {shown(codec.decode(further))}, which an object that went on has named"
                )
                again = self._read(self._opened(), further)
                self._compare(whole.rows[count + more :], again.rows, "resume", name, first=count + more)

    def _check_identity(self, first: ConnectedSource, whole: Read) -> None:
        resumed = self._opened()
        self._read(resumed, whole.positions[len(whole.positions) // 2][1])
        told = {
            "an object that has read nothing": self._opened().describe(),
            "an object that has read all": first.describe(),
            "an object that went on half way": resumed.describe(),
        }
        for who, before in told.items():
            problem = self._opened().changed(before)
            if problem is not None:
                self._broken(
                    "identity",
                    f"nothing has changed since the description of {who}, and `changed` says: {problem}",
                )
        if not first.is_live and first.describe() != resumed.describe():
            problem = (
                f"an object that has read all is described as {shown(codec.decode(first.describe()))}, and one that went on half "
                f"way and has read the rest as {shown(codec.decode(resumed.describe()))}"
            )
            self._broken("identity", problem)

    def _check_closing(self, whole: Read) -> None:
        left, half = self._opened(), self._opened()
        left.close()
        next(self._pieces(half), None)
        half.close()
        half.close()
        self._compare(
            whole.rows, self._read(self._opened()).rows, "repeat", "an object made after another was closed"
        )

    def _compare(self, wanted: Sequence[Row], got: Sequence[Row], law: str, who: str, first: int = 0) -> None:
        """Compare rows with the wanted ones, whose first one has the number `first`."""
        for index, (one, other) in enumerate(zip(wanted, got, strict=False)):
            if one != other:
                self._differ(wanted[index:], got[index:], law, who, first + index)
        if len(got) > len(wanted):
            extra = got[len(wanted)]
            self._broken(
                law, f"{who}, {len(got) - len(wanted)} rows too many come, the first of time {extra.ts}"
            )
        if len(got) < len(wanted) and not self._opened().is_live:
            missing = wanted[len(got)]
            self._broken(
                law, f"{who}, row {first + len(got)} (time {missing.ts}) is missing, with all behind it"
            )

    def _differ(self, wanted: Sequence[Row], got: Sequence[Row], law: str, who: str, number: int) -> NoReturn:
        """Raise LawBroken with the difference between rows, from row `number` on."""
        one, other = wanted[0], got[0]
        if other in wanted:
            there = number + wanted.index(other)
            how = f"row {number} (time {one.ts}) is left out: row {there} (time {other.ts}) comes first"
        elif one in got:
            how = f"{other.said} of time {other.ts} comes before row {number}, again or from elsewhere"
        else:
            how = f"row {number} is {other.said} of time {other.ts}, and must be {one.said} of time {one.ts}"
        self._broken(law, f"{who}, {how}")

    def _broken(self, law: str, problem: str) -> NoReturn:
        raise LawBroken("source", self._sample, law, problem)
