"""Small inputs of a script: rows of few values, with nulls, ties and repeated rows, and with values around the script's constants."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Mapping
from typing import Any

from dgs.query.errors import QueryError
from dgs.query.meanings.time_meanings import micros_later, time_of
from dgs.query.relation import Script, Source, walk
from dgs.query.rewrite.rule_language import scalars_of
from dgs.query.rewrite.scalar_questions import constants_of
from dgs.query.scalar import Row
from dgs.query.types import Type, conform

Tables = Mapping[str, tuple[Row, ...]]

MOST_ROWS = 5
"""The most rows of a table, before repeated ones."""

BASE: dict[str, tuple[Any, ...]] = {
    "int64": (0, 1, 2, -1),
    "float64": (0.0, 1.0, -0.5, 2.0),
    "bool": (False, True),
    "text": ("a", "b", ""),
    "time": tuple(
        map(time_of, ("2024-01-01", "2024-01-01 00:00:07", "2024-02-29 13:30:00", "1969-12-31 23:59:59"))
    ),
    "null": (None,),
}
"""The values of each type, the simplest first."""


class SmallTables:
    """Draws inputs of a script, and simplifies them."""

    def __init__(self, *scripts: Script) -> None:
        self._sources = scripts[0].sources()
        constants = {value: None for script in scripts for value in _constants(script)}
        self._values = {kind: (*base, *_near(kind, constants, base)) for kind, base in BASE.items()}

    def draw(self, rnd: random.Random, number: int) -> Tables:
        """Return an input; a higher `number` gives more rows."""
        most = 1 + number % MOST_ROWS
        return {
            name: tuple(self._rows(source, rnd, most))
            for name, source in self._sources.items()
            if source.rows is None
        }

    def _rows(self, source: Source, rnd: random.Random, most: int) -> Iterator[Row]:
        for _ in range(rnd.randint(0, most)):
            row = tuple([self._value(one, rnd) for one in source.columns.types])
            yield from [row] * rnd.choice((1, 1, 1, 2))

    def _value(self, of: Type, rnd: random.Random) -> Any:
        if of.nullable and rnd.random() < 1 / 6:
            return None
        if of.kind == "record":
            return tuple([self._value(one, rnd) for _, one in of.fields])
        if of.of is not None:
            items = [self._value(of.of, rnd) for _ in range(rnd.randint(0, 3))]
            return conform(items, of)
        return rnd.choice(self._values[of.kind])

    def simpler(self, tables: Tables) -> Iterator[Tables]:
        """Yield slightly simpler inputs: with a row less, or with a simpler value of the same type."""
        for name, rows in tables.items():
            for place in range(len(rows)):
                yield {**tables, name: (*rows[:place], *rows[place + 1 :])}
        for name, rows in tables.items():
            for place, row in enumerate(rows):
                for at, value in enumerate(row):
                    for other in self._before(value, self._sources[name].columns.types[at]):
                        changed = (*row[:at], other, *row[at + 1 :])
                        yield {**tables, name: (*rows[:place], changed, *rows[place + 1 :])}

    def _before(self, value: Any, of: Type) -> tuple[Any, ...]:
        if of.of is not None:
            return tuple(value[:place] + value[place + 1 :] for place in range(len(value or ())))
        known = self._values.get(of.kind, ())
        return known[: known.index(value)] if value in known else known[:1]


def _near(kind: str, constants: Mapping[Any, None], base: tuple[Any, ...]) -> list[Any]:
    if kind == "time":
        times = [at for one in constants if type(one) is str for at in _times(one)]
        return [one for one in dict.fromkeys(times) if one not in base]
    python = {"int64": int, "float64": float, "text": str}.get(kind)
    if python is None:
        return []
    numbers = [one for one in constants if type(one) in (int, float)]
    found = [python(one + step) for one in numbers for step in (0, -1, 1)] if python is not str else []
    found += [one for one in constants if type(one) is str] if python is str else []
    return [one for one in dict.fromkeys(found) if one not in base]


def _times(text: str) -> list[dt.datetime]:
    """Return the time that a constant text gives, and the times a second before and after; none for any other text."""
    try:
        return [micros_later(time_of(text), step * 10**6) for step in (0, -1, 1)]
    except QueryError:
        return []


def _constants(script: Script) -> Iterator[Any]:
    for _, output in script.outputs:
        for node in walk(output):
            for scalar in scalars_of(node):
                yield from constants_of(scalar)
