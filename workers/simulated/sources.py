"""The streams of a simulated run as one generation reads them: dealt to splits, in random readings, some silent for a while.

A source may begin anywhere at or below the base of the point. Events that are already in the state are left out (R10, positions).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, OrderKey, after_event, after_heartbeat
from dgs.workers.recovery.positions import Positions, dealt
from dgs.workers.simulated.live import BLOCK, LiveFeed, LiveStreams, Reading

__all__ = ["BLOCK", "Prepared", "Reading", "Sources", "Where"]

FOR_EVER = 2**60
"""A step that never comes, for a wait until nothing else can move."""

LONGEST_SILENCE = 300
"""The most steps for which a source is silent."""

Where = tuple[int, str]
"""A host, and a declared stream that it reads."""


class Prepared:
    """A stream as one host reads it, in prepared readings. `end`: the key after its last event."""

    wait = 0.0

    def __init__(self, readings: Iterator[Reading], end: OrderKey) -> None:
        self._left, self.end = deque(readings), end

    @property
    def has_ended(self) -> bool:
        """Whether everything has been read."""
        return not self._left

    def has_more(self) -> bool:
        """Return whether there is something to read."""
        return bool(self._left)

    def read(self) -> Reading:
        """Return the next reading."""
        return self._left.popleft()


class Sources:
    """The remaining events, by host and stream. `wanted`: the implementation streams of each. `live`: the streams that are live."""

    def __init__(
        self,
        rnd: random.Random,
        streams: Mapping[str, Sequence[EventBatch]],
        impl_streams: Callable[[str], tuple[str, ...]],
        *,
        hosts: int,
        point: Positions,
        is_odd: Callable[[], bool],
        live: LiveStreams | None = None,
        about: Mapping[str, Any] | None = None,
        object_to: Callable[[str], None] = print,
    ) -> None:
        self._random, self._streams, self._point, self._is_odd = rnd, streams, point, is_odd
        self.wanted: dict[Where, set[str]] = {}
        for stream in streams:
            for impl in impl_streams(stream):
                self.wanted.setdefault((rnd.randrange(hosts), stream), set()).add(impl)
        self._clocks = None if live is None else live.clocks
        self._live: dict[Where, LiveFeed] = {}
        self._feeds: dict[Where, Prepared | LiveFeed] = {}
        for where, wanted in self.wanted.items():
            name, splits = where[1], impl_streams(where[1])
            if live is None or name not in live.streams:
                self._feeds[where] = Prepared(self._readings(name, splits, wanted), self._end(name))
            else:
                known = (about or {}).get(name)
                feed = LiveFeed(
                    live, name, rnd, impl=splits, wanted=wanted, point=point, about=known, object_to=object_to
                )
                self._feeds[where] = self._live[where] = feed
        self._mute: dict[Where, int] = {}

    def _readings(self, stream: str, impl: tuple[str, ...], wanted: set[str]) -> Iterator[Reading]:
        """Yield the events of a stream from the point on, in readings of random size with heartbeats between, and its end."""
        rnd, point = self._random, self._point
        base = point.base(stream)
        for whole in self._streams[stream]:
            start = rnd.randint(0, whole.position_of(base))
            while start < len(whole):
                stop = min(len(whole), start + rnd.choice([1, 1, 2, 5, 1000]))
                parts = [
                    point.above(part, len(impl))
                    for part in dealt(whole.cut(start, stop), impl, wanted, block=BLOCK)
                ]
                frontier = after_event(whole.key(stop - 1))
                yield [part for part in parts if len(part)], frontier
                start = stop
                later = int(whole.ts[stop]) if stop < len(whole) else None
                if later is not None and later > int(whole.ts[stop - 1]) and rnd.random() < 0.3:  # noqa: PLR2004
                    beat = rnd.randint(int(whole.ts[stop - 1]), later - 1)
                    frontier = after_heartbeat(beat, whole.rank)
                    yield [], frontier
                if self._is_odd():
                    yield [], rnd.choice([frontier, BEGIN])  # a repeated heartbeat, or an old one
        yield [], END

    def silence_some(self, chance: float, now: int) -> None:
        """Silence some sources, for a while or until nothing else can move. `chance`: of each source."""
        rnd = self._random
        for where in self.all if chance else ():
            if rnd.random() < chance:
                is_short = rnd.random() < 0.5 or where in self._live  # noqa: PLR2004 - others can always move while these wait
                longest = rnd.randint(1, LONGEST_SILENCE)
                self._mute[where] = now + longest if is_short else FOR_EVER

    def let_speak(self) -> None:
        """Let all sources speak again, and time pass until one of the live ones may."""
        self._mute.clear()
        if self._clocks is not None and (waits := self._waits()):
            self._clocks.skip(min(waits))

    def _waits(self) -> list[float]:
        return [feed.wait for feed in self._live.values() if not feed.has_ended]

    def described(self, host: int) -> dict[str, Any]:
        """Return the descriptions of the live sources of a host, for a checkpoint."""
        return {stream: feed.about for (one, stream), feed in self._live.items() if one == host}

    @property
    def all(self) -> Sequence[Where]:
        """Return every host with every stream that it reads."""
        return list(self.wanted)

    def of_host(self, host: int) -> dict[str, tuple[str, ...]]:
        """Return the implementation streams of each stream that a host reads."""
        return {stream: tuple(sorted(impl)) for (one, stream), impl in self.wanted.items() if one == host}

    def has_more(self, where: Where, now: int) -> bool:
        """Return whether a source has something to read now."""
        return self._feeds[where].has_more() and self._mute.get(where, 0) <= now

    def next_voice(self, now: int) -> int | None:
        """Return the next step at which a silent source speaks, None if none is silent. A live one may speak at any time."""
        silent = [
            until for where, until in self._mute.items() if until > now and not self._feeds[where].has_ended
        ]
        return min([*silent, *([now + 1] if self._waits() else [])], default=None)

    def read(self, where: Where) -> Reading:
        """Return the next events of a source, and its frontier."""
        return self._feeds[where].read()

    def end(self, where: Where) -> OrderKey:
        """Return the key after the last event of a source that has been read to its end."""
        return self._feeds[where].end

    def _end(self, stream: str) -> OrderKey:
        events = [batch for batch in self._streams[stream] if len(batch)]
        return after_event(events[-1].key(len(events[-1]) - 1)) if events else BEGIN
