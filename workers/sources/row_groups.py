"""Row groups: the places where reading a stream of Parquet files can begin, so that several readers each read a part.

>>> parts((100, 100, 100, 50), least=150, most=10)
[range(0, 200), range(200, 350)]
>>> parts((100, 100, 100, 50), least=1, most=2)
[range(0, 200), range(200, 350)]
>>> parts((), least=1, most=2)
[]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from dgs.job.schema import StreamConfig
from dgs.workers.sources.contract import SourceContext
from dgs.workers.sources.readers.files import input_files
from dgs.workers.sources.rows import Arrivals


def row_groups(config: StreamConfig, context: SourceContext) -> tuple[int, ...]:
    """Return the numbers of rows of a stream's row groups; none if it can be read only from its beginning.

    That is so if an event depends on earlier rows: for its time or its order, or because a front makes several events of a row. Files that
    cannot be read have no row groups either: their reader says why. Raises MissingInputError.
    """
    is_in_place = config.on_disorder == "error" and config.heartbeat is None and context.program.front is None
    if config.source.kind != "parquet" or not is_in_place:
        return ()
    found: list[int] = []
    for path in input_files(config.source.details.path, base_dir=context.base_dir, stream=config.id):
        try:
            about = pq.read_metadata(path)
        except (OSError, pa.ArrowException):
            return ()
        found += [about.row_group(number).num_rows for number in range(about.num_row_groups)]
    return tuple(found)


def parts(groups: Sequence[int], *, least: int, most: int) -> list[range]:
    """Return ranges of rows that consist of whole row groups and cover all rows: at most `most`, of at least about `least` rows."""
    ends = list(accumulate(groups))
    total = ends[-1] if ends else 0
    count = max(1, min(most, total // max(least, 1)))
    found: list[range] = []
    for end in ends:
        start = found[-1].stop if found else 0
        if end > start and end >= total * (len(found) + 1) // count:
            found.append(range(start, end))
    return found


def up_to(arrivals: Iterator[Arrivals], stop: int) -> Iterator[Arrivals]:
    """Yield the arrivals of the rows before `stop`, and read no further."""
    with closing(arrivals):  # type: ignore[type-var]  # those of readers of files are generators
        for part in arrivals:
            if part.first + len(part) >= stop:
                yield part.cut(0, max(stop - part.first, 0))
                return
            yield part
