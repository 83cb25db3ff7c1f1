"""Word counts as flows: of a whole text, and of every thousand lines of it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dgs.flow import Edge, every, flow
from dgs.monoids import COUNT

TEXT = Path(__file__).parents[3] / "shared" / "data" / "tinyshakespeare" / "input.txt.gz"
AT_ONCE = 8192


def lines(data: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the lines of a text; their ts is their number."""
    with gzip.open(data or TEXT, "rt", encoding="utf-8") as file:
        text = file.read().splitlines()
    for start in range(0, len(text), AT_ONCE):
        some = text[start : start + AT_ONCE]
        yield {"ts": np.arange(start, start + len(some)), "payload": some}


def words(text: Edge) -> Edge:
    """Return the words of lines, each with itself as key."""
    return text.flat_map(lambda _, line: line.split()).key_by(lambda _, word: word)


@flow()
def bag(lines: str) -> Edge:
    """Return the number of each word of the text."""
    return words(lines).aggregate(COUNT).each(lambda word, number, _: [word, number])


@flow(clock=every(1000))
def stream(lines: str) -> Edge:
    """Return the number of each word in every thousand lines, with the line behind them."""
    return words(lines).aggregate(COUNT).each(lambda word, number, at: [at, word, number])
