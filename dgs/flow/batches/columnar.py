"""The items of one batch in columns: what nodes keep of them, the outputs, and the items that continue in rows.

If the data or a step have no form for columns, the items continue in rows, to the same states and outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dgs import codec
from dgs.errors.raised import RAISED
from dgs.flow import steps
from dgs.flow.batches.column_items import Constant, Items, NoColumns, Numbers, Records
from dgs.flow.batches.column_keys import coded
from dgs.flow.batches.column_parts import OF_RECORDS, column_of, parts, rows_because
from dgs.flow.batches.column_steps import Taken, WrongColumnsError, taken
from dgs.flow.batches.column_steps import rows_because as step_rows_because
from dgs.flow.flow_graph import Node
from dgs.flow.mistakes import FlowError, Mistake
from dgs.flow.wiring import OUT, Wiring
from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.events import EventBatch, Int64s, declared_stream
from dgs.model.key_forms import is_plain

FEWEST = 16
"""The least items in a block, on average, for which columns are quicker than rows."""

COMPARED = 1000
"""The items of the first batch on which a `columns=` function is compared with the function itself."""

Block = tuple[Any, dict[Any, Any]]
"""The number of a block, and its part of each key."""


@dataclass(slots=True)
class Found:
    """The result of a batch: parts by (node, input), with whether all keys are plain; outputs with their rows; readers of items in rows."""

    parts: list[tuple[tuple[int, int], list[Block], bool]] = field(default_factory=list)
    outputs: list[tuple[Column, Numbers]] = field(default_factory=list)
    rest: list[tuple[int, int, Items]] = field(default_factory=list)


class Columnar:
    """Takes batches of the items of a flow's streams in columns. `monoids`: those that nodes join items with, by node.

    Blocks are of `period` from `origin` on; without a period there is one.
    """

    def __init__(self, wiring: Wiring, monoids: Mapping[int, Any], *, origin: int, period: int) -> None:
        self._wiring, self._origin, self._period = wiring, origin, period
        nodes = wiring.graph.nodes
        self._steps: dict[int, Taken | None] = {
            number: taken(node.step) for number, node in enumerate(nodes) if wiring.is_stateless(number)
        }
        self._joins = monoids
        self._monoids = {number: one for number, one in monoids.items() if not rows_because(one)}
        self._compared: set[int] = set()
        self._streams = {stream: number for stream, number in wiring.sources.items() if self._has_any(number)}
        self._direct = {stream: found for stream in self._streams if (found := self._kept_as_it_is(stream))}

    def takes(self, batch: EventBatch) -> bool:
        """Return whether a batch is taken in columns."""
        number = self._streams.get(declared_stream(batch.stream))
        return number is not None and (not isinstance(batch.payload, list) or self._reads_lists(number))

    def forms(self) -> dict[int, str]:
        """Return for each node that items of streams reach, inputs first, "in columns" or "in rows: " with the reason."""
        found: dict[int, str] = {}
        ways = {number: self._wiring.ways_out(number) for number in self._wiring.sources.values()}
        before = {
            number: "" if way <= 1 else "several ways lead to the outputs" for number, way in ways.items()
        }
        for number, readers in enumerate(self._wiring.readers):
            for reader, _ in readers if number in before else ():
                if reader == OUT:
                    continue
                why = before[number] or self._rows_because(reader)
                found[reader] = f"in rows: {why}" if why else found.get(reader, "in columns")
                if self._wiring.is_stateless(reader):
                    title = self._wiring.graph.nodes[reader].title
                    before[reader] = why and (why if before[number] else f"{title} runs in rows")
        return found

    def _rows_because(self, reader: int) -> str:
        """Return why a node takes its items in rows; an empty text if it takes them in columns."""
        if self._wiring.is_stateless(reader):
            return step_rows_because(self._wiring.graph.nodes[reader].step)
        return rows_because(self._joins[reader]) if reader in self._joins else "it keeps each item"

    def _has_any(self, number: int) -> bool:
        """Return whether the items of a stream can be taken in columns at all: outputs must have a single path, so that their order is clear."""
        readers = [reader for reader, _ in self._wiring.readers[number]]
        first = any(self._steps.get(reader) is not None or reader in self._monoids for reader in readers)
        return first and self._wiring.ways_out(number) <= 1

    def _kept_as_it_is(self, stream: str) -> tuple[int, int] | None:
        """Return the node, and its input, that joins all items of a stream unchanged, under one key in one block; None if there is none."""
        (reader, port), *others = self._wiring.readers[self._wiring.sources[stream]]
        while not others and reader != OUT and isinstance(self._wiring.graph.nodes[reader].step, steps.Merge):
            (reader, port), *others = self._wiring.readers[reader]
        is_direct = not (self._period or others) and reader in self._monoids
        return (reader, port) if is_direct and not isinstance(self._monoids[reader], OF_RECORDS) else None

    def totals(self, batch: EventBatch, cuts: Int64s) -> tuple[tuple[int, int], list[Any]] | None:
        """Return the node that keeps the items of a batch unchanged, and its state of each window; None if `run` has to find it."""
        place = self._direct.get(declared_stream(batch.stream))
        if place is None or not len(batch) or batch.payload is None or isinstance(batch.payload, list):
            return None
        monoid = self._monoids[place[0]]
        try:
            return place, columns.to_list(monoid.windows(column_of(monoid, batch.payload, len(batch)), cuts))
        except NoColumns:
            return None

    def _reads_lists(self, number: int) -> bool:
        """Return whether a step right after a stream has a form for columns by the user."""
        readers = [reader for reader, _ in self._wiring.readers[number] if reader in self._steps]
        nodes = self._wiring.graph.nodes
        return any(getattr(nodes[reader].step, "columns", None) is not None for reader in readers)

    def run(self, batch: EventBatch, cuts: Int64s | None = None) -> Found:
        """Return the result of a batch of items. Raises FlowError if a function and its `columns=` differ.

        `cuts`: rows at which windows of the batch end; then the number of a block is a pair (window, block).
        """
        value = _as_column(batch)
        number = self._streams[declared_stream(batch.stream)]
        items = Items(batch.ts, None, Constant(()), Records.of(value) if isinstance(value, dict) else value)
        found, open_items = Found(), [(number, items)]
        while open_items:
            number, items = open_items.pop()
            if not len(items):
                continue
            for reader, port in self._wiring.readers[number]:
                self._read(reader, port, items, cuts, found, open_items)
        return found

    def _read(  # noqa: PLR0917 - one call a step
        self,
        reader: int,
        port: int,
        items: Items,
        cuts: Int64s | None,
        found: Found,
        open_items: list[tuple[int, Items]],
    ) -> None:
        if reader == OUT:
            found.outputs.append((items.value_column(), items.rows))
            return
        try:
            if reader in self._monoids:
                found.parts.append(((reader, port), *self._parts(self._monoids[reader], items, cuts)))
            elif (step := self._steps.get(reader)) is not None:
                open_items.append((reader, self._applied(reader, step, items)))
            else:
                found.rest.append((reader, port, items))
        except NoColumns:
            found.rest.append((reader, port, items))

    def _parts(self, monoid: Any, items: Items, cuts: Int64s | None) -> tuple[list[Block], bool]:
        blocks, bounds = self._blocks(items)
        if cuts is not None:
            blocks, bounds = _in_windows(
                blocks, bounds, cuts if items.index is None else items.index.searchsorted(cuts)
            )
        if len(blocks) > 1 and len(blocks) * FEWEST > len(items):
            raise NoColumns
        codes, keys = coded(items.key, len(items))
        made = list(zip(blocks, parts(monoid, codes, keys, items.value, bounds), strict=True))
        return made, isinstance(keys, range) or all(map(is_plain, keys))

    def _blocks(self, items: Items) -> tuple[list[Any], Int64s]:
        """Return the blocks that have items, and the first item of each, with the end."""
        count, ts = len(items), items.ts
        if not self._period:
            return [0], np.array([0, count])
        first, last = ((int(ts[place]) - self._origin) // self._period for place in (0, -1))
        if last - first > len(ts):
            of = (items.at - self._origin) // self._period
            starts = np.append(0, np.flatnonzero(of[1:] != of[:-1]) + 1)
            return of[starts].tolist(), np.append(starts, count)
        ends = ts.searchsorted(self._origin + self._period * np.arange(first + 1, last + 1))
        bounds = np.concatenate(
            ([0], ends if items.index is None else items.index.searchsorted(ends), [count])
        )
        filled = np.flatnonzero(bounds[1:] > bounds[:-1])
        return (first + filled).tolist(), np.append(bounds[filled], count)

    def _applied(self, reader: int, step: Taken, items: Items) -> Items:
        """Apply a step. The first time, compare a function for columns with the function itself."""
        node = self._wiring.graph.nodes[reader]
        form = getattr(node.step, "columns", None)
        try:
            made = step(items)
            if form is not None and reader not in self._compared:
                compare(node, items.first(COMPARED), step, flow=self._wiring.graph.name)
                self._compared.add(reader)
        except (NoColumns, FlowError):
            raise
        except WrongColumnsError as wrong:
            expected, other = wrong.args
            mistake = Mistake(
                "F25", node.title, "its columns= gives columns of another form", str(node.place or ""),
                expected=expected, found=other, fix="Let it give a value for each item, as the function does",
            )  # fmt: skip
            raise FlowError.of(self._wiring.graph.name, [mistake]) from None
        except RAISED as error:
            self._wiring.explain(
                error, reader, items.key.value if isinstance(items.key, Constant) else None, None
            )
            raise
        return made


def _in_windows(blocks: list[int], bounds: Int64s, cuts: Int64s) -> tuple[list[Any], Int64s]:
    """Also cut blocks of items at the ends of windows; return the pairs (window, block) that have items, and their bounds."""
    if len(blocks) == 1:
        edges = np.concatenate((bounds[:1], cuts, bounds[1:]))
        filled = np.flatnonzero(edges[1:] > edges[:-1])
        return [(window, blocks[0]) for window in filled.tolist()], np.append(edges[filled], edges[-1])
    edges = np.unique(np.concatenate((bounds, cuts)))
    starts = edges[:-1]
    windows = cuts.searchsorted(starts, side="right").tolist()
    places = (bounds.searchsorted(starts, side="right") - 1).tolist()
    return [(window, blocks[place]) for window, place in zip(windows, places, strict=True)], edges


def _as_column(batch: EventBatch) -> Column:
    """Return the payload as columns, also if it is a list."""
    payload = batch.payload
    if payload is None:
        return [None] * len(batch)
    if not isinstance(payload, list):
        return payload
    if payload and set(map(type, payload)) == {str}:
        try:
            return pa.array(payload, pa.string())
        except UnicodeError:
            return payload
    return columns.as_column(payload)


def compare(node: Node, items: Items, step: Taken, *, flow: str) -> None:
    """Compare a step's function with its form for columns. Raises FlowError with the first item at which they differ."""
    value = items.value_column()
    made = step(Items(items.at, None, items.key, Records.of(value) if isinstance(value, dict) else value))
    found: list[list[Any]] = [[] for _ in range(len(items))]
    results = made.keys() if isinstance(node.step, steps.KeyBy) else made.values()
    for place, result in zip(made.rows.tolist(), results, strict=True):
        found[place].append(result)
    given = zip(items.keys(), items.values(), items.at.tolist(), strict=True)
    for item, other in zip(given, found, strict=True):
        right = _by_function(node.step, *item)
        if codec.encode(right) != codec.encode(other):
            raise _differ(node, flow, item, right, other)


def _by_function(step: Any, key: Any, value: Any, at: int) -> list[Any]:
    """Return the result of a step's function for an item."""
    match step:
        case steps.Filter(function):
            return [value] if function(key, value) else []
        case steps.FlatMap(function):
            return list(function(key, value))
        case steps.Each(function):
            return [function(key, value, at)]
        case steps.KeyBy(by) if callable(by):
            return [by(key, value)]
    return [step.function(key, value)]


def _differ(
    node: Node, flow: str, item: tuple[Any, Any, int], right: list[Any], other: list[Any]
) -> FlowError:
    key, value, at = item
    problem = f"its columns= differs from its function for key {key!r}, value {value!r}, at {at}"
    mistake = Mistake(
        "F25", node.title, problem, str(node.place or ""),
        expected=f"{right!r}, from the function", found=f"{other!r}, from columns=",
        fix="Let both do the same for every item",
    )  # fmt: skip
    return FlowError.of(flow, [mistake])
