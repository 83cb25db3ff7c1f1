"""Programs made of a monoid: some kinds of events accumulate, others close the window and emit its result.

Dependence, fork and vectorised updates are derived, and lawful if the monoid is.

>>> import dgs
>>> from dgs.monoids import COUNT, MAX, AllOf, FieldOf
>>> SALE, CLOSE = dgs.kind("sale"), dgs.kind("close")
>>> class Sales(Windows):
...     '''Emits the number of sales and the greatest of them, at every closing time.'''
...     monoid = AllOf(number=COUNT, greatest=FieldOf(MAX, "amount"))
...     accumulates = (SALE,)
...     closes = (CLOSE,)
>>> sales = [(SALE(), 1, {"amount": 30}), (SALE(), 2, {"amount": 50}), (SALE(), 8, {"amount": 20})]
>>> dgs.run(Sales(), streams={"sales": sales, "closings": [(CLOSE(), 5, None)]}, runtime="local").outputs
[{'number': 2, 'greatest': 50}]
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dgs.errors import ProgramError
from dgs.model.columns import Column
from dgs.model.declarations import check_kinds
from dgs.model.dependence import ALWAYS, Dependence, Rule, When
from dgs.model.events import Event, EventBatch
from dgs.model.outputs import ColumnEmit
from dgs.model.program import Emit, EmitBatch, Program, State, window_states
from dgs.model.tags import Kind
from dgs.monoids.contract import Cuts, Monoid, check_parts, refuses
from dgs.vectorised import by_tag


class Windows(Program):
    """Joins values of the kinds `accumulates` by a `monoid`; an event of a kind in `closes` emits the result and starts a new window.

    A value is the payload of an event, or with `of_events = True` the record {key, ts, payload} of its tag's key, its timestamp and
    its payload. Override `value` for other values, and `close` for another effect of a closing event. Law: `close` uses only the
    state and its event, and changes only the state.
    """

    monoid: Monoid
    closes: ClassVar[tuple[Kind | str, ...]] = ()
    of_events: ClassVar[bool] = False
    _when: ClassVar[When] = ALWAYS
    _of_payloads: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        """Derive the dependence: closing kinds depend on each other and on all accumulating kinds."""
        super().__init_subclass__(**options)
        cls._of_payloads = cls.value is Windows.value and not cls.of_events
        check_kinds(cls, "closes", "accumulates")
        both = sorted({*map(str, cls.closes)} & {*map(str, cls.accumulates)})
        if both:
            raise ProgramError(program=cls.__name__, problem=f"{both[0]!r} cannot both accumulate and close")
        if "depends" not in vars(cls) and vars(cls).keys() & {"closes", "accumulates"}:
            pairs = [(a, b) for i, a in enumerate(cls.closes) for b in (*cls.closes[i:], *cls.accumulates)]
            cls.depends = Dependence(*(Rule(a, b, cls._when) for a, b in pairs))

    @refuses
    def __init__(self) -> None:
        for name in ("monoid", "accumulates"):
            if not getattr(self, name, None):
                raise ProgramError(program=self.name, problem=f"{name} is missing: give `{name} = ...`")
        check_parts(self.name, self.monoid, methods=("identity", "join"))  # what has others may be overridden

    def value(self, event: Event) -> Any:
        """Return the value of an event for the monoid."""
        if self.of_events:
            return {"key": event.tag.key, "ts": event.ts, "payload": event.payload}
        return event.payload

    def column(self, batch: EventBatch) -> Column:
        """Return the values of a batch. Override it together with `value`, else it calls `value` for each event."""
        if type(self).value is not Windows.value:
            return [self.value(event) for event in batch.events()]
        payload = [None] * len(batch) if batch.payload is None else batch.payload
        if self.of_events:
            return {"key": by_tag(batch, [tag.key for tag in batch.tags]), "ts": batch.ts, "payload": payload}
        return payload

    def close(self, state: Any, event: Event, emit: Emit) -> Any:  # noqa: ARG002 - for overriding methods
        """Emit the result of a window; return the state of the next one."""
        emit(self.monoid.result(state))
        return self.monoid.identity()

    def check_closing(self, kind: str) -> None:
        """Raise ProgramError unless events of a kind close windows."""
        if kind not in self.closes:
            known = ", ".join((*self.accumulates, *self.closes))
            raise ProgramError(program=self.name, problem=f"{kind!r} is not one of its kinds: {known}")

    def init(self) -> State:
        """Start with no values."""
        return self.identity()

    def identity(self) -> State:
        """Return the state of no values."""
        return self.monoid.identity()

    def join(self, left: State, right: State) -> State:
        """Return the state of the values of both sides."""
        return self.monoid.join(left, right)

    def update(self, state: State, event: Event, emit: Emit) -> State:
        """Join a value, or close the window."""
        kind = event.tag.kind
        if kind in self.accumulates:
            monoid = self.monoid
            return monoid.join(state, monoid.lift(event.payload if self._of_payloads else self.value(event)))
        self.check_closing(kind)
        return self.close(state, event, emit)

    def fold(self, batch: EventBatch) -> State:
        """Return the state of a batch of accumulating events."""
        return self.monoid.fold(self.column(batch))

    def update_windows(self, batch: EventBatch, cuts: Cuts) -> Column:
        """Return the states of many windows of accumulating events."""
        return self.monoid.windows(self.column(batch), cuts)

    def update_batch(self, state: State, batch: EventBatch, emit_batch: EmitBatch) -> State:
        """Fold whole windows at once, and close them one by one."""
        closing = self._closing(batch)
        rows = np.flatnonzero(closing)
        if not len(rows):
            return self.join(state, self.fold(batch)) if len(batch) else state
        rest = batch.take(np.flatnonzero(~closing))
        # cuts are rows of `rest`, which lacks the i closing events before the i-th
        states = window_states(self.update_windows(rest, rows - np.arange(len(rows)))) if len(rest) else []
        values: Any = ColumnEmit() if self.emits_columns else []
        emit = values if self.emits_columns else values.append
        counts: list[int] = []
        for number, event in enumerate(batch.take(rows).events()):
            before = len(values)
            state = self.update(self.join(state, states[number]) if states else state, event, emit)
            counts.append(len(values) - before)
        if len(values):
            emit_batch(values.joined() if self.emits_columns else values, rows.repeat(counts))
        return self.join(state, states[-1]) if states else state

    def _closing(self, batch: EventBatch) -> npt.NDArray[np.bool_]:
        """Return a mask of the events that close a window; events of unknown kinds count as closing, and `update` refuses them."""
        closing = np.array([tag.kind not in self.accumulates for tag in batch.tags], dtype=bool)
        return np.repeat(closing[:1], len(batch)) if batch.codes is None else closing[batch.codes]
