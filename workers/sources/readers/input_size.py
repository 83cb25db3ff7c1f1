r"""How many rows an input has, as well as that is known without reading it: for the percentage of progress.

Parquet files say it. Of text files the rows at the beginning are counted, and the rest is taken to be like them.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "a.csv"
>>> _ = file.write_text("ts,amount\n" + "1,10\n" * 100)
>>> share_of_rows(lambda: rows_of_text([file]))(51)
0.5
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HEAD_BYTES = 1 << 18
"""The bytes at the beginning of a text file whose rows are counted."""

MOST_FILES = 1000
"""Of more files the rows are not counted."""

NEARLY_ALL = 0.99
"""The share of an input whose end has not been seen, at most."""


def share_of_rows(count: Callable[[], int | None]) -> Callable[[int], float | None]:
    """Return the function from the rows that are read to their share. `count` is called once, when it is first needed."""
    known: list[int | None] = []

    def share(rows: int) -> float | None:
        if not known:
            known.append(count())
        return min(rows / known[0], NEARLY_ALL) if known[0] else None

    return share


def rows_of_parquet(paths: Sequence[Path]) -> int | None:
    """Return the rows of Parquet files, None if a file cannot be read."""
    if len(paths) > MOST_FILES:
        return None
    try:
        return sum(int(pq.read_metadata(path).num_rows) for path in paths)
    except (OSError, pa.ArrowException):  # the reader says so when it comes to that file
        return None


def rows_of_text(paths: Sequence[Path]) -> int | None:
    """Return about how many rows text files have, None for packed ones."""
    if len(paths) > MOST_FILES or any(path.suffix == ".gz" for path in paths):
        return None
    try:
        return round(sum(map(_about, paths)))
    except OSError:
        return None


def _about(path: Path) -> float:
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return head.count(b"\n") * path.stat().st_size / len(head) if head else 0.0
