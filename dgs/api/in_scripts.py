"""Calls in scripts and notebooks: wrong arguments are refused; a traceback shows the user's own frames, and says how to go on.

The frames of dgs between the user's call and an error are of no use to the user. A note replaces them; the environment variable DGS_DEBUG
shows them. Bugs in dgs keep their whole traceback.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from dgs.errors import DgsError, InternalError, SystemRefusalError, UsageError, UserCodeError
from dgs.errors.calls import what_it_takes
from dgs.errors.shortened import short_repr

if TYPE_CHECKING:
    from dgs.api.preparing import Launch

Function = TypeVar("Function", bound=Callable[..., Any])

_ROOT = Path(__file__).resolve().parents[2]
_OURS = tuple(f"{_ROOT / name}{os.sep}" for name in ("dgs", "planner", "workers", "spark_bridge"))


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "True or False"),
    "int": ((numbers.Integral,), "a whole number"),
    "float": ((numbers.Real,), "a number"),
    "str | os.PathLike[str]": ((str, os.PathLike), "a path"),
    "Literal['auto', 'require', 'off']": ((str,), "a text"),
}
"""The types that fit a parameter's annotation, and their name. Other parameters are checked where they are used."""


def folded(function: Function) -> Function:
    """Refuse arguments that do not fit a public function; fold the frames of dgs in errors that it raises.

    The function then also raises UsageError, and SystemRefusalError for an error of the system about a path.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        try:
            for name, value in _bound(function, signature, positional, named).items():
                _check(name, value, signature.parameters[name])
            return _called(function, *positional, **named)
        except InternalError:
            raise
        except DgsError as error:
            if not os.environ.get("DGS_DEBUG"):
                _fold(error)
            raise

    return call  # type: ignore[return-value]


def _bound(
    function: Callable[..., Any], signature: inspect.Signature, positional: Any, named: Any
) -> dict[str, Any]:
    """Return the arguments of a call by name. Raises UsageError if the function does not take them."""
    try:
        return signature.bind(*positional, **named).arguments
    except TypeError as error:
        raise UsageError(
            message=f"{function.__name__}(): {error}: it takes {what_it_takes(function)}"
        ) from None


def _called(function: Callable[..., Any], *positional: Any, **named: Any) -> Any:
    """Call a function. An error of the system becomes one of ours, as in a command."""
    try:
        return function(*positional, **named)
    except (OSError, RuntimeError) as error:
        if (refusal := SystemRefusalError.found_in(error)) is None:
            raise
        raise refusal from error


def _check(name: str, value: Any, parameter: inspect.Parameter) -> None:
    """Raise UsageError for an argument that does not fit the annotation of its parameter."""
    if value is None and parameter.default is None:
        return
    kinds, right = _KINDS.get(str(parameter.annotation).removesuffix(" | None"), ((object,), ""))
    is_wrong = not isinstance(value, kinds) or (isinstance(value, bool) and bool not in (*kinds, object))
    if right and is_wrong:
        raise UsageError(
            message=f"{name}={short_repr(value)} is of type {type(value).__name__}: give {right}"
        )
    is_number = isinstance(value, numbers.Real)
    if is_number and not 0 <= value <= sys.float_info.max:
        raise UsageError(message=f"{name}={short_repr(value)}: give a finite number, at least 0")
    if isinstance(value, (str, os.PathLike)) and not _is_text(os.fspath(value)):
        raise UsageError(message=f"{name}={value!r} cannot be the name of a file")


def _is_text(path: Any) -> bool:
    """Return whether the system accepts a path."""
    try:
        return isinstance(path, str) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _fold(error: DgsError) -> None:
    """Keep only the user's frames of an error and of its causes; note how many others there were."""
    count = 0
    one: BaseException | None = error
    seen: set[int] = set()
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        one.__traceback__, dropped = _users(one.__traceback__)
        count += dropped
        following = one.__cause__ or one.__context__
        if isinstance(one, UserCodeError):  # the text of the error begins with the traceback of its cause
            one.__context__, one.__cause__ = following, None
        one = following
    if count:
        error.add_note(f"... {count} frames of dgs (DGS_DEBUG=1 shows them)")


def _users(trace: TracebackType | None) -> tuple[TracebackType | None, int]:
    """Return a traceback with the user's frames alone, and the number of the others."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    kept = [one for one in frames if not _is_ours(one)]
    folded_trace: TracebackType | None = None
    for one in reversed(kept):
        folded_trace = TracebackType(folded_trace, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return folded_trace, len(frames) - len(kept)


def _is_ours(trace: TracebackType) -> bool:
    return os.path.realpath(trace.tb_frame.f_code.co_filename).startswith(_OURS)


def say_how_to_go_on(launch: Launch) -> None:
    """Print on stderr where an interrupted run is, what it has committed, and the call that resumes it."""
    from dgs.api.known_runs import KnownRun, holds_checkpoints

    name, directory = launch.prepared.config.name, launch.directory
    if directory is None:
        told = "it has no directory, so nothing is kept: give `run_dir=` to resume such a run"
    else:
        path, request = os.path.relpath(directory.path), launch.prepared.request
        source = "" if request.is_from_file else ", program=..., streams=..."
        call = f"dgs.resume({path!r}{source})"
        what = (
            KnownRun(directory).progress
            if holds_checkpoints(directory.checkpoints)
            else "nothing is committed"
        )
        told = f"{what}; the run is in {path}; go on with: {call}"
    sys.stderr.write(f"dgs: {name} was interrupted; {told}\n")
