"""Errors in the user's commands, plan files, programs, plans and inputs, found before anything starts."""

from __future__ import annotations

from typing import ClassVar

from dgs.errors.families import InvalidError, UsageError


class UnfinishedRunError(UsageError):
    """An unfinished run of the same plan file has committed something."""

    code = "DGS202"
    template = "{run} has not finished: {progress}"
    fix = "Resume it with `{resume}`, or start again with `{fresh}`"


class NoSuchRunError(UsageError):
    """There is no run that fits the command."""

    code = "DGS203"
    template = "{problem}"
    fix = "{advice}"


class PlanFileError(InvalidError):
    """plan.yaml is invalid. `where` is file:line:column."""

    code = "DGS301"
    template = "{where}: {problem}"


class ProgramImportError(InvalidError):
    """The program named in plan.yaml cannot be imported."""

    code = "DGS302"
    template = "cannot load {ref!r}: {problem}"


class ProgramError(InvalidError):
    """The program is invalid: a part is missing or contradicts another."""

    code = "DGS303"
    template = "program {program}: {problem}"


class AsymmetricDependenceError(InvalidError):
    """The functional dependence answers differently for (a, b) and (b, a) (Definition 2.1, clause 2)."""

    code = "DGS304"
    template = "the dependence is not symmetric: depends({left}, {right}) is {forward} but depends({right}, {left}) is {backward}"
    fix = "Two events either commute or they do not: return the same answer for both orders"


class InvalidPlanError(InvalidError):
    """The plan breaks structure, V1, V2 or coverage. `violations` lists all violations."""

    code = "DGS305"
    template = "the plan is not valid for program {program}:\n{listing}"


class NoPlanError(InvalidError):
    """No assignment of state types makes the tag tree a valid plan. `reason` names the node that fails."""

    code = "DGS306"
    template = "no plan found for program {program}: {reason}"


class MissingInputError(InvalidError):
    """An input file does not exist, or a glob matches nothing. `advice`: what its path is relative to, if plan.yaml does not name it."""

    code = "DGS307"
    template = "{at}stream {stream!r}: no file at {path}{hint}"
    fix = "{advice}"
    FROM_HERE: ClassVar[str] = "Its path is relative to the working directory"

    def __init__(self, *, stream: str, path: object, hint: str = "", at: str = "", **facts: object) -> None:
        usual = {"advice": "Paths in plan.yaml are relative to the plan file"}
        super().__init__(stream=stream, path=path, hint=hint, at=at, **usual | facts)


class UnknownColumnError(InvalidError):
    """A source, or a file that a query reads, lacks a named column. `advice`: where the name is, if not in plan.yaml."""

    code = "DGS308"
    template = (
        "{at}stream {stream!r}: there is no column {column!r} in {where}{hint}; its columns are {columns}"
    )
    fix = "{advice}"

    def __init__(self, *, stream: str, column: str, hint: str = "", at: str = "", **facts: object) -> None:
        usual = {"advice": "Correct the name under `ts:`, `tags:`, `payload:` or `columns:` of the stream"}
        super().__init__(stream=stream, column=column, hint=hint, at=at, **usual | facts)


class MalformedRowError(InvalidError):
    """A row of the input is not an event: a null or untypable timestamp or tag, a broken line, a damaged file.

    `row`: its number in the stream, from 0. The facts also have `file`, `line` (from 1) and `field`, the column, if they are known.
    """

    code = "DGS322"
    template = "stream {stream!r}, row {row}: {problem}"


class AmbiguousTagError(InvalidError):
    """A kind or key in plan.yaml is a text that is also the name of a column of the source."""

    code = "DGS323"
    template = "{at}stream {stream!r}, `tags:`: `{part}: {text}` is a text, and there is a column {text!r} in {where}"
    fix = "Say `{part}: {{column: {text}}}` for what each row has there, or `{part}: {{value: {text}}}` for the text itself"

    def __init__(self, *, stream: str, at: str = "", **facts: object) -> None:
        super().__init__(stream=stream, at=at, **facts)


class InvalidDiagramError(InvalidError):
    """A wire diagram breaks a side condition of Definition 2.2."""

    code = "DGS309"
    template = "the diagram is not valid for program {program}: {problem}"
