"""The options of `format("dgs")` for writing an event log; Spark passes them as text by case-insensitive names.

>>> found = LogOptions.parsed({"log": "/logs", "stream": "clicks", "order_by": "page, user", "max_delay": "5"})
>>> found.streams, found.order_by, found.delay(None)
(('clicks',), ('page', 'user'), 5)
>>> LogOptions.parsed({"log": "/logs", "stream": "clicks", "max_delay": "2s", "unit": "ms"}).delay(None)
2000
>>> LogOptions.parsed({"log": "/logs", "stream": "clicks", "order_by": '["page, user", "at"]'}).order_by
('page, user', 'at')
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgs.errors import UsageError
from dgs.job.units import NANOSECONDS, local_path, parse_duration

STREAM_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
"""Valid names of streams, as in plan.yaml: each is also the name of a directory of the log."""

KNOWN = frozenset(("log", "stream", "key", "streams", "ts", "order_by", "max_delay", "unit", "batch"))
"""Options from users."""

OURS = frozenset(("required", "query", "errors"))
"""Further options from `dgs`, for the query of a plan file."""

SPARKS = frozenset(("path", "checkpointlocation"))
"""Further options from Spark: the path of `start(PATH)` and `save(PATH)`, and the checkpoint directory."""


@dataclass(frozen=True)
class LogOptions:
    """The destination of rows and their order.

    `log`: the directory. `stream`: the stream of all rows; or `key`: the column with the stream of each. `streams`: all streams, whose
    frontiers advance even without rows; empty: the streams that rows name. `ts`: the time column. `max_delay`: as written. `unit`: of a
    time column of integers. `required`: columns that must not be null. `query`: the writer's id, if it is no streaming query. `batch`: the
    number of the batch, if Spark gives none. `errors`: a directory for errors. `checkpoint`: Spark's checkpoint directory.
    """

    log: Path
    stream: str | None
    key: str | None
    streams: tuple[str, ...]
    ts: str = "ts"
    order_by: tuple[str, ...] = ()
    max_delay: str = "0"
    unit: str | None = None
    required: tuple[str, ...] = ()
    query: str | None = None
    batch: int = 0
    errors: Path | None = None
    checkpoint: str | None = None

    @classmethod
    def parsed(cls, options: Mapping[str, str]) -> LogOptions:
        """Return the options, checked. Raises UsageError."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(set(given) - KNOWN - OURS - SPARKS)
        if unknown:
            raise _wrong(f"there is no option {unknown[0]!r}; there are {', '.join(sorted(KNOWN))}")
        stream, key = given.get("stream"), given.get("key")
        if (stream is None) == (key is None):
            raise _wrong("say either .option('stream', NAME) or .option('key', COLUMN)")
        names = (stream,) if stream is not None else _listed(given.get("streams", ""))
        if stream is not None and _listed(given.get("streams", "")) not in ((), names):
            raise _wrong("the option `streams` belongs to `key`; with `stream` all rows are of that stream")
        if given.get("unit") not in (None, "none", *NANOSECONDS):
            raise _wrong(f"unit is one of {', '.join(NANOSECONDS)}, not {given['unit']!r}")
        for name in names:
            if not STREAM_ID.fullmatch(name):
                raise _wrong(f"{name!r} is no name of a stream: {_LETTERS}")
        errors = given.get("errors")
        found = cls(
            log=_directory(given),
            stream=stream,
            key=key,
            streams=names,
            ts=given.get("ts", "ts"),
            order_by=_listed(given.get("order_by", "")),
            max_delay=given.get("max_delay", "0"),
            unit=given.get("unit"),
            required=_listed(given.get("required", "")),
            query=given.get("query"),
            batch=_number("batch", given.get("batch", "0")),
            errors=None if errors is None else Path(errors),
            checkpoint=given.get("checkpointlocation"),
        )
        found.delay("ns")
        return found

    def delay(self, column_unit: str | None) -> int:
        """Return `max_delay` in the unit of the time column: the column type's own unit if it has one. Raises UsageError."""
        if self.max_delay.strip().isdigit():
            return int(self.max_delay)
        unit = column_unit or self.unit
        if unit not in NANOSECONDS:
            raise _wrong(
                f"max_delay {self.max_delay!r} needs the unit of column {self.ts!r}: .option('unit', 'ms')"
            )
        try:
            return -(-parse_duration(self.max_delay) // NANOSECONDS[unit])
        except ValueError as error:
            raise _wrong(f"max_delay: {error}") from None

    def checked(self, types: Mapping[str, Any]) -> LogOptions:
        """Return the options, checked against the columns and their Spark types. Raises UsageError."""
        needed = [self.ts, *self.order_by, *self.required, *([self.key] if self.key else [])]
        for name in needed:
            if name not in types:
                raise _wrong(f"there is no column {name!r}; the columns are {', '.join(types)}")
        kind = types[self.ts]
        if kind not in TIMES:
            name = in_sql(self.ts)
            advice = " or ".join(f"CAST({name} AS {to}) AS {name}" for to in _casts(kind))
            raise _wrong(
                f"the times in column {self.ts!r} are of type {kind}, and must be integers or timestamps: "
                f"select {advice}"
            )
        if self.key is not None and not str(types[self.key]).startswith(NAMING):
            raise _wrong(f"column {self.key!r} of type {types[self.key]} cannot name a stream: make it text")
        self.delay("us" if kind.startswith("timestamp") else None)
        return self

    def check_stream(self, name: str) -> None:
        """Raise UsageError if rows may not belong to a stream that their column `key` names."""
        if self.streams and name not in self.streams:
            raise _wrong(
                f"column {self.key!r} says {name!r} in some row, and the streams are {', '.join(self.streams)}: "
                "add that stream, or leave its rows out with `where`"
            )
        if not STREAM_ID.fullmatch(name):
            raise _wrong(
                f"column {self.key!r} says {name!r} in some row, which is no name of a stream: {_LETTERS}"
            )


TIMES = frozenset(["tinyint", "smallint", "int", "bigint", "timestamp", "timestamp_ntz"])

NAMING = ("string", "char", "varchar", "binary", "boolean")
"""Beginnings of the types of a column that names streams."""


_LETTERS = "it must start with a letter or _ and go on with letters, digits, '_', '.' and '-'"


def _casts(kind: str) -> tuple[str, ...]:
    """Return the types to which a time column of another type may be cast."""
    if kind == "date":
        return ("TIMESTAMP",)
    return ("TIMESTAMP", "BIGINT") if kind == "string" else ("BIGINT",)


def _directory(given: Mapping[str, str]) -> Path:
    place = given.get("log", given.get("path"))
    if not place:
        raise _wrong("say where to write: .option('log', DIRECTORY)")
    try:
        return Path(local_path(place)).absolute()
    except ValueError as error:
        raise _wrong(f"log: {error}") from None


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise _wrong(f"{name} is a number from 0 on, not {text!r}")
    return int(text)


def quoted(column: str) -> str:
    """Return the name of a column, quoted for SQL.

    >>> quoted("the.stream")
    '`the.stream`'
    """
    return f"`{column.replace('`', '``')}`"


def in_sql(column: str) -> str:
    """Return the name of a column as advice shows it: quoted only if SQL needs that.

    >>> in_sql("at"), in_sql("the time")
    ('at', '`the time`')
    """
    return column if re.fullmatch("[A-Za-z_]\\w*", column) else quoted(column)


def listed(names: Iterable[str]) -> str:
    """Return a list as text; names may contain commas."""
    return json.dumps(list(names))


def _listed(text: str) -> tuple[str, ...]:
    """Return the names in a text: separated by commas, or a JSON list."""
    if text.startswith("["):
        with suppress(ValueError):
            return tuple(map(str, json.loads(text)))
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _wrong(problem: str) -> UsageError:
    return UsageError(message=f'format("dgs"): {problem}')
