"""The statements of a Pig script, read one by one: a mistake in one leaves the others readable.

>>> script = read_script("a = load 'x' as (n:int); b = strem a through y; dump a;", "top.pig")
>>> [type(one).__name__ for one in script.statements], [error.code for error in script.problems]
(['Load', 'Show'], ['Q101'])
"""

from __future__ import annotations

import ast
import functools
import importlib.resources
import re
import textwrap
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from dgs.errors.nearest import nearest
from dgs.query.errors import QueryError, Span
from dgs.query.pig.text import pig_syntax as pig
from dgs.query.pig.text.pig_tree import PigTree
from dgs.query.pig.text.script_text import PREPROCESSOR, Piece, pieces

VERBS = (
    "LOAD", "STORE", "DUMP", "DESCRIBE", "EXPLAIN", "ILLUSTRATE", "FILTER", "FOREACH", "GROUP", "COGROUP", "JOIN",
    "CROSS", "DISTINCT", "ORDER", "LIMIT", "UNION", "SPLIT", "SAMPLE", "ACCUMULATE", "WINDOW", "DEFINE", "IMPORT",
    "SET", "SOCKET_READ", "SOCKET_WRITE",
)  # fmt: skip
"""The words at the beginning of a statement, or after its `=`."""

NOT_OURS = {
    "STREAM": ("STREAM ... THROUGH", "Call a Python function of a <% %> section in FOREACH."),
    "MAPREDUCE": ("MAPREDUCE", "Run the program apart, and LOAD what it writes."),
    "NATIVE": ("NATIVE", "Run the program apart, and LOAD what it writes."),
    "CUBE": ("CUBE", "Write one GROUP for each grouping, and UNION."),
    "RANK": ("RANK", "ORDER the rows, and number them where they are read."),
    "ASSERT": ("ASSERT", "FILTER what must not be there, and look at it."),
    "REGISTER": ("REGISTER", "Write the functions in Python in a <% %> section."),
    "RDFLOAD": ("RDFLOAD", "LOAD the file with PigStorage."),
    "TUPLIFY": ("TUPLIFY", "GROUP by the subject."),
    "BGP_FILTER": ("BGP_FILTER", "Use FILTER and JOIN."),
    "MATERIALIZE": ("MATERIALIZE", "STORE it."),
    "CACHE": ("CACHE", ""),
    "RSCRIPT": ("RSCRIPT", "Write the function in Python in a <% %> section."),
    "SPATIAL_JOIN": ("SPATIAL_JOIN", ""),
    "SPATIAL_FILTER": ("SPATIAL_FILTER", ""),
    "PARTITION": ("PARTITION", ""),
    "INDEX": ("INDEX", ""),
    "MATCH_EVENT": ("MATCH_EVENT", ""),
    "EXEC": ("EXEC", "IMPORT the file."),
    "RUN": ("RUN", "IMPORT the file."),
    "FS": ("FS", "Do it in a shell before."),
    "SH": ("SH", "Do it in a shell before."),
}
"""Statements of Pig and Piglet that are known and not supported, with what to write in their place."""

_VERB = re.compile(r"(?:(?P<alias>\$?\w+)\s*=\s*)?(?P<verb>[a-z]\w*)\b(?!\s*=)", re.IGNORECASE)
_INNER = re.compile(r"\{.*\w\s*=\s*([a-z]+)\s+$", re.IGNORECASE | re.DOTALL)
_IN_A_BLOCK = "within the block of a FOREACH"
_UDF = re.compile(r"define\s+\w+\s+", re.IGNORECASE)
_WORDS = {
    "IDENT": "a name", "STRING": "a text in quotes", "INTEGER": "a number", "DECIMAL": "a number", "LONG": "a number",
    "POSITION": "$0", "PARAM": "a parameter", "LPAR": "(", "RPAR": ")", "EQUAL": "=", "COMMA": ",", "LBRACE": "{",
    "RBRACE": "}", "SEMICOLON": ";", "$END": ";", "LSQB": "[", "RSQB": "]", "COLON": ":",
    "COMPARE": "a comparison", "STAR": "*", "MINUS": "-", "QMARK": "?", "HASH": "#", "DOT": ".",
}  # fmt: skip
_SHOWN = 4
_NO_IDEA = "Compare the statement with the examples in the part on Pig Latin of docs/queries.md."
CHOICES = {
    "TYPE": ("int", "long", "float", "double", "chararray", "bytearray", "boolean", "datetime"),
    "DIRECTION": ("ASC", "DESC"),
    "SIDE": ("LEFT", "RIGHT", "FULL"),
    "EXTENT": ("RANGE", "ROWS"),
}
"""The words of terminals that match several words."""


@dataclass(frozen=True)
class SourceText:
    """A script's text and the name of its file: offsets in it become places for errors."""

    file: str
    text: str

    def span(self, at: int) -> Span:
        """Return the line and column of an offset."""
        starts = self._starts
        line = bisect_right(starts, at) - 1
        text = self.text[starts[line] :].split("\n", 1)[0]
        return Span(self.file, line + 1, at - starts[line] + 1, text.rstrip())

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]


@dataclass
class PigScript:
    """The statements of a text, and the mistakes in the others, in order. `rest`: the unended statement at the end."""

    source: SourceText
    statements: list[pig.Statement] = field(default_factory=list)
    problems: list[QueryError] = field(default_factory=list)
    rest: str = ""


@functools.cache
def _grammar() -> Lark:
    text = importlib.resources.files(__package__).joinpath("pig.lark").read_text("utf-8")
    return Lark(text, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def read_script(text: str, file: str, *, is_open: bool = False) -> PigScript:
    """Return the statements of a text. `is_open`: more text may follow, so an unended statement is not a mistake."""
    script = PigScript(SourceText(file, text))
    for piece in pieces(text):
        if not piece.is_ended and is_open:
            script.rest = text[piece.at :]
            break
        try:
            script.statements += list(_read(piece, script.source))
        except QueryError as error:
            script.problems.append(error)
    return script


def _read(piece: Piece, source: SourceText) -> Iterator[pig.Statement]:
    if piece.kind == "default":
        yield _default(piece)
    elif not piece.is_ended:
        end = piece.at + len(piece.text)
        raise QueryError.of(
            "Q101", "the text ends within a statement", "A statement ends with ;", span=source.span(end)
        )
    elif piece.kind == "code":
        yield _code(piece, source)
    elif piece.kind == "macro":
        body = tuple(one for inner in pieces(piece.body, piece.body_at) for one in _read(inner, source))
        header = _parse(piece, source)
        yield replace(header, body=body) if isinstance(header, pig.Macro) else header
    else:
        yield _unsupported(piece) or _parse(piece, source)


def _default(piece: Piece) -> pig.Default:
    found = PREPROCESSOR.match(piece.text)
    kind, name, value = found.groups() if found else ("", "", "")
    return pig.Default(name, value.strip().strip("'\""), is_fixed=kind.lower() == "declare", at=piece.at)


def _code(piece: Piece, source: SourceText) -> pig.Embedded:
    code = textwrap.dedent(piece.text).strip()
    try:
        ast.parse(code)
    except SyntaxError as error:
        before = len(piece.text) - len(piece.text.lstrip())
        lines = piece.text[before:].split("\n")[: max((error.lineno or 1) - 1, 0)]
        at = piece.at + 2 + before + sum(len(line) + 1 for line in lines)
        problem = f"the embedded Python is wrong: {error.msg}"
        raise QueryError.of("Q101", problem, "Embedded code is Python.", span=source.span(at)) from None
    return pig.Embedded(code, at=piece.at)


def _unsupported(piece: Piece) -> pig.Unsupported | None:
    found = _VERB.match(piece.text)
    if found is None:
        return None
    verb = found["verb"].upper()
    aliases = (found["alias"],) if found["alias"] else ()
    at = piece.at + found.start("verb")
    if verb in NOT_OURS and found.end() < len(piece.text) and not piece.text[found.end() :].startswith("("):
        return pig.Unsupported(verb, aliases, at=at)
    if verb == "RDFLOAD":
        return pig.Unsupported(verb, aliases, at=at)
    if _UDF.match(piece.text):
        return pig.Unsupported("DEFINE of a command or class", at=at)
    return None


def refusal(statement: pig.Unsupported, source: SourceText) -> QueryError:
    """Return the error that names a statement which is known and not supported."""
    instead = "Write the function in Python in a <% %> section."
    if statement.what.endswith(_IN_A_BLOCK):
        instead = "A block has FILTER, DISTINCT, ORDER, LIMIT and values. Make the rest before GROUP."
    what, instead = NOT_OURS.get(statement.what, (statement.what, instead))
    return QueryError.of("Q110", f"{what} is not supported", instead, span=source.span(statement.at))


def _parse(piece: Piece, source: SourceText) -> pig.Statement:
    try:
        tree = _grammar().parse(piece.text)
    except UnexpectedInput as error:
        found = _in_block(error, piece)
        if found is None:
            raise _syntax_error(error, piece, source) from None
        return found
    made: pig.Statement = PigTree(piece.at).transform(tree)
    return made


def _in_block(error: UnexpectedInput, piece: Piece) -> pig.Unsupported | None:
    """Return the refused statement for a block that contains a statement which is allowed only outside of blocks."""
    verb = _INNER.search(piece.text[: error.pos_in_stream or 0])
    outer = _VERB.match(piece.text)
    if verb is None or outer is None or not outer["alias"] or verb[1].upper() not in VERBS:
        return None
    what = f"{verb[1].upper()} {_IN_A_BLOCK}"
    return pig.Unsupported(what, (outer["alias"],), at=piece.at + verb.start(1))


def _syntax_error(error: UnexpectedInput, piece: Piece, source: SourceText) -> QueryError:
    found = _VERB.match(piece.text)
    if found is not None and found["alias"] and isinstance(error, UnexpectedToken):
        verb, at = found["verb"].upper(), found.start("verb")
        if verb not in VERBS and error.token.start_pos == _after(piece.text, found.end()):
            remedy = _perhaps(verb, (*VERBS, *NOT_OURS))
            return _mistake(f"{found['verb']!r} is no statement", remedy, piece.at + at, source)
    if isinstance(error, UnexpectedCharacters):
        at = error.pos_in_stream or 0
        is_quote = piece.text[at] in "'\""
        problem = (
            "a text in quotes that does not end on its line" if is_quote else f"no Pig: {piece.text[at]!r}"
        )
        return _mistake(problem, "", piece.at + at, source)
    if not isinstance(error, UnexpectedToken) or error.token.type == "$END":
        return _mistake("the statement ends too early", _wanted(error), piece.at + len(piece.text), source)
    at = piece.at + (error.token.start_pos or 0)
    span = source.span(at)
    is_first_on_line = at > piece.at and not span.text[: span.column - 1].strip()
    is_next = is_first_on_line or str(error.token).upper() in VERBS
    remedy = "Does the statement before end with ;?" if is_next else _wanted(error, error.token)
    if str(error.token) == "=" and remedy == _NO_IDEA:
        remedy = "Values are compared with ==; a name of a relation stands at the beginning of its statement."
    return _mistake(f"{str(error.token)!r} cannot stand here", remedy, at, source)


def _after(text: str, at: int) -> int:
    return at + len(text[at:]) - len(text[at:].lstrip())


def _wanted(error: UnexpectedInput, token: str = "") -> str:
    """Return what could stand there, if it is little, and the word that the token perhaps means."""
    terminals = sorted(getattr(error, "accepts", None) or ())
    words = [word for name in terminals for word in CHOICES.get(name, (_WORDS.get(name, name.strip("_")),))]
    meant = _perhaps(token, [word for word in words if word.isalpha()])
    if meant or "TYPE" in terminals:
        return meant or f"A type is {', '.join(CHOICES['TYPE'])}, tuple, bag or map."
    return f"Expected {' or '.join(dict.fromkeys(words))}." if 0 < len(words) <= _SHOWN else _NO_IDEA


def _perhaps(word: str, known: Sequence[str]) -> str:
    found = nearest(word, known) if word else None
    return f"Did you mean {found}?" if found else ""


def _mistake(problem: str, remedy: str, at: int, source: SourceText) -> QueryError:
    return QueryError.of("Q101", problem, remedy, span=source.span(at))
