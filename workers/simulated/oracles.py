"""The oracles of a simulated run: pure functions of its result, which they compare with the sequential program.

They do not know how the runtime works. They see outputs with their ids, states with their positions, and the order of commits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from dgs import codec
from dgs.model.events import Event, EventBatch
from dgs.model.order import OrderKey
from dgs.model.outputs import IgnoredOutputs, OutputBatch
from dgs.model.program import Program
from dgs.model.tags import Tag
from dgs.model.user_code import shown
from dgs.semantics import sequential
from dgs.semantics.comparison import compare
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.recovery.positions import Layer, Positions, declared

OF_LETTER = -1
"""The index of a dead letter: stamped outputs of another event may have the key of the event that was left out."""


class OutputId(NamedTuple):
    """The id of an output without its tag, which follows from the event."""

    ts: int
    rank: int
    seq: int
    index: int  # type: ignore[assignment]  # not the method of tuple

    def __str__(self) -> str:
        what = "the dead letter" if self.index == OF_LETTER else f"output {self.index}"
        return f"{what} of event {self.seq} of stream {self.rank} at {self.ts}"


class Truth:
    """The outcome of the sequential program. `tolerance`: the allowed difference of floats, see dgs.semantics.comparison."""

    def __init__(
        self,
        program: Program,
        streams: Sequence[Sequence[EventBatch]],
        *,
        tolerance: float | None = None,
        on_error: Literal["stop", "skip"] = "stop",
    ) -> None:
        self._program, self._streams, self.tolerance = program, streams, tolerance
        self._on_error = on_error
        self._folds: dict[tuple[int, ...], bytes] = {}

    @cached_property
    def _run(self) -> sequential.SequentialRun:
        return sequential.run(self._program, self._streams, on_error=self._on_error)

    @cached_property
    def outputs(self) -> dict[OutputId, tuple[Tag, Any]]:
        """The tag and value of every output, by its id. The dead letter of a skipped event is its only output."""
        letters = {letter.identity: letter for letter in self._run.skipped}
        skipped = (
            (
                OutputId(*key[:3], OF_LETTER),
                (event.tag, without_worker(letters[event.stream, event.ts, key.seq])),
            )
            for key, event in self.events
            if (event.stream, event.ts, key.seq) in letters
        )
        made = (
            (OutputId(*output.key[:3], output.index), (output.tag, output.value))
            for output in self._run.outputs
        )
        return dict([*made, *skipped])

    @cached_property
    def state(self) -> bytes:
        """The final state, as codec bytes."""
        return codec.encode(self._run.state)

    @cached_property
    def events(self) -> list[tuple[OrderKey, Event]]:
        """All events in their order."""
        return list(sequential.merge(self._streams))

    @cached_property
    def _skipped(self) -> set[tuple[str, int, int]]:
        return {letter.identity for letter in self._run.skipped}

    def below(self, positions: Positions) -> tuple[int, ...]:
        """Return the events below their positions, as numbers in the total order."""
        return tuple(
            number
            for number, (key, event) in enumerate(self.events)
            if is_below(key, event.tag, positions.streams.get(event.stream, ()))
        )

    def fold(self, positions: Positions) -> bytes:
        """Return the state after exactly the events below their positions."""
        below = self.below(positions)
        if below not in self._folds:
            state, update = self._program.init(), self._program.states()[0].update
            emit = IgnoredOutputs()
            for key, event in map(self.events.__getitem__, below):
                if (event.stream, event.ts, key.seq) not in self._skipped:
                    state = update(state, event, emit)
            self._folds[below] = codec.encode(state)
        return self._folds[below]

    def is_same(self, one: bytes, other: bytes) -> bool:
        """Return whether two states, given as codec bytes, are equal."""
        return one == other or self._are_close(codec.decode(one), codec.decode(other))

    def _are_close(self, one: Any, other: Any) -> bool:
        try:
            if bool(one == other):
                return True
        except Exception:  # noqa: BLE001 - comparing what the user made may raise anything: then bytes decide
            return False
        return self.tolerance is not None and compare([one], [other], tolerance=self.tolerance).is_equal

    def is_same_value(self, one: Any, other: Any) -> bool:
        """Return whether two outputs are equal."""
        return compare([one], [other], tolerance=self.tolerance).is_equal


def is_below(key: OrderKey, tag: Tag, layers: Iterable[Layer]) -> bool:
    """Return whether an event is below the position of its tag and split, in any of the layers of its stream."""
    for layer in layers:
        split = key.seq // layer.block % layer.splits
        if any(part.split == split and tag in part.tags and key < part.key for part in layer.parts):
            return True
    return False


def wrong_outputs(truth: Truth, outputs: Iterable[OutputBatch], *, is_whole: bool = True) -> Iterator[str]:
    """Yield differences between outputs and the truth (G1). A run that did not end may lack some outputs (G2).

    Outputs are never taken back, so what holds for all of them also held at every earlier commit.
    """
    found = [(one, tag, value) for batch in outputs for one, tag, value in output_rows(batch)]
    for one, count in Counter(one for one, _, _ in found).items():
        if count > 1:
            yield f"{one} came {count} times"
    for one, tag, value in found:
        if one not in truth.outputs:
            yield f"{one} is {shown(value)}, but there is no such output"
        elif tag != truth.outputs[one][0]:
            yield f"{one} has tag {tag!r}, not {truth.outputs[one][0]!r}"
        elif not truth.is_same_value(value, truth.outputs[one][1]):
            yield f"{one} is {shown(value)}, not {shown(truth.outputs[one][1])}"
    missing = truth.outputs.keys() - {one for one, _, _ in found} if is_whole else ()
    yield from (f"{one} is missing: {shown(truth.outputs[one][1])}" for one in sorted(missing))


def out_of_order(outputs: Iterable[OutputBatch], *, block: int, splits: int) -> Iterator[str]:
    """Yield outputs of an implementation tag that did not come in the order of their ids (G3).

    `splits`: a common multiple of all numbers of splits.
    """
    last: dict[tuple[str, Tag, int], OutputId] = {}
    for batch in outputs:
        for one, tag, value in output_rows(batch):
            if isinstance(value, DeadLetter):  # they have files of their own
                continue
            which = (declared(batch.stream)[0], tag, one.seq // block % splits)
            if which in last and one < last[which]:
                yield f"{one} came after {last[which]}, both of tag {tag!r}"
            last[which] = one


def wrong_state(truth: Truth, what: str, state: bytes, positions: Positions) -> Iterator[str]:
    """Yield a sentence if a state is not the fold of the events below its positions (R5)."""
    right = truth.fold(positions)
    if not truth.is_same(state, right):
        told = f"{shown(codec.decode(state))}, and the events below its positions make {shown(codec.decode(right))}"
        yield f"the state of {what} is {told}"


def went_back(truth: Truth, what: str, before: Positions, after: Positions) -> Iterator[str]:
    """Yield events that were below their position and no longer are (O4)."""
    lost = set(truth.below(before)) - set(truth.below(after))
    for number in sorted(lost)[:1]:
        key, event = truth.events[number]
        yield f"positions go back in {what}: event {key.seq} of stream {event.stream!r} was below, and is not now"


@dataclass(frozen=True, slots=True)
class Reader:
    """A source that is read: its frontier, the bytes of events that its host holds, and the most that it may hold."""

    source: str
    frontier: OrderKey
    load: int
    most: int


def reads_out_of_turn(reader: Reader, frontiers: Iterable[OrderKey]) -> str | None:
    """Return the problem with a read by R11, None if it is allowed. Over the bound, only the source furthest behind may be read.

    So a host holds at most `most` bytes and one reading more, plus events of the lowest source. `frontiers`: of all sources.
    """
    if reader.load <= reader.most or reader.frontier <= min(frontiers):
        return None
    return f"source {reader.source!r} is read although its host holds {reader.load} bytes of {reader.most}"


def output_rows(batch: OutputBatch) -> Iterator[tuple[OutputId, Tag, Any]]:
    """Yield the id, tag and value of every output of a batch."""
    columns = zip(batch.ts.tolist(), np.asarray(batch.seq).tolist(), batch.index.tolist(), strict=True)
    ids = (OutputId(ts, batch.rank, seq, index) for ts, seq, index in columns)
    for one, tag, value in zip(ids, batch.tag_list(), map(without_worker, batch.to_list()), strict=True):
        yield one._replace(index=OF_LETTER) if isinstance(value, DeadLetter) else one, tag, value


def without_worker(value: Any) -> Any:
    """Return a dead letter without the worker that wrote it, which depends on the plan, and any other value unchanged."""
    return replace(value, worker="") if isinstance(value, DeadLetter) else value
