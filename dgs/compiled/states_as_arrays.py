"""States in the form for loops: scalars, or the entries of a dict as arrays by slot.

The loop gets only the entries that it may touch: those of the keys of its events. Afterwards the written entries are put into the dict, new
keys in the order of their events, as `update` would do it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dgs.compiled.lanes_as_columns import payload_type
from dgs.compiled.lowering.entries import FIRST, origins_of
from dgs.compiled.lowering.python_values import Flat, flat, type_of
from dgs.compiled.lowering.value_types import (
    KEPT,
    UNSEEN,
    DoesNotFit,
    NotYet,
    Refused,
    Type,
    dict_of,
    joined,
    scalars_of,
)
from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.events import EventBatch
from dgs.model.program import State
from dgs.vectorised import spread

Array = npt.NDArray[Any]
KEYS = frozenset([int, str, bool, bytes])
"""The types of keys of which equal values are identical in form."""
MISSING = object()
EVENTS_OF_A_KEY, EVENTS_OF_A_TAG, FEW_KEYS = 4, 2, 8
"""With fewer than EVENTS_OF_A_KEY events per key, moving entries into arrays and back costs more than a compiled loop saves; with fewer than
EVENTS_OF_A_TAG events per tag of a batch, finding the keys does. FEW_KEYS keys cost little."""


FIRST_EVENTS = 1024
"""If the first so many events have all tags of a batch, the others need not be looked at."""


class Keys:
    """The keys of the events of batches, each with a slot. Raises Refused if equal keys may differ, NotYet if there are too many.

    `found`: the keys by slot. `slots`: by the `id` of a batch, the slot of each of its tags; undefined for tags that no event has.
    """

    def __init__(self, batches: Sequence[EventBatch], *, are_many_allowed: bool = False) -> None:
        slot_of: dict[Any, int] = {}
        self.slots: dict[int, Array] = {}
        used = [_used_tags(batch) for batch in batches]
        count = math.inf if are_many_allowed else sum(map(len, batches))
        if sum(map(len, used)) > FEW_KEYS + count // EVENTS_OF_A_TAG:
            raise NotYet("there are few events of each tag in a batch")
        whole: dict[int, Array] = {}  # for tags that all have events
        for batch, codes in zip(batches, used, strict=True):
            tags, known = batch.tags, whole if len(codes) == len(batch.tags) else {}
            if id(tags) not in known:
                known[id(tags)] = slots = np.empty(len(tags), np.int64)
                slots[codes] = [slot_of.setdefault(tags[code].key, len(slot_of)) for code in codes.tolist()]
            self.slots[id(batch)] = known[id(tags)]
        if len(slot_of) > FEW_KEYS + count // EVENTS_OF_A_KEY:
            raise NotYet("there are few events of each key")
        self.found = list(slot_of)
        types = set(map(type, slot_of))
        if types == {type(None)}:
            raise Refused(
                "the state is a dict, and the events have no key to read it by: keep a NamedTuple in its place"
            )
        if len(types) > 1 or not types <= KEYS:
            names = " and ".join(sorted(of.__name__ for of in types))
            raise Refused(f"keys of type {names} are not compiled for a dict")


def have_no_key(batches: Iterable[EventBatch]) -> bool:
    """Return whether no event of batches has a key."""
    return all(batch.tags[code].key is None for batch in batches for code in _used_tags(batch).tolist())


def _used_tags(batch: EventBatch) -> Array:
    """Return the codes of the tags that occur in a batch: it may be a small part of a batch with many keys."""
    if batch.codes is None or len(batch.tags) == 1:
        return np.zeros(min(1, len(batch)), np.intp)
    if len(batch) < len(batch.tags):
        return np.unique(batch.codes)
    if np.bincount(batch.codes[:FIRST_EVENTS], minlength=len(batch.tags)).all():
        return np.arange(len(batch.tags))
    return np.flatnonzero(np.bincount(batch.codes, minlength=len(batch.tags)))


def keys_of(state: State, batches: Sequence[EventBatch], *, are_many_allowed: bool = False) -> Keys | None:
    """Return the keys of batches if the state is a dict. Raises Refused."""
    return Keys(batches, are_many_allowed=are_many_allowed) if type(state) is dict else None


def state_type(state: State, keys: Keys | None) -> Type:
    """Return the type of a state; for a dict, only the entries of the given keys count. Raises Refused."""
    return type_of(state) if keys is None else dict_of(_entries_type(state, keys.found))


def _entries_type(state: dict[Any, Any], keys: Iterable[Any]) -> Type:
    found = UNSEEN
    for key in keys:
        entry = state.get(key, MISSING)
        if entry is not MISSING:
            try:
                found = joined(found, type_of(entry))
            except DoesNotFit:
                raise
            except Refused:
                return KEPT
    return found


class ScalarState:
    """The form of a state for a compiled loop: scalars. `least_events`: the fewest that pay for moving the state."""

    least_events = 0

    def __init__(self, of: Type) -> None:
        self._scalars, self._value = flat(of)

    def given(self, state: State) -> Sequence[Any] | None:
        """Return the scalars of a state for the loop, None if the state is not of the type."""
        return self._scalars(state)

    def taken(self, _before: State, returned: Sequence[Any]) -> State:
        """Return the state that the loop has returned."""
        return self._value(*returned)

    def of_batch(self, _batch: EventBatch) -> list[Array]:
        """Return the arguments by which the loop finds entries of a batch: none."""
        return []

    def objects(self, _numbers: Array) -> Column:
        """Return a column of kept objects. There are none."""
        raise NotImplementedError


class DictState(ScalarState):
    """A state as the entries of a dict. Kept objects have numbers: from 0 up for earlier ones, from -2 down for those of this run."""

    def __init__(self, of: Type, keys: Keys) -> None:
        self._entry = of.parts[0]
        self._keys, self._slots = keys.found, keys.slots
        self.least_events = EVENTS_OF_A_KEY * len(keys.found)
        self._arrays: list[Array] = []
        self._objects: list[Any] = []
        self._made: dict[int, Any] = {-1: None}
        kept = Flat(self._number_of, self._made.__getitem__)
        self._scalars, self._value = kept if self._entry == KEPT else flat(self._entry)
        self._batches: list[tuple[int, int, EventBatch, list[str | None]]] = []

    def of_batch(self, batch: EventBatch) -> list[Array]:
        """Return the slots of the tags of a batch, and the first number of its objects."""
        origins = origins_of(payload_type(batch.payload))
        before = self._batches[-1][1] if self._batches else 0
        self._batches.append((before, before + len(batch) * len(origins), batch, origins))
        base = np.array([before], np.int64)
        base.flags.writeable = False
        return [self._slots[id(batch)], base]

    def given(self, state: State) -> Sequence[Any] | None:
        """Return the arrays of the entries, None if some are not of the type."""
        found = [state.get(key, MISSING) for key in self._keys]
        there = np.array([one is not MISSING for one in found], np.bool_)
        of_entries = [np.zeros(len(found), np.dtype(of)) for of in scalars_of(self._entry)]
        for slot in np.flatnonzero(there).tolist():
            scalars = self._scalars(found[slot])
            if scalars is None:
                return None
            for array, scalar in zip(of_entries, scalars, strict=True):
                array[slot] = scalar
        fixed = [there, np.zeros(len(found), np.bool_), np.zeros(len(found), np.int64), np.zeros(1, np.int64)]
        self._arrays = [*fixed, *of_entries]
        return self._arrays

    def _number_of(self, entry: Any) -> tuple[int]:
        """Return the number of an object that the dict keeps, the only scalar of an entry."""
        if entry is None:
            return (-1,)
        self._objects.append(entry)
        self._made[len(self._objects) - 1] = entry
        return (len(self._objects) - 1,)

    def taken(self, before: State, _returned: Sequence[Any]) -> State:
        """Put the entries that were written into the dict, and return it."""
        _, dirty, stamps, _, *scalars = self._arrays
        written = np.flatnonzero(dirty)
        written = written[np.argsort(stamps[written], kind="stable")]
        lists = [array[written].tolist() for array in scalars]
        if self._entry == KEPT:
            self._make(scalars[0][written])
        for slot, *parts in zip(written.tolist(), *lists, strict=True):
            before[self._keys[slot]] = self._value(*parts)
        return before

    def objects(self, numbers: Array) -> Column:
        """Return a column of kept objects, given their numbers."""
        if not len(numbers):
            return []
        least, most = int(numbers.min()), int(numbers.max())
        used = np.zeros(most - least + 1, np.bool_)
        used[numbers - least] = True
        distinct = np.flatnonzero(used)
        codes = np.empty(len(used), np.int32)
        codes[distinct] = np.arange(len(distinct))
        self._make(distinct + least)
        values = [self._made[number] for number in (distinct + least).tolist()]
        return spread(values, codes[numbers - least], len(numbers))

    def _make(self, numbers: Array) -> None:
        """Make the objects of these numbers: payloads as `event.payload` gives them."""
        places = FIRST - numbers[numbers <= FIRST]
        for start, stop, batch, origins in self._batches:
            here = places[(places >= start) & (places < stop)]
            if not len(here):
                continue
            for number, name in enumerate(origins):
                rows, rest = np.divmod(here - start, len(origins))
                mine = rest == number
                column = batch.payload if name is None else batch.payload[name]
                new = [
                    row
                    for row in rows[mine].tolist()
                    if FIRST - (start + row * len(origins) + number) not in self._made
                ]
                if new:
                    values = columns.to_list(columns.take(column, np.array(new, np.intp)))
                    at = (FIRST - (start + row * len(origins) + number) for row in new)
                    self._made.update(zip(at, values, strict=True))


def form_of(of: Type, keys: Keys | None) -> ScalarState:
    """Return the form of states of a type in a run of batches with these keys."""
    return ScalarState(of) if keys is None else DictState(of, keys)
