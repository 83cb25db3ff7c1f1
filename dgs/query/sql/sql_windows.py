"""Windows of SQL: `tumble(ts, size)` and `hop(ts, slide, size)`, whose value is the end of a window that holds the row.

A size is a whole number in the unit of the column, or a text such as '1 hour' for a column of milliseconds.

>>> milliseconds("1 hour"), milliseconds("90 seconds"), milliseconds("soon")
(3600000, 90000, None)
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from dgs.query.scalar import Scalar
from dgs.query.sql.sql_syntax import SqlText

UNITS = {
    "ms": 1,
    "millisecond": 1,
    "s": 1000,
    "second": 1000,
    "m": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}
DURATION = re.compile(r"\s*(\d+)\s*([a-z]+)\s*")


def milliseconds(text: str) -> int | None:
    """Return the length of a duration, None for any other text."""
    found = DURATION.fullmatch(text.lower())
    unit = found and (UNITS.get(found[2]) or UNITS.get(found[2].removesuffix("s")))
    return int(found[1]) * unit if found and unit else None


def window_of(
    tree: exp.Anonymous, lower: Callable[[exp.Expr], Scalar], text: SqlText
) -> tuple[str, int, int]:
    """Return the column of times, the size and the slide of a window. Raises QueryError Q204, Q206."""
    name, count = tree.name.lower(), 2 if tree.name.lower() == "tumble" else 3
    if len(tree.expressions) != count:
        wanted = "tumble(ts, size)" if count == 2 else "hop(ts, slide, size)"  # noqa: PLR2004
        raise text.error(
            "Q206", tree, f"{name} takes {count} arguments, not {len(tree.expressions)}", f"Write `{wanted}`."
        )
    at = lower(tree.expressions[0])
    if not isinstance(at, exp.Column):
        raise text.error(
            "Q110",
            tree.expressions[0],
            "not supported: windows by an expression",
            "Compute the column in a derived table.",
        )
    slide, size = (_length(one, text) for one in (tree.expressions[1], tree.expressions[-1]))
    if size % slide and slide > size:
        raise text.error(
            "Q204",
            tree,
            f"windows of {size} every {slide} leave rows out",
            "Let the slide be at most the size.",
        )
    return at.name, size, slide


def _length(tree: exp.Expr, text: SqlText) -> int:
    if isinstance(tree, exp.Interval):
        tree = exp.Literal.string(
            f"{tree.this.name} {tree.args['unit'].name if tree.args.get('unit') else ''}"
        )
    given = tree.this if isinstance(tree, exp.Literal) else ""
    found = (
        milliseconds(given)
        if isinstance(tree, exp.Literal) and tree.is_string
        else int(given)
        if str(given).isdigit()
        else None
    )
    if not found:
        raise text.error(
            "Q204", tree, "the size of a window is a whole number, or a duration such as '1 hour'"
        )
    return found
