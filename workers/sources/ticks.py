"""Ticks: a stream of events that tell how far all other streams have been read, to close windows and blocks. It has no rows.

A tick comes at multiples of a period, as `source: {ticks: {every: ...}}` says. The frontiers of the other streams decide which multiples
come: always the greatest that they all have passed, and at the end one tick above all times. So ticks cost little, whatever the period. A
program in which a tick only closes what ends at or before it has the same outputs with any such ticks.

>>> from dgs.model.tags import Tag
>>> ticks = Ticks("ticks", 0, [Tag("tick")], Period(10))
>>> ticks.follow(OrderKey(47, 1, 0))
>>> reading = ticks.read()
>>> reading.batches[0].ts.tolist(), reading.frontier.ts, ticks.wait
([40], 50, inf)
>>> ticks.follow(END)
>>> reading = ticks.read()
>>> reading.batches[0].ts.tolist() == [LAST], reading.frontier == END
(True, True)
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dgs.errors import InternalError, PlanFileError
from dgs.job.schema import StreamConfig
from dgs.job.stream_tags import declared_tags
from dgs.job.units import NANOSECONDS, TimeUnit, parse_duration
from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, MAX_TS, MIN_TS, OrderKey
from dgs.model.tags import Tag
from dgs.workers.protocol.edges import Period
from dgs.workers.recovery.positions import Positions
from dgs.workers.sources.contract import Counted, Reading, SourceContext
from dgs.workers.sources.description import check
from dgs.workers.sources.rows import Arrivals

LAST = MAX_TS - 2
"""The ts of the last tick, which comes when all other streams have ended."""

AT_ONCE = 4096
"""The most ticks of one reading, where none may be left out."""


MOST = 64
"""About twice the most ticks that `some_ticks` gives, unless none may be left out."""


class Ticks:
    """An EventSource of ticks, each an event for every tag. `follow` tells it how far the other streams have been read.

    `start`: from this ts on, no multiple up to the greatest ts of the other streams is left out.
    """

    drops = 0

    def __init__(
        self, stream: str, rank: int, tags: Sequence[Tag], period: Period | None, *, start: int | None = None
    ) -> None:
        self.stream = stream
        self.leaves_none_out = start is not None
        self._rank, self._tags, self._period = rank, tuple(tags), period
        # the least ts of the next tick
        self._next = MIN_TS + 1 if start is None or period is None else period.not_below(start)
        self._frontier = BEGIN
        self._low, self._latest = BEGIN, MIN_TS
        self._owed: list[int] = []
        self._rows = 0
        self._behind = BEGIN  # the key after the latest tick, not counting LAST
        self._ended = False

    @property
    def wait(self) -> float:
        """0 if there is a tick or news of the frontier, else infinity: only progress of other streams brings a tick."""
        return 0.0 if self._is_due() else math.inf

    @property
    def counted(self) -> Counted:
        """Its progress so far."""
        return Counted(self._rows, share=1.0)  # ticks follow the other streams

    @property
    def description(self) -> Mapping[str, Any]:
        """The description for a checkpoint. The last tick is not below `end`: a resumed run gives it again, after new rows."""
        period = self._period
        return {
            "kind": "ticks",
            "every": None if period is None else period.every,
            "origin": None if period is None else period.origin,
            "rows": self._rows,
            "end": self._behind if self._ended else None,
        }

    def resume(self, before: Mapping[str, Any]) -> None:
        """Go on from a checkpoint. Raises SourceChangedError."""
        check(self.stream, before, self.description)
        self._rows = before["rows"]

    def skip_to(self, base: OrderKey) -> None:
        """Leave out the ticks below a key. If only some tags of a tick are below it, the tick comes again for all."""
        self._behind = base
        done = base.ts + (base.seq >= len(self._tags))
        self._next = max(self._next, done)

    def owe(self, committed: Positions) -> None:
        """Give the last ticks with committed outputs again, so that the outputs of ticks up to there are the same."""
        keys = {part.key for layer in committed.streams.get(self.stream, ()) for part in layer.parts}
        every = 0 if self._period is None else self._period.every
        last = (key.ts if key.seq else key.ts - every for key in keys if BEGIN < key < END)
        self._owed = sorted({ts for ts in last if self._next <= ts < LAST})

    def follow(self, low: OrderKey, latest: int = MIN_TS) -> None:
        """Note that the other streams have been read up to `low`. `latest`: the greatest ts of their events so far."""
        self._low = max(self._low, low)
        self._latest = max(self._latest, latest)

    def read(self) -> Reading:
        """Return the ticks that are due, and the frontier: the next multiple, END behind the last tick."""
        if self._ended:
            raise InternalError(problem=f"source {self.stream!r} was read after its end")
        times = self._times()
        if times:
            self._next = times[-1] + 1
            self._behind = OrderKey(times[-1], self._rank, len(self._tags))
        to_come = LAST if self._period is None else min(self._period.not_below(self._next), LAST)
        self._frontier = max(self._frontier, OrderKey(to_come, self._rank, 0))
        if self._low >= END and not self._times():
            self._ended, self._frontier = True, END
            times += [LAST] if self._next <= LAST else []
        self._rows += len(times) * len(self._tags)
        return Reading((self.at(times),) if times else (), self._frontier)

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _is_due(self) -> bool:
        if self._ended:
            return False
        says_where_it_starts = (self.leaves_none_out or self._period is None) and self._frontier == BEGIN
        return says_where_it_starts or self._low >= END or bool(self._times())

    def _times(self) -> list[int]:
        """Return the multiples that are due, without the last tick."""
        if self._period is None:
            return []
        has_ended = self._low >= END
        if self.leaves_none_out:
            top = self._latest if has_ended else self._low.ts
            due = range(self._period.not_below(self._next), min(top, LAST - 1) + 1, self._period.every)
            return list(due[:AT_ONCE])
        top = LAST - 1 if has_ended else self._period.not_above(self._low.ts)
        owed = [ts for ts in self._owed if self._next <= ts <= top]
        is_new = not has_ended and self._next <= top < LAST and top not in owed
        return [*owed, *([top] if is_new else [])]

    def at(self, times: Sequence[int]) -> EventBatch:
        """Return the events of ticks: at each time one for every tag, numbered by its place among the tags."""
        tags, numbers = len(self._tags), np.arange(len(self._tags))
        return EventBatch.of(
            self.stream,
            rank=self._rank,
            tags=self._tags,
            ts=np.repeat(np.array(times, dtype=np.int64), tags),
            seq=np.tile(numbers, len(times)),
            codes=None if tags == 1 else np.tile(numbers, len(times)),
        )


def open_ticks(
    config: StreamConfig, context: SourceContext, *, rank: int, follows: bool, latest: int = MIN_TS
) -> Ticks:
    """Open a section `ticks`. Unless it `follows` other streams, they have ended, with events up to `latest`. Raises PlanFileError."""
    details = config.source.details
    ticks = Ticks(
        config.id, rank, tick_tags(config, context), period(config, context.unit), start=details.start
    )
    if not follows:
        ticks.follow(END, latest)
    return ticks


def some_ticks(
    config: StreamConfig, context: SourceContext, *, rank: int, streams: Iterable[EventBatch]
) -> EventBatch:
    """Return ticks that a run over these streams might have: some multiples, and the last one."""
    ticks = open_ticks(config, context, rank=rank, follows=True)
    every = period(config, context.unit)
    filled = [batch for batch in streams if len(batch)]
    if every is None or not filled:
        return ticks.at([LAST])
    first = every.not_below(min(int(batch.ts[0]) for batch in filled))
    last = max(int(batch.ts[-1]) for batch in filled)
    before = range(first, last + 1, every.every)
    rnd = random.Random(last)  # noqa: S311 - reproducible
    few = before if ticks.leaves_none_out else rnd.sample(before, min(len(before), MOST) // 2)
    return ticks.at([*sorted(few), LAST])


def tick_tags(config: StreamConfig, context: SourceContext) -> list[Tag]:
    """Return the tags of each tick, always in the same order. Raises PlanFileError if they are not a finite set."""
    tags = declared_tags(config, context.program)
    if not tags.is_finite:
        problem = "each tick is an event of every tag, so the keys of its kind must be a finite set"
        raise PlanFileError(where=f"stream {config.id!r}, tags", problem=problem)
    return sorted(tags.tags(), key=repr)


def period(config: StreamConfig, unit: TimeUnit) -> Period | None:
    """Return the period of a section `ticks` in units of ts, None for only the last tick. Raises PlanFileError if it is no whole number of them."""
    details = config.source.details
    if details.every is None:
        return None
    if isinstance(details.every, int):
        return Period(details.every, details.origin)
    nanoseconds = parse_duration(details.every)
    if unit == "none" or nanoseconds % NANOSECONDS[unit] or not nanoseconds:
        advice = "say `time: {unit: ...}`" if unit == "none" else f"it is no multiple of 1 {unit}"
        problem = (
            f"`every: {details.every}` needs the unit of ts: {advice}, or give it as a number in that unit"
        )
        raise PlanFileError(where=f"stream {config.id!r}", problem=problem)
    return Period(nanoseconds // NANOSECONDS[unit], details.origin)


def sample(config: StreamConfig, context: SourceContext) -> Arrivals:
    """Return two ticks, which show the planner their tags and their rate."""
    tags, every = tick_tags(config, context), (period(config, context.unit) or Period(LAST)).every
    times, codes = np.repeat(np.array([0, every]), len(tags)), np.tile(np.arange(len(tags)), 2)
    return Arrivals(0, times, tuple(tags), codes.astype(np.int32))
