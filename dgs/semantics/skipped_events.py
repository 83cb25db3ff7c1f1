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

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from dgs import codec
from dgs.errors import CodecError, RunError, UserCodeError
from dgs.model.events import Event, EventBatch
from dgs.model.order import OrderKey
from dgs.model.outputs import Stamped
from dgs.model.program import Program, State, StateType


class StateNotSavedError(RunError):
    """A state has values that the codec cannot encode, so `on_error: skip` cannot go back to it."""

    code = "DGS512"
    template = "`on_error: skip` needs a copy of every state of program {program}, and this one cannot be copied{where}: {problem}"
    fix = "Keep other types in the state, register this one with `dgs.codec.register`, or run with `on_error: stop`"


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row that could not be read. It is the payload of a placeholder event, so that every runtime skips it once.

    `number`: the line of a text file, or the row of another file, from 1; None without a file. `function`: the function that could not read
    it, or "front".
    """

    row: Any
    file: str
    number: int | None
    reason: str
    function: str = "read"


class UnreadableRowError(Exception):
    """An event is a placeholder for a row that could not be read."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A skipped event and the reason: `error` is the error that `function` raised at `worker` ("" without workers).

    `stream`: the declared stream; `seq`: the event's number in it. `row`: the number of its row, which differs from `seq` after a front.
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
    row: int | None = None

    @classmethod
    def of(cls, event: Event, key: OrderKey, raised: UserCodeError) -> DeadLetter:
        """Return the letter of an event and the error that it raised, or of the row that could not be read."""
        unreadable, error, payload = None, raised.error, event.payload
        if isinstance(payload, UnreadableRow):
            unreadable = payload
            is_read = unreadable.function != "read"
            error = unreadable.reason if is_read else f"MalformedRowError: {unreadable.reason}"
            payload = unreadable.row if is_read else asdict(unreadable)
        return cls(
            stream=event.stream,
            ts=event.ts,
            seq=key.seq,
            kind=str(event.tag.kind),
            key=event.tag.key,
            payload=payload,
            error=error,
            function=raised.function if unreadable is None else unreadable.function,
            worker=raised.worker or "",
            row=raised.row,
        )

    @property
    def identity(self) -> tuple[str, int, int]:
        """The event's identity, the same for every worker: its stream, ts and row."""
        return self.stream, self.ts, self.seq


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An output in place of a part of an event's work that was left out because the user's code raised: its dead letter."""

    letter: DeadLetter


def letter_in(output: Any) -> DeadLetter | None:
    """Return the letter in an output, None for a usual output. A letter has a stamp of its own."""
    value = output.values[0] if type(output) is Stamped else output
    return value.letter if type(value) is LeftOut else None


def for_readable(states: StateType) -> StateType:
    """Return a state type whose updates raise UnreadableRowError for placeholders of unreadable rows."""

    def checked(update: Callable[..., Any]) -> Callable[..., Any]:
        def update_many(*arguments: Any) -> Any:
            for value in arguments:
                if isinstance(value, EventBatch) and isinstance(value.payload, list):
                    for payload in value.payload:
                        _refuse(payload)
            return update(*arguments)

        return update_many

    def update(state: State, event: Event, emit: Callable[[Any], None]) -> State:
        _refuse(event.payload)
        return states.update(state, event, emit)

    many, windows = states.update_batch, states.update_windows
    return replace(
        states,
        update=update,
        update_batch=None if many is None else checked(many),
        update_windows=None if windows is None else checked(windows),
    )


def _refuse(payload: Any) -> None:
    if type(payload) is UnreadableRow:
        raise UnreadableRowError(payload.reason)


codec.register(UnreadableRow, name="dgs.UnreadableRow")
codec.register(DeadLetter, name="dgs.DeadLetter", formerly="dgs.skipping.DeadLetter")
codec.register(LeftOut, name="dgs.LeftOut")


def saved(program: Program, state: State, *, worker: str | None = None) -> bytes:
    """Return a state as bytes, from which `codec.decode` makes a new one. Raises StateNotSavedError."""
    try:
        return codec.encode(state, keeps_order=True)
    except CodecError as error:
        where = "" if worker is None else f" (worker {worker})"
        raise StateNotSavedError(program=program.name, where=where, problem=error.problem) from error
