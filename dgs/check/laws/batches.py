"""The law of `update_batch`: it equals the fold of `update`, for a whole batch and for any split of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dgs.check.drawing.scenarios import MOST_STEPS, Draws
from dgs.check.laws.contract import ROUNDING, Finding, Law, compared, compared_outputs
from dgs.check.laws.ownership import OwnsOnlyStates, Watched
from dgs.check.scenarios.equality import Symptom
from dgs.check.scenarios.reachable import folded, reached
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import UserRaised, World, called
from dgs.errors import DgsError, InternalError
from dgs.model import columns
from dgs.model.events import Event, EventBatch
from dgs.model.outputs import OutputBatch
from dgs.model.program import State
from dgs.model.tags import Tag

LARGE = 2**29
"""A factor for small numbers: the sum of four such products needs more than 32 bits, and thousands of them fit into 64."""

HINTS: dict[Symptom, str] = {
    "rounding": ROUNDING,
    "other": "look at the first and the last row, at runs of one event, and at what is carried from one batch to the next",
}
COPY = "copy a column before sorting or changing it: others read it too"
BUFFER = "emit a copy, or a new array each time: what was emitted is read later"
IN_ORDER = "rows are non-decreasing: sort values and rows by row (`order = np.argsort(rows, kind='stable')`)"
OUTPUTS = "look at which rows `emit_batch` is given, and at the first and the last row of a batch"


class BatchesAreFolds(Law):
    """`update_batch(s, batch, emit_batch)` = folding `update` over the batch in order, outputs of each event included."""

    name = "batch"
    words = "update_batch equals folding update, outputs included, for every split of a batch"
    fewest = 1

    def missing(self, world: World) -> str | None:
        given = any(one.update_batch is not None for one in world.types.values())
        return None if given else "the program has no update_batch"

    def draw(self, draws: Draws) -> Scenario:
        return history_and_batch(draws)

    def variants(self, world: World, scenario: Scenario) -> Iterator[Scenario]:
        """Yield the scenario, also with large numbers."""
        yield from also_large(world, scenario)

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Update with the whole batch, and with its two parts for every cut."""
        of, state = reached(world, scenario.steps)
        if world.types[of].update_batch is None:
            return None
        expected, wanted = folded(world, of, state, scenario.events)
        batch = as_batch(scenario.events, as_columns=scenario.on == "columns")
        for cut in range(len(batch)):  # a cut at 0 means the whole batch
            parts = cut_at(batch, cut)
            _, state = reached(world, scenario.steps)
            try:
                state, found = _batched(world, of, state, parts)
            except Owned as owned:
                return owned.finding
            how = (
                f"update_batch of events 1-{cut} and {cut + 1}-{len(batch)}"
                if cut
                else "update_batch of all events"
            )
            names = ("folding update", how)
            broken = compared_outputs(world, scenario.events, (names[0], wanted), (names[1], found), OUTPUTS)
            broken = broken or compared(
                world.states_equal, "the states differ", (names[0], expected), (names[1], state), HINTS
            )
            if broken is not None:
                return broken
        return None


def history_and_batch(draws: Draws) -> Scenario:
    """Draw a history, and events of one stream that a state of it handles."""
    steps, wire = draws.history(2)
    handles = draws.world.types[wire.of].handles
    stream, tags = one_stream(draws, [tag for tag in wire.tags if tag in handles])
    events = draws.events(tags, MOST_STEPS, least=1, stream=stream)
    return Scenario(steps, events=events, on=draws.one(["a list", "columns"]))


def cut_at(batch: EventBatch, row: int) -> list[EventBatch]:
    """Return the two parts of a batch, or the whole batch for row 0."""
    return [batch.cut(0, row), batch.cut(row, len(batch))] if row else [batch]


def also_large(world: World, scenario: Scenario) -> Iterator[Scenario]:
    """Yield a scenario, and a copy with ints that are too large for 32-bit columns, which vectorised code may make."""
    yield scenario
    if any(event.tag.kind in world.any_ints for event in scenario.events):
        yield scenario.changed(
            lambda event: (
                event._replace(payload=event.payload * LARGE) if event.tag.kind in world.any_ints else event
            )
        )


def one_stream(draws: Draws, tags: Sequence[Tag]) -> tuple[str, list[Tag]]:
    """Return a stream and its tags. If streams are not known, all tags are of one stream."""
    streams = draws.world.streams
    if not streams:
        return "input", list(tags)
    stream = draws.one(
        list(dict.fromkeys(name for tag in tags for name in streams.get(tag.kind, (tag.kind,))))
    )
    return stream, [tag for tag in tags if stream in streams.get(tag.kind, (tag.kind,))]


def as_batch(events: Sequence[Event], *, as_columns: bool) -> EventBatch:
    """Return events of one stream as a batch, with payloads as a list, or as columns if they are numbers or records."""
    tags = list(dict.fromkeys(event.tag for event in events))
    payloads: list[Any] = [event.payload for event in events]
    return EventBatch.of(
        events[0].stream,
        rank=0,
        tags=tags,
        codes=None if len(tags) == 1 else [tags.index(event.tag) for event in events],
        ts=[event.ts for event in events],
        payload=_column(payloads) if as_columns else payloads,
    )


def _column(values: list[Any]) -> Any:
    kinds = set(map(type, values))
    if kinds in ({int}, {float}, {bool}):
        return np.array(values)
    if kinds == {dict} and values[0] and all(list(value) == list(values[0]) for value in values):
        parts = {name: [value[name] for value in values] for name in values[0]}
        return {
            name: part if all(one is None for one in part) else _column(part) for name, part in parts.items()
        }
    return None if kinds == {type(None)} else values


def _batched(
    world: World, of: str, state: State, parts: Sequence[EventBatch]
) -> tuple[State, list[list[Any]]]:
    """Return the state after some batches, and the outputs of each event."""
    update_batch = world.types[of].update_batch
    if update_batch is None:
        raise InternalError(problem=f"state type {of} has no update_batch")
    outputs: list[list[Any]] = []
    for part in parts:
        emitted = Emitted(part)
        batch = WatchedBatch(part)
        try:
            state = called("update_batch", update_batch, state, part, emitted)
        except DgsError as error:
            raise UserRaised("update_batch", error) from error
        found = emitted.finding() or batch.finding("update_batch")
        if found is not None:
            raise Owned(found)
        outputs += emitted.by_row
    return state, outputs


class Owned(Exception):  # noqa: N818 - a finding on its way to the report
    """Vectorised code has changed a value that it does not own, or broken the contract of `emit_batch`."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding


class WatchedBatch:
    """A batch that user code must not change."""

    def __init__(self, batch: EventBatch) -> None:
        self._columns = {
            "payloads": Watched(batch.payload),
            "timestamps": Watched(batch.ts),
            "codes": Watched(batch.codes),
        }

    def finding(self, function: str) -> Finding | None:
        """Return a finding if the batch has changed since."""
        found = (
            one.finding(f"{function} changed the {name} of its batch", COPY)
            for name, one in self._columns.items()
        )
        return next((replace(one, law=OwnsOnlyStates.name) for one in found if one is not None), None)


class Emitted:
    """The outputs of an `update_batch`, by row. They are compared again in the end, since user code may write to arrays later."""

    def __init__(self, batch: EventBatch) -> None:
        self._batch = batch
        self._watched: list[Watched] = []
        self._misuse: Finding | None = None
        self.by_row: list[list[Any]] = [[] for _ in range(len(batch))]

    def __call__(self, values: Any, rows: Any = None) -> None:
        """Act as the `emit_batch` that user code calls."""
        made = OutputBatch.of_rows(self._batch, values, rows)
        places = list(range(len(self._batch))) if rows is None else np.asarray(rows).tolist()
        if places != sorted(places) and self._misuse is None:
            self._misuse = Finding(
                "emit_batch was given rows that go back", ("rows", str(places)), hint=IN_ORDER
            )
        self._watched.append(Watched(made.values))
        for row, value in zip(places, columns.to_list(made.values), strict=True):
            self.by_row[row].append(value)

    def finding(self) -> Finding | None:
        """Return the problem with the emitted outputs, None if there is none."""
        changed = (
            one.finding("outputs changed after emit_batch was given them", BUFFER) for one in self._watched
        )
        return self._misuse or next((replace(one, law=OwnsOnlyStates.name) for one in changed if one), None)
