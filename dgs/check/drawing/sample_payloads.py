"""Payloads as Hypothesis strategies, from the user's options, real input, hints of `update`, or a guess that `update` accepts.

The hint of `update`'s event parameter gives the type of payloads: `Event[int]`, or a class with an attribute `payload: int`.

>>> class Amount(Protocol):
...     payload: int
>>> class Total(Program):
...     def init(self): return 0
...     def update(self, state: int, event: Amount, emit: Any) -> int: return state + event.payload
>>> payload_hint(Total())
<class 'int'>
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol, Union

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from dgs.check.drawing.constants import Constants, constants
from dgs.check.drawing.strategies import FLOATS, INTS, TEXTS, strategy_for, with_named
from dgs.check.drawing.time_steps import is_quick
from dgs.errors import UsageError
from dgs.errors.raised import RAISED, is_ours, summary
from dgs.model.events import Event
from dgs.model.outputs import emitted_one_by_one
from dgs.model.program import Program
from dgs.model.tags import Tag

__all__ = ["Protocol", "payload_hint", "payload_strategies"]

UNKNOWN: Any = object()

LARGEST = 1000
"""Numbers from the program's code up to this size are used, larger ones only if `update` takes large ints quickly."""

LONGEST = 0.0005
"""Seconds that `update` may take for a large int."""

GUESSES: tuple[tuple[SearchStrategy[Any], Sequence[Any]], ...] = (
    (INTS, (0, 1, 7)),
    (TEXTS, ("a", "bc")),
    (FLOATS, (0.1, 2.5)),
    (st.none(), (None,)),
    (st.lists(INTS, max_size=3), ([1], [2, 3])),
    (st.dictionaries(TEXTS, INTS, max_size=2), ({}, {"a": 1})),
)
"""Guesses for unknown payloads, with examples that `update` must accept."""


def payload_strategies(
    program: Program, tags: Sequence[Tag], given: Mapping[str, Any]
) -> tuple[dict[str, SearchStrategy[Any]], list[str]]:
    """Return a strategy for each kind of the tags, and the kinds with guessed payloads.

    `given`: by kind a strategy, a type, or a sequence of samples. Raises UsageError if no guess fits.
    """
    hint = payload_hint(program)
    found, guessed = dict[str, SearchStrategy[Any]](), []
    firsts = {tag.kind: tag for tag in reversed(tags)}
    hinted: SearchStrategy[Any] | None = None  # one for all kinds, so that kinds can share payloads
    for kind in dict.fromkeys(tag.kind for tag in tags):
        if kind in given:
            found[kind] = _given(kind, given[kind], _named(program, firsts, given[kind]))
        elif hint is not UNKNOWN:
            hinted = strategy_for(hint, _named(program, firsts, hint)) if hinted is None else hinted
            found[kind] = hinted
        else:
            found[kind] = _guess(program, firsts, kind)
            guessed.append(kind)
    return found, guessed


def any_ints(program: Program, tags: Sequence[Tag], given: Mapping[str, Any]) -> frozenset[str]:
    """Return the kinds whose payloads may be any int, and whose `update` takes a large one as quickly as a small one."""
    hint = payload_hint(program)
    firsts = {tag.kind: tag for tag in reversed(tags)}
    return frozenset(
        kind
        for kind, tag in firsts.items()
        if given.get(kind, hint) is int and _takes_large_ints(program, tag)
    )


def _takes_large_ints(program: Program, tag: Tag) -> bool:
    """Return whether `update` takes larger and larger payloads quickly. If a payload is a number of steps, large ones take forever."""
    for size in (100, 10_000, 1_000_000):
        if _error(program, tag, size) is not None:
            return False
        if not is_quick(partial(_error, program, tag, size), LONGEST):
            return False
    return True


def payload_hint(program: Program) -> Any:
    """Return the type of payloads in the hints of `update`, UNKNOWN without one."""
    update = program.states()[0].update
    names = [name for name in inspect.signature(update).parameters if name != "self"]
    try:
        hint = typing.get_type_hints(update, include_extras=True).get(names[1], UNKNOWN)
    except (NameError, TypeError, AttributeError, IndexError):  # names that exist only for type checkers
        return UNKNOWN
    return _payload_of(hint)


def _payload_of(hint: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        options = [_payload_of(one) for one in arguments]
        return UNKNOWN if UNKNOWN in options else Union[tuple(options)]  # noqa: UP007 - of values known at run time only
    if origin is Event and arguments:
        return UNKNOWN if arguments[0] is Any else arguments[0]
    if isinstance(hint, type) and hint is not Event:
        own = typing.get_type_hints(hint, include_extras=True).get("payload", Any)
        return UNKNOWN if own is Any else own
    return UNKNOWN


def _named(program: Program, firsts: Mapping[str, Tag], wanted: Any) -> Constants:
    """Return the texts in the program, and the numbers with their neighbours, if every `update` takes them quickly."""
    found = constants(program)
    numbers = sorted({near for one in found.numbers for near in (one - 1, one, one + 1)})
    if wanted is not int or not all(_takes_large_ints(program, tag) for tag in firsts.values()):
        numbers = [one for one in numbers if abs(one) <= LARGEST]
    if wanted in (int, float):
        numbers = [
            one for one in numbers if all(_takes(program, tag, wanted(one)) for tag in firsts.values())
        ]
    return Constants(tuple(numbers), found.texts)


def _takes(program: Program, tag: Tag, value: Any) -> bool:
    """Return whether `update` takes a payload quickly: the payload may be a number of steps."""
    return is_quick(partial(_error, program, tag, value), LONGEST) and _error(program, tag, value) is None


def _given(kind: str, wanted: Any, named: Constants) -> SearchStrategy[Any]:
    try:
        return strategy_for(wanted, named)
    except UsageError as error:
        raise UsageError(message=f"strategies of kind {kind!r}: {error}") from error


def _guess(program: Program, firsts: Mapping[str, Tag], kind: str) -> SearchStrategy[Any]:
    tag = firsts[kind]
    errors: list[str] = []
    for strategy, examples in GUESSES:
        failed = [error for value in examples if (error := _error(program, tag, value)) is not None]
        if not failed:
            wanted = type(examples[0])
            return with_named(strategy, wanted, _named(program, {kind: tag}, wanted))
        errors += failed[:1]
    message = (
        f"nothing says what the payloads of kind {tag.kind!r} are, and `update` of {program.name} accepts no guess "
        f"({errors[0]}): hint them (`event: dgs.Event[int]`), give `strategies={{{tag.kind!r}: ...}}`, or check a plan.yaml"
    )
    raise UsageError(message=message)


def _error(program: Program, tag: Tag, value: Any) -> str | None:
    update, event = program.states()[0].update, Event(tag, tag.kind, 0, value)
    try:
        emitted_one_by_one(update, program.init(), event, program.emits_columns)
    except RAISED as error:
        if is_ours(error):
            raise
        return f"payload {value!r}: {summary(error)}"
    return None
