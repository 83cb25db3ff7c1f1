"""Tables on stdout, as all verbs print them.

>>> print_table(("file", "rows", "problem"), [("one", 7, None), ("another", 12, "damaged")])
file     rows  problem
one         7  -
another    12  damaged
"""

from __future__ import annotations

from typing import Any


def print_table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Print rows under their heads; numbers to the right."""
    texts = [head, *(tuple("-" if value is None else str(value) for value in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [bool(rows) and isinstance(value, int) for value in (rows[0] if rows else head)]
    for line in texts:
        cells = (
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        )
        print("  ".join(cells).rstrip())
