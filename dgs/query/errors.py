"""Mistakes in a query, and faults of its data: one class with a code, the place in the text, the line with a caret, and what to do.

>>> place = Span("top.sql", 1, 8, "select nme from flights")
>>> print(QueryError.of("Q201", "flights has no column 'nme'", "Did you mean 'name'?", span=place))
Q201 top.sql:1:8: flights has no column 'nme'
    select nme from flights
           ^
    Did you mean 'name'?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dgs.errors import InvalidError
from dgs.errors.families import told
from dgs.errors.hidden_values import masked
from dgs.errors.shortened import around

CODES = {
    "Q101": ("the text cannot be read", 3),
    "Q110": ("known, and not supported", 3),
    "Q120": ("a parameter is missing, unknown, or does not fit", 3),
    "Q201": ("an unknown name", 3),
    "Q202": ("an ambiguous name", 3),
    "Q203": ("a position behind the last column", 3),
    "Q204": ("a type does not fit", 3),
    "Q205": ("an unknown function", 3),
    "Q206": ("a wrong number of arguments", 3),
    "Q207": ("a column that is neither grouped nor aggregated", 3),
    "Q208": ("a union of different schemas", 3),
    "Q301": ("the state is of a worse class than required", 3),
    "Q302": ("two streams without an equality between them", 3),
    "Q303": ("an aggregation that is no commutative monoid", 3),
    "Q304": ("an aggregation that cannot undo a deletion", 3),
    "Q306": ("a loop without a bound", 3),
    "Q401": ("an operation that waits for the end of a stream that has none", 3),
    "Q402": ("two windows that differ", 3),
    "Q501": ("the place cannot run this", 3),
    "Q502": ("the place cannot run this on a stream", 3),
    "Q503": ("an engine is not installed", 4),
    "Q601": ("a rule that is wrong in itself", 3),
    "Q602": ("a rule that breaks the graph", 3),
    "Q603": ("rules that undo each other", 3),
    "Q604": ("rules that come to no end", 3),
    "Q605": ("a rule that changes the answer", 1),
    "Q701": ("an integer beyond 64 bits", 5),
    "Q702": ("more deletions of a row than insertions", 5),
    "Q703": ("a row that does not fit its schema", 5),
    "Q704": ("a function that fails on its values", 5),
}
"""The codes, with the subject of each and the exit code: 3 before a run, 5 in a run, 4 if something is missing on the machine."""

REMEDIES = {
    "Q110": "Leave it out.",
    "Q201": "Give one of the names that are there.",
    "Q203": "Give a smaller number, or the name of the column.",
    "Q204": "Cast the value, or take one of a type that fits.",
    "Q205": "Write it with functions that are there.",
    "Q206": "Give as many as it takes.",
    "Q208": "Give both sides the same number of columns, of types that fit.",
    "Q704": "Leave such values out in a `where`, or ask for them in a `case`.",
}
"""What to do about a mistake of a code, if nothing better is known."""


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a query's text: file, line and column from 1, and the text of the line."""

    file: str
    line: int
    column: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class QueryError(InvalidError):
    """A query is wrong, or its data are. Facts: `code`, `problem`, `remedy`, `span` or None, and further ones.

    `code` and `exit_code` are those of `CODES`; as an error of dgs it is DGS311.
    """

    code = "DGS311"
    template = "{problem}"

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts)
        vars(self).update(code=facts["code"], exit_code=CODES[facts["code"]][1])

    @classmethod
    def of(
        cls, code: str, problem: str, remedy: str = "", span: Span | None = None, **facts: Any
    ) -> QueryError:
        """Return the error of a code of `CODES`. `remedy` is a sentence that says what to do, by default that of the code."""
        where = None if span is None else f"{span.file}:{span.line}:{span.column}"
        remedy = remedy or REMEDIES.get(code, "")
        return cls(code=code, problem=problem, remedy=remedy, span=span, where=where, **facts)

    def __str__(self) -> str:
        span: Span | None = self.facts["span"]
        place = "" if span is None else f" {span}"
        lines = [told(f"{self.code}{place}: {self.facts['problem']}")]
        if span is not None and span.text:
            text, column = around(masked(span.text), span.column)
            lines += [f"    {text}", "    " + " " * (column - 1) + "^"]
        if self.facts["remedy"]:
            lines.append(f"    {told(self.facts['remedy'])}")
        return masked("\n".join(lines))


def failed(function: str, problem: str) -> QueryError:
    """Return the error of a function that fails on its values."""
    return QueryError.of("Q704", f"{function}: {problem}", function=function)
