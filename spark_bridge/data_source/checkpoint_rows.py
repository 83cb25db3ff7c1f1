"""Checkpoints as rows of a table, for `SELECT ... FROM dgs_checkpoints` and the data source `dgs`.

>>> from dgs.workers.recovery.checkpoint import StagedFile
>>> from dgs.workers.recovery.positions import Positions
>>> files = (StagedFile("/o/x.partial", "/o/part-000007-0.parquet", 9, "", rows=3),)
>>> row = row_of(Checkpoint(7, None, Positions(), files, events=5), run="r", generation=2, created_at=0, state=codec.encode({"a": 1}))
>>> row["epoch"], row["generation"], row["events"], row["outputs"], row["state_bytes"], row["state"], row["watermark"]
(7, 2, 5, 3, 4, '{"a":1}', None)
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from dgs import codec
from dgs.errors import CodecError
from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.checkpoints.directory import CheckpointDirectory
from dgs.workers.checkpoints.saved import RECORDS, Saved, state_name
from dgs.workers.recovery.checkpoint import Checkpoint, StagedFile, StagedOutput
from dgs.workers.recovery.positions import Layer, Positions
from dgs.workers.sinks.files.places import dead_letter_place
from dgs.workers.sinks.formats.json_text import as_json

Row = Mapping[str, Any]

_DEAD_LETTERS = dead_letter_place(Path()).stem

SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("epoch", pa.int64()),
        ("generation", pa.int64()),
        ("watermark", pa.int64()),
        ("events", pa.int64()),
        ("outputs", pa.int64()),
        ("state_bytes", pa.int64()),
        ("created_at", pa.timestamp("us", "UTC")),
        ("is_final", pa.bool_()),
        ("state", pa.string()),
        ("positions", pa.string()),
        ("name", pa.string()),
        ("saved", pa.binary()),
    ]
)
"""`run`: its id, the same after a resume; (run, epoch) is unique. `watermark`: every event with a smaller ts is in the state, null if
there is no such bound. `events`: number of events in the state. `outputs`: number of outputs in the files of this epoch, null if outputs
do not go to files. `state`, `positions`: JSON, the state null unless it is plain data of at most LARGEST_STATE bytes. `name`: that of the
run's directory. `saved`: the files that a run resumes from if its checkpoints are lost (`saved_files`); null if they are larger than
LARGEST_SAVED, and in all but the newest of several rows that are appended together after a crash."""

SHOWN = pa.schema([field for field in SCHEMA if field.name != "saved"])
"""The columns of a row that is made from a checkpoint file alone."""

LARGEST_SAVED = 2**26
"""The most bytes of a state that a row has in `saved`."""

LARGEST_STATE = 2**20
"""The most bytes of an encoded state that a row shows."""


def row_of(
    checkpoint: Checkpoint,
    *,
    run: str,
    generation: int,
    created_at: int,
    state: bytes,
    name: str = "",
    saved: bytes | None = None,
) -> Row:
    """Return the row of a checkpoint. `created_at`: nanoseconds since 1970; `state`: codec bytes; `saved`: see `saved_files`."""
    return {
        "run": run,
        "epoch": checkpoint.epoch,
        "generation": generation,
        "watermark": _watermark(checkpoint.positions.low),
        "events": checkpoint.events,
        "outputs": outputs_in(checkpoint.files),
        "state_bytes": len(state),
        "created_at": dt.datetime.fromtimestamp(created_at // 1000 / 1e6, dt.UTC),
        "is_final": checkpoint.is_final,
        "state": state_text(state),
        "positions": positions_text(checkpoint.positions),
        "name": name,
        "saved": saved,
    }


def row_of_saved(saved: Saved, run: str, *, name: str = "", files: bytes | None = None) -> Row:
    """Return the row of a checkpoint read from a file. `files`: the content of `saved`."""
    told = saved.manifest
    return row_of(
        told.checkpoint,
        run=run,
        generation=told.generation,
        created_at=told.created_at,
        state=saved.state,
        name=name,
        saved=files,
    )


def saved_files(directory: CheckpointDirectory, epoch: int) -> bytes | None:
    """Return the files of the newest checkpoint of a directory: its state and the record of what is committed; None if it is large."""
    state = directory.disk.read(directory.path / state_name(epoch))
    if len(state) > LARGEST_SAVED:
        return None
    return codec.encode([state, directory.disk.read(directory.path / RECORDS[0])])


def table_of_rows(rows: Iterable[Row]) -> pa.Table:
    """Return rows as a table."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA)


def state_text(state: bytes) -> str | None:
    """Return a state as JSON, None if it is large or not plain data."""
    if len(state) > LARGEST_STATE:
        return None
    try:
        return as_json(codec.decode(state))
    except (CodecError, RecursionError):
        return None


def positions_text(positions: Positions) -> str:
    """Return positions as JSON: for each stream a list of tags, split, ts and seq, the newest layer first."""
    return as_json(
        {
            stream: [part for layer in layers for part in _parts(layer)]
            for stream, layers in positions.streams.items()
        }
    )


def outputs_in(files: Iterable[StagedOutput]) -> int | None:
    """Return the number of outputs in files, of one sink if several wrote the same ones; None without files."""
    counts: dict[Path, int] = {}
    for file in files:
        place = Path(file.final)
        if isinstance(file, StagedFile) and not place.name.startswith(_DEAD_LETTERS):
            counts[place.parent] = counts.get(place.parent, 0) + file.rows
    return max(counts.values(), default=None)


def _parts(layer: Layer) -> Iterable[dict[str, Any]]:
    for part in layer.parts:
        end = part.key == END
        yield {
            "tags": repr(part.tags),
            "split": part.split,
            "ts": None if end or part.key == BEGIN else part.key.ts,
            "seq": None if end or part.key == BEGIN else part.key.seq,
            "ended": end,
        }


def _watermark(low: OrderKey) -> int | None:
    return None if low in (BEGIN, END) else low.ts
