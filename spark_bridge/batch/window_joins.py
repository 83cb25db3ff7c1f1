"""The second step of a batch run in windows with many folds: tasks join the partial states of all folds of a unit, chunk by chunk.

So the task that replays a unit gets one state per window, whatever the number of folds: the joins are a tree of depth two. A task gets
the rows of its chunks in the order of the folds, and passes all other rows on unchanged.

Law: `join(s, join(p, q)) == join(join(s, p), q)` for partial states p, q of kinds that accumulate, as at a worker inside a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain, groupby

import pyarrow as pa

from dgs import codec
from dgs.errors import DgsError
from dgs.model.program import State
from dgs.spark_bridge.batch.task_outputs import error_row
from dgs.spark_bridge.batch.tasks import ERROR, NO_CHUNK, Answer, Work, in_arrow, read_answers
from dgs.spark_bridge.batch.window_states import encoded, joined
from dgs.workers.protocol.forking import Forking

Batches = Iterator[pa.RecordBatch]


MOST_FOLDS = 16
"""Most tasks that fold for one unit without a step that joins."""


def are_needed(work: Work) -> bool:
    """Return whether more tasks fold for one unit than its replay should join alone."""
    folds = Counter(task.unit for task in work.tasks if task.node is not None)
    return max(folds.values(), default=0) > MOST_FOLDS


def joining(work: Work) -> Callable[[Batches], Batches]:
    """Return the function for `mapInArrow` over answers of tasks, which come chunk by chunk and in order."""
    return lambda batches: in_arrow(joined_answers(work, read_answers(batches)))


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
            yield first._replace(what=ERROR, chunk=NO_CHUNK, data=error_row(error))
            return
        for number, data in enumerate(encoded(list(states.items()))):
            yield first._replace(number=number, data=data)


def _join(work: Work) -> Callable[[State, State], State]:
    """Return the join of partial states, which loads the program on first use."""

    @cache
    def forking() -> Forking:
        node = next(task.node for task in work.tasks if task.node is not None)
        return Forking(work.loaded().program, node, [])

    return lambda left, right: forking().joined_with(left, right)
