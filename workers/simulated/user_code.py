"""User code that raises: a copy of a program whose functions raise at a chosen call (a fuse) or at chosen events (poison).

>>> class Total(Program):
...     def init(self): return 0
...     def update(self, state, event, emit): return state + event
>>> fuse = Fuse()
>>> program = with_fuse(Total(), fuse)
>>> fuse.light(2)
>>> program.update(1, 2, print), program.name, program.gives("join")
(3, 'Total', False)
>>> program.update(3, 4, print)
Traceback (most recent call last):
dgs.workers.simulated.user_code.SimulatedMistake: call 2 of user code
>>> program.update(3, 4, print)
7
"""

from __future__ import annotations

import functools
import zlib
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, Protocol

from dgs.model.events import Event, EventBatch, declared_stream
from dgs.model.program import ForkJoin, Program, StateType

FUNCTIONS = ("update", "update_batch", "update_windows", "fork", "join")


class SimulatedMistake(Exception):  # noqa: N818 - as a user's bug would raise it
    """The error that user code raises, once."""


EXITS: tuple[BaseException, ...] = (
    SystemExit(0),
    KeyboardInterrupt(),
    SystemExit(None),
    SystemExit("enough"),
    CancelledError(),
    GeneratorExit(),
    BaseExceptionGroup("several", [SystemExit(0)]),
)
"""Exceptions of user code that are no `Exception`: they would end the process, some with exit code 0."""


class Guard(Protocol):
    """Makes functions of a program raise."""

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function in place of one of the program's."""


class Fuse:
    """Counts calls of user code down, and raises once, at the last one."""

    def __init__(self) -> None:
        self._left = self._set = 0
        self._mistake: BaseException | None = None

    def light(self, calls: int, mistake: BaseException | None = None) -> None:
        """Let the call number `calls`, counted from now on, raise a mistake, by default a SimulatedMistake."""
        self._left = self._set = calls
        self._mistake = mistake

    def has_gone_off(self) -> bool:
        """Return whether the call that it was lit for has raised."""
        return bool(self._set) and not self._left

    def put_out(self) -> None:
        """Make no call raise."""
        self._left = self._set = 0

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that counts each call before it calls `function`."""

        @functools.wraps(function)
        def guarded(*args: Any) -> Any:
            self._count()
            return function(*args)

        return guarded

    def _count(self) -> None:
        if self._left:
            self._left -= 1
            if not self._left:
                _raise(self._mistake or SimulatedMistake(f"call {self._set} of user code"))


class Poison:
    """Raises at a share of the events, always the same ones, after `update` has changed the state and made its outputs.

    >>> all_events = Poison(7, share=1.0).guard(lambda state, event: state)
    >>> from dgs.model.tags import Tag
    >>> try: all_events(0, Event(Tag("a"), "s", 5, None))
    ... except BaseException as error: print(error in EXITS)
    True
    """

    def __init__(self, seed: int, share: float) -> None:
        self._seed, self._share = seed, share

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that raises if an event is poison."""

        @functools.wraps(function)
        def guarded(*args: Any) -> Any:
            result = function(*args)
            for given in args:
                if isinstance(given, Event):
                    self._taste(given.stream, given.ts)
                elif isinstance(given, EventBatch):
                    for ts in given.ts.tolist():
                        self._taste(given.stream, ts)
            return result

        return guarded

    def _taste(self, stream: str, ts: int) -> None:
        number = zlib.crc32(f"{self._seed} {declared_stream(stream)} {ts}".encode())
        if number < self._share * 2**32:
            _raise(EXITS[number % len(EXITS)])


def _raise(mistake: BaseException) -> NoReturn:
    raise mistake.with_traceback(None)


_raise.__code__ = _raise.__code__.replace(co_filename="program.py")
"""A KeyboardInterrupt from a file of ours would be a Ctrl-C of the person who runs the simulation."""


def with_fuse(program: Program, fuse: Guard) -> Program:
    """Return a copy of a program with the fuse, or poison, in its `update`, `fork`, `join` and related functions.

    Objects without a `__dict__` are returned as they are.
    """
    mine = type(program)
    if not hasattr(program, "__dict__"):
        return program
    _ = program.dependence, program.has_derived_fork  # computed once, for the plain program
    body: dict[str, Any] = {}
    if mine.states is Program.states and mine.fork_joins is Program.fork_joins:
        body = {name: fuse.guard(getattr(mine, name)) for name in FUNCTIONS if program.gives(name)}
    else:
        body = {"states": _states_with(mine, fuse), "fork_joins": _fork_joins_with(mine, fuse)}
    fused: Program = object.__new__(type(mine.__name__, (mine,), {**body, "__module__": mine.__module__}))
    vars(fused).update(vars(program))
    return fused


def _states_with(mine: type[Program], fuse: Guard) -> Callable[[Program], tuple[StateType, ...]]:
    def states(self: Program) -> tuple[StateType, ...]:
        return tuple(
            replace(
                one,
                update=fuse.guard(one.update),
                update_batch=one.update_batch and fuse.guard(one.update_batch),
                update_windows=one.update_windows and fuse.guard(one.update_windows),
            )
            for one in mine.states(self)
        )

    return states


def _fork_joins_with(mine: type[Program], fuse: Guard) -> Callable[[Program], tuple[ForkJoin, ...]]:
    def fork_joins(self: Program) -> tuple[ForkJoin, ...]:
        return tuple(
            replace(one, fork=fuse.guard(one.fork), join=fuse.guard(one.join))
            for one in mine.fork_joins(self)
        )

    return fork_joins
