"""Casts of a `select:` that may fail: each becomes a TRY_CAST, and a condition tells the rows in which it fails.

>>> tolerant("CAST(v AS INT) AS v")
('TRY_CAST(v AS INT) AS v', {'CAST(v AS INT)': '(v) IS NOT NULL AND TRY_CAST(v AS INT) IS NULL'})
>>> tolerant("concat('CAST(x AS INT)', `CAST(a`)")
("concat('CAST(x AS INT)', `CAST(a`)", {})

A cast in a branch fails only in the rows that take that branch.

>>> tolerant("IF(k = 'n', CAST(v AS INT), 0)")[1]
{'CAST(v AS INT)': "(k = 'n') IS TRUE AND (v) IS NOT NULL AND TRY_CAST(v AS INT) IS NULL"}

After AND and OR, and in a lambda, a cast is unchanged: only Spark knows whether it is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\bCAST\s*\(|\bAS\b"
    r"|\b(?:IF|COALESCE|IFNULL|NVL2?)\s*\(|\b(?:CASE|WHEN|THEN|ELSE|END|AND|OR)\b|->|[(),]",
    re.IGNORECASE,
)
"""The tokens of an SQL expression that matter here: quoted text, the beginning of a cast, its AS, branches, and parentheses."""

_BRANCHES = {"IF": ("({}) IS TRUE", "({}) IS NOT TRUE"), "NVL2": ("({}) IS NOT NULL", "({}) IS NULL")}
"""The conditions under which the second and the third argument are evaluated, by the first one."""

_FIRST_OF = frozenset(["COALESCE", "NVL", "IFNULL"])
"""Functions that evaluate an argument if all before it are null."""


@dataclass(frozen=True)
class _Guard:
    """A condition of a branch: `form` with the text from `start` to `stop` in place of {}."""

    form: str
    start: int
    stop: int


@dataclass(frozen=True)
class _Cast:
    """A cast from `start` to `end`, with its AS at `middle`, and the conditions under which it is evaluated."""

    start: int
    middle: int
    end: int
    guards: tuple[_Guard, ...]


@dataclass
class _Open:
    """An open parenthesis, cast, function or CASE. `part`: where its current part begins. `is_unknown`: that part may not be evaluated."""

    kind: str
    start: int
    part: int
    guards: list[_Guard] = field(default_factory=list)
    is_unknown: bool = False
    middle: int = -1
    form: str = "({}) IS TRUE"

    def begin(self, token: re.Match[str]) -> None:
        """Begin the part after a token: an argument, or a branch of CASE."""
        word, span = token[0].upper(), (self.part, token.start())
        if word == "," and self.kind in _BRANCHES:
            first = self.guards[0] if self.guards else _Guard("", *span)
            form = _BRANCHES[self.kind][bool(self.guards)]
            self.guards = [_Guard(form, first.start, first.stop)]
        elif word == "," and self.kind in _FIRST_OF:
            self.guards.append(_Guard("({}) IS NULL", *span))
        elif word == "THEN":
            self.guards.append(_Guard(self.form, *span))
        elif word in ("WHEN", "ELSE") and self.guards:
            last = self.guards.pop()
            form = f"{last.form.removesuffix('TRUE')}NOT TRUE"
            self.guards.append(_Guard(form, last.start, last.stop))
        elif word == "WHEN" and (operand := token.string[slice(*span)].strip()):
            self.form = f"(({operand.replace('{', '{{').replace('}', '}}')}) = ({{}})) IS TRUE"
        self.part, self.is_unknown = token.end(), False


def tolerant(expression: str) -> tuple[str, dict[str, str]]:
    """Return an expression whose casts give null if they fail, and for the text of each cast the condition under which it fails."""
    casts = sorted(_casts(expression), key=lambda cast: cast.start)

    def tried(start: int, stop: int) -> str:
        text = expression[start:stop]
        for cast in reversed(casts):
            if start <= cast.start < stop:
                text = f"{text[: cast.start - start]}TRY_{text[cast.start - start :]}"
        return text.strip()

    def failing(cast: _Cast) -> str:
        guards = [guard.form.format(tried(guard.start, guard.stop)) for guard in cast.guards]
        argument = tried(expression.index("(", cast.start) + 1, cast.middle)
        return " AND ".join([*guards, f"({argument}) IS NOT NULL", f"{tried(cast.start, cast.end)} IS NULL"])

    conditions: dict[str, str] = {}
    for cast in casts:
        conditions = either(conditions, {expression[cast.start : cast.end]: failing(cast)})
    return tried(0, len(expression)), conditions


def argument(cast: str) -> str:
    """Return the operand of a cast that is given as text.

    >>> argument("CAST(CAST(x AS DECIMAL(10, 2)) AS INT)")
    'TRY_CAST(x AS DECIMAL(10, 2))'
    """
    outer = next(found for found in _casts(cast) if found.start == 0)
    return tolerant(cast[cast.index("(") + 1 : outer.middle])[0]


def either(some: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return the conditions of both expressions. If both have the same cast, it fails if it fails in either."""
    found = dict(some)
    for text, condition in others.items():
        known = found.get(text, condition)
        found[text] = condition if known == condition else f"({known}) OR ({condition})"
    return found


def _casts(expression: str) -> Iterator[_Cast]:
    open_ = [_Open("", 0, 0)]
    for token in _TOKEN.finditer(expression):
        word, inner = token[0].upper(), open_[-1]
        if word in ("AND", "OR", "->"):
            inner.is_unknown = True
        elif word == "AS":
            inner.middle = token.start()
        elif word == "CASE" or word.endswith("("):
            open_.append(_Open(word.rstrip("( \n\t"), token.start(), token.end()))
        elif word == "," or (word in ("WHEN", "THEN", "ELSE") and inner.kind == "CASE"):
            inner.begin(token)
        elif word in ("END", ")") and len(open_) > 1 and (word == "END") == (inner.kind == "CASE"):
            open_.pop()
            if inner.kind == "CAST" and inner.middle > 0 and not any(one.is_unknown for one in open_):
                guards = tuple(guard for one in open_ for guard in one.guards)
                yield _Cast(inner.start, inner.middle, token.end(), guards)
