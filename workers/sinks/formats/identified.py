"""The identity of an output, as columns beside its value.

>>> from dgs.model.tags import Tag
>>> batch = OutputBatch.of("s/1", rank=0, tags=[Tag("a", 7)], ts=[5], seq=[2], index=[0], values=[{"n": 1}])
>>> identified(batch, 3, {"ts": "at", "key": "key", "epoch": "epoch"}).to_list()
[{'at': 5, 'key': '7', 'epoch': 3, 'n': 1}]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dgs.errors import InvalidError
from dgs.model.outputs import OutputBatch
from dgs.workers.recovery.positions import declared
from dgs.workers.sinks.contract import AroundSink, HostSink
from dgs.workers.sinks.formats.arrow_tables import VALUE, text_of

TEXTS = ("stream", "kind", "key")
"""The parts that are text. The others are integers."""


class ColumnClashError(InvalidError):
    """A record has a column with the name of one that identifies outputs."""

    code = "DGS317"
    template = (
        "outputs have a column {name!r}, which is also the name of the column with the {part} of each output"
    )
    fix = "Rename ours under the sink's `identity`, as in `identity: {{{part}: output_{part}}}`, or leave it out with `{part}: null`"


class IdentifiedOutputs(AroundSink):
    """A sink that writes each output's identity beside its value. `names`: the column of each part of the identity."""

    def __init__(self, sink: HostSink, names: Mapping[str, str]) -> None:
        super().__init__(sink)
        self._names = names

    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Take outputs. Raises ColumnClashError."""
        self._sink.write(identified(batch, epoch, self._names), epoch)


def identified(batch: OutputBatch, epoch: int, names: Mapping[str, str]) -> OutputBatch:
    """Return outputs whose values are records: the identity, and the columns of a record or `value`. Raises ColumnClashError."""
    ours = {names[part]: column for part, column in identity_of(batch, epoch).items() if part in names}
    values = batch.values
    if isinstance(values, dict):
        check_names(values, names)
        return replace(batch, values={**ours, **values})
    if isinstance(values, list) and values and all(type(value) is dict for value in values):
        check_names({name for value in values for name in value}, names)
        rows = pa.table(ours).to_pylist() if ours else [{}] * len(values)
        return replace(batch, values=[{**row, **value} for row, value in zip(rows, values, strict=True)])
    check_names((VALUE,), names)
    return replace(batch, values={**ours, VALUE: values})


def identity_of(batch: OutputBatch, epoch: int) -> dict[str, pa.Array]:
    """Return a column for each part of the identity."""
    codes = np.zeros(len(batch), np.int32) if batch.codes is None else np.asarray(batch.codes, np.int32)
    kinds = pa.array([tag.kind for tag in batch.tags], pa.string())
    keys = pa.array([None if tag.key is None else text_of(tag.key) for tag in batch.tags], pa.string())
    stream = pa.array([declared(batch.stream)[0]], pa.string())
    return {
        "ts": pa.array(np.asarray(batch.ts, np.int64)),
        "stream": stream.take(pa.array(np.zeros(len(batch), np.int32))),
        "seq": pa.array(np.asarray(batch.seq, np.int64)),
        "kind": kinds.take(pa.array(codes)),
        "key": keys.take(pa.array(codes)),
        "epoch": pa.array(np.full(len(batch), epoch, np.int64)),
        "index": pa.array(np.asarray(batch.index, np.int64)),
    }


def check_names(columns: Iterable[str], names: Mapping[str, str]) -> None:
    """Raise ColumnClashError if columns of values have the name of a column of the identity."""
    taken = set(columns)
    for part, name in names.items():
        if name in taken:
            raise ColumnClashError(name=name, part=part)
