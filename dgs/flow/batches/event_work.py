"""The work of one event on the state of a flow: it brings items to the nodes that keep them, or closes one block."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dgs.errors import CodecError
from dgs.errors.raised import RAISED
from dgs.flow.batches.block_bounds import OFTEN
from dgs.flow.batches.kept_parts import State, in_forms, note_form, noting
from dgs.flow.closing import Closer, Item, Parts, Store, canonical
from dgs.flow.wiring import OUT
from dgs.model.key_forms import check_key, is_plain, plain_form
from dgs.model.outputs import Stamped

Sink = Callable[[Any], None]

_HERE = str(Path(__file__).parents[1])

_WITH_KEY = 2
"""The parts of a record of an ordered node before its key, which is there only if it is not plain."""


class Work:
    """The work of one event on a state: it brings items to the nodes that keep them, or closes one block.

    `cls`: the class of the items, None for a tick. `program`: the FlowProgram that made this object.
    """

    __slots__ = ("at", "block", "cls", "made", "program", "sink", "state")

    def __init__(  # noqa: PLR0917 - made for every event, where keywords cost time
        self, program: Any, state: State, sink: Sink, block: int, at: int | None, cls: Any = None
    ) -> None:
        self.program, self.state, self.sink = program, state, sink
        self.block, self.at, self.cls = block, at, cls
        self.made: list[tuple[tuple[int, int], bool]] = []

    def take(self, number: int, port: int, key: Any, value: Any) -> None:
        """Take an item to the node that keeps it."""
        program = self.program
        if number == OUT:
            self.sink(value)
            return
        try:
            closer = program.closers.get(number)
            if closer is None:
                self._item(number, key, value)
                return
            blocks = self.state["parts"].get((number, port))
            if blocks is None:
                blocks = self.state["parts"][number, port] = {}
            parts = blocks.get(self.block)
            if parts is None:
                parts = blocks[self.block] = {}
            part = closer.part(key, value, self.at)
            parts[key] = closer.join(parts[key], part) if key in parts else part
            note_form(self.state, (number, port), self.block, key)
        except RAISED as error:
            raise program.wiring.explained(error, number, key, self.at, self.block) from None

    def close(self, *, is_final: bool) -> None:
        """Close the block: for each node in order, with its parts, keys in canonical order."""
        program, state = self.program, self.state
        stores = state["tail"]["stores"]
        for number, places in program.closed:
            if number in program.ordered:
                self._markers(number, is_final=is_final)
                continue
            parts = [in_forms(state, place, self.block, self._kept(place)) for place in places]
            self._close(program.closers[number], number, parts, stores.setdefault(number, {}))
        if "waiting" in state:
            state["waiting"].pop(self.block, None)

    def _kept(self, place: tuple[int, int]) -> Parts:
        """Remove and return what a node has of the block."""
        blocks = self.state["parts"].get(place)
        return blocks.pop(self.block, {}) if blocks else {}

    def _close(self, closer: Closer, number: int, parts: list[Parts], store: Store) -> None:
        try:
            try:
                self._pass_on(number, closer.close(parts, store, self.block, self.at))
            except CodecError:  # keys are sorted by their codec bytes
                for key in {key: None for port in parts for key in port}:
                    check_key(key)
                raise
        except RAISED as error:
            self.program.wiring.explain(error, number, _closing_key(error), self.at)
            raise

    def _pass_on(self, number: int, items: Iterable[Item]) -> None:
        """Pass the items of a node to its readers."""
        at = self.at
        self.program.fused.behind(number)(items, self.take_at, self.sink, self.parts_of, self.noting)
        self.at = at
        if self.made:
            self.drop_empty()
            self.check_bags()

    def check_bags(self) -> None:
        """Check that what the tail keeps of the block fits, if it is much. Raises FlowError."""
        for place in self.program.bags:
            if len(self.state["parts"].get(place, {}).get(self.block, ())) >= OFTEN:
                self.program.check_block(self.state, place, self.block)

    def take_at(self, number: int, port: int, key: Any, value: Any, at: int | None) -> None:
        """Take an item with its time to the ordered node that keeps it."""
        self.at = at
        self.take(number, port, key, value)

    def noting(self, number: int, port: int) -> Callable[[Any], None]:
        """Return the function that notes the forms of the keys that a node keeps in the block."""
        return noting(self.state, (number, port), self.block)

    def parts_of(self, number: int, port: int) -> Parts:
        """Return what a node has of the block by key, to be changed. Call `drop_empty` afterwards."""
        place, of = (number, port), self.state["parts"]
        if place not in of or self.block not in of[place]:
            self.made.append((place, place not in of))
            of.setdefault(place, {})[self.block] = {}
        parts: Parts = of[place][self.block]
        return parts

    def drop_empty(self) -> None:
        """Remove the parts that `parts_of` has made and that have no keys."""
        for place, is_new in self.made:
            blocks = self.state["parts"][place]
            if not blocks[self.block]:
                del blocks[self.block]
                if is_new and not blocks:
                    del self.state["parts"][place]
        self.made.clear()

    def _give(self, number: int, key: Any, value: Any, at: int | None) -> None:
        """Pass an item of an ordered node to its readers."""
        self.program.wiring.run(number, key, value, at, self.take)

    def _item(self, number: int, key: Any, value: Any) -> None:
        template = self.program.ordered[number]
        record = self._record(number, key)
        while record[1] < self.block:
            self._catch_up(number, key, record)
            if number in self.program.idling:
                record = self._rested(number, key, record)
        made: list[Any] = []
        record[0] = template.on_item(record[0], key, value, made.append)
        for one in made:
            self._give(number, key, one, self.at)

    def _record(self, number: int, key: Any) -> list[Any]:
        """Return the record of a key of an ordered node: its state, the next block, and its form if it is not plain."""
        keys = self.state.setdefault("keyed", {}).setdefault(number, {}).setdefault(self.cls, {})
        if key not in keys:
            idle = self.state.get("idle", {}).get(number, {}).get(self.cls, {})
            if key in idle:
                record = idle.pop(key)
                record[1] = self.block
                keys[_first_form(key, record)] = record
            else:
                check_key(key)
                state = self.program.ordered[number].initial_state()
                keys[key] = [state, self.block, *([] if is_plain(key) else [key])]
        found: list[Any] = keys[key]
        return found

    def _rested(self, number: int, key: Any, record: list[Any]) -> list[Any]:
        """Return the record of an idle key, which markers do not change until its next item; a new record if it keeps no state."""
        record[1] = self.block
        if self.program.idling[number]:
            return record
        del self.state["keyed"][number][self.cls][key]
        return self._record(number, key)

    def _catch_up(self, number: int, key: Any, record: list[Any]) -> None:
        """Apply the next marker to a key before the tick does; its outputs wait for the tick."""
        if number not in self.program.has_markers:
            record[1] = self.block
            return
        key = _first_form(key, record)
        waiting = self.state.setdefault("waiting", {}).setdefault(record[1], {}).setdefault((number, key), [])
        end = self.program.graph.clock.end_of(record[1])  # there are blocks to skip
        self.program.work(self.program, self.state, waiting.append, record[1], end, self.cls).mark(
            number, key, record
        )

    def mark(self, number: int, key: Any, record: list[Any]) -> None:
        """Apply the marker of the block to a key of an ordered node."""
        made: list[Any] = []
        record[1] = self.block + 1
        template = self.program.ordered[number]
        try:
            record[0] = template.on_marker(record[0], key, self.at, made.append)
        except RAISED as error:
            self.program.wiring.explain(error, number, key, self.at)
            raise
        for one in made:
            self._give(number, key, one, self.at)

    def _markers(self, number: int, *, is_final: bool) -> None:
        """Apply the marker of the block to every key of an ordered node."""
        if number not in self.program.has_markers and not is_final:
            return
        by_class = self.state.get("keyed", {}).get(number, {})
        class_of = {key: cls for cls, keys in by_class.items() for key in keys}
        waiting = self.state.get("waiting", {}).get(self.block, {})
        forms = {key: key for node, key in waiting if node == number}
        for key in canonical(forms.get(key, key) for key in class_of):
            record = by_class[class_of[key]][key]
            for value in waiting.pop((number, key), ()):
                self.sink(value)
            work = type(self)(self.program, self.state, self.sink, self.block, self.at, class_of[key])
            if number in self.program.has_markers and record[1] <= self.block:
                work.mark(number, key, record)
                if number in self.program.idling:
                    work.lay_by(number, key)
            if is_final:
                work.end(number, key, record)

    def lay_by(self, number: int, key: Any) -> None:
        """Make the record of a key idle until its next item, or drop it if it keeps no state."""
        record = self.state["keyed"][number][self.cls].pop(key)
        if self.program.idling[number]:
            idle = self.state.setdefault("idle", {}).setdefault(number, {})
            idle.setdefault(self.cls, {})[key] = record

    def end(self, number: int, key: Any, record: list[Any]) -> None:
        """Tell a key of an ordered node that the input has ended."""
        made: list[Any] = []
        try:
            self.program.ordered[number].on_end(record[0], key, made.append)
        except RAISED as error:
            self.program.wiring.explain(error, number, key, self.at)
            raise
        for one in made:
            self._give(number, key, one, self.at)


def _first_form(key: Any, record: list[Any]) -> Any:
    """Return the first form of a key, which markers get."""
    return record[2] if len(record) > _WITH_KEY else plain_form(key)


def stamped(values: list[Any], ts: int, seq: int, emit: Sink, *, apart: bool) -> None:
    """Emit the values of a block under its stamp. `apart`: each alone, since some may be dead letters."""
    for some in ([value] for value in values) if apart else [values] if values else ():
        emit(Stamped(ts, seq, some))


def row_in(error: BaseException) -> int | None:
    """Return the row at which a loop over rows raised."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = [frame for frame in frames if frame.f_code.co_filename.startswith(_HERE)]
    found = [row for frame in ours if type(row := frame.f_locals.get("row")) is int]
    return found[-1] if found else None


def _closing_key(error: BaseException) -> Any:
    """Return the key for which closing a block raised, from the frame of the loop over keys, which takes no notes."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name == "close")
    return next((frame.f_locals["key"] for frame in frames if "key" in frame.f_locals), None)
