"""Figures as lines of text, and back, and the bounded file of them in the run directory.

A line is one JSON object. The first one has the version and the names of the columns.

A worker, stream, sink or pair is an array, in the order of the columns. Later versions may add columns and keys: an unknown one is left
out, a missing one has its default.

>>> head = read_head(head_line())
>>> figures = RunFigures(t=12.5, workers={"w0": WorkerFigures(0, events=3, waits_for=Wait("stream", "rules", 7, 11.0))})
>>> read_line(line_of(figures), head) == figures
True
>>> read_line('{"t": 12.5, "workers": {"w0": [0, 3', head) is None     # torn
True

A full `figures.ndjson` becomes `figures.1.ndjson`, and the previous `figures.1.ndjson` is thinned into `figures.old.ndjson`. So at least
the last half hour is kept in full (less if lines are long). Of the time before, at most one line of ten is kept, and at most 1 MB an hour.
When `figures.old.ndjson` is full, every second line of it is removed.

Law: a failed write ends the writing, with one warning, and never the run.

>>> import tempfile
>>> place = Path(tempfile.mkdtemp())
>>> file = FiguresFile(place, warn=print)
>>> file.add(RunFigures(t=1.0, events=5))
>>> [path.name for path in files_of(place)], len((place / CURRENT).read_text().splitlines())
(['figures.ndjson'], 2)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from dgs.errors.hidden_values import masked
from dgs.job import private_files
from dgs.workers.observing.figures import (
    VERSION,
    CheckpointFigures,
    Generation,
    HostSummary,
    Move,
    PairFigures,
    RunFigures,
    SinkFigures,
    StreamFigures,
    Wait,
    WorkerFigures,
)

KIND = "dgs figures"

ROWS: Mapping[str, type] = {
    "hosts": HostSummary,
    "workers": WorkerFigures,
    "streams": StreamFigures,
    "sinks": SinkFigures,
    "pairs": PairFigures,
}
"""The tables of a line: one row for each host, worker and so on."""

LISTS: Mapping[str, type] = {"generations": Generation, "moves": Move}
"""The lists of a line."""

PARTS: Mapping[str, type] = {"checkpoints": CheckpointFigures}
"""The objects of a line."""

LARGEST = 1 << 64
"""No figure is larger."""

Head = Mapping[str, Any]
"""The first line of a file."""


@cache
def columns_of(kind: type) -> tuple[str, ...]:
    """Return the names of the columns of a kind of row."""
    return tuple(field.name for field in fields(kind))


def head_line() -> str:
    """Return the first line of a file of figures."""
    columns = {name: columns_of(kind) for name, kind in {**ROWS, **LISTS, "waits_for": Wait}.items()}
    return _text({"kind": KIND, "version": VERSION, "columns": columns})


def line_of(figures: RunFigures) -> str:
    """Return figures as one line, without its end. What has its default is left out."""
    empty = RunFigures()
    found: dict[str, Any] = {}
    for name in columns_of(RunFigures):
        value = getattr(figures, name)
        if name == "t" or value != getattr(empty, name):
            found[name] = _plain(name, value)
    return _text(found)


def _plain(name: str, value: Any) -> Any:
    if name in ROWS:
        return {str(key): _row(row) for key, row in value.items()}
    if name in LISTS:
        return [_row(row) for row in value]
    if name in PARTS:
        return dict(zip(columns_of(PARTS[name]), _row(value), strict=True))
    return _rounded(value)


def _row(value: Any) -> list[Any]:
    """Return the values of a row in the order of its columns."""
    return [
        _row(one) if isinstance(one, Wait) else _rounded(one)
        for one in (getattr(value, field.name) for field in fields(value))
    ]


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def _text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"))


def read_head(line: str) -> Head | None:
    """Return the first line of a file of figures, of any version; None if the line is something else."""
    found = _object(line)
    return found if found is not None and found.get("kind") == KIND else None


def read_line(line: str, head: Head) -> RunFigures | None:
    """Return the figures of a line, None if it is torn or a value does not have the type of its field."""
    found = _object(line)
    if found is None or "t" not in found:
        return None
    try:
        figures: RunFigures = _made(
            RunFigures, {name: _read(name, found[name], head) for name in _known(found)}
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return figures


def _made(kind: type, values: Mapping[str, Any]) -> Any:
    types = _types_of(kind)
    if all(type(value) in types[name] and _is_sane(value) for name, value in values.items()):
        return kind(**values)
    raise TypeError(kind)


def _is_sane(value: Any) -> bool:
    """Return whether a value is in the range of figures, if it is a number."""
    return not isinstance(value, (int, float)) or -LARGEST <= value <= LARGEST


@cache
def _types_of(kind: type) -> Mapping[str, frozenset[type]]:
    """Return the types that the values of each column may have."""
    return {name: _types(hint) for name, hint in get_type_hints(kind).items()}


def _types(hint: Any) -> frozenset[type]:
    """Return the types of the values that a type hint admits.

    >>> sorted(kind.__name__ for kind in _types(float | None))
    ['NoneType', 'float', 'int']
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return frozenset(map(type, parts))
    if origin is UnionType:
        return frozenset[type]().union(*map(_types, parts))
    return frozenset({float: (float, int), Mapping: (dict,)}.get(origin or hint, (origin or hint,)))


def _known(found: Mapping[str, Any]) -> list[str]:
    return [name for name in columns_of(RunFigures) if name in found]


def _read(name: str, value: Any, head: Head) -> Any:
    if name in ROWS:
        keys = int if name == "hosts" else str
        columns = head["columns"][name]
        return {keys(key): _read_row(ROWS[name], row, columns, head) for key, row in value.items()}
    if name in LISTS:
        return tuple(_read_row(LISTS[name], row, head["columns"][name], head) for row in value)
    if name in PARTS:
        return _made(
            PARTS[name], {one: part for one, part in value.items() if one in columns_of(PARTS[name])}
        )
    return tuple(value) if isinstance(value, list) else value


def _read_row(kind: type, row: list[Any], columns: list[str], head: Head) -> Any:
    known = columns_of(kind)
    values = {name: value for name, value in zip(columns, row, strict=False) if name in known}
    if values.get("waits_for") is not None:
        values["waits_for"] = _read_row(Wait, values["waits_for"], head["columns"]["waits_for"], head)
    return _made(kind, values)


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line, parse_constant=int)  # `int` refuses NaN and Infinity
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def named(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of this version with names in the place of columns, for people and scripts.

    >>> line = json.loads(line_of(RunFigures(pairs={"0>1": PairFigures(2, 30)})))
    >>> named(line)["pairs"]
    {'0>1': {'frames': 2, 'bytes': 30}}
    """
    found = dict(line)
    for name in ROWS.keys() & line.keys():
        found[name] = {key: _named_row(ROWS[name], row) for key, row in line[name].items()}
    for name in LISTS.keys() & line.keys():
        found[name] = [_named_row(LISTS[name], row) for row in line[name]]
    return found


def _named_row(kind: type, row: list[Any]) -> dict[str, Any]:
    found = dict(zip(columns_of(kind), row, strict=True))
    if found.get("waits_for") is not None:
        found["waits_for"] = _named_row(Wait, found["waits_for"])
    return found


CURRENT, PREVIOUS, OLD = "figures.ndjson", "figures.1.ndjson", "figures.old.ndjson"

MOST_SECONDS = 1800.0
"""The time that one file covers."""

MOST_BYTES = 16 << 20
"""The size at which a file is full although it covers a shorter time."""

OLD_BYTES_AN_HOUR = 1 << 20
"""The bytes that an hour of thinned lines may take."""

LEAST_STEP = 10
"""At most one line of so many is kept when a file is thinned."""

MOST_OLD_BYTES = 32 << 20
"""The size at which thinned lines are thinned again."""


def files_of(directory: Path) -> list[Path]:
    """Return the files of figures in a run directory, the oldest first."""
    return [path for name in (OLD, PREVIOUS, CURRENT) if (path := directory / name).is_file()]


class FiguresFile:
    """Appends figures to the file of a run. `warn` gets a sentence when the writing ends because of an error."""

    def __init__(self, directory: Path, *, warn: Callable[[str], None]) -> None:
        self._directory, self._warn = directory, warn
        self._size, self._began, self._is_off = 0, 0.0, False

    def add(self, figures: RunFigures) -> None:
        """Append figures."""
        if self._is_off:
            return
        try:
            self._add(figures)
        except OSError as error:
            self._is_off = True
            problem = error.strerror or str(error)
            self._warn(f"figures of the run are not written any more, since {problem}: the run goes on")

    def _add(self, figures: RunFigures) -> None:
        path = self._directory / CURRENT
        if self._size == 0 and path.exists():  # written by an earlier process of this run
            _thin(self._directory)
        if self._size > MOST_BYTES or (self._size and figures.t - self._began > MOST_SECONDS):
            _thin(self._directory)
            self._size = 0
        text = f"{masked(line_of(figures))}\n"
        if self._size == 0:
            text, self._began = f"{head_line()}\n{text}", figures.t
        with open(path, "a", encoding="utf-8", opener=private_files.opener) as file:
            file.write(text)
        self._size += len(text)


def _thin(directory: Path) -> None:
    """Rename the current file to the previous one, and move some lines of the previous one to the old one."""
    current, previous, old = directory / CURRENT, directory / PREVIOUS, directory / OLD
    if previous.exists():
        first, *lines = _lines(previous)
        kept = lines[:: _step(lines)]
        before = _lines(old) if old.exists() else []
        # lines of another version stay in files of their own only as long as these are new
        if before[:1] != [first]:
            before = [first]
        if sum(map(len, before)) + sum(map(len, kept)) > MOST_OLD_BYTES:
            before = [first, *before[1::2]]
        draft = old.with_name(f"{OLD}.draft")
        with open(draft, "w", encoding="utf-8", opener=private_files.opener) as file:
            file.writelines([*before, *kept])
        draft.replace(old)
    current.replace(previous)


def _lines(path: Path) -> list[str]:
    with open(path, encoding="utf-8", opener=private_files.opener) as file:
        lines = file.readlines()
    if lines and not lines[-1].endswith("\n"):
        lines.pop()  # torn
    return lines or [f"{head_line()}\n"]


def _step(lines: list[str]) -> int:
    """Return n: of n lines one is kept, so that the file grows by at most OLD_BYTES_AN_HOUR."""
    size, seconds = sum(map(len, lines)), 0.0
    with suppress(ValueError, KeyError, IndexError):
        seconds = json.loads(lines[-1])["t"] - json.loads(lines[0])["t"]
    allowed = OLD_BYTES_AN_HOUR * max(seconds, 1.0) / 3600
    return max(LEAST_STEP, -(-size // max(int(allowed), 1)))
