"""Long texts in a sentence: the beginning and the end are kept, with the number of characters in between.

Sentences quote names, paths, queries and values of users, which may have any length. Hide secrets before calling `shortened`: a
part of a secret would no longer be found.

>>> shortened("no file " + "y" * 5000)
'no file yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy...(4,904 more)...yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'
>>> shortened("/home/ann/plan.yaml")
'/home/ann/plan.yaml'
>>> short_repr([10**5000, "x"])
"[<int whose repr raises ValueError>, 'x']"
>>> around("select x, " * 100, 500)
('... select x, select x, select x, select x, select x, select x, select x, select x, select x, select x,...', 54)
"""

from __future__ import annotations

import re
import reprlib
from typing import Any

LONGEST_LINE = 1_500
"""The characters of the longest line that is kept whole. Few paths are longer."""

_LONG_WORD = re.compile(r"[^\s/]{257,}")
"""A long run without blanks that is neither a quoted file name nor a word."""

_DIGEST = re.compile(r"^dgs_file_[0-9a-f]{12}_")
"""What `dgs.job.loading.module_name` puts before the name of a program file."""

_BEGINNING, _END = 64, 32
"""Characters that are left of a long word."""

_AROUND = 50
"""Characters that are left on both sides of a place."""


class Short(reprlib.Repr):
    """Short reprs of any values of users, also of those that have none, such as an integer of more than 4,300 digits."""

    def repr1(self, x: Any, level: int) -> str:
        """Return the repr of a value, or of a part of one, or say that it raises."""
        try:
            return super().repr1(x, level)
        except Exception as error:  # noqa: BLE001 - it comes from code of users
            return f"<{type(x).__name__} whose repr raises {type(error).__name__}>"


short_repr = Short().repr


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
    """Return the part of a long line around a column, counted from 1, and the column in that part."""
    first, last = max(column - 1 - _AROUND, 0), column - 1 + _AROUND
    if len(line) <= LONGEST_LINE // 5:
        return line, column
    before, behind = "..." * (first > 0), "..." * (last < len(line))
    return f"{before}{line[first:last]}{behind}", column - first + len(before)


def shown_module(name: str) -> str:
    """Return the name of a module without the digest of its path, which that of a program file has.

    >>> shown_module("dgs_file_8d27c1a4b2e0_program"), shown_module("shop.sales")
    ('program', 'shop.sales')
    """
    return _DIGEST.sub("", name)


def _cut(text: str, beginning: int, end: int) -> str:
    return f"{text[:beginning]}...({len(text) - beginning - end:,} more)...{text[-end:]}"
