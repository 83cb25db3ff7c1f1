"""Input of `plan_spark.yaml`: the events of `workload.py` as Parquet files, like those of a log collector.

    python -m experiments.page_view_join.write_input

A file has the events of all streams in a slice of time, in no order; column `stream` names the stream of an event. Existing files
are kept.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from experiments.workload import Columns, updates, views

SERVERS = 4
FILES = 5


def tables(events: int) -> Iterator[pa.Table]:
    """Yield the events of every stream: `stream`, `ts`, `page`, `payload`. `events`: views of one server."""
    yield _table("updates", updates(events=events))
    for server in range(SERVERS):
        yield _table(f"views-{server}", views(stream=server, events=events))


def write(directory: Path, *, events: int, files: int = FILES) -> None:
    """Write all events into a directory, which appears when it is complete."""
    everything = pa.concat_tables(tables(events))
    ends = (np.arange(1, files + 1) * (int(everything["ts"].to_numpy().max()) + 1)) // files
    slices = np.searchsorted(ends, everything["ts"].to_numpy(), side="right")
    random = np.random.default_rng(1)
    directory.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}-"))
    try:
        for number in range(files):
            rows = random.permutation(np.flatnonzero(slices == number))
            path = place / f"{number:04d}.parquet"
            pq.write_table(everything.take(rows), path)
            os.utime(path, (number, number))  # Spark reads the oldest first
        place.chmod(0o755)
        os.rename(place, directory)  # noqa: PTH104 - refuses an existing directory that is not empty
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main(
    directory: Annotated[Path, typer.Argument(help="Directory to write.")] = Path(__file__).parent / "input",
    events: Annotated[int, typer.Option(min=1, help="Views of one server.")] = 250_000,
) -> None:
    """Write the files, unless they exist."""
    if directory.exists():
        return
    write(directory, events=events)
    typer.echo(
        f"wrote {SERVERS * events:,} views and their updates to {os.path.relpath(directory)}", err=True
    )


def _table(stream: str, columns: Iterator[Columns]) -> pa.Table:
    table = pa.concat_tables(pa.table(some) for some in columns)
    return table.add_column(0, "stream", pa.array([stream] * len(table)))


if __name__ == "__main__":
    typer.run(main)
