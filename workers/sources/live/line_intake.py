"""JSON lines on their way into an event log: collected, checked, written and acknowledged, without sockets and clocks.

Each line is a row, which plan.yaml maps as in a JSON lines file. Three kinds of lines are not rows: heartbeats (if the source
has them), `{"kind": "ack?"}`, which is answered with `{"durable": N}` once all lines before it are in the log (N is the number
of rows in the log), and `{"kind": "end"}`, which ends the stream and gets the same answer.

A bad line is answered with `{"error": ..., "line": N}` to its sender. It ends the run with MalformedRowError. With
`on_disorder: drop`, bad lines are left out instead, as late events are, and counted with them.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dgs import codec
from dgs.errors import CodecError, MalformedRowError
from dgs.workers.event_log.event_tables import event_table
from dgs.workers.event_log.segments import greatest
from dgs.workers.event_log.writer import LogWriter
from dgs.workers.sources.readers.jsonl import HEARTBEAT, LineProblemError, parsed
from dgs.workers.sources.rows import Arrivals, Beats, RawRows
from dgs.workers.sources.shaping.mapping import PAYLOAD_COLUMN, Mapping

ACK, END = "ack?", "end"
END_REFUSED = "a port that other machines reach needs a `token` in the plan file before it takes an end"

Sender = int
Answer = tuple[Sender, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Line:
    """A parsed line, with its sender and its number among the sender's lines."""

    sender: Sender
    number: int
    fields: dict[str, Any]


@dataclass
class LineIntake:
    """Takes lines and appends them to a log. `refused`: the number of bad lines.

    Law: a row counts as durable only when it is in the log. After a `failure` no more lines are taken.
    """

    mapping: Mapping
    writer: LogWriter
    heartbeats: bool = False
    drops_malformed: bool = False
    may_end: bool = True
    where: str = "socket"
    refused: int = 0
    failure: MalformedRowError | None = None
    _lines: list[Line] = field(default_factory=list)
    _beats: list[tuple[int, Line]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._lines) + len(self._beats)

    @property
    def has_ended(self) -> bool:
        """Whether the stream has been ended."""
        return self.writer.is_closed

    def take(self, sender: Sender, number: int, text: bytes, *, is_whole: bool = True) -> Iterator[Answer]:
        """Take a line; yield the answers to it. Raises OutputUnwritableError, OwnedLogError."""
        if self.failure is not None or self.has_ended or not text.strip():
            return
        try:
            fields = parsed(text.removeprefix(BOM_UTF8))
        except (LineProblemError, UnicodeDecodeError) as error:
            if not is_whole:
                self.refused += 1
                return
            is_text = isinstance(error, LineProblemError)
            yield self.refuse(
                sender, number, str(error) if is_text else f"the line is not JSON in utf-8: {error}"
            )
            return
        line, kind = Line(sender, number, fields), fields.get("kind")
        if kind == END and len(fields) == 1 and not self.may_end:
            yield sender, {"error": END_REFUSED, "line": number}
        elif kind in (ACK, END) and len(fields) == 1:
            yield from self.flush()
            if self.failure is None:
                if kind == END:
                    self.writer.close()
                yield sender, {"durable": self.writer.rows}
        elif self.heartbeats and kind == HEARTBEAT:
            self._beats.append((len(self._lines), line))
        else:
            self._lines.append(line)

    def refuse(self, sender: Sender, number: int, problem: str) -> Answer:
        """Return the answer to a bad line; count it, and note the failure unless bad lines are left out."""
        self.refused += 1
        if not self.drops_malformed and self.failure is None:
            row = self.writer.rows + len(self._lines)
            place = f" (line {number} of a connection to {self.where})"
            self.failure = MalformedRowError(stream=self.mapping.stream, row=row, problem=problem + place)
        return sender, {"error": problem, "line": number}

    def flush(self) -> Iterator[Answer]:
        """Write the lines taken so far as one durable segment; yield answers to lines that turn out to be bad."""
        while self._lines or self._beats:
            try:
                arrivals = self.mapping.arrivals(self._rows())
                table = event_table(arrivals.ts, arrivals.tags, arrivals.codes, arrivals.payload)
            except MalformedRowError as error:
                yield self._leave_out(error.row - self.writer.rows, error.problem)
            except CodecError as error:
                yield self._leave_out(self._not_encodable(), str(error))
            else:
                self._write(arrivals, table)

    def _write(self, arrivals: Arrivals, table: Any) -> None:
        beats = list(zip(arrivals.beats.before, np.asarray(arrivals.beats.ts).tolist(), strict=True))
        frontier = greatest(*(ts for _, ts in beats))
        inside = [beat for beat in beats if beat[0] < len(arrivals)]
        self.writer.append(self.writer.next_batch, table, frontier, beats=inside, keep_order=True)
        self._lines, self._beats = [], []

    def _leave_out(self, index: int, problem: str) -> Answer:
        """Leave out a bad heartbeat or line. If it ends the run, leave out all later lines, too."""
        for place, (_, beat) in enumerate(self._beats):
            if self._is_bad_beat(beat):
                del self._beats[place]
                return self.refuse(beat.sender, beat.number, problem)
        line, behind = self._lines[index], self._lines[index + 1 :]
        self._lines = self._lines[:index]
        answer = self.refuse(line.sender, line.number, problem)
        if self.failure is None:
            self._lines += behind
            self._beats = [(b - 1 if b > index else b, beat) for b, beat in self._beats]
        else:
            self._beats = [(b, beat) for b, beat in self._beats if b <= index]
        return answer

    def _is_bad_beat(self, beat: Line) -> bool:
        try:
            self.mapping.heartbeats(Beats((0,), [beat.fields.get(self.mapping.ts_column)]), 0)
        except MalformedRowError:
            return True
        return False

    def _not_encodable(self) -> int:
        for index, line in enumerate(self._lines):
            try:
                codec.encode(line.fields)
            except CodecError:
                return index
        return 0

    def _rows(self) -> RawRows:
        """Return the lines as columns: those that plan.yaml names, and `payload`, a field of that name or the whole line."""
        columns: dict[str, list[Any]] = {
            name: [line.fields.get(name) for line in self._lines] for name in self.mapping.named
        }
        if self.mapping.payload is None and self._lines:
            columns[PAYLOAD_COLUMN] = [line.fields.get(PAYLOAD_COLUMN, line.fields) for line in self._lines]
        beats = Beats(
            tuple(before for before, _ in self._beats),
            [line.fields.get(self.mapping.ts_column) for _, line in self._beats],
        )
        return RawRows(self.writer.rows, len(self._lines), columns, self.where, beats)
