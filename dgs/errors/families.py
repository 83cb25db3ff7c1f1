"""The seven families of errors, and their base: an error is a set of facts with a sentence made of them.

A family has one exit code of the command line. Catch families; raise the error that names the problem.
"""

from __future__ import annotations

from string import Formatter
from typing import Any, ClassVar

from dgs.errors.hidden_values import masked, masked_data
from dgs.errors.shortened import shortened


class _Sentence(Formatter):
    """Puts facts into a sentence, without secrets and with long facts shortened."""

    def get_value(self, key: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG002 - sentences name their facts
        return kwargs.get(key, _UNKNOWN)

    def format_field(self, value: Any, format_spec: str) -> str:
        return told(super().format_field(value, format_spec))


def told(text: str) -> str:
    """Return a text that contains parts of a user's, in the form that a sentence may quote."""
    return shortened(masked(text))


class _Unknown:
    """A fact that user code left out when it raised one of our errors: a question mark in any format."""

    def __format__(self, _how: str) -> str:
        return "?"

    __repr__ = __str__ = lambda _self: "?"


_UNKNOWN = _Unknown()


class DgsError(Exception):
    """Base of all errors of dgs. Subclasses declare a `code`, a `template` over their facts, and a `fix`."""

    code: ClassVar[str] = "DGS000"
    exit_code: ClassVar[int] = 5
    template: ClassVar[str] = "{message}"
    fix: ClassVar[str] = ""

    def __init__(self, **facts: Any) -> None:
        self.facts = facts
        super().__init__(facts)

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.facts)

    def __str__(self) -> str:
        sentence, remedy = self.filled(self.template), self.filled(self.fix)
        end = "" if sentence.endswith("?") else "."
        return masked(f"{sentence}{end} {remedy}" if remedy else sentence)

    def filled(self, template: str) -> str:
        """Return a template with the facts of the error."""
        return _Sentence().vformat(template, (), self.facts)

    def __repr__(self) -> str:
        return masked(f"{type(self).__name__}({masked_data(self.facts)!r})")


def _rebuild(cls: type[DgsError], facts: dict[str, Any]) -> DgsError:
    return cls(**facts)


class UsageError(DgsError):
    """A flag or argument makes no sense."""

    code = "DGS201"
    exit_code = 2


class InvalidError(DgsError):
    """A file, program or plan is wrong: nothing was started, or a run reached a row of its input that cannot be read."""

    code = "DGS300"
    exit_code = 3


class ResourceError(DgsError):
    """Something outside dgs is not available."""

    code = "DGS400"
    exit_code = 4


class RunError(DgsError):
    """The run failed."""

    code = "DGS500"
    exit_code = 5


class CheckpointError(DgsError):
    """A checkpoint or log is refused, damaged, or cannot be written."""

    code = "DGS600"
    exit_code = 6


class UserCodeError(DgsError):
    """The user's update, fork, join or emit raised. The message begins with the user's traceback."""

    code = "DGS101"
    exit_code = 1
    template = "{trace}\n{function} of program {program} raised {error}{where}"


class InternalError(DgsError):
    """A broken invariant: a bug in dgs, not in the program or its input."""

    code = "DGS901"
    exit_code = 70
    template = "internal error: {problem}"
    fix = "This is a bug in dgs: please report it with the command and the run directory"
