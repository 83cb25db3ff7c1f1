"""Helpers of the tests of sources: open a source, read it to its end, and look at its events."""

from pathlib import Path

from dgs.job.schema import StreamConfig
from dgs.model.order import END
from dgs.model.program import Program
from dgs.model.tags import kind
from dgs.workers.sources import SourceContext, open_source


class Kinds(Program):
    kinds = (
        kind("view", key=str),
        kind("cell", key=int),
        kind("value"),
        kind("b"),
        kind("new", key=object),
        kind("barrier"),
        kind("side", key=("l", "r")),
    )


def stream(source="data", **sections):
    source = {"memory": source} if isinstance(source, str) else source
    return StreamConfig.model_validate({"id": "s", "tags": {"kind": "value"}, "source": source, **sections})


def opened(
    config,
    items=None,
    *,
    unit="none",
    base_dir=Path(),
    batch_rows=16384,
    rank=0,
    program=None,
    skips=False,
    **options,
):
    memory = {} if items is None else {"data": items}
    return open_source(
        config,
        SourceContext(program or Kinds(), unit, base_dir, memory, skips=skips),
        rank=rank,
        batch_rows=batch_rows,
        **options,
    )


def readings(source):
    """Read to the end."""
    found = []
    while not found or found[-1].frontier != END:
        found.append(source.read())
    return found


def rows(batches):
    """Return (stream, tag, ts, seq, payload) of every event, in the order of the batches."""
    return [
        (batch.stream, event.tag, event.ts, seq, event.payload)
        for batch in batches
        for event, seq in zip(batch.events(), batch.seq.tolist(), strict=True)
    ]


def read_all(config, items=None, **options):
    source = opened(config, items, **options)
    return rows(batch for reading in readings(source) for batch in reading.batches)


def events(config, items=None, **options):
    """Return (tag, ts, payload) of every event."""
    return [(tag, ts, payload) for _, tag, ts, _, payload in read_all(config, items, **options)]
