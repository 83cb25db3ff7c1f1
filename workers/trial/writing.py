"""The cost of outputs in sinks: a trial's outputs are written to sinks of the job's kinds, in a temporary directory.

>>> from dgs.model.tags import Tag
>>> batch = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=range(500), seq=range(500), index=[0] * 500,
...                        values=[{"n": [i]} for i in range(500)])
>>> seconds_of_output(["jsonl"], batch) > seconds_of_output(["none"], batch)
True
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dgs import codec
from dgs.job.schema import SinkConfig
from dgs.model.outputs import OutputBatch
from dgs.workers.sinks import open_sink
from dgs.workers.sinks.files.places import FILE_KINDS, LAKE_KINDS
from dgs.workers.sinks.formats.json_text import as_json
from dgs.workers.trial.stopwatch import Stopwatch, least

MOST_ROWS = 2048
"""Outputs that are written at once."""

SENT = ("memory", "stdout")
"""Kinds of sinks whose outputs are sent to the caller."""

FILES = {kind: kind for kind in FILE_KINDS} | dict.fromkeys(LAKE_KINDS, "parquet")
"""The kind of files that are written for each kind of sink."""


def seconds_of_output(sinks: Sequence[str], batch: OutputBatch) -> float:
    """Return the seconds of writing one of several outputs to a sink of each kind; 0 for functions and classes of users.

    Measured from the whole batch, less the time of its first output alone, since files are opened once.
    """
    if len(batch) <= 1:
        return 0.0
    some = batch.take(np.arange(min(len(batch), MOST_ROWS)))
    first = some.take(np.arange(1))
    seconds = 0.0
    for write in filter(None, map(_writer, sinks)):
        write(first)  # the first call may import modules
        seconds += max(0.0, least(partial(write, some), 0.0) - least(partial(write, first), 0.0))
    return seconds / (len(some) - 1)


def _writer(kind: str) -> Callable[[OutputBatch], float] | None:
    if kind in SENT:
        return partial(_seconds_of_sending, is_printed=kind == "stdout")
    if kind == "sqlite":
        return partial(_seconds_of_writing, {"sqlite": {"path": "out.db", "table": "outputs"}})
    return partial(_seconds_of_writing, {FILES[kind]: {"path": "out"}}) if kind in FILES else None


def _seconds_of_writing(config: Mapping[str, Any], batch: OutputBatch) -> float:
    """Return the seconds in which a new sink writes outputs, without those of making them durable."""
    with tempfile.TemporaryDirectory() as place:
        sink = open_sink(
            SinkConfig.model_validate(config), output_dir=Path(place), base_dir=Path(place), host=0
        )
        watch = Stopwatch()
        sink.write(batch, 1)
        written = watch.seconds()
        sink.abort()  # a file writes what it has collected here, and a database waits for the disk
        return written if "sqlite" in config else watch.seconds()


def _seconds_of_sending(batch: OutputBatch, *, is_printed: bool) -> float:
    """Return the seconds of sending outputs to the caller, and of printing them there."""
    watch = Stopwatch()
    sent = codec.encode(batch)
    if is_printed:
        for value in codec.decode(sent).to_list():
            as_json(value)
    return watch.seconds()
