"""The parser of MRQL: from a text to its tree, one statement at a time, so that a wrong statement does not hide the others.

The grammar is in `mrql.lark`. `import`, `parser` and XML are outside of the subset: Q110.

>>> text = QueryText("words.mrql", "x = 1; select w frm w in x;")
>>> [parse_statement(text, one) for one in statements_of(text.text)][0].name
Traceback (most recent call last):
    ...
dgs.query.errors.QueryError: Q101 words.mrql:1:17: `frm` is not expected here
    x = 1; select w frm w in x;
                    ^
    Expected: `from`
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from dgs.errors.nearest import nearest
from dgs.query.errors import QueryError, Span
from dgs.query.mrql import mrql_tree as t
from dgs.query.mrql.mrql_builder import BUILD, PatternError

# A statement ends at a `;` that is not in a string, a comment or brackets.
PIECE = re.compile(
    r"""(?P<skip>(--|//)[^\n]*|/\*.*?\*/|"(\\.|[^"\\\n])*"|'(\\.|[^'\\\n])*')"""
    r"|(?P<open>[{(\[])|(?P<close>[})\]])|(?P<end>;)",
    re.DOTALL,
)
OUTSIDE = re.compile(r"\s*(import|parser)\b")
XML = re.compile(r"\b(?:source|stream)\s*\(\s*(xml)\b|\b(xpath|document)\s*\(")
REQUIRED = frozenset({"from", "in", "by", "then", "else", "step"})


@dataclass(frozen=True, slots=True)
class QueryText:
    """A script with the name of its file, which makes errors with their places."""

    file: str
    text: str

    def span(self, place: t.Place) -> Span:
        """Return the place with its line."""
        lines = self.text.splitlines()
        line, column = place
        return Span(self.file, line, column, lines[line - 1] if line <= len(lines) else "")

    def error(self, code: str, place: t.Place, problem: str, remedy: str = "", **facts: Any) -> QueryError:
        """Return an error of `dgs.query.errors.CODES` at a place."""
        return QueryError.of(code, problem, remedy, span=self.span(place), **facts)

    def placed(self, error: QueryError, place: t.Place) -> QueryError:
        """Return an error with a place, if it has none."""
        if error.facts["span"] is not None:
            return error
        return self.error(error.code, place, error.facts["problem"], error.facts["remedy"])


def statements_of(text: str) -> Iterator[str]:
    """Return each statement at its place: the text before it is blank, so that lines and columns are those of the whole text."""
    depth, start = 0, 0
    for piece in PIECE.finditer(text):
        depth += {"open": 1, "close": -1}.get(piece.lastgroup or "", 0)
        if piece["end"] and depth <= 0:
            yield _blank(text[:start]) + text[start : piece.start()]
            depth, start = 0, piece.end()
    if _without_comments(text[start:]).strip():
        yield _blank(text[:start]) + text[start:]


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _without_comments(text: str) -> str:
    return PIECE.sub(
        lambda piece: _blank(piece[0]) if piece["skip"] and piece[0][0] in "-/" else piece[0], text
    )


@cache
def _grammar() -> Lark:
    text = files(__package__).joinpath("mrql.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", start="statement", propagate_positions=True, maybe_placeholders=True)


def parse_statement(whole: QueryText, text: str) -> t.Statement:
    """Return the tree of one statement of a script. Raises QueryError Q101, and Q110 for constructs outside of the subset."""
    bare = _without_comments(text)
    outside = OUTSIDE.match(bare) or XML.search(bare)
    if outside:
        index = next(one for one in range(1, outside.re.groups + 1) if outside[one])
        what = f"`{outside[index]}`" if outside.re is OUTSIDE else f"XML (`{outside[index]}`)"
        remedy = (
            "The other statements are read; turn XML into JSON or CSV before." if outside.re is XML else ""
        )
        raise whole.error("Q110", _place(text, outside.start(index)), f"{what} is not in this MRQL", remedy)
    try:
        tree: t.Statement = BUILD.transform(_grammar().parse(text))
    except UnexpectedInput as error:
        raise _syntax_error(whole, text, error) from None
    except PatternError as error:
        problem = "before the colon of `group by` stands a name, a tuple of names or a record of names"
        raise whole.error("Q101", error.at, problem, "Write `group by k: e`.") from None
    return tree


def _place(text: str, position: int) -> t.Place:
    line_start = text.rfind("\n", 0, position) + 1
    return text.count("\n", 0, position) + 1, position - line_start + 1


def _syntax_error(whole: QueryText, text: str, error: UnexpectedInput) -> QueryError:
    if isinstance(error, UnexpectedCharacters):
        letter = text[error.pos_in_stream or 0]
        problem = "the statement ends too early" if letter == ";" else f"{letter!r} begins no word of MRQL"
        return whole.error("Q101", (error.line, error.column), problem)
    expected = _expected(error) if isinstance(error, UnexpectedToken) else ""
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        return whole.error(
            "Q101", (error.line, error.column), f"`{error.token}` is not expected here", expected
        )
    place = _place(text, len(_without_comments(text).rstrip()))
    return whole.error("Q101", place, "the statement ends too early", expected)


def _expected(error: UnexpectedToken) -> str:
    """Return what could stand there, if it is little: the word that the construct still needs, or a closing bracket."""
    literals = {term.name: term.pattern.value for term in _grammar().terminals if term.pattern.type == "str"}
    could = sorted(literals[name] for name in error.accepts if name in literals)
    meant = nearest(str(error.token), [word for word in could if word.isalpha()])
    needed = (
        [meant]
        if meant
        else [word for word in could if word in REQUIRED] or [one for one in could if one in ")}]"]
    )
    return f"Expected: {' or '.join(f'`{word}`' for word in needed)}" if needed else ""
