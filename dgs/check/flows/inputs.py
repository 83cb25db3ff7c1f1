"""Small inputs of a flow: some rows of each stream, in order of ts, with few values and many ties."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from dgs.check.drawing.strategies import strategy_for
from dgs.check.options import Options
from dgs.errors import UsageError
from dgs.flow.clock import Every
from dgs.flow.definition import Flow

BLOCKS, MOST = 3, 7
"""The blocks of an input, and the most rows of a stream."""
VALUES = 40
"""The number of values of a stream to draw rows from."""

Rows = Mapping[str, Sequence[tuple[int, Any]]]


def inputs_of(
    flow: Flow, options: Options, rows: Rows | None, number: int
) -> dict[str, list[tuple[int, Any]]]:
    """Return an input; a higher `number` gives more rows. Raises UsageError if the values of a stream are unknown."""
    rnd = random.Random(f"{options.seed}:{number}")  # noqa: S311 - reproducible
    count = 2 + number % (MOST - 1)
    return {
        name: _some(rnd, rows[name], count)
        if rows is not None and name in rows
        else _drawn(rnd, _values(flow, name, options), count, flow.clock)
        for name in flow.streams
    }


def _some(rnd: random.Random, rows: Sequence[tuple[int, Any]], count: int) -> list[tuple[int, Any]]:
    """Return some of the rows: in half of the cases consecutive ones."""
    if not rows:
        return []
    if rnd.random() < 1 / 2:
        first = rnd.randrange(len(rows))
        return list(rows[first : first + count])
    return [rows[place] for place in sorted(rnd.sample(range(len(rows)), min(count, len(rows))))]


def _drawn(rnd: random.Random, values: Sequence[Any], count: int, clock: Any) -> list[tuple[int, Any]]:
    period, origin = (clock.ticks, clock.origin) if isinstance(clock, Every) else (10, 0)
    few = rnd.sample(range(origin, origin + BLOCKS * period), min(3, BLOCKS * period))
    return [(ts, rnd.choice(values)) for ts in sorted(rnd.choices(few, k=count))]


def _values(flow: Flow, name: str, options: Options) -> Sequence[Any]:
    given = options.strategies.get(name)
    if isinstance(given, (list, tuple)):
        return given
    kind = flow.streams[name] if given is None else given
    if kind is Any:
        typed = f"{name}: str" if flow.inlet == Flow.inlet else f"from_stream({name!r}, gives=str)"
        message = (
            f"nothing says which values stream {name!r} of flow {flow.name!r} has: check its plan file, give the {flow.inlet} a type "
            f"(`{typed}`), or values: strategies={{{name!r}: [...]}}"
        )
        raise UsageError(message=message)
    return _of_kind(kind)


@lru_cache
def _of_kind(kind: Any) -> Sequence[Any]:
    """Return simple values of a type, always the same."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    found: list[Any] = []

    @seed(0)
    @settings(
        max_examples=VALUES, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
    )
    @given(kind if isinstance(kind, st.SearchStrategy) else strategy_for(kind))
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found
