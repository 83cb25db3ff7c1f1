"""The options of `format("dgs")` where it writes an event log, as Spark hands them over: text by case-insensitive names.

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
from dgs.job.paths import local_path
from dgs.job.units import NANOSECONDS, parse_duration

STREAM_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
"""What a stream may be called, as in plan.yaml: a directory of the log has its name."""

KNOWN = frozenset(("log", "stream", "key", "streams", "ts", "order_by", "max_delay", "unit", "batch"))
"""What users give."""

OURS = frozenset(("required", "query", "errors"))
"""What `dgs` gives besides, for the query of a plan file."""

SPARKS = frozenset(("path", "checkpointlocation"))
"""What Spark gives besides: the path is that of `start(PATH)` and `save(PATH)`."""


@dataclass(frozen=True)
class LogOptions:
    """Where rows go and in which order.

    `log`: the directory. `stream`: the stream all rows belong to; or `key`: the column that says which. `streams`: those there are;
    they hear of the time though they may have no rows. Without a list there are those that rows belong to. `ts`: the column of times.
    `max_delay`: as written; `unit`: that of a column of integers. `required`: columns that may not be null. `query`: who writes, where
    it is no streaming query. `batch`: the number of the batch, where there is no micro-batch that has one. `errors`: a directory for
    what goes wrong.
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
        """Return `max_delay` in the unit of the column of times: its own, if it has one. Raises UsageError."""
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
        """Return the options after a look at the columns there are and their Spark types. Raises UsageError."""
        needed = [self.ts, *self.order_by, *self.required, *([self.key] if self.key else [])]
        for name in needed:
            if name not in types:
                raise _wrong(f"there is no column {name!r}; the columns are {', '.join(types)}")
        kind = types[self.ts]
        if kind not in TIMES:
            advice = " or ".join(f"CAST({self.ts} AS {to}) AS {self.ts}" for to in _casts(kind))
            raise _wrong(
                f"the times in column {self.ts!r} are of type {kind}, and must be integers or timestamps: "
                f"select {advice}"
            )
        return self

    def check_stream(self, name: str) -> None:
        """Look whether rows may belong to a stream that their column `key` names. Raises UsageError."""
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


_LETTERS = "it must start with a letter or _ and go on with letters, digits, '_', '.' and '-'"


def _casts(kind: str) -> tuple[str, ...]:
    """Return the types that times of another type may be cast to."""
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


def listed(names: Iterable[str]) -> str:
    """Return the text of a list, in which names may have commas."""
    return json.dumps(list(names))


def _listed(text: str) -> tuple[str, ...]:
    """Return the names of a list: those between commas, or a list in JSON."""
    if text.startswith("["):
        with suppress(ValueError):
            return tuple(map(str, json.loads(text)))
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _wrong(problem: str) -> UsageError:
    return UsageError(message=f'format("dgs"): {problem}')
