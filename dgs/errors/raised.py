"""Exceptions of user code: of any class, also one that would end the process. `is_ours` distinguishes our own interruptions.

`except RAISED as error: if is_ours(error): raise` is how a call of user code begins its error.

>>> class Late(Interruption): pass
>>> is_ours(Late()), is_ours(SystemExit(0)), is_ours(ValueError())
(True, False, False)
"""

from __future__ import annotations

import dis
import importlib
import traceback
from collections.abc import Iterator
from pathlib import Path

from dgs.errors.hidden_values import masked

RAISED = (BaseException,)
"""The exceptions of user code that become our errors: `sys.exit(0)` in an update does not end a run, nor does a cancelled task."""

OURS = (f"{Path(__file__).parents[1]}/", "<frozen importlib", f"{Path(importlib.__file__).parent}/")
"""The prefixes of our file names."""


class Interruption(BaseException):
    """Ends our work, even inside user code, which does not catch this as an Exception."""


def is_ours(error: BaseException) -> bool:
    """Return whether an exception came while user code ran, but not from user code.

    It is an Interruption, a Ctrl-C, or a closed generator of ours. User code may raise the last two itself.
    """
    if not isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        return isinstance(error, Interruption)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_filename.startswith(OURS):
        return True
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] != dis.opmap["RAISE_VARARGS"]


class StepNote(str):
    """A note on an exception that says in which step of a flow it was raised. It becomes a part of the error's sentence."""

    __slots__ = ()


def user_trace(error: BaseException) -> str:
    """Return the traceback of an exception and of its causes, without the frames of our own packages."""
    told = traceback.TracebackException.from_exception(error)
    for one in _chain(told, set()):
        one.__notes__ = [note for note in one.__notes__ or () if not isinstance(note, StepNote)] or None
        kept = [frame for frame in one.stack if not frame.filename.startswith(OURS)]
        one.stack = traceback.StackSummary.from_list(kept)
    return masked("".join(told.format()).rstrip("\n"))


def function_of(error: BaseException) -> str:
    """Return the name of the user's function that raised, "" if none of its frames is known.

    >>> def parse(line): return int(line)
    >>> try: parse("x")
    ... except ValueError as error: function_of(error.with_traceback(error.__traceback__.tb_next))
    'parse'
    """
    codes = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
    found = next((code for code in codes if not code.co_filename.startswith(OURS)), None)
    return "" if found is None else found.co_qualname.replace("<locals>.", "")


def user_lines(error: BaseException) -> Iterator[tuple[str, int]]:
    """Yield the file and line of each frame of the user's code in which an exception was raised, the last first."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return (
        frame for frame in reversed(frames) if not frame[0].startswith(OURS) and not _is_library(frame[0])
    )


def _is_library(file: str) -> bool:
    return "site-packages" in file or file.startswith(str(Path(importlib.__file__).parents[1]))


def summary(error: BaseException) -> str:
    """Return the class and the message of an exception, and the step of a flow in which it was raised."""
    try:
        said = str(error)
    except RAISED as failed:  # an exception of the user's `__str__`
        if is_ours(failed):
            raise
        said = "<its __str__ raised>"
    name = type(error).__qualname__
    text = f"{name}: {said}" if said else name
    steps = [note for note in getattr(error, "__notes__", ()) if isinstance(note, StepNote)]
    return masked(" ".join([text, *steps]))


def _chain(
    told: traceback.TracebackException | None, seen: set[int]
) -> Iterator[traceback.TracebackException]:
    """Yield an exception's report and those of its causes, contexts and group members, each once."""
    if told is None or id(told) in seen:
        return
    seen.add(id(told))
    yield told
    for other in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
        yield from _chain(other, seen)
