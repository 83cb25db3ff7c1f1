"""The mapping from named columns to events: which columns are the time, the tag and the payload of a stream.

>>> from dgs.job.schema import StreamConfig
>>> from dgs.model.program import Program
>>> clicks = StreamConfig(id="clicks", tags={"kind": "click"}, source={"memory": "clicks"}, payload="page")
>>> mapping = Mapping(clicks, Program(), plan_unit="none")
>>> mapping.arrivals(RawRows(0, 2, {"ts": [5, 6], "page": ["home", "shop"]}, where="clicks")).payload
['home', 'shop']

The tag of a row is a constant, made from columns, or given in a column `tag`. Columns are dictionary-encoded first, so Python handles
each distinct value once and not each row.

>>> from dgs.workers.sources.rows import RawRows
>>> views = StreamConfig(id="v", tags={"kind": "view", "key": {"column": "page"}}, source={"memory": "v"})
>>> Tagging(views, Program()).tags(RawRows(0, 3, {"page": ["home", "shop", "home"]}, where="v"))
((view('home'), view('shop')), array([0, 1, 0], dtype=int32))
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dgs.errors import AmbiguousTagError, MalformedRowError, UnknownColumnError
from dgs.errors.nearest import did_you_mean
from dgs.errors.shortened import short_repr
from dgs.job.schema import ColumnRef, StreamConfig, TagConfig, TimeColumn
from dgs.job.stream_tags import literal_tag, named_like, some_tag
from dgs.job.units import TimeUnit
from dgs.model.columns import Column, distinct, from_user, hashable
from dgs.model.events import Codes, EventBatch
from dgs.model.program import Program
from dgs.model.tags import Kind, Tag, key_problem
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
from dgs.workers.sources.shaping.times import Clock

TAG_COLUMN = "tag"
Distinct = tuple[list[Any], npt.NDArray[np.int64]]


class TagValueError(Exception):
    """A value cannot be part of a tag. The text says why."""


class Tagging:
    """Makes the tags of the rows of one stream. `columns` are the names of the columns it needs."""

    def __init__(self, config: StreamConfig, program: Program) -> None:
        self.stream = config.id
        self.literal = literal_tag(config, program)
        self._program = program
        self._kinds: dict[str, Kind] = {}
        self._parts: tuple[Any, ...] = ()
        if self.literal is None and isinstance(config.tags, TagConfig):
            self._parts = config.tags.parts
        elif self.literal is None:
            self._parts = (ColumnRef(column=TAG_COLUMN),)
        self.columns = tuple(part.column for part in self._parts if isinstance(part, ColumnRef))
        self._key_is_expected = any(isinstance(part, ColumnRef) for part in self._parts[1:])

    def tags(self, rows: RawRows) -> tuple[tuple[Tag, ...], Codes | None]:
        """Return the distinct tags of the rows and the tag of each (None: all the same).

        Raises MalformedRowError naming the first row whose kind or key is null or of the wrong type.
        """
        if self.literal is not None:
            return (self.literal,), None
        if len(self._parts) == 1:
            return self._each(distinct(rows.columns[TAG_COLUMN]), self.tag_of, rows.first)
        kind, key = self._parts
        if not isinstance(key, ColumnRef):
            kinds = distinct(rows.columns[kind.column])
            return self._each(kinds, lambda value: self.made_of(value, key), rows.first)
        keys = distinct(rows.columns[key.column])
        if not isinstance(kind, ColumnRef):
            return self._each(keys, lambda value: self.made_of(kind, value), rows.first)
        pairs = _pairs(distinct(rows.columns[kind.column]), keys)
        return self._each(pairs, lambda pair: self.made_of(*pair), rows.first)

    def tag_of(self, value: Any) -> Tag:
        """Return the tag that a row gives: a Tag, a kind, or a pair of kind and key."""
        if isinstance(value, Tag):
            self.check_kind(value.kind)
            return value
        if isinstance(value, (list, tuple)) and len(value) == 2:  # noqa: PLR2004
            return self.made_of(value[0], value[1])
        if isinstance(value, str):
            return self.made_of(value, None)
        if value is None:
            raise TagValueError("the tag is missing or null")
        raise TagValueError(f"{short_repr(value)} is not a tag: expected a kind or a pair [kind, key]")

    def made_of(self, kind: Any, key: Any) -> Tag:
        """Return the tag of a kind and a key; kinds without keys ignore the key."""
        if not isinstance(kind, str):
            raise TagValueError("the kind is missing or null" if kind is None else f"{kind!r} is not a kind")
        name = str(kind)
        declared = self._declared(name)
        if not declared.is_keyed or (key is None and declared.domain is object and not self._key_is_expected):
            return Tag(name)
        if key is None:
            raise TagValueError(f"the key of kind {name!r} is missing or null")
        usable = _checked(hashable(key), declared)
        if (problem := key_problem(name, usable)) is not None:
            raise TagValueError(problem)
        return Tag(name, usable)

    def check_kind(self, name: str) -> None:
        """Raise TagValueError if the program does not declare a kind."""
        self._declared(name)

    def _declared(self, name: str) -> Kind:
        if name not in self._kinds:
            if (problem := self._program.kind_problem(name)) is not None:
                raise TagValueError(problem)
            self._kinds[name] = self._program.kind(name)
        return self._kinds[name]

    def _each(
        self, found: Distinct, make: Callable[[Any], Tag], first: int
    ) -> tuple[tuple[Tag, ...], Codes | None]:
        values, codes = found
        tags: dict[Tag, int] = {}
        place = np.empty(len(values), dtype=np.int32)
        for i, value in enumerate(values):
            try:
                place[i] = tags.setdefault(make(value), len(tags))
            except TagValueError as problem:
                row = first + int(np.argmax(codes == i))
                field = self.columns[-1 if "key" in str(problem) else 0]
                raise MalformedRowError(
                    stream=self.stream, row=row, problem=str(problem), field=field
                ) from None
        return tuple(tags), (None if len(tags) == 1 else place[codes])


def _pairs(left: Distinct, right: Distinct) -> Distinct:
    width = max(len(right[0]), 1)
    both, rows, codes = np.unique(left[1] * width + right[1], return_index=True, return_inverse=True)
    order = np.argsort(rows)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    values = [(left[0][pair // width], right[0][pair % width]) for pair in both[order].tolist()]
    return values, place[codes]


def _checked(key: Any, kind: Kind) -> Any:
    expected = kind.domain
    if not isinstance(expected, type) or isinstance(key, expected):
        return key
    if expected is float and isinstance(key, int):
        return float(key)
    name, got = expected.__name__, type(key).__name__
    raise TagValueError(f"key {short_repr(key)} of kind {str(kind)!r} must be {name}, not {got}")


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
        """Return the placeholder event for an unreadable row; raise MalformedRowError unless such rows are skipped.

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
        """Return the arrivals of an EventBatch from user code, with its tags and the values of its payload unchanged.

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
        payload = None if batch.payload is None else from_user(batch.payload, "EventBatch")
        return Arrivals(first, ts, batch.tags, batch.codes, payload)

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
    """Yield the rows as events. If a row is malformed, halve the rows until it is alone, so that `on_error: skip` keeps the others."""
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
