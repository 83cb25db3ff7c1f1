"""Observing runs by their directories, whether they are live, finished, failed or killed.

- `figures_of_runs`: the figures of a run, over time.
"""

from dgs.observe.figures_of_runs import NoFiguresError, OtherFiguresError, Tail, follow, history, newest
from dgs.workers.observing.blame import Blame, blame
from dgs.workers.observing.figures import (
    CheckpointFigures,
    Generation,
    HostSummary,
    Move,
    PairFigures,
    Phase,
    RunFigures,
    SinkFigures,
    StreamFigures,
    Wait,
    WorkerFigures,
)

__all__ = [
    "Blame", "CheckpointFigures", "Generation", "HostSummary", "Move", "NoFiguresError", "OtherFiguresError",
    "PairFigures", "Phase", "RunFigures", "SinkFigures", "StreamFigures", "Tail", "Wait", "WorkerFigures",
    "blame", "follow", "history", "newest",
]  # fmt: skip
