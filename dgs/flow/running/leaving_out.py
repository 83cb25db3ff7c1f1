"""Closing blocks with `on_error: skip`: a key of a block for which a function raises is left out, and the rest of the block is as if it had not come.

A tick closes blocks of all keys, so it cannot be left out like an item. If a later step raises, its item is left out. If a function that a
closing block calls with a key raises, the items of that key in the block are left out. Each gives one dead letter, at the place of the
block's outputs, so letters do not depend on which ticks come.
"""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

from dgs.errors import DgsError
from dgs.errors.raised import RAISED, is_ours, summary
from dgs.flow.batches.event_work import Work
from dgs.flow.batches.kept_parts import OF_CLASSES
from dgs.flow.closing import Closer, Parts, canonical
from dgs.flow.flow_program import FINAL, FlowProgram
from dgs.flow.wiring import OUT
from dgs.semantics.skipped_events import DeadLetter, LeftOut


class CarefulWork(Work):
    """The work of one tick on a state, which leaves out items and keys that raise."""

    __slots__ = ()

    def take(self, number: int, port: int, key: Any, value: Any) -> None:
        """Take an item to the node that keeps it, or leave it out."""
        if number == OUT:
            self.sink(value)
            return
        places = [self.state.get(name, {}).get(number, {}).get(self.cls, {}) for name in OF_CLASSES]
        before = [deepcopy(keys[key]) if key in keys else None for keys in places]
        try:
            super().take(number, port, key, value)
        except RAISED as error:
            for keys, record in zip(places, before, strict=True):
                keys.pop(key, None)
                keys.update({} if record is None else {key: record})
            self._leave_out(error, number, key, value)

    def mark(self, number: int, key: Any, record: list[Any]) -> None:
        """Apply the marker of the block to a key of an ordered node, or leave the marker out."""
        before = deepcopy(record[0])
        try:
            super().mark(number, key, record)
        except RAISED as error:
            record[0] = before
            self._leave_out(error, number, key)

    def end(self, number: int, key: Any, record: list[Any]) -> None:
        """Tell a key of an ordered node that the input has ended, or leave that out."""
        try:
            super().end(number, key, record)
        except RAISED as error:
            self._leave_out(error, number, key)

    def _give(self, number: int, key: Any, value: Any, at: int | None) -> None:
        taken: list[tuple[int, int, Any, Any]] = []
        try:
            self.program.wiring.run(number, key, value, at, lambda *item: taken.append(item))
        except RAISED as error:
            self._leave_out(error, number, key, value)
            return
        work = type(self)(self.program, self.state, self.sink, self.block, at, self.cls)
        for item in taken:
            work.take(*item)

    def _close(self, closer: Closer, number: int, parts: list[Parts], store: Parts) -> None:
        for key in canonical({*closer.keys_of(store), *(key for port in parts for key in port)}):
            mine = [{key: port[key]} if key in port else {} for port in parts]
            own = deepcopy(closer.store_of(key, store))
            try:
                made = list(closer.close(mine, own, self.block, self.at))
            except RAISED as error:
                self._leave_out(error, number, key)
                continue
            closer.put_store(key, own, store)
            for item in made:
                self._give(number, *item)
        closer.pass_block(store)

    def _leave_out(self, error: BaseException, number: int, key: Any, value: Any = None) -> None:
        if is_ours(error) or isinstance(error, DgsError):
            raise error
        program = self.program
        program.wiring.explain(error, number, key, self.at)
        stream = program.ticking
        ts = FINAL if self.at is None else self.at
        letter = DeadLetter(
            stream, ts, self.block, "tick", key, value, summary(error), "update", worker="", row=None
        )
        self.sink(LeftOut(letter))


class SkippableFlow(FlowProgram):
    """The program of a flow, which with `on_error: skip` leaves out items and keys that raise while a block is closed."""

    def when_skipping(self) -> FlowProgram:
        """Return the program for `on_error: skip`."""
        made = copy(self)
        made.skips, made.work = True, CarefulWork
        return made
