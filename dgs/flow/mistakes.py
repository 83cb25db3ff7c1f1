"""Mistakes in a flow: each has a code, its place, what was expected, what was found, and a fix.

All mistakes of a flow are reported together, in one `FlowError`.

>>> mistake = Mistake("F07", "step 2 'aggregate'", "window of 2500 ms is no multiple of the clock's 1 s", place="flow.py:9")
>>> print(FlowError.of("campaigns", [mistake]))
flow 'campaigns' has 1 mistake:
F07 step 2 'aggregate': window of 2500 ms is no multiple of the clock's 1 s    flow.py:9
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FunctionType
from typing import TypeVar

from dgs.errors import InvalidError
from dgs.errors.calls import refusing

_HERE = tuple(str(Path(__file__).parents[1] / room) for room in ("flow", "pico", "errors"))

Class = TypeVar("Class", bound=type)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line}"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake. `where` names the step; `drawing` is the pipeline with a caret under the step, two lines or none."""

    code: str
    where: str
    problem: str
    place: str = ""
    expected: str = ""
    found: str = ""
    fix: str = ""
    drawing: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the mistake as text."""
        head = f"{self.code} {self.where}: {self.problem}" + (f"    {self.place}" if self.place else "")
        facts = [f"    expected  {self.expected}"] if self.expected else []
        facts += [f"    found     {self.found}"] if self.found else []
        drawn = [f"    {line}" for line in self.drawing]
        return "\n".join([head, *facts, *drawn, *([f"    {self.fix}."] if self.fix else [])])


class FlowError(InvalidError):
    """A flow is wrong. `mistakes` has all mistakes that were found, as data; nothing was started."""

    code = "DGS310"
    template = "flow {flow!r} has {count}:\n{listing}"

    @classmethod
    def of(cls, flow: str, mistakes: Sequence[Mistake]) -> FlowError:
        """Return the error of these mistakes."""
        count = f"{len(mistakes)} mistake{'s' if len(mistakes) != 1 else ''}"
        listing = "\n".join(mistake.text() for mistake in mistakes)
        return cls(
            flow=flow, count=count, listing=listing, mistakes=[asdict(mistake) for mistake in mistakes]
        )

    @property
    def codes(self) -> list[str]:
        """The codes of the mistakes, in the order of the steps."""
        return [mistake["code"] for mistake in self.facts["mistakes"]]


def user_place() -> Place:
    """Return the running line of the user's code."""
    frame = sys._getframe(1)  # noqa: SLF001 - the public way, inspect.stack, reads source files and takes milliseconds
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)


def refused_call(name: str, takes: str, problem: str) -> FlowError:
    """Return the error of a call with arguments that a function does not take."""
    said, where = "is called with other arguments than it takes", f"{name}()"
    fix = "Correct the call"
    return FlowError.of(name, [Mistake("F01", where, said, str(user_place()), takes, problem, fix)])


checks_call = refusing(refused_call)
"""Let a function raise FlowError, F01, for arguments that are missing, superfluous or of no name that it knows."""


def checks_calls(cls: Class) -> Class:
    """Let the public methods of a class do so, and what makes its objects."""
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, checks_call(method))
    return cls
