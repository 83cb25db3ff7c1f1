"""Clocks: they cut streams into blocks. A flow has one clock, or none: then the whole input is one block.

`every(period, origin)`: block b holds the elements with `origin + b * period <= ts < origin + (b + 1) * period`.
`on(stream)`: the events of that stream separate the blocks, by their places in the total order.

>>> seconds = every("1s")
>>> seconds.block_of(2500), seconds.end_of(2), str(seconds)
(2, 3000, 'every 1s')
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from dgs.flow.mistakes import checks_call

Duration = int | str
"""A number in the unit of the timestamps, or a text such as "500ms", "10s", "5m", "1h", "2d" where timestamps are milliseconds."""

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT = re.compile(r"\s*(\d+)\s*([a-z]+)\s*")


def ticks_of(duration: object) -> int | None:
    """Return a duration in the unit of timestamps; None if it is not a duration.

    >>> ticks_of(24), ticks_of("10s"), ticks_of("ten"), ticks_of(True)
    (24, 10000, None, None)
    """
    if isinstance(duration, int) and not isinstance(duration, bool):
        return duration
    return _ticks_of_text(duration) if isinstance(duration, str) else None


@cache  # a clock asks for each block
def _ticks_of_text(duration: str) -> int | None:
    found = _TEXT.fullmatch(duration)
    return int(found[1]) * _UNITS[found[2]] if found and found[2] in _UNITS else None


def shown(ticks: int, like: object) -> str:
    """Return a duration as text: with units if `like` has them.

    >>> shown(2500, "1s"), shown(10_000, "1s"), shown(24, 24)
    ('2500 ms', '10 s', '24')
    """
    if not isinstance(like, str):
        return str(ticks)
    unit = next(
        name for name in ("d", "h", "m", "s", "ms") if ticks % _UNITS[name] == 0 and (ticks or name == "s")
    )
    return f"{ticks // _UNITS[unit]} {unit}"


@dataclass(frozen=True, slots=True)
class Every:
    """Blocks of equal length. `start`: from this timestamp on ticks are exact: none is left out."""

    period: Duration
    origin: int = 0
    start: int | None = None

    @property
    def ticks(self) -> int:
        """The period in the unit of timestamps; 0 if it is not readable, which the checker reports."""
        return ticks_of(self.period) or 0

    @property
    def is_exact(self) -> bool:
        """Whether a tick comes at the end of every block."""
        return self.start is not None

    def block_of(self, ts: int) -> int:
        """Return the block of a timestamp."""
        return (ts - self.origin) // self.ticks

    def end_of(self, block: int) -> int:
        """Return the time of the marker that closes a block: the least timestamp after it."""
        return self.origin + (block + 1) * self.ticks

    def __str__(self) -> str:
        return f"every {self.period}"


@dataclass(frozen=True, slots=True)
class On:
    """Blocks that the events of a stream separate."""

    stream: str

    @property
    def is_exact(self) -> bool:
        """Whether a tick comes at the end of every block: always."""
        return True

    def __str__(self) -> str:
        return f"on {self.stream}"


Clock = Every | On


@checks_call
def every(period: Duration, origin: int = 0, start: int | None = None) -> Every:
    """Return a clock of blocks of equal length; `start` asks for exact ticks from that timestamp on."""
    return Every(period, origin, start)


@checks_call
def on(stream: str) -> On:
    """Return a clock whose markers are the events of a stream, named as the parameter of the flow."""
    return On(stream)
