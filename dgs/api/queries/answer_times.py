"""The times of answers by count: a source that reads the streams of a query beforehand, and counts their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dgs.job.schema import StreamConfig
from dgs.job.units import TimeUnit
from dgs.model.program import Program
from dgs.model.tags import kind
from dgs.workers.sources.contract import SourceContext
from dgs.workers.sources.opening import open_arrivals

BLOCK_ROWS = 4096


def times(
    *, streams: Sequence[Mapping[str, Any]], rows: int, base_dir: str, unit: TimeUnit
) -> Iterator[dict[str, npt.NDArray[np.int64]]]:
    """Yield the time of every n-th row (`rows`) of all streams together, in the order of times, and the time of the last row.

    `streams`: their sections of the plan file. Raises what reading them raises.
    """
    read = [_times_of(StreamConfig.model_validate(dict(one)), Path(base_dir), unit) for one in streams]
    ts = np.sort(np.concatenate(read))
    if len(ts):
        yield {"ts": np.unique(np.append(ts[rows - 1 :: rows], ts[-1]))}


def _times_of(config: StreamConfig, base_dir: Path, unit: TimeUnit) -> npt.NDArray[np.int64]:
    context = SourceContext(RowsOf(config.id), unit=unit, base_dir=base_dir)
    with closing(open_arrivals(config, context, BLOCK_ROWS).arrivals) as arrivals:
        return np.concatenate([np.empty(0, dtype=np.int64), *(part.ts for part in arrivals)])


class RowsOf(Program):
    """Takes the place of a query's program while rows are only counted."""

    def __init__(self, name: str) -> None:
        vars(self).update(kinds=(kind(name),))
