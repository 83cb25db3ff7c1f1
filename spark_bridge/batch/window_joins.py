"""The second step of a batch run in windows: tasks join the partial states of all leaves below a unit, chunk by chunk.

So the driver gets one state per window, whatever the number of leaves, and computes no joins. A task gets the rows of its chunks in
the order of the leaves, and passes all other rows on unchanged.

Law: `join(s, join(p, q)) == join(join(s, p), q)` for partial states p, q of kinds that accumulate, as at a worker inside a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain, groupby

import pyarrow as pa

from dgs import codec
from dgs.errors import DgsError
from dgs.model.program import State
from dgs.spark_bridge.batch.task_errors import error_row
from dgs.spark_bridge.batch.tasks import ERROR, NO_CHUNK, SCHEMA, Answer, Work
from dgs.spark_bridge.batch.window_states import encoded, joined
from dgs.workers.protocol.forking import Forking

Batches = Iterator[pa.RecordBatch]


def are_needed(work: Work) -> bool:
    """Return whether several tasks fold for one unit."""
    folding = [task.unit for task in work.tasks if task.node is not None]
    return len(folding) > len(set(folding))


def joining(work: Work) -> Callable[[Batches], Batches]:
    """Return the function for `mapInArrow` over answers of tasks, which come chunk by chunk and in order."""

    def run(batches: Batches) -> Batches:
        rows = (Answer(**row) for batch in batches for row in batch.to_pylist())
        for answer in joined_answers(work, rows):
            yield pa.RecordBatch.from_pylist([answer._asdict()], schema=SCHEMA)

    return run


def joined_answers(work: Work, answers: Iterable[Answer]) -> Iterator[Answer]:
    """Yield answers in the order of units and chunks, with the answers of each chunk joined; a DgsError becomes an answer."""
    join = _join(work)
    for (_, chunk), group in groupby(answers, key=lambda answer: (answer.unit, answer.chunk)):
        if chunk == NO_CHUNK:
            yield from group
            continue
        first = next(group)
        parts = (codec.decode(answer.data) for answer in chain([first], group))
        try:
            states = joined(parts, join)
        except DgsError as error:
            yield first._replace(what=ERROR, data=error_row(error))
            return
        for data in encoded(list(states.items())):
            yield first._replace(data=data)


def _join(work: Work) -> Callable[[State, State], State]:
    """Return the join of partial states, which loads the program on first use."""

    @cache
    def forking() -> Forking:
        node = next(task.node for task in work.tasks if task.node is not None)
        return Forking(work.loaded().program, node, [])

    return lambda left, right: forking().joined_with(left, right)
