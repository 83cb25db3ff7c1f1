r"""The text of a Pig script as statements that end with `;`, each with its offset; nothing is parsed here.

>>> [(piece.at, piece.text) for piece in pieces("a = load 'x;y';  -- ; no\ndump a;")]
[(0, "a = load 'x;y'"), (25, 'dump a')]
>>> [piece.body for piece in pieces("define m(a) returns b { $b = limit $a 1; };")]
[' $b = limit $a 1; ']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SKIPPED = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)+", re.DOTALL)
TOKEN = re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|[{};]|<%""", re.DOTALL)
DEFINES_MACRO = re.compile(r"define\s+\w+\s*\(", re.IGNORECASE)
PREPROCESSOR = re.compile(r"%(default|declare)\s+(\w+)\s+([^\n;]+);?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Piece:
    """One statement without its `;`. `kind`: statement, macro (with a `body`), code (`<% %>`), or default."""

    text: str
    at: int
    kind: str = "statement"
    body: str = ""
    body_at: int = 0
    is_ended: bool = True


def pieces(text: str, start: int = 0) -> Iterator[Piece]:
    """Yield the statements of `text` in order; offsets are those in `text` plus `start`."""
    at = 0
    while (at := _after_space(text, at)) < len(text):
        if text.startswith("<%", at):
            end = text.find("%>", at)
            stop = len(text) if end < 0 else end
            yield Piece(text[at + 2 : stop], start + at, "code", is_ended=end >= 0)
            at = stop + 2
            at = at + 1 if text.startswith(";", at) else at
        elif found := PREPROCESSOR.match(text, at):
            yield Piece(found[0], start + at, "default")
            at = found.end()
        else:
            piece, at = _statement(text, at, start)
            if piece.text:
                yield piece


def _after_space(text: str, at: int) -> int:
    found = SKIPPED.match(text, at)
    return found.end() if found else at


def _statement(text: str, begin: int, start: int) -> tuple[Piece, int]:
    depth, opened = 0, -1
    for token in TOKEN.finditer(text, begin):
        if token[0] == "{":
            opened = token.start() if depth == 0 and opened < 0 else opened
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if depth == 0 and DEFINES_MACRO.match(text, begin):
                return _macro(text, begin, start, opened, token.start())
        elif token[0] == ";" and depth <= 0:
            return Piece(text[begin : token.start()].rstrip(), start + begin), token.end()
    return Piece(text[begin:].rstrip(), start + begin, is_ended=False), len(text)


def _macro(text: str, begin: int, start: int, opened: int, closed: int) -> tuple[Piece, int]:
    body = text[opened + 1 : closed]
    after = _after_space(text, closed + 1)
    after = after + 1 if text.startswith(";", after) else closed + 1
    return Piece(text[begin:opened].rstrip(), start + begin, "macro", body, start + opened + 1), after
