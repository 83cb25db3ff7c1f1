"""Errors of user code: the user's traceback, then the event and stream at which it happened.

>>> from dgs.model.tags import Tag
>>> from dgs.model.program import Program
>>> class Broken(Program):
...     def update(self, state, event, emit):
...         return state / event.payload
>>> event = Event(Tag("view", 7), "clicks", 12, 0)
>>> try:
...     Broken().update(1, event, print)
... except ZeroDivisionError as error:
...     told = user_error(Broken(), "update", error, event=event, key=OrderKey(12, 0, 3), worker="w3")
>>> print(str(told).splitlines()[-1])
update of program Broken raised ZeroDivisionError: division by zero at event view(7) of stream 'clicks', row 3, ts 12, payload 0, worker w3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any, NamedTuple, TypeVar

from dgs import codec
from dgs.errors import CodecError, DgsError, NoStateError, UserCodeError
from dgs.errors.hidden_values import masked
from dgs.errors.raised import RAISED, is_ours, summary, user_trace
from dgs.errors.shortened import Short
from dgs.model.columns import ROWS_APART
from dgs.model.events import Event, EventBatch
from dgs.model.order import OrderKey
from dgs.model.program import Program

Result = TypeVar("Result")

LONGEST_REPR = 200
"""The most characters of a payload in an error message."""

_ROW = "_row_of_batch"
"""The attribute of an exception that `raised_at` sets."""


class ReturnedNothingError(Exception):
    """An `update` returned None. Its caller raises NoStateError instead."""


class States:
    """The possible states of a program. Only None is checked, which usually is a forgotten `return`."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._may_be_none: bool | None = None

    def check_none(self) -> None:
        """Raise ReturnedNothingError unless None is a state: `init` or `identity` returns it, or a type hint of `update` allows it."""
        if self._may_be_none is None:
            self._may_be_none = self._none_is_a_state()
        if not self._may_be_none:
            raise ReturnedNothingError

    def _none_is_a_state(self) -> bool:
        program = self._program
        hint = str(getattr(type(program).update, "__annotations__", {}).get("return", ""))
        if type(program).states is not Program.states or "| None" in hint or "Optional" in hint:
            return True
        try:
            return program.init() is None or (program.gives("identity") and program.identity() is None)
        except RAISED as error:  # already called once, and called again where the error can be explained
            if is_ours(error):
                raise
            return True


def user_error(
    program: Program,
    function: str,
    error: BaseException,
    *,
    event: Event | None = None,
    key: OrderKey | None = None,
    worker: str | None = None,
) -> UserCodeError:
    """Return the error to raise for an exception of `function` (`update`, `fork`, ...) of a program.

    All its facts are plain data, so it can be sent to another process; the payload is shortened to about 200 characters.
    """
    tag, payload = (None, None) if event is None else (repr(event.tag), shown(event.payload))
    row = None if key is None else key.seq if program.front is None else key.seq // ROWS_APART
    is_nothing = isinstance(error, ReturnedNothingError)
    return (NoStateError if is_nothing else UserCodeError)(
        trace="" if is_nothing else user_trace(error),
        function=function,
        program=program.name,
        error=summary(error),
        where=_where(event, row, worker),
        stream=None if event is None else event.stream,
        row=row,
        seq=None if key is None else key.seq,
        ts=None if event is None else event.ts,
        tag=tag,
        payload=payload,
        worker=worker,
    )


@dataclass(frozen=True, slots=True)
class UserCode:
    """The functions of a program, as we call them: their exceptions become UserCodeErrors, which start with the user's traceback.

    Our own errors, such as that of an output that cannot be written, pass unchanged. `worker`: the caller.

    >>> code = UserCode(Program(), "w3")
    >>> code.call("join", lambda left, right: left + right, 1, 2)
    3
    >>> try: code.call("join", lambda left, right: left + right, 1, None)
    ... except UserCodeError as error: print(str(error).splitlines()[-1])
    join of program Program raised TypeError: unsupported operand type(s) for +: 'int' and 'NoneType' in worker w3
    """

    program: Program
    worker: str | None = None

    def call(
        self,
        name: str | Callable[[BaseException], str],
        function: Callable[..., Result],
        *arguments: Any,
        at: EventBatch | Callable[[], EventBatch] | None = None,
    ) -> Result:
        """Return the function's result. Raises UserCodeError for its exceptions.

        `name`: the function of the program, or a function that finds its name from the exception. `at`: the batch that it was
        called with, or a function that finds it. The error names its first event, or that of `raised_at`.
        """
        try:
            return function(*arguments)
        except DgsError:
            raise
        except RAISED as error:
            if is_ours(error):
                raise
            which = name if isinstance(name, str) else name(error)
            raise self._failed(which, error, at() if callable(at) else at) from error

    def _failed(self, name: str, error: BaseException, at: EventBatch | None) -> UserCodeError:
        if at is None:
            return user_error(self.program, name, error, worker=self.worker)
        row = min(int(getattr(error, _ROW, 0)), len(at) - 1)
        event, key = at.cut(row, row + 1).events()[0], at.key(row)
        return user_error(self.program, name, error, event=event, key=key, worker=self.worker)


def raised_at(error: BaseException, row: int) -> None:
    """Note at which row of its batch an exception of user code was raised."""
    vars(error).setdefault(_ROW, row)


def function_error(ref: str, error: BaseException, *, program: str, where: str) -> UserCodeError:
    """Return the error to raise for an exception of a function that a plan file names. `where`: its place, for the message."""
    place = f" {where}" if where else ""
    return UserCodeError(
        trace=user_trace(error), function=ref, program=program, error=summary(error), where=place
    )


class Row(NamedTuple):
    """A row for which a function was called: its stream, its number there, its time and its value."""

    stream: str
    number: int
    ts: int
    value: Any


def row_error(ref: str, error: BaseException, *, program: str, row: Row) -> UserCodeError:
    """Return the error to raise for an exception of a function that makes events of a row."""
    where = f" at row {row.number} of stream {row.stream!r}, ts {row.ts}, payload {shown(row.value)}"
    return UserCodeError(
        trace=user_trace(error), function=ref, program=program, error=summary(error), where=where,
        stream=row.stream, row=row.number, ts=row.ts, payload=shown(row.value),
    )  # fmt: skip


@contextmanager
def calling(function: str, *, program: str, where: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Turn exceptions of a function that a plan file names, raised in the block, into UserCodeError. `where`: as in `function_error`."""
    try:
        yield
    except DgsError:
        raise
    except RAISED as error:
        if is_ours(error):
            raise
        raise function_error(function, error, program=program, where=where()) from error


def packed(value: Any, broken: Callable[[str], DgsError]) -> bytes:
    """Return a value from user code as codec bytes; raise `broken(problem)` if the codec cannot encode it.

    Bytes can pass through processes that have not loaded the user's classes.
    """
    try:
        return codec.encode(value)
    except (CodecError, RecursionError) as error:
        raise broken(f"{shown(value)}: {error}") from error


def shown(value: object) -> str:
    """Return a repr of at most LONGEST_REPR characters, even if an object's own repr is huge or raises."""
    short = Short()
    short.maxstring = short.maxother = LONGEST_REPR
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = 8
    text = masked(short.repr(value))
    return text if len(text) <= LONGEST_REPR else text[: LONGEST_REPR - 3] + "..."


def _where(event: Event | None, row: int | None, worker: str | None) -> str:
    parts = []
    if event is not None:
        of_row = "" if row is None else f", row {row}"
        parts.append(f"at event {event.tag!r} of stream {event.stream!r}{of_row}, ts {event.ts}")
        parts.append(f"payload {shown(event.payload)}")
    if worker is not None:
        parts.append(f"worker {worker}" if parts else f"in worker {worker}")
    return f" {', '.join(parts)}" if parts else ""


def code_objects(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from code_objects(inner)
