"""Programs with one mistake each that shows only at a number or a text in their own code, or with certain columns.

>>> WRONG["alarms_of_the_left"].laws
('C2', 'C1')
"""

from __future__ import annotations

import datetime as dt

import numpy as np

from dgs.keyed import KeyedState
from dgs.model import columns
from dgs.model.dependence import SAME_KEY, Dependence
from dgs.model.events import Event
from dgs.model.program import Program
from dgs.model.tags import kind
from dgs.vectorised import by_kind, one_by_one
from tests.gallery.wrong import BARRIER, INC, PUT, VALUE, Window, breaks
from tests.gallery.wrong_streams import WRONG

__all__ = ["WRONG"]

TEMPERATURE, ASK = kind("temperature", key=int), kind("ask", key=int)


@breaks("alarms_of_the_left", "C2", "C1")
class AlarmsOfTheLeft(Program):
    """An alarm that goes on above one number and off below another; join forgets the alarms of the right side."""

    depends = Dependence((TEMPERATURE, TEMPERATURE, SAME_KEY), (TEMPERATURE, ASK, SAME_KEY))
    HIGH, LOW = 80, 60

    def init(self):
        return set()

    def update(self, state, event: Event[int], emit):
        sensor = event.tag.key
        if event.tag.kind == ASK:
            emit((sensor, sensor in state))
        elif event.payload > self.HIGH:
            state.add(sensor)
        elif event.payload < self.LOW:
            state.discard(sensor)
        return state

    def fork(self, state, left, right):
        theirs = {one for one in state if TEMPERATURE(one) in right or ASK(one) in right}
        return {one for one in state if one not in theirs or ASK(one) in left}, theirs

    def join(self, left, right):
        return left


@breaks("capped_points", "accumulation", "C3")
class CappedPoints(Window):
    """At most a hundred points, and points may be removed."""

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == BARRIER:
            emit(state)
            return 0
        return min(100, state + event.payload)


@breaks("reset_accumulates", "accumulation", "C3")
class ResetAccumulates(Window):
    """Three actions, by name, one of which does not add."""

    def update(self, state, event: Event[str], emit):
        if event.tag.kind == BARRIER:
            emit(state)
            return 0
        match event.payload:
            case "buy":
                return state + 1
            case "sell":
                return state - 1
            case "reset":
                return 0
        return state


@breaks("buckets_of_keys", "C3")
class BucketsOfKeys(Program):
    """Keys share sixteen buckets, but are declared independent."""

    depends = Dependence((INC, INC, SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event: Event[int], emit):
        bucket = event.tag.key % 16
        emit((event.tag.key, state.get(bucket, 0)))
        return {**state, bucket: event.payload}


@breaks("regions_of_keys", "C3")
class RegionsOfKeys(Program):
    """As with numbers, but with texts of two parts."""

    depends = Dependence((PUT, PUT, SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event: Event[int], emit):
        region = event.tag.key.split("/")[0]
        emit((event.tag.key, state.get(region, 0)))
        return {**state, region: event.payload}


@breaks("hours_of_the_host", "elsewhere")
class HoursOfTheHost(Window):
    """The hour of an event in the time zone of the host."""

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == BARRIER:
            emit(dt.datetime.fromtimestamp(event.ts).hour)  # noqa: DTZ006 - that is the mistake
        return super().update(state, event, emit)


@breaks("sorts_its_batch", "ownership")
class SortsItsBatch(Window):
    """The windows are right, but the column changes."""

    def init(self):
        return []

    def identity(self):
        return []

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == VALUE:
            return sorted([*state, event.payload])
        emit(state[len(state) // 2 :][:1])
        return []

    def update_windows(self, batch, cuts):
        starts, stops = [0, *cuts.tolist()], [*cuts.tolist(), len(batch)]
        made = []
        for start, stop in zip(starts, stops, strict=True):
            part = np.asarray(batch.payload)[start:stop]
            part.sort()
            made.append(part.tolist())
        return made

    def join(self, left, right):
        return sorted(left + right)


RIGHT_SO_FAR = Dependence((PUT, PUT, SAME_KEY))


@breaks("writes_to_what_it_emitted", "ownership")
class WritesToWhatItEmitted(Program):
    """One array for all batches."""

    depends = RIGHT_SO_FAR

    def init(self):
        return 0

    def update(self, state, event: Event[int], emit):
        emit(2 * event.payload)
        return state

    def update_batch(self, state, batch, emit_batch):
        values = np.array(columns.to_list(batch.payload), object)
        values *= 2
        emit_batch(values)
        values[:] = 0
        return state


@breaks("rows_by_key", "batch")
class RowsByKey(Program):
    """Outputs come key by key, each at its row."""

    depends = RIGHT_SO_FAR

    def init(self):
        return 0

    def update(self, state, event: Event[int], emit):
        emit((event.tag.key, event.payload))
        return state

    def update_batch(self, state, batch, emit_batch):
        events = batch.events()
        rows = sorted(range(len(events)), key=lambda row: events[row].tag.key)
        emit_batch([(events[row].tag.key, events[row].payload) for row in rows], np.array(rows))
        return state


@breaks("adds_at_an_index_once", "batch")
class AddsAtAnIndexOnce(Window):
    """`state[places] += 1` counts a place once, however often it comes."""

    def init(self):
        return np.zeros(4, np.int64)

    def identity(self):
        return self.init()

    def update(self, state, event: Event[int], emit):
        if event.tag.kind == VALUE:
            state[event.payload % 4] += 1
            return state
        emit(state.tolist())
        return self.init()

    def update_batch(self, state, batch, emit_batch):
        for name, run, emit in by_kind(batch, emit_batch):
            if name == BARRIER:
                state = one_by_one(self.update, state, run, emit)
            else:
                state[np.array([value % 4 for value in columns.to_list(run.payload)])] += 1
        return state


USERS: dict[str, dict[str, int]] = {}


@breaks("what_others_set", "determinism")
class WhatOthersSet(KeyedState):
    """A dictionary outside of the program, which returns the same entry again."""

    changes = (PUT,)

    def update(self, state, event: Event[int], emit):
        user = state.get(event.tag.key) or USERS.setdefault(event.tag.key, {"seen": 0})
        user["seen"] += 1
        emit(user["seen"])
        return {**state, event.tag.key: user}
