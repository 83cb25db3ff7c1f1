"""The sequential semantics: merge all streams in their total order, fold `update`, collect outputs (Section 2.1).

It is the specification: every runtime, under every plan, must give the same outputs (as a multiset) and the same state.

>>> from dgs import Program, Tag
>>> class Total(Program):
...     def init(self): return 0
...     def update(self, state, event, emit):
...         emit(state + event.payload)
...         return state + event.payload
>>> early = EventBatch.of("a", rank=0, tags=[Tag("n")], ts=[1, 5], payload=[10, 20])
>>> late = EventBatch.of("b", rank=1, tags=[Tag("n")], ts=[1, 2], payload=[1, 2])
>>> result = run(Total(), [[early], [late]])
>>> [output.value for output in result.outputs], result.state, result.events
([10, 11, 13, 33], 33, 4)

`without_batches` returns a program without its vectorised methods, for comparing the two: it processes event by event.

>>> class Count(Program):
...     def init(self): return 0
...     def update(self, state, event, emit): return state + 1
...     def update_batch(self, state, batch, emit_batch): return state + len(batch)
>>> program = Count()
>>> program.is_vectorised, without_batches(program).is_vectorised, without_batches(program).name
(True, False, 'Count')
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np

from dgs import codec
from dgs.errors import DgsError, OutOfOrderError, UsageError
from dgs.errors.raised import RAISED, is_ours
from dgs.model.events import Event, EventBatch
from dgs.model.order import MIN_TS, OrderKey
from dgs.model.outputs import IgnoredOutputs, Stamped, Stamps, emitted_one_by_one
from dgs.model.program import Program, State, StateType
from dgs.model.tags import Tag
from dgs.model.user_code import States, UserCode, user_error
from dgs.semantics.skipped_events import DeadLetter, for_readable, letter_in, saved

UNSET: Any = object()
"""In place of a state that is not given: the program's initial state."""

FEWEST, BYTES_PER_EVENT = 16, 64
"""With `on_error="skip"` the state is saved every `max(FEWEST, size in bytes // BYTES_PER_EVENT)` events, so that neither saving nor
going back takes longer than folding."""


class Output(NamedTuple):
    """One output: (key, tag, index) is its identity, `index` counting the outputs of one event from 0."""

    key: OrderKey
    tag: Tag
    index: int  # type: ignore[assignment]  # not the method of tuple
    value: Any


@dataclass(frozen=True, slots=True)
class SequentialRun:
    """The result of a program: its outputs in order, its final state, the number of events, and the skipped events."""

    outputs: list[Output]
    state: Any
    events: int
    skipped: list[DeadLetter] = field(default_factory=list)


def run(
    program: Program,
    streams: Sequence[Iterable[EventBatch]],
    state: Any = UNSET,
    *,
    on_error: Literal["stop", "skip"] = "stop",
) -> SequentialRun:
    """Run a program sequentially over its streams, from `state` (which it then owns) or from its initial state.

    With `on_error="skip"` an event whose `update` raises is left out with all its outputs, but counts as an event.
    Raises UserCodeError if `init` or `update` raises, OutOfOrderError if a stream's timestamps decrease, StateNotSavedError if events are
    to be skipped and the codec cannot encode a state, UsageError if a stream does not consist of batches.
    """
    program = program.when_skipping() if on_error == "skip" else program
    state_type, states = program.states()[0], States(program)
    update = (for_readable(state_type) if on_error == "skip" else state_type).update
    if state is UNSET:
        state = UserCode(program).call("init", program.init)
    way_back = _WayBack(program, state) if on_error == "skip" else None
    stamping, stamps = frozenset(map(str, program.stamps)), Stamps(())
    outputs, skipped, count = list[Output](), list[DeadLetter](), 0
    for key, event in merge(streams):
        count += 1
        try:
            new, emitted = emitted_one_by_one(update, state, event, program.emits_columns)
            if new is None and state is not None:
                states.check_none()
            state = new
        except RAISED as error:
            if is_ours(error):
                raise
            raised = user_error(program, "update", error, event=event, key=key)
            if way_back is None or isinstance(error, DgsError):
                raise raised from error
            skipped.append(DeadLetter.of(event, key, raised))
            state = way_back.state()
            continue
        if way_back is not None:
            way_back.passed(event, state)
            skipped += filter(None, map(letter_in, emitted))
            emitted = [value for value in emitted if letter_in(value) is None]
        outputs += _outputs(key, event, emitted, stamps if event.tag.kind in stamping else None)
    return SequentialRun(outputs, state, count, skipped)


def _outputs(key: OrderKey, event: Event, emitted: Sequence[Any], stamps: Stamps | None) -> list[Output]:
    """Return the outputs of an event: under its key, or with `stamps` under their own."""
    if stamps is None:
        return [Output(key, event.tag, index, value) for index, value in enumerate(emitted)]
    made = (one if isinstance(one, Stamped) else Stamped(key.ts, key.seq, [one]) for one in emitted)
    return [output for one in made for output in _stamped(key, event, one, stamps)]


def _stamped(key: OrderKey, event: Event, made: Stamped, stamps: Stamps) -> list[Output]:
    """Return outputs under their stamp."""
    ts, seq, first = stamps.place(event.stream, event.tag, made.ts, made.seq, len(made.values))
    place = OrderKey(ts, key.rank, seq)
    return [Output(place, event.tag, index, value) for index, value in enumerate(made.values, first)]


class _WayBack:
    """The last saved state and the events since: they restore the state from before an `update` that failed."""

    def __init__(self, program: Program, state: State) -> None:
        self._program = program
        self._save(state)

    def _save(self, state: State) -> None:
        self._saved, self._since = saved(self._program, state), list[Event]()

    def passed(self, event: Event, state: State) -> None:
        """Record an event that has been folded, and the state after it."""
        self._since.append(event)
        if len(self._since) >= max(FEWEST, len(self._saved) // BYTES_PER_EVENT):
            self._save(state)

    def state(self) -> State:
        """Return a new copy of the state after all recorded events."""
        update, state = self._program.states()[0].update, codec.decode(self._saved)
        emit = IgnoredOutputs()  # they were emitted already
        for event in self._since:
            state = update(state, event, emit)
        return state


def merge(streams: Sequence[Iterable[EventBatch]]) -> Iterator[tuple[OrderKey, Event]]:
    """Yield the events of all streams in their total order, each with its key. Raises OutOfOrderError."""
    return heapq.merge(*map(_in_order, streams), key=itemgetter(0))


def _in_order(stream: Iterable[EventBatch]) -> Iterator[tuple[OrderKey, Event]]:
    last = MIN_TS
    for batch in stream:
        last = _checked(batch, last)
        keys = map(OrderKey, batch.ts.tolist(), repeat(batch.rank), batch.seq.tolist())
        yield from zip(keys, batch.events(), strict=True)


def _checked(batch: EventBatch, last: int) -> int:
    """Return the batch's last timestamp. Raises OutOfOrderError if a timestamp decreases, UsageError if it is not a batch."""
    if not isinstance(batch, EventBatch):
        message = (
            f"streams for the sequential program are batches, `EventBatch.of(...)`, not {type(batch).__name__}; events from Python "
            'are for `dgs.run(program, streams={...}, optimizer="sequential")`'
        )
        raise UsageError(message=message)
    times = np.concatenate([[last], batch.ts])
    back = np.flatnonzero(times[1:] < times[:-1])
    if len(back):
        row = int(back[0])
        raise OutOfOrderError(
            stream=batch.stream, row=int(batch.seq[row]), ts=int(batch.ts[row]), previous=int(times[row])
        )
    return int(times[-1])


VECTORISED = tuple(name for name in ("update_batch", "update_windows") if hasattr(Program, name))
"""The optional methods that process many events at a time."""


def without_batches(program: Program) -> Program:
    """Return a copy of the program that is an instance of a subclass without the vectorised methods."""
    kind = type(program)

    def states(self: Program) -> tuple[StateType, ...]:
        return tuple(replace(state, update_batch=None) for state in kind.states(self))

    names: dict[str, Any] = {name: getattr(Program, name) for name in VECTORISED}
    if kind.states is not Program.states:  # a program with its own `states` does not accumulate
        names["states"] = states
    slower = copy.copy(program)
    slower.__class__ = type(kind.__name__, (kind,), {**names, "__module__": kind.__module__})
    return slower
