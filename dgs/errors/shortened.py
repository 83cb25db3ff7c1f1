"""Long texts in a sentence: the beginning and the end of one are left, with how much is between them.

Sentences quote names, paths, queries and values of users, which may have any length. Call `shortened` on a text whose secrets are
hidden already: a part of one would not be found any more.

>>> shortened("no file " + "y" * 5000)
'no file yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy...(4,904 more)...yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'
>>> shortened("/home/ann/plan.yaml")
'/home/ann/plan.yaml'
>>> around("select x, " * 100, 500)
('... select x, select x, select x, select x, select x, select x, select x, select x, select x, select x,...', 54)
"""

from __future__ import annotations

import re

LONGEST_LINE = 1_500
"""Characters of the longest line that is left as it is. Few paths are longer."""

_LONG_WORD = re.compile(r"[^\s/]{257,}")
"""What is no name of a file, with a quote before and behind it, and no word either."""

_BEGINNING, _END = 64, 32
"""Characters that are left of a long word."""

_AROUND = 50
"""Characters that are left on both sides of a place."""


def shortened(text: str) -> str:
    """Return a text without the middle of long words, and of long lines."""
    text = _LONG_WORD.sub(lambda found: _cut(found[0], _BEGINNING, _END), text)
    if len(text) <= LONGEST_LINE:
        return text
    return "\n".join(
        line if len(line) <= LONGEST_LINE else _cut(line, LONGEST_LINE * 2 // 3, LONGEST_LINE // 5)
        for line in text.split("\n")
    )


def around(line: str, column: int) -> tuple[str, int]:
    """Return what a long line has around a column, counted from 1, and the column there."""
    first, last = max(column - 1 - _AROUND, 0), column - 1 + _AROUND
    if len(line) <= LONGEST_LINE // 5:
        return line, column
    before, behind = "..." * (first > 0), "..." * (last < len(line))
    return f"{before}{line[first:last]}{behind}", column - first + len(before)


def _cut(text: str, beginning: int, end: int) -> str:
    return f"{text[:beginning]}...({len(text) - beginning - end:,} more)...{text[-end:]}"
