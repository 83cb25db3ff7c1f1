"""Time columns as int64: integers unchanged or scaled, ISO-8601 text and datetimes as time since 1970-01-01 UTC.

Everything becomes int64 in the plan's unit (nanoseconds for text and datetimes if the plan has none). Times finer than the
unit are rounded down, which never changes their order. Text and datetimes without zone are taken as UTC.

>>> Clock("clicks", plan_unit="ms").times(["2013-01-01", "2013-01-01T00:00:00.5+01:00"], first=0)
array([1356998400000, 1356994800500])
>>> Clock("clicks", plan_unit="ms", column_unit="s").times([1, 2], first=0)
array([1000, 2000])
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dgs.errors import MalformedRowError, PlanFileError
from dgs.job.units import NANOSECONDS, TimeUnit
from dgs.model.columns import Column
from dgs.model.events import Int64s
from dgs.model.order import MAX_TS

_ZONE = r"\d[T ]\d{2}.*(Z|[+-]\d{2}(:?\d{2})?)$"
_ARROW_FAILURES = (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError)


class UntypableError(Exception):
    """A column is not a time. The text says why."""


class Clock:
    """Converts the time columns of one stream to int64s. It remembers whether times were bare numbers or calendar times.

    It refuses a mixture, whose order would be wrong. `format`: the format of times in text, for `datetime.strptime`, instead of
    ISO-8601. `column`: its name, for errors.
    """

    def __init__(
        self,
        stream: str,
        *,
        plan_unit: TimeUnit,
        column_unit: TimeUnit | None = None,
        format: str | None = None,  # noqa: A002 - the name in plan.yaml
        column: str = "",
    ) -> None:
        if column_unit not in (None, "none") and plan_unit == "none":
            problem = f"`ts: {{unit: {column_unit}}}` needs the plan's own unit: say `time: {{unit: ...}}`"
            raise PlanFileError(where=f"stream {stream!r}", problem=problem)
        self.stream = stream
        self.format = format
        self._name = column
        self.is_calendar: bool | None = None
        self._plan = NANOSECONDS.get(plan_unit, 1)
        self._column = self._plan if column_unit in (None, "none") else NANOSECONDS[str(column_unit)]
        self._has_unit = column_unit not in (None, "none")

    def times(self, column: Column, *, first: int) -> Int64s:
        """Return the times of the rows `first`, `first + 1`, ....

        Raises MalformedRowError naming the first row whose time is null, of another type, mixed, or out of range.
        """
        if self._is_plain(column):
            self.is_calendar = False
            return np.asarray(column)
        try:
            return self._convert(_as_arrow(column))
        except (UntypableError, *_ARROW_FAILURES):
            return self._row_by_row(column, first)

    def _is_plain(self, column: Column) -> bool:
        """Return whether a column has times that need no conversion, as tables in memory usually do.

        Only the last time is compared with the reserved one. If the column is not in order, the ordering compares all.
        """
        if type(column) is not np.ndarray or column.ndim != 1:  # a masked array may have nulls
            return False
        if column.dtype != np.int64 or self._column != self._plan:
            return False
        return self.is_calendar is not True and (not len(column) or int(column[-1]) < MAX_TS)

    def _row_by_row(self, column: Column, first: int) -> Int64s:
        """Convert row by row, to name the bad row or to accept types that differ between rows."""
        times = np.empty(len(column), dtype=np.int64)
        for i in range(len(column)):
            value = column[i]
            try:
                times[i] = self._convert(
                    _as_arrow([value] if isinstance(column, list) else column[i : i + 1])
                )[0]
            except UntypableError as problem:
                raise self._malformed(first + i, str(problem)) from None
            except _ARROW_FAILURES:
                raise self._malformed(first + i, f"{_shown(value)} is not a timestamp") from None
        return times

    def _malformed(self, row: int, problem: str) -> MalformedRowError:
        return MalformedRowError(stream=self.stream, row=row, problem=problem, field=self._name)

    def _convert(self, array: Any) -> Int64s:
        if array.null_count:
            raise UntypableError("the timestamp is missing or null")
        kind = array.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            if self.format is not None:
                raise UntypableError(f"timestamp {array[0].as_py()} is a number, and `format:` reads text")
            times: Int64s = self._numbers(array)
            self._agree(calendar=False, example=array)
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            times = self._instants(_parsed(array)) if self.format is None else self._formatted(array)
            self._agree(calendar=True, example=array)
        elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            times = self._instants(array)
            self._agree(calendar=True, example=array)
        else:
            raise UntypableError(f"{_shown(array[0].as_py())} of type {kind} is not a timestamp")
        if len(times) and times.max() == MAX_TS:
            raise UntypableError(f"timestamp {MAX_TS} is reserved for the end of a stream")
        return times

    def _formatted(self, array: Any) -> Int64s:
        """Return the times of texts in the plan's format, each distinct one parsed once. Times without a zone are in UTC."""
        coded = array.dictionary_encode()
        try:
            moments = [datetime.strptime(text, str(self.format)) for text in coded.dictionary.to_pylist()]  # noqa: DTZ007
            distinct = np.array([_since_1970(moment) // self._plan for moment in moments], dtype=np.int64)
            times: Int64s = distinct[np.asarray(coded.indices)]
        except OverflowError:
            raise UntypableError(
                f"{_shown(array[0].as_py())} does not fit into 64 bits in the plan's unit"
            ) from None
        except ValueError:
            text = _shown(array[0].as_py())
            raise UntypableError(f"{text} is no time of the form {self.format!r}") from None
        return times

    def _numbers(self, array: Any) -> Int64s:
        if pa.types.is_integer(array.type):
            return _scaled(np.asarray(array.cast(pa.int64())), self._column, self._plan)
        values = np.asarray(array, dtype=np.float64)
        if not self._has_unit and not np.all(values == np.floor(values)):
            raise UntypableError(f"timestamp {values[values != np.floor(values)][0]} is not an integer")
        times = np.floor(values * (self._column / self._plan))
        if not np.all(np.abs(times) < 2.0**63):
            raise UntypableError(f"timestamp {_shown(array[0].as_py())} does not fit into 64 bits")
        return times.astype(np.int64)

    def _instants(self, array: Any) -> Int64s:
        if pa.types.is_date(array.type):
            array = array.cast(pa.timestamp("s"))
        source = NANOSECONDS[array.type.unit]
        return _scaled(array.cast(pa.int64()).to_numpy(), source, self._plan)

    def _agree(self, *, calendar: bool, example: Any) -> None:
        if not len(example):
            return
        if self.is_calendar not in (None, calendar):
            words = ("a bare number", "a calendar time")
            problem = (
                f"timestamp {_shown(example[0].as_py())} is {words[calendar]}, but earlier ones are each "
                f"{words[not calendar]}: the two cannot be ordered together"
            )
            raise UntypableError(problem)
        self.is_calendar = calendar


def _since_1970(moment: datetime) -> int:
    """Return nanoseconds since 1970-01-01 UTC, exactly."""
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def _as_arrow(column: Column) -> Any:
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if isinstance(column, np.ndarray) and not column.dtype.isnative:  # Arrow has no such arrays
        column = column.astype(column.dtype.newbyteorder("="))
    if isinstance(column, list) and bool in map(type, column):
        raise UntypableError("true and false are not timestamps")
    return pa.array(column)


def _parsed(texts: Any) -> Any:
    """Return the instants of ISO-8601 texts, with or without zone."""
    zoned = pc.match_substring_regex(texts, _ZONE)
    try:
        if not pc.any(zoned).as_py():
            return texts.cast(pa.timestamp("ns"))
        if pc.all(zoned).as_py():
            return texts.cast(pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid:
        text = texts[0].as_py()
        if len(texts) > 1 or not re.fullmatch(r"\s*[+-]?\d+\s*", text):
            raise UntypableError(f"{_shown(text)} is not an ISO-8601 time{_beyond(texts)}") from None
        raise UntypableError(
            f"{_shown(text)} is text, not a number, and not an ISO-8601 time either"
        ) from None
    raise UntypableError("times with and without zone")  # `_row_by_row` then converts each alone


def _beyond(texts: Any) -> str:
    """Return a remark on times beyond the range of nanoseconds, which ends in the year 2262."""
    try:
        pc.if_else(pc.match_substring_regex(texts, _ZONE), "1970-01-01", texts).cast(pa.timestamp("s"))
    except pa.ArrowInvalid:
        return ""
    return " between the years 1678 and 2261, or finer than nanoseconds"


def datetimes(texts: Any) -> Any:
    """Return ISO-8601 texts as datetimes in UTC. Null stays null. Raises UntypableError."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), pa.timestamp("us"))
    filled = pc.fill_null(texts, "1970-01-01")
    zoned = pc.match_substring_regex(filled, _ZONE)
    plain = _parsed(pc.if_else(zoned, "1970-01-01", filled)).cast(pa.int64())
    in_zone = _parsed(pc.if_else(zoned, filled, "1970-01-01T00:00Z")).cast(pa.int64())
    instants = pc.if_else(zoned, in_zone, plain).cast(pa.timestamp("ns")).cast(pa.timestamp("us"), safe=False)
    return pc.if_else(texts.is_valid(), instants, pa.scalar(None, pa.timestamp("us")))


def _scaled(values: Int64s, source: int, target: int) -> Int64s:
    """Return times in units of `source` nanoseconds as times in units of `target`, rounded down."""
    if source == target:
        return values
    if source < target:
        return values // (target // source)
    factor = source // target
    limit = MAX_TS // factor
    outside = (values > limit) | (values < -limit)
    if outside.any():
        raise UntypableError(f"timestamp {values[outside][0]} does not fit into 64 bits in the plan's unit")
    return values * factor


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except (OverflowError, ValueError, KeyError):  # an Arrow value that Python cannot represent
        return "a value that Python does not hold"
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004
