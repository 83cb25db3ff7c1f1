"""The tables of the example queries: files, in which the number of a row is its time, and three tables made by integer arithmetic."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dgs.api.queries.query_tables import TableFile

CUSTOMERS, ORDERS, ITEMS = 1_500, 15_000, 60_000
GONE_AFTER = 5_000
"""How much later every tenth line item is deleted, if that is before the end."""

Columns = dict[str, Any]
BATCH = 8_192


def rows(path: str) -> Iterator[Columns]:
    """Yield the rows of a file, relative to `experiments/queries`, with `ts`, the number of the row."""
    table = TableFile("rows", path).read(Path(__file__).parent).rows
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    yield from _batches({"ts": np.arange(len(table)), **columns})


def lines(path: str) -> Iterator[Columns]:
    """Yield the lines of a text in gzip, relative to `experiments/queries`, with `ts`, the number of the line."""
    with gzip.open(Path(__file__).parent / path, "rt", encoding="utf-8") as text:
        found = [line.rstrip("\n") for line in text]
    yield from _batches({"ts": np.arange(len(found)), "line": pa.array(found)})


def customers() -> Iterator[Columns]:
    """Yield the customers, one every 40."""
    number = np.arange(CUSTOMERS)
    yield from _batches(
        {"ts": 40 * number, "custkey": number, "nation": mix(number, 1) % 25, "segment": mix(number, 2) % 5}
    )


def orders() -> Iterator[Columns]:
    """Yield the orders, one every 4. Some are of customers that do not exist."""
    number = np.arange(ORDERS)
    yield from _batches(
        {"ts": 4 * number, "orderkey": number, "custkey": mix(number, 3) % 1600, "day": mix(number, 4) % 2400}
    )


def items() -> Iterator[Columns]:
    """Yield the line items, with `w` 1, and deletions of some of them, with `w` -1. Some are of orders that do not exist."""
    number = np.arange(ITEMS)
    gone = number[(number % 10 == 3) & (number + GONE_AFTER < ITEMS)]  # noqa: PLR2004 - as GONE_AFTER says
    which = np.concatenate([number, gone])
    ts = np.concatenate([number, gone + GONE_AFTER])
    weight = np.concatenate([np.ones_like(number), -np.ones_like(gone)])
    order = np.lexsort((-weight, ts))
    which = which[order]
    columns = {
        "orderkey": mix(which, 5) % 16000,
        "price": 100 + mix(which, 6) % 100000,
        "disc": mix(which, 7) % 11,
    }
    yield from _batches({"ts": ts[order], **columns, "w": weight[order]})


def answers(every: int = 20_000) -> Iterator[Columns]:
    """Yield the times at which the query is answered: with each `every`-th row."""
    yield {"ts": np.arange(every - 1, ITEMS, every)}


def mix(number: npt.NDArray[np.int64], salt: int) -> npt.NDArray[np.int64]:
    """Return pseudo-random numbers below 2 ** 24, the same on every machine."""
    return ((number * 2654435761 + salt * 40503) % 2**32) >> 8


def _batches(columns: Columns) -> Iterator[Columns]:
    for start in range(0, len(columns["ts"]), BATCH):
        yield {name: column[start : start + BATCH] for name, column in columns.items()}
