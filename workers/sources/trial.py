"""A trial of a program on the first events of its streams: it measures the costs of its functions, to compare plans.

The program runs sequentially over one reading of each stream, for a fraction of a second. The run reports functions that raise.
Functions without a measurement keep their typical cost.

>>> from dgs.job.schema import StreamConfig
>>> class Slow(Program):
...     def init(self): return 0
...     def update(self, state, event, emit): return sum(range(2000)) and state + event.payload
>>> numbers = StreamConfig(id="s", tags=["n"], source={"memory": "s"})
>>> costs = trial(Slow(), [numbers], SourceContext(Slow(), memory={"s": [("n", i, i) for i in range(200)]}))
>>> costs.event("n") > 2e-6
True
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from dgs import codec
from dgs.errors import DgsError
from dgs.job.schema import StreamConfig
from dgs.model.events import EventBatch
from dgs.model.outputs import BatchEmitter
from dgs.model.program import Program, State
from dgs.model.tag_sets import TagSet
from dgs.model.user_code import RAISED
from dgs.planner.prediction.costs import TYPICAL, Costs
from dgs.semantics.sequential import merge
from dgs.workers.sources import SourceContext, open_source

SECONDS = 0.2
"""Seconds for which `update` is tried."""

ROWS = 4096
"""Rows read from each stream."""

FIRST_ROWS, GROWTH = 64, 8
"""The first size of a batch for `update_batch`, and the factor by which it grows while there is time."""

REPETITIONS = 3
"""Measurements of one call, of which the fastest counts: the first looks up functions of NumPy, and others are interrupted."""

LEAST_COLUMNS = 0.5e-9
"""The least seconds per event in `update_batch`, since memory is not faster."""


def trial(program: Program, streams: Sequence[StreamConfig], context: SourceContext) -> Costs:
    """Return the costs of a program: measured if possible, else typical."""
    costs = TYPICAL
    with suppress(DgsError, *RAISED):
        batches = [_first(config, context, rank) for rank, config in enumerate(streams)]
        state, kinds = _updates(program, batches)
        costs = replace(costs, kinds=kinds, update=max(kinds.values(), default=costs.update))
        costs = replace(costs, state_bytes=float(len(codec.encode(state))))
        if program.is_vectorised:
            costs = replace(costs, columns=_columns(program, batches))
        if program.fork_joins():
            fork, join = _forking(program, state)
            costs = replace(costs, fork=fork, join=join)
    return costs


def _first(config: StreamConfig, context: SourceContext, rank: int) -> list[EventBatch]:
    with closing(open_source(config, context, rank=rank, batch_rows=ROWS)) as source:
        return list(source.read().batches)


def _updates(program: Program, batches: list[list[EventBatch]]) -> tuple[State, dict[str, float]]:
    """Return the state after the first events, and seconds per event by kind."""
    update, clock = program.states()[0].update, time.perf_counter
    state: Any = program.init()
    spent: dict[str, float] = {}
    counts: dict[str, int] = {}
    end = clock() + SECONDS
    emitted: list[Any] = []
    reading = _seconds(lambda: None)
    for _, event in merge(batches):
        began = clock()
        state = update(state, event, emitted.append)
        now = clock()
        kind = event.tag.kind
        spent[kind] = spent.get(kind, 0.0) + now - began
        counts[kind] = counts.get(kind, 0) + 1
        if now > end:
            break
    return state, {kind: max(0.0, spent[kind] / count - reading) for kind, count in counts.items()}


def _columns(program: Program, batches: list[list[EventBatch]]) -> float | None:
    """Return the seconds per event of `update_batch`: what a batch takes longer than its first event alone."""
    update_batch = program.states()[0].update_batch
    batch = max((batch for stream in batches for batch in stream), key=len, default=None)
    if update_batch is None or batch is None or len(batch) == 1:
        return None

    def seconds(size: int) -> float:
        part = batch.cut(0, size)
        began = time.perf_counter()
        update_batch(program.init(), part, BatchEmitter(part, []))
        return time.perf_counter() - began

    size = min(len(batch), FIRST_ROWS)
    while size < len(batch) and seconds(size) * GROWTH < SECONDS:
        size = min(len(batch), size * GROWTH)
    alone, whole = (min(seconds(count) for _ in range(REPETITIONS)) for count in (1, size))
    return max(LEAST_COLUMNS, (whole - alone) / (size - 1))


def _forking(program: Program, state: State) -> tuple[float, float]:
    """Return the seconds of a fork and of a join."""
    pair = program.fork_joins()[0]
    nothing = TagSet.of()
    began = time.perf_counter()
    left, right = pair.fork(state, nothing, nothing)
    middle = time.perf_counter()
    pair.join(left, right)
    return middle - began, time.perf_counter() - middle


def _seconds(function: Callable[[], None]) -> float:
    """Return the seconds of calling a function and reading the clock once."""
    began = time.perf_counter()
    for _ in range(100):
        time.perf_counter()
        function()
    return (time.perf_counter() - began) / 100
