"""The workloads of the bench of queries: each workload gives pairs of functions, ours and its opponent's, over the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import duckdb
import numpy as np
import pyarrow as pa

from dgs import codec
from dgs.model.events import EventBatch
from dgs.model.outputs import BatchEmitter, OutputBatch
from dgs.model.tags import Tag
from dgs.query.fronts import read
from dgs.query.program import QueryProgram
from dgs.query.relation import Source
from dgs.query.rewrite import rewritten
from dgs.query.types import INT, Schema
from dgs.workers.sinks.files.file_sink import FileSink, parquet_sink
from dgs.workers.sinks.files.places import PartNames, Place

KEYS = 10_001
INCREMENT = 10_000
BATCH = 65_536
AVERAGES = "select k, avg(v) as a from t group by k"
MANY_TO_MANY = "select l.g, count(*) as n, sum(r.v) as s from l join r on l.k = r.k group by l.g"


@dataclass(frozen=True)
class Sizes:
    """Rows of the base of the group-by, of each side of the join, and of states. `repeats`: of a measurement."""

    base: int
    side: int
    state: int
    answer: int
    repeats: int = 5


SMALL = Sizes(base=1_000_000, side=100_000, state=200_000, answer=20_000)
FULL = Sizes(base=10_000_000, side=2_000_000, state=2_000_000, answer=100_000)

Work = Callable[[], Any]


@dataclass(frozen=True)
class Duel:
    """A measurement: our work, and the opponent's if there is one, for each repetition.

    `most`: the target, of a `kind`: the ratio of our time to theirs, our time in ms, or the difference in ms.
    """

    name: str
    opponent: str
    most: float
    ours: Callable[[int], Work]
    theirs: Callable[[int], Work] | None = None
    kind: Literal["share", "ms", "ms beyond"] = "share"


def program_of(text: str, **columns: Schema) -> QueryProgram:
    """Return the program of a text of SQL over streams of these columns."""
    sources = {name: Source(name, schema) for name, schema in columns.items()}
    return QueryProgram(rewritten(read(text, sources)).script)


def batch(stream: str, columns: dict[str, Any]) -> EventBatch:
    """Return columns as a batch of a stream."""
    rows = len(next(iter(columns.values())))
    return EventBatch.of(stream, rank=0, tags=[Tag(stream)], ts=np.arange(rows), payload=columns)


def connection(**tables: pa.Table) -> duckdb.DuckDBPyConnection:
    """Return DuckDB on one thread with tables of its own."""
    made = duckdb.connect(config={"threads": 1})
    for name, rows in tables.items():
        made.register("given", rows)
        made.execute(f"create table {name} as select * from given")  # noqa: S608 - our own names
        made.unregister("given")
    return made


class Kept:
    """A program with a state that takes increments. Each repetition goes on with the state of the one before."""

    def __init__(self, program: QueryProgram, *base: EventBatch) -> None:
        self.program = program
        self.state = program.identity()
        for one in base:
            self.state = program.join(self.state, program.fold(one))
        self.answer()

    def answer(self) -> Any:
        """Return the rows of the answer."""
        return self.program.answering.tables(self.state)

    def add(self, one: EventBatch) -> Any:
        """Add a batch, and answer."""
        self.state = self.program.join(self.state, self.program.fold(one))
        return self.answer()


def numbers(rng: np.random.Generator, rows: int, **most: int) -> dict[str, Any]:
    """Return columns of integers below the given numbers."""
    return {name: rng.integers(0, high, rows) for name, high in most.items()}


def averages(sizes: Sizes) -> Iterator[Duel]:
    """Group-by with averages: an increment beside recomputing, and the ninth increment beside the first."""
    rng = np.random.default_rng(3)
    for rows in sorted({min(1_000_000, sizes.base), sizes.base}):
        base = numbers(rng, rows, k=KEYS, v=KEYS)
        kept = Kept(program_of(AVERAGES, t=Schema.of(k=INT, v=INT)), batch("t", base))
        more = [batch("t", numbers(rng, INCREMENT, k=KEYS, v=KEYS)) for _ in range(2 * sizes.repeats)]
        duck = connection(t=pa.table(base))
        yield Duel(
            f"group-by avg: {INCREMENT:,} rows on {rows:,}", "DuckDB recomputing, 1 thread",
            1 / 4 if rows <= 1_000_000 else 1 / 20,  # noqa: PLR2004
            lambda place, kept=kept, more=more: partial(kept.add, more[place]),
            lambda _, duck=duck: duck.sql(f"{AVERAGES} order by k").to_arrow_table,
        )  # fmt: skip
    again = Kept(kept.program, batch("t", base))
    yield Duel(name="group-by: ninth increment", most=1.3, **_ninth(again, "t", {"k": KEYS, "v": KEYS}))


def _ninth(kept: Kept, stream: str, columns: dict[str, int]) -> dict[str, Any]:
    """Return both sides of the ninth increment beside the first, each on a copy of the base."""
    rng = np.random.default_rng(4)
    more = [batch(stream, numbers(rng, INCREMENT, **columns)) for _ in range(10)]
    saved = codec.encode(kept.state)

    def after(increments: int, _place: int) -> Work:
        one = Kept(kept.program)
        one.state = codec.decode(saved)
        one.add(more[9])  # the first one also pays for decoding
        for place in range(increments):
            one.add(more[place])
        return partial(one.add, more[increments])

    return {"opponent": "the first increment", "ours": partial(after, 8), "theirs": partial(after, 0)}


def many_to_many(sizes: Sizes) -> Iterator[Duel]:
    """Join of two streams, with each key many times on both sides."""
    rng, keys = np.random.default_rng(5), max(10, sizes.side // 200)
    left, right = numbers(rng, sizes.side, k=keys, g=10), numbers(rng, sizes.side, k=keys, v=1000)
    kept = Kept(
        program_of(MANY_TO_MANY, l=Schema.of(k=INT, g=INT), r=Schema.of(k=INT, v=INT)),
        batch("l", left),
        batch("r", right),
    )
    more = [batch("r", numbers(rng, INCREMENT, k=keys, v=1000)) for _ in range(sizes.repeats)]
    duck = connection(l=pa.table(left), r=pa.table(right))
    yield Duel(
        f"many-to-many join: {INCREMENT:,} rows on {sizes.side:,} + {sizes.side:,}", "DuckDB recomputing, 1 thread", 1 / 20,
        lambda place: partial(kept.add, more[place]), lambda _: duck.sql(f"{MANY_TO_MANY} order by g").to_arrow_table,
    )  # fmt: skip
    again = Kept(kept.program, batch("l", left), batch("r", right))
    yield Duel(name="join: ninth increment", most=1.5, **_ninth(again, "r", {"k": keys, "v": 1000}))


def compactions(sizes: Sizes) -> Iterator[Duel]:
    """H alone, on plain columns and on expressions, beside the same by hand."""
    rng = np.random.default_rng(6)
    columns = numbers(rng, BATCH, k=KEYS, v=1000, d=11)
    table, given = pa.table(columns), batch("t", columns)
    schema = Schema.of(k=INT, v=INT, d=INT)
    plain = program_of("select k, sum(v) as s, count(*) as n from t group by k", t=schema)
    by_hand = table.append_column("w", pa.array(np.ones(BATCH, np.int64)))
    yield Duel(
        f"h of {BATCH:,} rows, plain columns", "Acero by hand", 2.0, lambda _: lambda: plain.fold(given),
        lambda _: lambda: pa.TableGroupBy(by_hand, "k", use_threads=False).aggregate([("v", "sum"), ("w", "sum")]),
    )  # fmt: skip
    text = "select k, sum(v * (100 - d)) as s, count(*) as n from t where v % 7 < 5 group by k"
    general = program_of(text, t=schema)
    duck = duckdb.connect(config={"threads": 1})

    def hand() -> pa.Table:
        duck.register("t", table)
        return duck.sql(text).to_arrow_table()

    yield Duel(
        f"h of {BATCH:,} rows, expressions",
        "DuckDB by hand",
        1 / 0.9,
        lambda _: lambda: general.fold(given),
        lambda _: hand,
    )
    del sizes


def states(sizes: Sizes) -> Iterator[Duel]:
    """Merge few keys into many, and encode a checkpoint."""
    rng = np.random.default_rng(7)
    program = program_of(AVERAGES, t=Schema.of(k=INT, v=INT))
    every = {"k": np.arange(sizes.state), "v": rng.integers(0, 1000, sizes.state)}
    saved = codec.encode(program.fold(batch("t", every)))

    def merged(_: int) -> Work:
        state = [codec.decode(saved)]
        parts = [program.fold(batch("t", numbers(rng, INCREMENT, k=sizes.state, v=1000))) for _ in range(20)]

        def work() -> None:
            for one in parts:
                state[0] = program.join(state[0], one)

        return work

    yield Duel(f"merge of {INCREMENT:,} keys into {sizes.state:,}, 20 times", "", 20 * 5.0, merged, kind="ms")
    state = codec.decode(saved)
    yield Duel(
        f"checkpoint of {sizes.state:,} rows", "", 150.0, lambda _: lambda: codec.encode(state), kind="ms"
    )


def answers(sizes: Sizes) -> Iterator[Duel]:
    """Rows of an answer as outputs in a Parquet file, beside the answer itself; and the time from the text to the program."""
    program = program_of(AVERAGES, t=Schema.of(k=INT, v=INT))
    state = program.fold(batch("t", {"k": np.arange(sizes.answer), "v": np.arange(sizes.answer)}))
    asked = EventBatch.of("answer", rank=0, tags=[Tag("answer")], ts=[0])

    def written(sink: FileSink, epoch: int) -> None:
        outputs: list[OutputBatch] = []
        program.update_batch(state, asked, BatchEmitter(asked, outputs))
        sink.write(outputs[0], epoch)
        sink.stage(epoch)

    with TemporaryDirectory() as directory:
        sink = parquet_sink(PartNames(Place(Path(directory), "parquet"), 0, by_epoch=True))
        yield Duel(
            f"answer of {sizes.answer:,} rows to Parquet", "the answer as a table", 25.0,
            lambda place: partial(written, sink, place), lambda _: lambda: program.answering.tables(state), kind="ms beyond",
        )  # fmt: skip
        sink.close()
    schemas = {"l": Schema.of(k=INT, g=INT), "r": Schema.of(k=INT, v=INT)}
    yield Duel("parse to program", "", 80.0, lambda _: lambda: program_of(MANY_TO_MANY, **schemas), kind="ms")


WORKLOADS: dict[str, Callable[[Sizes], Iterator[Duel]]] = {
    "averages": averages, "join": many_to_many, "h": compactions, "states": states, "answers": answers,
}  # fmt: skip
"""The workloads by name."""

__all__ = ["FULL", "SMALL", "WORKLOADS", "Duel", "Sizes"]
