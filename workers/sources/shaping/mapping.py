"""The mapping from named columns to events: which columns are the time, the tag and the payload of a stream.

>>> from dgs.job.schema import StreamConfig
>>> from dgs.model.program import Program
>>> clicks = StreamConfig(id="clicks", tags={"kind": "click"}, source={"memory": "clicks"}, payload="page")
>>> mapping = Mapping(clicks, Program(), plan_unit="none")
>>> mapping.arrivals(RawRows(0, 2, {"ts": [5, 6], "page": ["home", "shop"]}, where="clicks")).payload
['home', 'shop']
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from functools import cached_property
from typing import Any

import numpy as np

from dgs.errors import AmbiguousTagError, MalformedRowError, UnknownColumnError
from dgs.errors.nearest import did_you_mean
from dgs.job.schema import StreamConfig, TimeColumn
from dgs.job.stream_tags import named_like, some_tag
from dgs.job.units import TimeUnit
from dgs.model.columns import Column
from dgs.model.events import EventBatch
from dgs.model.program import Program
from dgs.model.tags import Tag
from dgs.workers.sources.rows import (
    NO_BEATS,
    Arrivals,
    Beats,
    Place,
    RawRows,
    first_unheld,
    readable,
    settled,
    unreadable,
)
from dgs.workers.sources.shaping.tagging import Tagging, TagValueError
from dgs.workers.sources.shaping.times import Clock

PAYLOAD_COLUMN = "payload"


class Mapping:
    """The time, tag and payload of the rows of one stream, as its section of plan.yaml says.

    If `payload:` is a name, the payload is the value of that column; if a list, a record of those columns (None if it is empty).
    Without it the payload is the column `payload`, if there is one, else a record of all columns. `skips`: an event stands for
    each row that cannot be read.
    """

    def __init__(
        self, config: StreamConfig, program: Program, *, plan_unit: TimeUnit, skips: bool = False
    ) -> None:
        ts = getattr(config.source.details, "ts", TimeColumn(column="ts"))
        self.stream = config.id
        self.skips = skips
        self._config, self._program = config, program
        self.ts_column: str = ts.column
        self.payload = config.payload
        self.tagging = Tagging(config, program)
        self.clock = Clock(
            config.id, plan_unit=plan_unit, column_unit=ts.unit, format=ts.format, column=ts.column
        )

    @cached_property
    def _some_tag(self) -> Tag:
        return some_tag(self._config, self._program)

    def refused(self, row: int, problem: str, given: Any, place: Place, field: str = "") -> Arrivals:
        """Return the event that stands for a row that cannot be read; raise MalformedRowError unless such rows are skipped.

        `given`: the readable part of the row. `field`: the column at fault.
        """
        error = malformed(self.stream, row, problem, place, field)
        if not self.skips:
            raise error from None
        return unreadable(self._some_tag, error, given, place)

    @property
    def named(self) -> list[str]:
        """The columns that plan.yaml names: for the time, the tag and the payload."""
        payload = [self.payload] if isinstance(self.payload, str) else self.payload or []
        return list(dict.fromkeys([self.ts_column, *self.tagging.columns, *payload]))

    def payload_names(self, available: Iterable[str]) -> str | list[str]:
        """Return the column, or the columns of the record, that make the payload."""
        if self.payload is not None:
            return self.payload
        names = list(available)
        return PAYLOAD_COLUMN if PAYLOAD_COLUMN in names else names

    def needed(self, available: Collection[str], where: str) -> list[str]:
        """Return the columns to read, of those available. Raises UnknownColumnError for a missing one."""
        payload = self.payload_names(available)
        payloads = [payload] if isinstance(payload, str) else payload
        names = list(dict.fromkeys([self.ts_column, *self.tagging.columns, *payloads]))
        for name in names:
            if name not in available:
                raise unknown_column(self.stream, name, available, where)
        self.check_names(available, where)
        return names

    def check_names(self, available: Collection[str], where: str) -> None:
        """Refuse a literal kind or key that is also the name of a column. Raises AmbiguousTagError."""
        part = named_like(self._config, self._program, available)
        if part is not None:
            text = getattr(self._config.tags, part)
            raise AmbiguousTagError(stream=self.stream, part=part, text=text, where=where)

    def arrivals(self, rows: RawRows) -> Arrivals:
        """Return the rows as events. Raises MalformedRowError for a row that is not an event."""
        beats = self.heartbeats(rows.beats, rows.first)
        if not rows.count:
            return Arrivals(rows.first, np.empty(0, dtype=np.int64), beats=beats)
        for name in self.needed(rows.columns, rows.where):
            if name != self.ts_column:
                self._check_held(name, rows)
        ts = self.clock.times(rows.columns[self.ts_column], first=rows.first)
        payload = self.payload_names(rows.columns)
        if self.ts_column in ([payload] if isinstance(payload, str) else payload):
            self._check_held(self.ts_column, rows)
        tags, codes = self.tagging.tags(rows)
        return Arrivals(rows.first, ts, tags, codes, self._payload(rows), beats)

    def _check_held(self, name: str, rows: RawRows) -> None:
        if (found := first_unheld(rows.columns[name])) is not None:
            row, what = rows.first + found[0], found[1]
            raise MalformedRowError(stream=self.stream, row=row, problem=f"the value is {what}", field=name)

    def heartbeats(self, beats: Beats, first: int) -> Beats:
        """Return heartbeats with their times in the plan's unit."""
        if not beats.before:
            return NO_BEATS
        return Beats(beats.before, self.clock.times(beats.ts, first=first + beats.before[0]))

    def batch(self, first: int, batch: EventBatch) -> Arrivals:
        """Return the arrivals of an EventBatch from user code, with its tags and payload unchanged.

        Raises MalformedRowError for a code that is not the index of a tag, and for a kind that the program does not declare.
        """
        ts = self.clock.times(batch.ts, first=first)
        codes, count = batch.codes, len(batch.tags)
        if codes is not None and len(codes) and not 0 <= codes.min() <= codes.max() < count:
            row = int(np.flatnonzero((codes < 0) | (codes >= count))[0])
            problem = f"code {codes[row]} is not one of the {count} tags of its batch"
            raise MalformedRowError(stream=self.stream, row=first + row, problem=problem)
        for place, tag in enumerate(batch.tags):
            self._check_kind(tag, place, batch, first)
        return Arrivals(first, ts, batch.tags, batch.codes, batch.payload)

    def _check_kind(self, tag: Tag, place: int, batch: EventBatch, first: int) -> None:
        """Raise MalformedRowError if an event of a batch has a tag of a kind that the program does not declare."""
        try:
            self.tagging.check_kind(tag.kind)
        except TagValueError as problem:
            rows = np.arange(len(batch))[:1] if batch.codes is None else np.flatnonzero(batch.codes == place)
            if len(rows):
                row = first + int(rows[0])
                raise MalformedRowError(stream=self.stream, row=row, problem=str(problem)) from None

    def _payload(self, rows: RawRows) -> Column:
        names = self.payload_names(rows.columns)
        if isinstance(names, str):
            return settled(rows.columns[names])
        return {name: settled(rows.columns[name]) for name in names} or None


def each_arrival(
    mapping: Mapping, pieces: Iterable[RawRows | Arrivals], batch_rows: int
) -> Generator[Arrivals]:
    """Yield the rows of a reader as events, at most `batch_rows` at a time."""
    for piece in pieces:
        if isinstance(piece, Arrivals):
            yield piece
            continue
        for part in piece.pieces(batch_rows):
            yield from _readable(mapping, part)


def _readable(mapping: Mapping, rows: RawRows) -> Generator[Arrivals]:
    """Yield the rows as events. If a row is malformed, halve the rows until it is alone: `on_error: skip` keeps the others."""
    try:
        arrivals = mapping.arrivals(rows)
    except MalformedRowError as error:
        if rows.count > 1 and mapping.skips:
            middle = rows.count // 2
            yield from _readable(mapping, rows.cut(0, middle))
            yield from _readable(mapping, rows.cut(middle, rows.count))
            return
        place = rows.place(error.row)
        left = {name: readable(column) for name, column in rows.columns.items()}
        if not rows.count:
            raise malformed(mapping.stream, error.row, error.problem, place) from None
        refused = mapping.refused(error.row, error.problem, left, place, error.facts.get("field", ""))
        beats = mapping.heartbeats(rows.beats, rows.first)
        earlier = sum(1 for before in beats.before if before == 0)
        yield _only(Beats((0,) * earlier, beats.ts[:earlier]), rows.first)
        yield refused
        yield _only(Beats((0,) * (len(beats.before) - earlier), beats.ts[earlier:]), rows.first + 1)
    else:
        yield arrivals


def _only(beats: Beats, row: int) -> Arrivals:
    """Return heartbeats without events, before a row."""
    return Arrivals(row, np.empty(0, dtype=np.int64), beats=beats)


def malformed(stream: str, row: int, problem: str, place: Place, field: str = "") -> MalformedRowError:
    """Return the error for a row, with its place, and with the column at fault if it is known."""
    where = f", column {field!r}" if field else ""
    said = (
        f"{problem}{str(place)[:-1]}{where})"
        if place.file
        else f"{problem}{f' (column {field!r})' if field else ''}"
    )
    facts = {"file": place.file, "line": place.number} if place.file else {}
    return MalformedRowError(stream=stream, row=row, problem=said, field=field, **facts)


def unknown_column(stream: str, column: str, available: Collection[str], where: str) -> UnknownColumnError:
    """Return the error that lists the columns and suggests one with a similar name. Blanks in names are shown.

    >>> unknown_column("s", "user", ["ts", " user"], "a.csv").columns
    "ts, ' user'"
    """
    columns = ", ".join(
        name if name.isprintable() and name.split() == [name] else repr(name) for name in available
    )
    hint = did_you_mean(column, list(available))
    return UnknownColumnError(stream=stream, column=column, where=where, hint=hint, columns=columns or "none")
