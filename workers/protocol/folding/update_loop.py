"""The loop around a scalar `update`: the only place where single events exist while a program runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgs.model import columns
from dgs.model.events import Event, EventBatch
from dgs.model.outputs import ColumnEmit, OutputBatch
from dgs.model.program import State, Update
from dgs.model.user_code import States, UserCode
from dgs.workers.protocol.bounds import BOUNDS, Bounds, Clock, no_time
from dgs.workers.protocol.releases import Release, Rows

ONE_EACH = list(range(1, BOUNDS.events_at_once + 1))
"""The counts after events that emit one output each. This is the common dense case, and it needs no list of rows."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Events to come, one at a time.

    The length hint of `left` is the number of events still to come. It tells emit which event is being processed, at no cost
    per event. When the user's code raises, `find` gives the event of a number again, as a batch of one.
    """

    events: Iterator[Event]
    left: Any
    count: int
    find: Callable[[int], EventBatch]

    @classmethod
    def of(cls, batch: EventBatch) -> Feed:
        """Return the events of one batch."""
        events, left = batch.stream_of_events()
        return cls(events, left, len(batch), lambda row: batch.cut(row, row + 1))

    @property
    def current(self) -> int:
        """The number of the event that is being processed."""
        return self.count - 1 - int(self.left.__length_hint__())


class ScalarLoop:
    """Folds a user's `update` event by event. Law: equal to calling it on each event in OrderKey order. `events`: how many so far.

    `seconds`: what the `timed` ones among them took, which came more than `few_events` at a time, by the clock.
    """

    def __init__(
        self, code: UserCode, update: Update, bounds: Bounds = BOUNDS, clock: Clock = no_time
    ) -> None:
        self._code, self._bounds, self._clock = code, bounds, clock
        self._update = update
        self._states = States(code.program)
        self._has_columns = code.program.emits_columns
        self._is_dense = False
        self.events = self.timed = 0
        self.seconds = 0.0

    def fold(
        self, state: State, feed: Feed, update: Update | None = None
    ) -> tuple[State, columns.Column, Rows | None]:
        """Return the state, the column of values emitted, and the event number of each value (None: each event emitted one value).

        `update` stands in for the user's own. Raises UserCodeError if the user's code raises.
        """
        began = self._clock()
        values: Any = ColumnEmit() if self._has_columns else []
        loop = _with_columns if self._has_columns else _counting if self._is_dense else _noting
        state, rows = self._code.call(
            self._culprit,
            loop,
            state,
            feed,
            update or self._update,
            values,
            self._states.check_none if state is not None else _allow,
            at=lambda: feed.find(feed.current),
        )
        self._is_dense = len(values) * self._bounds.dense > feed.count
        self.events += feed.count
        if feed.count > self._bounds.few_events:
            self.timed += feed.count
            self.seconds += self._clock() - began
        return state, values.joined() if self._has_columns else values, rows

    def fold_one(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        """Return the state after a batch of one event; add its outputs. Common where workers synchronise at every event."""
        values: Any = ColumnEmit() if self._has_columns else []
        emit = values if self._has_columns else values.append
        event = next(batch.stream_of_events()[0])
        before, state = state, self._code.call("update", self._update, state, event, emit, at=batch)
        if state is None and before is not None:
            self._code.call("update", self._states.check_none, at=batch)
        self.events += 1
        if len(values):
            rows = np.zeros(len(values), dtype=np.intp) if len(values) > 1 else None
            outputs.append(OutputBatch.of_rows(batch, values.joined() if self._has_columns else values, rows))
        return state

    def fold_batch(self, state: State, batch: EventBatch, outputs: list[OutputBatch]) -> State:
        """Return the state after a batch; add its outputs."""
        most = self._bounds.events_at_once
        for start in range(0, len(batch), most):
            part = batch if len(batch) <= most else batch.cut(start, min(len(batch), start + most))
            state, values, rows = self.fold(state, Feed.of(part))
            if columns.length(values):
                outputs.append(OutputBatch.of_rows(part, values, rows))
        return state

    def fold_merged(self, state: State, release: Release, outputs: list[OutputBatch]) -> State:
        """Return the state after a release of several lanes merged by OrderKey; add its outputs."""
        _, part, row = release.merge_order()
        for start in range(0, len(part), self._bounds.events_at_once):
            some = slice(start, start + self._bounds.events_at_once)
            state = self._fold_mixed(state, release.batches, part[some], row[some], outputs)
        return state

    def _fold_mixed(
        self, state: State, batches: list[EventBatch], part: Rows, row: Rows, outputs: list[OutputBatch]
    ) -> State:
        """Fold events of several batches: event i is row `row[i]` of batch `part[i]`. The rows of a batch are in order."""
        first: dict[int, int] = {}
        cuts: dict[int, EventBatch] = {}
        for number in np.flatnonzero(np.bincount(part)).tolist():
            mine = row[part == number]
            first[number] = int(mine[0])
            cuts[number] = batches[number].cut(first[number], int(mine[-1]) + 1)
        streams = {number: cut.stream_of_events()[0] for number, cut in cuts.items()}
        left = iter(part.tolist())
        feed = Feed(
            map(next, map(streams.__getitem__, left)),
            left,
            len(part),
            lambda i: batches[int(part[i])].cut(int(row[i]), int(row[i]) + 1),
        )
        state, values, rows = self.fold(state, feed)
        emitted = np.arange(len(part)) if rows is None else rows
        emitting = part[emitted]
        for number in np.flatnonzero(np.bincount(emitting)).tolist():
            mine = np.flatnonzero(emitting == number)
            own = row[emitted[mine]] - first[number]
            some = values if len(mine) == len(emitting) else columns.take(values, mine)
            outputs.append(OutputBatch.of_rows(cuts[number], some, own))
        return state

    def _culprit(self, error: BaseException) -> str:
        """Return which of the user's functions raised: the first one in the traceback, since the loop takes no notes."""
        join, update = (getattr(one, "__code__", None) for one in (self._code.program.join, self._update))
        codes = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
        first = next((code for code in codes if code in (join, update)), update)
        return "update" if first is update else "join"


def _allow() -> None:
    """Accept None as a state. The state before was also None, such as a side of a fork."""


def _noting(
    state: State, feed: Feed, update: Update, values: list[Any], check_none: Callable[[], None]
) -> tuple[State, Rows]:
    """Fold, and note with every output how many events are still to come. Events that emit nothing cost nothing extra."""
    left: list[int] = []
    add, note, still_left = values.append, left.append, feed.left.__length_hint__

    def emit(value: Any) -> None:
        add(value)
        note(still_left())

    for event in feed.events:
        state = update(state, event, emit)
        if state is None:
            check_none()
    return state, feed.count - 1 - np.array(left, dtype=np.intp)


def _with_columns(
    state: State, feed: Feed, update: Update, emit: ColumnEmit, check_none: Callable[[], None]
) -> tuple[State, Rows]:
    """Fold for a program that emits columns, and count the outputs after every event."""
    counts: list[int] = []
    for event in feed.events:
        state = update(state, event, emit)
        if state is None:
            check_none()
        counts.append(len(emit))
    return state, np.repeat(np.arange(feed.count), np.diff(counts, prepend=0))


def _counting(
    state: State, feed: Feed, update: Update, values: list[Any], check_none: Callable[[], None]
) -> tuple[State, Rows | None]:
    """Fold, and count the outputs after every event: `emit` costs no more than in a plain loop."""
    counts: list[int] = []
    emit = values.append
    for event in feed.events:
        state = update(state, event, emit)
        if state is None:
            check_none()
        counts.append(len(values))
    if counts == ONE_EACH[: feed.count]:
        return state, None
    return state, np.repeat(np.arange(feed.count), np.diff(counts, prepend=0))
