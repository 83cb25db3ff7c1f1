"""Skipped events (`on_error: skip`): the dead letter of an event whose `update` raises, and saved states to go back to.

>>> from dgs.model.tags import Tag
>>> from dgs.model.user_code import user_error
>>> class Ratio(Program):
...     def init(self): return 1.0
...     def update(self, state, event, emit): return state / event.payload
>>> event, key = Event(Tag("view", 7), "clicks", 12, 0), OrderKey(12, 0, 3)
>>> try:
...     Ratio().update(1.0, event, print)
... except ZeroDivisionError as error:
...     letter = DeadLetter.of(event, key, user_error(Ratio(), "update", error, event=event, key=key))
>>> letter.stream, letter.seq, letter.payload, letter.error
('clicks', 3, 0, 'ZeroDivisionError: float division by zero')
>>> saved(Ratio(), print)
Traceback (most recent call last):
dgs.semantics.skipped_events.StateNotSavedError: `on_error: skip` needs a copy of every state of program Ratio, and ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dgs import codec
from dgs.errors import CodecError, RunError, UserCodeError
from dgs.model.events import Event
from dgs.model.order import OrderKey
from dgs.model.program import Program, State


class StateNotSavedError(RunError):
    """A state holds values that the codec does not carry, so `on_error: skip` cannot go back to it."""

    code = "DGS512"
    template = "`on_error: skip` needs a copy of every state of program {program}, and this one cannot be copied{where}: {problem}"
    fix = "Keep other types in the state, register this one with `dgs.codec.register`, or run with `on_error: stop`"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A skipped event and the reason: `error` is the error that `function` raised at `worker` ("" without workers).

    `stream`: the declared stream; `seq`: the event's raw row number in it.
    """

    stream: str
    ts: int
    seq: int
    kind: str
    key: Any
    payload: Any
    error: str
    function: str
    worker: str

    @classmethod
    def of(cls, event: Event, key: OrderKey, raised: UserCodeError) -> DeadLetter:
        """Return the letter of an event and the error that it raised."""
        return cls(
            stream=event.stream.partition("/")[0],
            ts=event.ts,
            seq=key.seq,
            kind=str(event.tag.kind),
            key=event.tag.key,
            payload=event.payload,
            error=raised.error,
            function=raised.function,
            worker=raised.worker or "",
        )

    @property
    def identity(self) -> tuple[str, int, int]:
        """The event's identity, the same for every worker: its stream, ts and row."""
        return self.stream, self.ts, self.seq


codec.register(DeadLetter, name="dgs.DeadLetter", formerly="dgs.skipping.DeadLetter")


def saved(program: Program, state: State, *, worker: str | None = None) -> bytes:
    """Return a state as bytes, from which `codec.decode` makes a new one. Raises StateNotSavedError."""
    try:
        return codec.encode(state)
    except CodecError as error:
        where = "" if worker is None else f" (worker {worker})"
        raise StateNotSavedError(program=program.name, where=where, problem=error.problem) from error
