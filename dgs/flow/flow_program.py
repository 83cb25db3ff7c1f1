"""The program of a flow: a state of parts, keys and stores; items fold into it, ticks close blocks.

`compiling` decides the shape. Law: for any subset of the ticks with the last one, the outputs and their ids are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from dgs.errors.raised import RAISED, is_ours
from dgs.flow.batches import kept_parts
from dgs.flow.batches.block_bounds import Bound, TooLargeError, is_due, too_large
from dgs.flow.batches.column_items import Items
from dgs.flow.batches.columnar import Columnar, Found
from dgs.flow.batches.event_work import Work, row_in, stamped
from dgs.flow.batches.fused import Fused
from dgs.flow.batches.kept_parts import Place, State
from dgs.flow.clock import Every, On
from dgs.flow.closing import Closer, Parts
from dgs.flow.flow_graph import Graph, described, told
from dgs.flow.mistakes import FlowError
from dgs.flow.templates import FoldOfBlocks, KeyedOrdered, has_end, overrides
from dgs.flow.wiring import Push, Wiring
from dgs.model import columns
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.events import Event, EventBatch, declared_stream
from dgs.model.key_forms import PLAIN, check_key
from dgs.model.key_sets import key_class
from dgs.model.order import MAX_TS
from dgs.model.program import Emit, EmitBatch, Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Kind, Tag, kind
from dgs.model.user_code import raised_at

Shape = Literal["free", "sum", "classes", "mixed", "program"]

FINAL = MAX_TS - 2
"""The time of the last tick, which comes when all other streams have ended."""

TICK = kind("tick")


class FlowProgram(Program[State, Any]):
    """The program of a flow of shape free, sum or mixed.

    State: `parts` {(node, input): {block: {key: part}}}; `tail` {"next": block, "stores": {node: store}}, None in the identity; `span`:
    first and last block so far (with `on(stream)`: least and greatest ts since the last marker, None if there are no items since). Only if
    not empty: `keyed` {node: {class: {key: [state, next block]}}} for ordered steps, with the key as a third part if it is not plain;
    `idle`, like `keyed`: the keys of folds without items since the last marker; `waiting` {block: {(node, key): [output]}}, outputs of
    markers before their tick; `forms` {(node, input): {block: {form: form}}}, of keys that are not plain; `taken`: the number of items so
    far, in flows with steps that keep each item.
    """

    skips, work = False, Work
    """Whether items that raise are left out, and the class that closes blocks."""

    def __init__(
        self,
        graph: Graph,
        wiring: Wiring,
        shape: Shape,
        *,
        closers: dict[int, Closer],
        ordered: dict[int, KeyedOrdered],
        classes: int,
        bound: Bound,
    ) -> None:
        self.graph, self.wiring, self.shape = graph, wiring, shape
        self.closers, self.ordered, self._bound = closers, ordered, bound
        self.item: Kind = kind("item", key=range(classes)) if shape == "mixed" else kind("item")
        self.classes = classes
        self._tags = [self.item(cls) for cls in range(classes)] if shape == "mixed" else []
        self.first_classes: dict[str, int] = {}
        self.has_markers = {number for number, one in ordered.items() if overrides(one, "on_marker")}
        self.idling = {
            number: one.keeps_state for number, one in ordered.items() if isinstance(one, FoldOfBlocks)
        }
        self.sources = wiring.sources
        self.kinds = (self.item,) if shape == "free" else (self.item, TICK)  # type: ignore[misc]  # one for each object
        self.stamps = () if shape == "free" else (TICK,)  # type: ignore[misc]  # one for each object
        self.accumulates = () if shape == "mixed" else (self.item,)  # type: ignore[misc]  # one for each object
        rules = [] if shape == "free" else [(TICK, TICK, ALWAYS), (TICK, self.item, ALWAYS)]
        self.depends = Dependence(*rules, *([(self.item, self.item, SAME_KEY)] if shape == "mixed" else []))
        clock = graph.clock
        self._origin, self._period = (clock.origin, clock.ticks) if isinstance(clock, Every) else (0, 0)
        self._has_marks = isinstance(clock, On)
        self._has_spans = not (self._has_marks and graph.end == "drop")
        monoids = {number: one.lifting for number, one in closers.items() if one.lifting is not None}
        at = {"origin": self._origin, "period": self._period}
        self._columnar = Columnar(wiring, monoids, **at) if shape != "mixed" else None
        self._joins = {number: closer.joining for number, closer in closers.items()}
        self.fused = Fused(wiring, closers)
        self.closed = [(number, kept_parts.inputs_of(graph, number)) for number in wiring.stateful]
        self._pushes = {stream: wiring.push(number) for stream, number in wiring.sources.items()}
        self.ticking = clock.stream if isinstance(clock, On) else graph.ticking
        self.bags = kept_parts.places_of_items(graph, closers)
        self._has_end = any(map(has_end, ordered.values()))
        self._slides = [closer.slide for closer in closers.values() if hasattr(closer, "slide")]

    @property
    def name(self) -> str:
        """The name of the flow."""
        return self.graph.name

    def identity_parts(self) -> dict[str, str]:
        """Return the parts that a saved state relies on: the clock, the classes, and the kind of every step with its monoid, window and tables."""
        graph = self.graph
        parts = {"clock": f"{graph.clock or 'none'}, end {graph.end}", "classes": str(self.classes)}
        tables = ((node, getattr(node.step, "table", None)) for node in graph.nodes)
        parts |= {f"F26 table of {node.title}": told(table) for node, table in tables if table is not None}
        return parts | {f"node {number}": described(node) for number, node in enumerate(graph.nodes)}

    def hold_at_most(self, buffer_bytes: int) -> None:
        """Note how much a step may keep of one key in one block."""
        self._bound.buffer_bytes = buffer_bytes

    def forms(self) -> dict[int, str]:
        """Return for each node that items of streams reach whether it takes batches in columns, or why in rows."""
        return {} if self._columnar is None else self._columnar.forms()

    def init(self) -> State:
        """Return the state before any item."""
        return {**self.identity(), "tail": {"next": None, "stores": {}}}

    def identity(self) -> State:
        """Return the empty state, without a tail."""
        return {"parts": {}, "tail": None, "span": None}

    def update(self, state: State, event: Event, emit: Emit[Any]) -> State:
        """Bring an item to the node that keeps it, or close the blocks that a tick has passed."""
        if event.tag.kind != self.item:
            return self._tick(state, event.stream, event.ts, emit)
        block = self._into_span(state, event.ts)
        self._take(Work(self, state, emit, block, event.ts), event.tag, event.stream, event.payload)
        self._check_kept(state, 1, event.ts, event.ts)
        return state

    def update_batch(self, state: State, batch: EventBatch, emit_batch: EmitBatch) -> State:
        """Do the same for a batch. The outputs of a batch are emitted together."""
        has_only_items = self._has_only_items(batch)
        try:
            state = (self._items if has_only_items else self._one_by_one)(state, batch, emit_batch)
        except RAISED as error:
            if (row := row_in(error)) is not None:
                raised_at(error, row)
            raise
        if has_only_items:
            self._check_kept(state, len(batch), *map(int, batch.ts[[0, -1]]))
        return state

    def _items(self, state: State, batch: EventBatch, emit_batch: EmitBatch) -> State:
        take = self._in_rows if self.shape != "mixed" else self._one_by_one
        if self._columnar is None or not self._columnar.takes(batch):
            return take(state, batch, emit_batch)
        try:
            found = self._columnar.run(batch)
        except FlowError:
            raise
        except RAISED as error:
            if is_ours(error):
                raise
            take(state, batch, emit_batch)  # raises at the row of the faulty item
            raise
        return self._in_columns(state, batch, found, emit_batch)

    def _check_kept(self, state: State, events: int, first: int, last: int) -> None:
        """Check now and then that what steps keep of blocks fits, for the blocks from the first time to the last. Raises FlowError."""
        if not self.bags:
            return
        state["taken"] = after = events + (before := state.get("taken", 0))
        start, stop = ((ts - self._origin) // self._period if self._period else 0 for ts in (first, last))
        for place in self.bags:
            blocks = state["parts"].get(place, {})
            for block in range(start, stop + 1) if stop - start < len(blocks) else list(blocks):
                if block in blocks and is_due(before, after, len(blocks[block])):
                    self.check_block(state, place, block, last)

    def check_block(self, state: State, place: Place, block: int, at: int | None = None) -> None:
        """Check that what a step keeps of a block fits. `at`: the time up to which items have come. Raises FlowError."""
        try:
            self.closers[place[0]].check_kept(state["parts"].get(place, {}).get(block, {}))
        except TooLargeError as error:
            raise self._too_large(place, error, block, at) from None

    def _too_large(self, place: Place, error: TooLargeError, block: int, at: int | None = None) -> FlowError:
        node = self.graph.nodes[place[0]]
        return too_large(self.graph, node, error, key=error.key, block=block, at=at)

    def _one_by_one(self, state: State, batch: EventBatch, emit_batch: EmitBatch) -> State:
        """Take a batch of items and ticks, one event after the other."""
        values, rows = list[Any](), list[int]()
        tags, stream = batch.tag_list(), declared_stream(batch.stream)
        payload = [None] * len(batch) if batch.payload is None else columns.to_list(batch.payload)
        work = Work(self, state, values.append, 0, None)
        for row, (tag, ts, value) in enumerate(zip(tags, batch.ts.tolist(), payload, strict=True)):
            if tag.kind == self.item:
                work.block, work.at = self._into_span(state, ts), ts
                self._take(work, tag, stream, value)
            else:
                self._tick(state, stream, ts, values.append)
            if len(values) > len(rows):
                rows += [row] * (len(values) - len(rows))
        emit_batch(values, rows)
        return state

    def _in_rows(self, state: State, batch: EventBatch, emit_batch: EmitBatch) -> State:
        """Take a batch of items in rows, one block after the other."""
        values, rows = list[Any](), list[int]()
        run = self.fused.of_source(self.sources[declared_stream(batch.stream)])
        payload = [None] * len(batch) if batch.payload is None else columns.to_list(batch.payload)
        times, work = batch.ts.tolist(), Work(self, state, values.append, 0, None)
        for start, stop in self._runs(batch):
            work.block = self._into_span(state, times[start])
            given = times[start:stop], payload[start:stop], range(start, stop)
            run(*given, work.take_at, values.append, rows.append, work.parts_of, work.noting)
            work.drop_empty()
        self._into_span(state, times[-1])
        emit_batch(values, rows)
        return state

    def _runs(self, batch: EventBatch) -> Iterator[tuple[int, int]]:
        """Yield the first row of each run of items of one block, and the row after its last."""
        if not self._period:
            return iter([(0, len(batch))])
        blocks = (batch.ts - self._origin) // self._period
        ends = np.flatnonzero(blocks[1:] != blocks[:-1]) + 1
        return pairwise([0, *ends.tolist(), len(batch)])

    def _has_only_items(self, batch: EventBatch) -> bool:
        return len(batch) > 0 and all(tag.kind == self.item for tag in batch.tags)

    def _in_columns(self, state: State, batch: EventBatch, found: Found, emit_batch: EmitBatch) -> State:
        """Put the result of a batch in columns into the state, and continue with the rest in rows."""
        for row in (0, -1):
            self._into_span(state, int(batch.ts[row]))
        for place, blocks, is_plain in found.parts:
            kept_parts.join_parts(state, place, self.closers[place[0]], blocks, is_plain=is_plain)
        for column, of in found.outputs:
            emit_batch(column, of)
        work = Work(self, state, emit_batch, 0, None)
        for reader, port, items in found.rest:
            self._rest(work, self.wiring.reader(reader, port), items, emit_batch)
        return state

    def _rest(self, work: Work, push: Push, items: Items, emit_batch: EmitBatch) -> None:
        values, rows = list[Any](), list[int]()
        work.sink = values.append
        given = zip(items.rows.tolist(), items.at.tolist(), items.keys(), items.values(), strict=True)
        for row, ts, key, value in given:
            work.block, work.at = (ts - self._origin) // self._period if self._period else 0, ts
            push(work.take, key, value, ts)
            if len(values) > len(rows):
                rows += [row] * (len(values) - len(rows))
        emit_batch(values, rows)

    def _into_span(self, state: State, ts: int) -> int:
        """Note the time of an item; return its block."""
        block = (ts - self._origin) // self._period if self._period else 0
        if not self._has_spans:
            return block
        place = ts if self._has_marks else block
        span = state["span"]
        if span is None or not span[0] <= place <= span[1]:
            state["span"] = kept_parts.joined_spans(span, (place, place))
        return block

    def _take(self, work: Work, tag: Tag, stream: str, payload: Any) -> None:
        if self.shape != "mixed":
            self._pushes[stream](work.take, (), payload, work.at)
        elif payload is not None:
            work.cls = tag.key
            number, port, key, value = payload
            work.take(number, port, key, value)

    def items(self, stream: str, ts: int, value: Any) -> list[tuple[Tag, Any]]:
        """Return the events of an element in shape mixed. If no item is left, it is one event without payload, which only advances the time."""
        made: list[tuple[Tag, Any]] = []

        def to(number: int, port: int, key: Any, value: Any) -> None:
            if type(key) not in PLAIN:
                check_key(key)
            made.append((self._tags[key_class(key) % self.classes], (number, port, key, value)))

        self.wiring.run(self.sources[stream], (), value, ts, to)
        return made or [(self._tags[self.first_classes.get(stream, 0)], None)]

    def fork(self, state: State, left: TagSet, right: TagSet) -> tuple[State, State]:
        """Send the keys of a class to the side of its items, everything else to the side of ticks."""
        sides = (self.identity(), self.identity())
        owner = sides[TICK not in left and TICK in right]
        owner.update({name: state[name] for name in state if name not in kept_parts.OF_CLASSES})
        kept_parts.fork_keys(state, owner, sides, kept_parts.classes_in(right, self.item, self.classes))
        return sides

    def join(self, left: State, right: State) -> State:
        """Unite keys, join parts key by key, and extend the span. Most states, such as windows of items, have only parts."""
        parts = left["parts"]
        for place, blocks in right["parts"].items():
            mine = parts.get(place)
            if mine is None:
                parts[place] = blocks
            elif place in self.bags:
                self._join_blocks(place, left, blocks)
            else:
                kept_parts.join_blocks(self._joins[place[0]], mine, blocks)
        if len(right) > kept_parts.SMALLEST:
            kept_parts.join_keys(left, right)
            kept_parts.join_rare(left, right)
        if left["tail"] is None:
            left["tail"] = right["tail"]
        if right["span"] is not None:
            left["span"] = kept_parts.joined_spans(left["span"], right["span"])
        return left

    def _join_blocks(self, place: Place, left: State, blocks: dict[int, Parts]) -> None:
        try:
            kept_parts.join_blocks(self._joins[place[0]], left["parts"][place], blocks)
        except TooLargeError as error:
            raise self._too_large(place, error, error.block) from None
        for block in blocks:
            self.check_block(left, place, block)

    def _tick(self, state: State, stream: str, ts: int, emit: Emit[Any]) -> State:
        clock = self.graph.clock
        is_final = ts >= FINAL
        if isinstance(clock, Every):
            is_end = self._has_end and is_final and state["span"] is not None and self.graph.end == "close"
            last = self._last(state) if is_end else None
            for block in self._due(state, clock, ts):
                end = clock.end_of(block)
                made: list[Any] = []
                self.work(self, state, made.append, block, end).close(is_final=block == last)
                stamped(made, end, block, emit, apart=self.skips)
        elif isinstance(clock, On) and (is_final or stream == clock.stream):
            self._marker(state, ts, emit, is_final=is_final)
        elif clock is None and is_final and state["span"] is not None and self.graph.end == "close":
            made = []
            self.work(self, state, made.append, 0, None).close(is_final=True)
            stamped(made, FINAL, 0, emit, apart=self.skips)
        if is_final:  # the input has ended: the rest of an unfinished block is dropped
            state["parts"] = {}
            for name in ("waiting", "forms", "taken"):
                state.pop(name, None)
        return state

    def _last(self, state: State) -> int:
        """Return the last block to close so far: that of the last item, or the end of its windows."""
        last: int = state["span"][1]
        ends: list[int] = [last, *(last + -(last + 1) % n for n in self._slides)]
        return last - 1 if self.graph.end == "drop" else max(ends)

    def _due(self, state: State, clock: Every, ts: int) -> Iterator[int]:
        """Yield the blocks to close, in order: those that end by `ts` and not after the last window of an item so far."""
        if state["span"] is None:
            return
        tail = state["tail"]
        if tail["next"] is None:
            tail["next"] = state["span"][0]
        # Outputs at the end of the input are in the last block.
        last = self._last(state) - (self._has_end and ts < FINAL)
        while tail["next"] <= last and clock.end_of(tail["next"]) <= ts:
            if not self._is_busy(state):
                begun = (block for blocks in state["parts"].values() for block in blocks)
                found = min(
                    [last, *state.get("waiting", ()), *(block for block in begun if block >= tail["next"])]
                )
                tail["next"] = min(found, clock.block_of(ts))  # items of the block of `ts` may still come
                if clock.end_of(tail["next"]) > ts:
                    return
            yield tail["next"]
            tail["next"] += 1

    def _is_busy(self, state: State) -> bool:
        """Return whether the next block is to be closed even if it has no items."""
        keyed = state.get("keyed", {})
        if any(number in self.has_markers and any(keyed[number].values()) for number in keyed):
            return True
        stores = state["tail"]["stores"]
        return any(closer.is_busy(stores.get(number, {})) for number, closer in self.closers.items())

    def _marker(self, state: State, ts: int, emit: Emit[Any], *, is_final: bool) -> None:
        """Close the block before a marker of the clock's stream; the last tick closes the rest, if any."""
        if is_final and (state["span"] is None or self.graph.end == "drop"):
            return
        end = state["span"][1] + 1 if is_final else ts
        made: list[Any] = []
        self.work(self, state, made.append if is_final else emit, 0, end).close(is_final=False)
        stamped(made, FINAL, 0, emit, apart=self.skips)
        state["span"] = None
        for number in self.has_markers:
            for keys in state.get("keyed", {}).get(number, {}).values():
                for record in keys.values():
                    record[1] = 0
