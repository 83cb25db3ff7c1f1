r"""The text of a SQL query: its tree, the place of each part of it, and the errors in its syntax.

>>> text = SqlText("q.sql", "select a\nfrom b where a > 1")
>>> str(text.span(text.tree().find(exp.Where)))
'q.sql:2:14'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from dgs.query.errors import QueryError, Span
from dgs.query.sql.sql_dialect import no_function, stopped, unknown_function
from dgs.query.sql.sql_refusals import refused, statement

KEYWORDS = (
    "select", "distinct", "from", "where", "group", "order", "having", "limit", "union", "join", "left", "right", "full",
    "inner", "outer", "with", "using", "between", "case", "when", "then", "else", "end",
)  # fmt: skip
UNPLACED: dict[type[exp.Expr], str] = {
    exp.Interval: "interval",
    exp.CurrentDate: "current_date|today",
    exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp|get_current_timestamp",
}
"""The words of nodes whose place the parser does not give."""


@dataclass(frozen=True, slots=True)
class SqlText:
    """A text of SQL. `name`: that of its file, for errors."""

    name: str
    text: str

    def tree(self) -> exp.Expr:
        """Return the tree of the only query. Raises QueryError Q101, and Q110 for SQL that is known and not supported."""
        try:
            found = [tree for tree in sqlglot.parse(self.text, dialect="duckdb") if tree is not None]
        except TokenError:
            raise self._open_quote() from None
        except ParseError as error:
            raise self._unexpected(error.errors[0]) from None
        except Exception:  # noqa: BLE001 - the parser has faults of its own, with functions of other dialects
            self._check_functions(self.text)
            raise self.error_at("Q101", 0, "it cannot be read", "Write it in DuckDB's dialect.") from None
        if not found:
            raise self.error_at("Q101", 0, "there is no query here", "Write one that begins with `select`.")
        if len(found) > 1:
            raise self.error_at(
                "Q101", self.start(found[1]), "a second query: there must be only one", "Ask it on its own."
            )
        (tree,) = found
        self._check(tree)
        if (
            empty := next((one for one in tree.find_all(exp.Select) if not one.expressions), None)
        ) is not None:
            raise self.error("Q101", empty, "a `select` without columns", "Name them, or write `*`.")
        self._check_dialect(tree)
        return tree

    def _check_dialect(self, tree: exp.Expr) -> None:
        """Refuse text that DuckDB does not read: sqlglot reads more, for instance `a,, b` and functions of other dialects."""
        stop, text = stopped(self.text), self.text
        if stop is not None:
            text = self._quoted(tree)
            if stopped(text) is not None:
                raise self._not_expected(*stop)
        self._check_functions(text)

    def _check_functions(self, text: str) -> None:
        if (name := unknown_function(text)) is not None:
            at = self._word(rf"{re.escape(name)}(?=\s*\()", 0)
            raise QueryError.of("Q205", *no_function(name), self.span_at(at), name=name)

    def _quoted(self, tree: exp.Expr) -> str:
        """Return the text with the names of columns in quotes: some, such as `at`, are reserved in DuckDB."""
        names = [one.this for one in tree.find_all(exp.Column) if isinstance(one.this, exp.Identifier)]
        placed = {
            one.meta["start"]: one.meta["end"] + 1 for one in names if "start" in one.meta and not one.quoted
        }
        found = self.text
        for start, end in sorted(placed.items(), reverse=True):
            found = f'{found[:start]}"{found[start:end]}"{found[end:]}'
        return found

    def _check(self, tree: exp.Expr) -> None:
        """Refuse constructs that are known and not supported."""
        if (word := statement(tree)) is not None:
            at = self._word(word, 0)
            written = re.match(r"\w+", self.text[at:])
            name = written[0].lower() if written else word
            raise self.error_at(
                "Q110",
                at,
                f"not supported: `{name}`",
                "A query is a `select`: it reads, and changes nothing.",
            )
        for node, refusal in refused(tree):
            at = self._word(refusal.word, self.start(node))
            raise self.error_at("Q110", at, f"not supported: {refusal.name}", refusal.instead)

    def start(self, node: exp.Expr) -> int:
        """Return the offset of the first part of a node with a known place; 0 if there is none."""
        if isinstance(node, (exp.Placeholder, exp.Parameter)) and node.name:
            return max(
                0, self.text.find("?") if node.name == "?" else self._word(re.escape(node.name), 0) - 1
            )
        if isinstance(node, exp.Star) and "start" not in node.meta:
            return max(0, self.text.find("*"))
        unplaced = UNPLACED.get(type(node))
        return min(_placed(node), default=0) if unplaced is None else self._word(unplaced, 0)

    def word(self, node: exp.Expr) -> str:
        """Return the name of a function as written. The parser places some functions at their name, others at their arguments."""
        start = self.start(node)
        found = re.search(r"(\w+)\s*\(\s*(distinct\s+)?$", self.text[:start], re.IGNORECASE)
        found = found if found and "start" not in node.meta else re.match(r"(\w+)", self.text[start:])
        return found[1] if found else node.key

    def span(self, node: exp.Expr) -> Span:
        """Return the place of a node."""
        return self.span_at(self.start(node))

    def span_at(self, at: int) -> Span:
        """Return the place of an offset."""
        before = self.text[:at]
        begin = before.rfind("\n") + 1
        end = self.text.find("\n", at)
        line = self.text[begin : len(self.text) if end < 0 else end].replace("\t", " ")
        return Span(self.name, before.count("\n") + 1, at - begin + 1, line)

    def error(self, code: str, node: exp.Expr, problem: str, remedy: str = "", **facts: Any) -> QueryError:
        """Return an error at the place of a node in the text."""
        return QueryError.of(code, problem, remedy, self.span(node), **facts)

    def place_error(self, code: str, scalar: exp.Expr, problem: str, remedy: str = "") -> QueryError:
        """Return an error at the place of a scalar."""
        return QueryError.of(code, problem, remedy, scalar.meta.get("span"))

    def error_at(self, code: str, at: int, problem: str, remedy: str = "") -> QueryError:
        """Return an error at an offset."""
        return QueryError.of(code, problem, remedy, self.span_at(at))

    def _word(self, pattern: str, start: int) -> int:
        """Return the offset of a word at or after an offset, else anywhere, else the offset itself."""
        word = re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE)
        found = word.search(self.text, start) or word.search(self.text)
        return found.start() if found else start

    def _unexpected(self, error: Any) -> QueryError:
        """Return the error for the first token that does not fit."""
        before = error["start_context"] or ""
        token = error["highlight"] or ""
        at = self._offset(error["line"], error["col"]) - len(token)
        if at < 0 or not self.text.startswith(token, at):
            at = max(0, self.text.find(before + token) + len(before))
        rest = self.text[at + len(token) :].strip()
        if not token or (not rest and "Unexpected" not in error["description"]):
            end = len(self.text.rstrip())
            last = re.search(r"\S+$", self.text[:end])
            remedy = f"Write what belongs behind {last[0]!r}, or leave that out." if last else ""
            remedy = "Close the bracket." if self.text.count("(") > self.text.count(")") else remedy
            return self.error_at("Q101", end, "the query ends too early", remedy)
        return self._not_expected(at, token)

    def _not_expected(self, at: int, found: str) -> QueryError:
        is_comma = found == ","
        remedy = "Leave it out, or write what belongs before it." if is_comma else self._missing_before(at)
        return self.error_at("Q101", at, f"{found!r} is not expected here", remedy)

    def _missing_before(self, at: int) -> str:
        """Return what may be wrong before an offset: a misspelt keyword, else a missing word."""
        for word in reversed(re.findall(r"[a-z]{3,}", self.text[:at].lower())[-3:]):
            if word not in KEYWORDS and (near := get_close_matches(word, KEYWORDS, n=1, cutoff=0.75)):
                return f"Is {word!r} meant to be `{near[0]}`?"
        return "Look at what stands before it: a comma, an operator, a bracket or a keyword is missing, or one too many."

    def _offset(self, line: int, column: int) -> int:
        """Return the offset after a line and column, both from 1."""
        begin = sum(len(one) + 1 for one in self.text.split("\n")[: line - 1])
        return begin + column

    def _open_quote(self) -> QueryError:
        """Return the error for a quote or comment that is never closed."""
        at, quote = next(_open(self.text), (0, "a quote"))
        return self.error_at("Q101", at, f"{quote} is never closed", "Close it.")


def _placed(node: exp.Expr) -> Iterator[int]:
    for one in node.walk():
        start = one.meta.get("start")
        if start is not None:
            yield start


def _open(text: str) -> Iterator[tuple[int, str]]:
    """Yield the place of the quote or comment that is open at the end of a text."""
    token = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$\$.*?\$\$", re.DOTALL)
    rest = token.sub(lambda found: " " * len(found[0]), text)
    for opener, name in (("/*", "the comment"), ("'", "the quote"), ('"', "the quote"), ("$$", "the quote")):
        if (at := rest.find(opener)) >= 0:
            yield at, name
