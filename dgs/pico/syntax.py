r"""Terms: the syntax of pipelines (PiCo, section 2.1) as a tree, and how a tree is drawn with carets under its operators.

>>> from dgs.pico.operators import filter, map
>>> both = To(New(map(str)), (New(filter(str.isdigit)),))
>>> print(*drawn(both, {both.branches[0]: "here"}), sep="\n")
new(map(str)) | new(filter(isdigit))
                    ^ here
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dgs.flow.mistakes import Place
from dgs.pico.operators import Combine, Operator, Source


@dataclass(frozen=True, eq=False)
class Term:
    """The base of the terms; `place` is the line of the user's code that made it."""

    place: Place | None = field(default=None, kw_only=True)


@dataclass(frozen=True, eq=False)
class New(Term):
    """A pipeline of one operator."""

    operator: Operator


@dataclass(frozen=True, eq=False)
class To(Term):
    """A pipeline whose output goes to every branch; the outputs of the branches are put together. `a | b` has one branch."""

    first: Term
    branches: tuple[Term, ...]


@dataclass(frozen=True, eq=False)
class Pair(Term):
    """An operator of two collections, the outputs of two pipelines."""

    left: Term
    right: Term
    operator: Operator


@dataclass(frozen=True, eq=False)
class Merge(Term):
    """The outputs of two pipelines, put together."""

    left: Term
    right: Term


@dataclass(frozen=True, eq=False)
class Iterate(Term):
    """A pipeline that is fed its own output, which PiCo does not have."""

    body: Term


Made = TypeVar("Made", bound=Term)


def parts_of(term: Term) -> tuple[Term, ...]:
    """Return the terms that a term is made of."""
    match term:
        case To(first, branches):
            return (first, *branches)
        case Pair(left, right) | Merge(left, right):
            return (left, right)
        case Iterate(body):
            return (body,)
    return ()


def terms_of(term: Term, kind: type[Made]) -> Iterator[Made]:
    """Yield the terms of a kind in a tree, in the order of reading."""
    if isinstance(term, kind):
        yield term
    for part in parts_of(term):
        yield from terms_of(part, kind)


def combines_of(term: Term) -> list[tuple[Term, Combine]]:
    """Return the operators of a tree that combine, with their terms."""
    both: list[New | Pair] = [*terms_of(term, New), *terms_of(term, Pair)]
    return [(one, one.operator) for one in both if isinstance(one.operator, Combine)]


def sources_of(term: Term) -> list[Source]:
    """Return the sources of a tree."""
    return [one.operator for one in terms_of(term, New) if isinstance(one.operator, Source)]


def inputs_of(term: Term) -> list[Term]:
    """Return the operators that read the input of a pipeline."""
    match term:
        case New(operator):
            return [term] if operator.takes > 0 else []
        case To(first):
            return inputs_of(first)
    return [one for part in parts_of(term) for one in inputs_of(part)]


def ends_of(term: Term) -> list[Term]:
    """Return the terms that give the output of a pipeline."""
    if isinstance(term, To):
        return [one for branch in term.branches for one in ends_of(branch)]
    return [term]


def takes_input(term: Term) -> bool:
    """Return whether a pipeline has an input."""
    return bool(inputs_of(term))


def gives_output(term: Term) -> bool:
    """Return whether a pipeline has an output."""
    match term:
        case New(operator):
            return operator.offers > 0
        case To(_, branches):
            return any(gives_output(branch) for branch in branches)
    return True


def drawn(term: Term, carets: Mapping[Term, str]) -> tuple[str, ...]:
    """Return a tree as a line, and below it a line for each caret: under the operator of a term, or under its first letter."""
    columns: dict[Term, int] = {}
    line = _drawn(term, columns, 0)
    return line, *(f"{' ' * columns[one]}^ {text}".rstrip() for one, text in carets.items())


def _drawn(term: Term, columns: dict[Term, int], start: int) -> str:  # noqa: PLR0911 - one return a term
    columns[term] = start
    match term:
        case New(operator):
            columns[term] = start + len("new(")
            return f"new({operator.label})"
        case To(first, (only,)):
            return _joined(" | ", [first, only], columns, start)
        case To(first, branches):
            return f"to({_joined(', ', [first, *branches], columns, start + len('to('))})"
        case Merge(left, right) if isinstance(left, To) or isinstance(right, To):
            return f"merge({_joined(', ', [left, right], columns, start + len('merge('))})"
        case Merge(left, right):
            return f"({_joined(' + ', [left, right], columns, start + 1)})"
        case Pair(left, right, operator):
            inner = _joined(", ", [left, right], columns, start + len("pair("))
            columns[term] = start + len("pair(") + len(inner) + len(", ")
            return f"pair({inner}, {operator.label})"
        case Iterate(body):
            return f"iterate({_drawn(body, columns, start + len('iterate('))})"
    return ""


def _joined(mark: str, terms: list[Term], columns: dict[Term, int], start: int) -> str:
    text = ""
    for one in terms:
        text += mark if text else ""
        text += _drawn(one, columns, start + len(text))
    return text
