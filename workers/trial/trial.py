"""A trial of a program on the first events of its streams: it measures the costs of its functions, to compare plans.

The program runs sequentially over a part of each stream, for a fraction of a second. What cannot be measured keeps its typical
cost. A program may do anything here, so a planner tries it in another process: see `trial_process`.

>>> from dgs.model.tags import Tag
>>> class Slow(Program):
...     def init(self): return 0
...     def update(self, state, event, emit): return sum(range(2000)) and state + event.payload
>>> numbers = EventBatch.of("s", rank=0, tags=[Tag("n")], ts=range(200), payload=list(range(200)))
>>> trial(Slow(), [numbers]).costs.event("n") > 2e-6
True
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from statistics import median
from typing import Any

import numpy as np

from dgs import codec
from dgs.errors import UserCodeError
from dgs.errors.raised import RAISED
from dgs.errors.resources import CompileError
from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.events import Event, EventBatch, event_of_row
from dgs.model.outputs import BatchEmitter, ColumnEmit, OutputBatch
from dgs.model.program import ForkJoin, Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.model.user_code import UserCode
from dgs.planner.prediction.costs import TYPICAL, TYPICAL_COLUMNS, Costs
from dgs.semantics.sequential import merge
from dgs.workers.protocol.folding.update_loop import ScalarLoop
from dgs.workers.sources.shaping.disorder import joined
from dgs.workers.trial.stopwatch import PACE, REPETITIONS, Stopwatch, least, losses, pace
from dgs.workers.trial.writing import seconds_of_output

SECONDS = 0.2
"""Seconds for which `update` is tried."""

FIRST_ROWS, GROWTH = 64, 8
"""The first size of a batch for `update_batch`, and the factor by which it grows while there is time."""

SHORT = 0.01
"""Seconds in which calls of `update_batch` are repeated, since the shortest take some microseconds."""

SHARE_TIMED = 0.5
"""The share of the events, and of the time, in which each event is timed. The others are timed together."""

AT_ONCE = 256
"""Events that are timed together."""

IN_A_RUN = 1.07
"""The ratio of the time of an event in a run, where data comes from memory and our code runs in between, to its time in a trial."""

DEAREST = 1.3
"""The greatest ratio of the time of events that are made on the way to that of events that are there. It was at most 1.14."""

LONG = 50e-6
"""After an `update` of this many seconds it is checked whether another process has had the core."""

EVENT = 0.1e-6
"""The seconds of making an event object of plain values from its columns. Rows of several columns take longer."""

OUTPUT = 0.15e-6
"""The seconds of passing an output of `update` on to the sinks."""

COLUMN_OUTPUT, COMPILED_OUTPUT = 4e-9, 1e-9
"""The same for an output of `update_batch`, and of a compiled `update`."""

LONGEST_SENTENCE = 200
"""The most characters of an exception's text to keep."""

LEAST_EVENT = 1.2e-9
"""The least seconds per event in `update_batch` and in a compiled `update`. Memory sets this limit: a trial's few events are in the cache."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The costs found, the `problem` that left some of them typical, and the least `pace` of the core meanwhile: costs may be too high for it, not too low."""

    costs: Costs = TYPICAL
    problem: str | None = None
    pace: float = PACE


def trial(program: Program, batches: Sequence[EventBatch], sinks: Sequence[str] = ()) -> Trial:
    """Return the costs of a program: measured as far as its functions return, else typical. `sinks`: the kinds of the job's sinks."""
    trying, paces = _Trying(program, batches, sinks), [pace()]
    for measure in (
        trying.measure_update,
        trying.measure_outputs,
        trying.measure_columns,
        trying.measure_compiled,
        trying.measure_forks,
    ):
        try:
            measure()
        except RAISED as error:
            trying.problem = trying.problem or sentence_of(error)
        paces.append(pace())
    return Trial(trying.costs, trying.problem, min(paces))


def sentence_of(error: BaseException) -> str:
    """Return a short sentence about an exception of a program, without a traceback."""
    trace = error.facts["trace"] if isinstance(error, UserCodeError) else ""
    said = " ".join(str(error).removeprefix(trace).split())[:LONGEST_SENTENCE]
    return said if trace else f"it raised {type(error).__name__}: {said}"


class _Trying:
    """A trial under way. `state`: the state after the events so far."""

    def __init__(self, program: Program, batches: Sequence[EventBatch], sinks: Sequence[str]) -> None:
        self._program, self._batches, self._sinks = program, batches, sinks
        self._state: Any = None
        self._emits = ColumnEmit if program.emits_columns else list
        self._emitted: dict[str, Any] = defaultdict(self._emits)
        self._events: dict[str, int] = defaultdict(int)
        self.costs = TYPICAL
        self.problem: str | None = None

    def measure_update(self) -> None:
        """Measure the seconds per event by kind, until the time is over."""
        self._state = self._program.init()
        events = (event for _, event in merge([[batch] for batch in self._batches]))
        together = _before_one_ends(self._batches)
        mixed = islice(events, together)
        spent: dict[str, list[float]] = defaultdict(list)
        made = {kind: _seconds_of_making(batch) for kind, batch in _by_kind(self._batches)}
        scale, began = 1.0, time.perf_counter()
        try:
            timed = islice(mixed, 1 + int(SHARE_TIMED * together))
            self._update_each(timed, spent, end=began + SHARE_TIMED * SECONDS)
            usual = {
                kind: _usual(seconds) + min(EVENT, made.get(kind, EVENT)) for kind, seconds in spent.items()
            }
            scale = self._scale(mixed, usual, end=began + SECONDS)
            later = islice((event for event in events if event.tag.kind not in usual), AT_ONCE)
            self._update_each(later, spent, end=began + SECONDS)
        finally:
            kinds = {
                kind: scale * (_usual(seconds) + min(EVENT, made.get(kind, EVENT)))
                + max(0.0, made.get(kind, EVENT) - EVENT)
                for kind, seconds in spent.items()
            }
            self._know(kinds=kinds, update=median(kinds.values() or [TYPICAL.update]))
        self._know(state_bytes=float(len(codec.encode(self._state))))

    def _update_each(self, events: Iterator[Event], spent: dict[str, list[float]], *, end: float) -> None:
        """Note the outputs and the seconds of each event; no seconds if another process took the core meanwhile."""
        update, clock = self._program.states()[0].update, time.perf_counter
        looking = min(_looking(clock) for _ in range(100))
        lost = losses()
        for event in events:
            kind = event.tag.kind
            emit, began = _emit(self._emitted[kind]), clock()
            self._state = update(self._state, event, emit)
            now = clock()
            took = max(0.0, now - began - looking)
            self._events[kind] += 1
            is_lost = took > LONG and lost != (lost := losses())
            if not (is_lost and spent[kind]):
                spent[kind].append(took)
            if now > end:
                break

    def _scale(self, events: Iterator[Event], usual: Mapping[str, float], *, end: float) -> float:
        """Return the ratio of the time that events take in a run to their `usual` time: with a clock around each, which empties caches, and made apart.

        A run makes each event just before its `update`, which then runs a little slower than over events that are there.
        """
        update, emit, found = self._program.states()[0].update, _emit(self._emits()), []
        while time.perf_counter() < end and (some := list(islice(events, AT_ONCE))):
            alone = sum(usual.get(event.tag.kind, 0.0) for event in some)
            fields = list(zip(*some, strict=True))
            watch = Stopwatch()
            for event in map(event_of_row, zip(*fields, strict=True)):
                self._state = update(self._state, event, emit)
            took = watch.seconds()
            if alone:
                found.append(took / alone)
        return IN_A_RUN * min(DEAREST, median(found)) if found else 1.0

    def measure_outputs(self) -> None:
        """Add the seconds of writing an event's outputs, by kind."""
        kinds = dict(self.costs.kinds)
        for kind, events in self._events.items():
            emitted = self._emitted[kind]
            values = emitted.joined() if self._program.emits_columns else emitted
            each = OUTPUT + seconds_of_output(self._sinks, _as_outputs(kind, values))
            kinds[kind] += each * len(emitted) / events
        self._know(kinds=kinds, update=median(kinds.values() or [TYPICAL.update]))

    def measure_columns(self) -> None:
        """Measure the seconds per event of `update_batch`, by kind."""
        update_batch = self._program.states()[0].update_batch
        if update_batch is None:
            return
        self._know(columns=TYPICAL_COLUMNS)

        def fold(state: Any, batch: EventBatch, outputs: list[OutputBatch]) -> None:
            update_batch(state, batch, BatchEmitter(batch, outputs))

        for kind, each, call, _ in self._in_columns(fold, COLUMN_OUTPUT, apart=0.0):
            found = {**self.costs.column_kinds, kind: each}
            calls = {**self.costs.column_calls, kind: call}
            self._know(column_kinds=found, columns=median(found.values()), column_calls=calls)

    def measure_compiled(self) -> None:
        """Measure the seconds per event of a compiled `update`, by kind. A kind may be interpreted. With an `update_batch`, only several streams may need it."""
        from dgs.compiled.compiled_update import CompiledUpdate
        from dgs.compiled.loop_files import is_available

        first = self._program.states()[0]
        if (first.update_batch is not None and len(self._batches) == 1) or not is_available():
            return
        loop = ScalarLoop(UserCode(self._program), first.update)
        update = CompiledUpdate(first.update, loop.fold_batch, is_required=True)
        for kind, seconds, call, more in self._in_columns(update.fold, COMPILED_OUTPUT, apart=0.5):
            each = max(seconds, LEAST_EVENT)
            dearest = max(call, self.costs.compiled_call if self.costs.compiled_kinds else 0.0)
            state = max(more, self.costs.compiled_state)
            kinds = {**self.costs.compiled_kinds, kind: each}
            self._know(compiled_kinds=kinds, compiled_call=dearest, compiled_state=state)

    def _in_columns(
        self, fold: Callable[[Any, EventBatch, list[OutputBatch]], Any], output: float, *, apart: float
    ) -> Iterator[tuple[str, float, float, float]]:
        """Yield each kind with the seconds of an event (from a batch, less those of its first part, `apart`), of a call, and what a long call takes more.

        A compiled call translates the entry of each key that it meets, so its first events cost more than later ones.

        `output`: the seconds of passing an output on to the sinks. Every fold begins with the state after the events so far,
        since an empty state may emit nothing.
        """
        usual = codec.encode(self._state)
        outputs = list[OutputBatch]()

        def seconds(batch: EventBatch, size: int) -> float:
            part, state = batch.cut(0, size), codec.decode(usual)
            outputs.clear()
            watch = Stopwatch()
            fold(state, part, outputs)
            return watch.seconds() + output * sum(map(len, outputs))

        def of_batch(batch: EventBatch) -> tuple[float, float, float]:
            size = min(len(batch), FIRST_ROWS)
            seconds(batch, 1)  # the first call may import modules, and compiles
            while size < len(batch) and seconds(batch, size) * GROWTH < SECONDS:
                size = min(len(batch), size * GROWTH)
            few = max(1, int(apart * size))
            alone, first, whole = (least(partial(seconds, batch, n), SHORT) for n in (1, few, size))
            longest = max(outputs, key=len, default=None)
            each = 0.0 if longest is None else seconds_of_output(self._sinks, longest)
            written = each * sum(map(len, outputs)) / size
            each = max(LEAST_EVENT, min(whole - first, whole - alone) / max(1, size - few))
            return each + written, alone, max(0.0, whole - alone - size * each)

        for kind, batch in _by_kind(self._batches):
            try:
                found = of_batch(batch)
            except CompileError:  # a later call may be refused, too: the state may then have another type
                found = self.costs.event(kind), 0.0, 0.0
            yield kind, *found

    def measure_forks(self) -> None:
        """Measure the seconds of a fork and of a join of the state so far, and of encoding it."""
        if not self._program.fork_joins():
            return
        pair, nothing = self._program.fork_joins()[0], TagSet.of()
        try:
            taken = _forked(pair, self._state, *self._sides())
        except RAISED:  # the state is for fewer tags
            taken = _forked(pair, self._state, nothing, nothing)
        encoding, fork, join = map(min, zip(*taken, strict=True))
        self._know(encoding=encoding, fork=fork, join=join)

    def _sides(self) -> tuple[TagSet, TagSet]:
        """Return the tags of the events so far in two halves, for a fork."""
        tags = dict.fromkeys(tag for batch in self._batches for tag in batch.tags)
        some = [tag for tag in tags if tag.kind not in self._program.accumulating]
        if self._program.has_derived_fork:
            return TagSet.of(*some), TagSet.of(*(tags.keys() - some))
        return TagSet.of(*list(tags)[::2]), TagSet.of(*list(tags)[1::2])

    def _know(self, **found: Any) -> None:
        self.costs = replace(self.costs, **found)


def _forked(pair: ForkJoin, state: Any, left: TagSet, right: TagSet) -> list[tuple[float, ...]]:
    """Return the seconds of encoding and decoding a state, of a fork, and of joining the parts, for some repetitions."""
    found = [_forked_copies(pair, state, left, right, 1)]
    copies = max(1, min(AT_ONCE, int(SHORT / max(sum(found[0]), 1e-9))))
    return found + [_forked_copies(pair, state, left, right, copies) for _ in range(REPETITIONS - 1)]


def _forked_copies(pair: ForkJoin, state: Any, left: TagSet, right: TagSet, copies: int) -> tuple[float, ...]:
    """Return the same, measured over many copies, since a clock takes longer than a short join."""
    watch = Stopwatch()
    wholes = [codec.decode(codec.encode(state)) for _ in range(copies)]
    encoded = watch.seconds()
    parts = [pair.fork(whole, left, right) for whole in wholes]
    forked = watch.seconds()
    for part in parts:
        pair.join(*part)
    joined = watch.seconds()
    return encoded / copies, (forked - encoded) / copies, (joined - forked) / copies


def _emit(values: Any) -> Callable[[Any], None]:
    """Return the `emit` that adds to the values: a list, or itself for a program that emits columns."""
    emit: Callable[[Any], None] = values.append if isinstance(values, list) else values
    return emit


def _as_outputs(kind: str, values: Column) -> OutputBatch:
    """Return values as the outputs of events of a kind."""
    rows = np.arange(columns.length(values))
    return OutputBatch.of("s", rank=0, tags=[Tag(kind)], ts=rows, seq=rows, index=0 * rows, values=values)


def _before_one_ends(batches: Sequence[EventBatch]) -> int:
    """Return how many of all events come before the first of the longer batches ends: behind it, the state is another than in a run."""
    longest = max(map(len, batches), default=0)
    ends = [batch.ts[-1] for batch in batches if len(batch) and 2 * len(batch) >= longest]
    return sum(int(batch.ts.searchsorted(min(ends), "right")) for batch in batches) if ends else 0


def _looking(clock: Callable[[], float]) -> float:
    began = clock()
    return clock() - began


def _usual(seconds: Sequence[float]) -> float:
    """Return the mean of measurements, without the first, which may import modules."""
    usual = seconds[1:] or seconds
    return sum(usual) / len(usual)


def _seconds_of_making(batch: EventBatch) -> float:
    """Return the seconds of making an event object from its columns."""
    part, found = batch.cut(0, min(len(batch), AT_ONCE)), []
    for _ in range(REPETITIONS):
        watch = Stopwatch()
        for _ in part.events():
            pass
        found.append(watch.seconds())
    return min(found) / len(part)


def _by_kind(batches: Sequence[EventBatch]) -> Iterator[tuple[str, EventBatch]]:
    """Yield for each kind its events of all streams, as one worker gets them, if there are several."""
    of: dict[str, list[EventBatch]] = defaultdict(list)
    for batch in batches:
        for kind in dict.fromkeys(tag.kind for tag in batch.tags):
            of[kind].append(_of_kind(batch, kind))
    for kind, parts in of.items():
        whole = _in_order_of_time(parts)
        if len(whole) > 1:
            yield kind, whole


def _in_order_of_time(parts: Sequence[EventBatch]) -> EventBatch:
    """Return the events of several streams as one batch, until the first of the longer streams ends; only those with columns like the longest's."""
    longest = max(parts, key=len)
    alike = [part for part in parts if len(part) and _types(part.payload) == _types(longest.payload)]
    if not alike:
        return longest
    whole = joined(alike)
    order = np.argsort(whole.ts, kind="stable")[: _before_one_ends(alike)]
    return replace(whole.take(order), seq=np.arange(len(order)))


def _types(column: Column) -> Any:
    """Return the types of a column, and of the columns in it."""
    if isinstance(column, dict):
        return {name: _types(one) for name, one in column.items()}
    return getattr(column, "dtype", None) or getattr(column, "type", None) or type(column)


def _of_kind(batch: EventBatch, kind: str) -> EventBatch:
    """Return the events of one kind, as a worker gets them that owns only these."""
    is_kind = np.array([tag.kind == kind for tag in batch.tags])
    if batch.codes is None or is_kind.all():
        return batch
    mine = batch.take(np.flatnonzero(is_kind[batch.codes]))
    if is_kind.sum() > 1:
        return mine
    return replace(mine, tags=(batch.tags[int(is_kind.argmax())],), codes=None)
