"""Casts of a `select:` that may fail: each becomes a TRY_CAST, and a condition tells the rows in which it fails.

>>> tolerant("CAST(v AS INT) AS v")
('TRY_CAST(v AS INT) AS v', {'CAST(v AS INT)': '(v) IS NOT NULL AND TRY_CAST(v AS INT) IS NULL'})
>>> tolerant("concat('CAST(x AS INT)', `CAST(a`)")
("concat('CAST(x AS INT)', `CAST(a`)", {})
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\bCAST\s*\(|\bAS\b|[()]", re.IGNORECASE)
"""The tokens of an SQL expression that matter here: quoted text, the beginning of a cast, its AS, and parentheses."""


def tolerant(expression: str) -> tuple[str, dict[str, str]]:
    """Return an expression whose casts give null where they fail, and for the text of each cast the condition that it fails."""
    found: list[tuple[int, int, int]] = []
    open_: list[tuple[bool, int, int]] = []
    for token in _TOKEN.finditer(expression):
        word = token[0].upper()
        if word.startswith("CAST"):
            open_.append((True, token.start(), -1))
        elif word == "(":
            open_.append((False, token.start(), -1))
        elif word == "AS" and open_:
            is_cast, start, _ = open_[-1]
            open_[-1] = (is_cast, start, token.start())
        elif word == ")" and open_:
            is_cast, start, middle = open_.pop()
            if is_cast and middle > 0:
                found.append((start, middle, token.end()))
    return _tried(expression), {
        expression[start:end]: (
            f"({_argument(expression[start:middle])}) IS NOT NULL AND {_tried(expression[start:end])} IS NULL"
        )
        for start, middle, end in found
    }


def _argument(text: str) -> str:
    return _tried(text[text.index("(") + 1 :].strip())


def _tried(text: str) -> str:
    return _TOKEN.sub(lambda token: f"TRY_{token[0]}" if token[0][:4].upper() == "CAST" else token[0], text)
