"""High-water marks: the outputs that a sink has accepted before (R8).

The ids of outputs only grow for each implementation tag, so one mark per tag identifies repeats: outputs at or below it. A
resumed run may deal a split stream in another way. The row number of an output gives its split under any dealing, so marks of
older dealings still identify repeats.

>>> from dgs.model.tags import Tag
>>> def outputs(stream, *seqs):
...     ts, zeros = [7] * len(seqs), [0] * len(seqs)
...     return OutputBatch.of(stream, rank=0, tags=[Tag("a")], ts=ts, seq=seqs, index=zeros, values=list(seqs))
>>> marks = Marks()
>>> marks.accept(outputs("s/1", 1024, 1025), splits=2).to_list()
[1024, 1025]
>>> marks.accept(outputs("s/1", 1025, 1026), splits=2).to_list()
[1026]
>>> marks.accept(outputs("s/1", 1026, 1027), splits=3).to_list()
[1027]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from dgs import codec
from dgs.model.outputs import OutputBatch
from dgs.workers.recovery.positions import BLOCK, declared

Mark = tuple[int, int, int, int]
"""The id of an output: ts, rank and seq of its event, and its index."""


class MarkKey(NamedTuple):
    """The owner of a mark: an implementation tag of a declared stream dealt to `splits`. `key`: codec bytes."""

    stream: str
    splits: int
    split: int
    kind: str
    key: bytes


class Accepted(NamedTuple):
    """The new outputs of a batch, and the marks to save together with them."""

    outputs: OutputBatch
    marks: dict[MarkKey, Mark]


def accept(
    batch: OutputBatch,
    splits: int,
    *,
    known: Callable[[MarkKey], Mark | None],
    dealings: Iterable[int] = (),
    block: int = BLOCK,
) -> Accepted:
    """Return the new outputs in a batch of a stream dealt to `splits`.

    `known` returns a mark. `dealings`: other numbers of splits for which there may be marks of that stream. The outputs of each
    implementation tag must be in the order of their ids.
    """
    others = [number for number in dict.fromkeys(dealings) if number != splits]
    stream = declared(batch.stream)[0]
    names = [(tag.kind, codec.encode(tag.key)) for tag in batch.tags]
    codes = [0] * len(batch) if batch.codes is None else batch.codes.tolist()
    numbers = (batch.ts.tolist(), np.asarray(batch.seq).tolist(), batch.index.tolist())
    limits: dict[MarkKey, Mark | None] = {}
    ahead: dict[MarkKey, Mark] = {}
    rows = []

    def is_at_most(mark: Mark, key: MarkKey) -> bool:
        if key not in limits:
            limits[key] = known(key)
        limit = limits[key]
        return limit is not None and mark <= limit

    for row, (code, ts, seq, index) in enumerate(zip(codes, *numbers, strict=True)):
        mark, dealt = (ts, batch.rank, seq, index), seq // block
        own = MarkKey(stream, splits, dealt % splits, *names[code])
        if is_at_most(mark, own):
            continue
        if any(is_at_most(mark, MarkKey(stream, n, dealt % n, *names[code])) for n in others):
            continue
        limits[own] = ahead[own] = mark
        rows.append(row)
    new = batch if len(rows) == len(batch) else batch.take(np.array(rows, dtype=np.intp))
    return Accepted(new, ahead)


class Marks:
    """Marks kept in memory."""

    def __init__(self, block: int = BLOCK) -> None:
        self._block = block
        self._marks: dict[MarkKey, Mark] = {}
        self._dealings: dict[str, dict[int, None]] = {}

    def accept(self, batch: OutputBatch, splits: int) -> OutputBatch:
        """Return the new outputs in a batch, and remember them."""
        dealings = self._dealings.setdefault(declared(batch.stream)[0], {})
        new, marks = accept(batch, splits, known=self._marks.get, dealings=dealings, block=self._block)
        self._marks.update(marks)
        dealings[splits] = None
        return new
