"""The sequential semantics: merge all streams in their total order, fold `update`, collect outputs (Section 2.1).

This is the specification. Every runtime, under every plan, must give the same outputs (as a multiset) and the same state.

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
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from dgs.errors import OutOfOrderError
from dgs.events import Event, EventBatch
from dgs.order import MIN_TS, OrderKey
from dgs.program import Program
from dgs.tags import Tag
from dgs.user_code import user_error

UNSET: Any = object()
"""No state was given: start from the program's initial one."""


class Output(NamedTuple):
    """One output: (key, tag, index) is its identity, `index` counting the outputs of one event from 0."""

    key: OrderKey
    tag: Tag
    index: int  # type: ignore[assignment]  # not the method of tuple
    value: Any


@dataclass(frozen=True, slots=True)
class SequentialRun:
    """What a program computes: its outputs in order, its final state, and how many events there were."""

    outputs: list[Output]
    state: Any
    events: int


def run(program: Program, streams: Sequence[Iterable[EventBatch]], state: Any = UNSET) -> SequentialRun:
    """Run a program sequentially over its streams, from `state` (which it then owns) or from its initial state.

    Raises UserCodeError if `init` or `update` raises, OutOfOrderError if a stream's timestamps go back.
    """
    update = program.states()[0].update
    if state is UNSET:
        state = _initial_state(program)
    outputs: list[Output] = []
    count = 0
    for key, event in merge(streams):
        emitted: list[Any] = []
        try:
            state = update(state, event, emitted.append)
        except Exception as error:
            raise user_error(program, "update", error, event=event, key=key) from error
        outputs.extend(Output(key, event.tag, index, value) for index, value in enumerate(emitted))
        count += 1
    return SequentialRun(outputs, state, count)


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
    """Return the batch's last timestamp, having checked that none goes back."""
    times = np.concatenate([[last], batch.ts])
    back = np.flatnonzero(times[1:] < times[:-1])
    if len(back):
        row = int(back[0])
        raise OutOfOrderError(
            stream=batch.stream, row=int(batch.seq[row]), ts=int(batch.ts[row]), previous=int(times[row])
        )
    return int(times[-1])


def _initial_state(program: Program) -> Any:
    try:
        return program.init()
    except Exception as error:
        raise user_error(program, "init", error) from error
