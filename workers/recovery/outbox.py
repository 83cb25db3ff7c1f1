"""Outputs that travelled in a checkpoint (R7): which workers they belong to under the current plan and dealing.

>>> from dgs.model.tags import Tag
>>> batch = OutputBatch.of("a/1", rank=0, tags=[Tag("x")], ts=[5, 6], seq=[0, 2], index=[0, 0], values=["p", "q"])
>>> [(part.stream, part.to_list()) for part in dealt_outputs(batch, lambda name: (f"{name}/0", f"{name}/1"), block=2)]
[('a/0', ['p']), ('a/1', ['q'])]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from dgs.model.outputs import OutputBatch
from dgs.workers.protocol.lanes import Router
from dgs.workers.recovery.positions import BLOCK, Positions, declared


def dealt_outputs(
    batch: OutputBatch, impl_streams: Callable[[str], tuple[str, ...]], *, block: int = BLOCK
) -> Iterator[OutputBatch]:
    """Yield the outputs by the implementation streams of the current dealing."""
    streams = impl_streams(declared(batch.stream)[0])
    which = (np.asarray(batch.seq) // block) % len(streams)
    for number, stream in enumerate(streams):
        rows = np.flatnonzero(which == number)
        if len(rows):
            yield replace(batch.take(rows), stream=stream)


def dealt_otherwise(
    batch: OutputBatch, committed: Positions, splits: Mapping[str, int], *, block: int = BLOCK
) -> int | None:
    """Return the number of splits under which a batch came into the outbox, None if its stream is still dealt in the same way.

    Law: outputs made under another split count are delivered under it before a generation starts with the new one. Under the new dealing,
    their ids and those of new outputs would be out of order, and a sink would take some of them for repeats.
    `committed`: the positions of the outbox's checkpoint. `splits`: of each declared stream now (default 1).
    """
    stream = declared(batch.stream)[0]
    layers = committed.streams.get(stream, ())
    if not layers or (layers[0].splits, layers[0].block) == (splits.get(stream, 1), block):
        return None
    return layers[0].splits


def owners(batch: OutputBatch, router: Router) -> Iterator[tuple[int, OutputBatch]]:
    """Yield the outputs by the lane of their event. Raises UnownedTagError."""
    codes = np.zeros(len(batch), dtype=np.int32) if batch.codes is None else batch.codes
    lanes = [router.lane(batch.stream, tag) for tag in batch.tags]
    of_row = [lanes[code] for code in codes.tolist()]
    for lane in dict.fromkeys(of_row):
        rows = np.array([row for row, its in enumerate(of_row) if its == lane], dtype=np.intp)
        if lane is None:
            tag = batch.tags[int(codes[rows[0]])]
            raise router.unowned(batch.stream, tag, int(batch.seq[int(rows[0])]))
        yield lane, batch.take(rows)
