"""Word counts as flows: of a whole text, and of every thousand lines of it; as a pipeline: of a list of lines."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dgs.flow import Edge, every, flow
from dgs.monoids import COUNT
from dgs.pico import first, flat_map, from_stream, new, p, reduce

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
    """Return the number of each word in every thousand lines, with the number of the next line."""
    return words(lines).aggregate(COUNT).each(lambda word, number, at: [at, word, number])


tokenize = flat_map(lambda line: [(word, 1) for word in line.split()], gives=tuple[str, int])
count = p(reduce(lambda a, b: (a[0], a[1] + b[1])), by=first)
listed = new(from_stream("lines", structure="list", gives=str)) | new(tokenize) | new(count)
"""The number of each word of the text, in order of the last line that has it."""
