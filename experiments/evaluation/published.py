"""Figures that others have measured: the scaling in Table 1 of the paper, and throughputs of other engines on one machine."""

from __future__ import annotations

from dataclasses import dataclass

NODES = 12
"""The nodes of Table 1."""


@dataclass(frozen=True)
class Implementation:
    """A column of Table 1: which principles an implementation keeps, and its throughput on 12 nodes over that on one."""

    app: str
    system: str
    pip1: bool
    pip2: bool
    pip3: bool
    scaling: float


PAPER = (
    Implementation("event-window", "Flink", True, True, True, 10),
    Implementation("event-window", "Timely", True, True, True, 8),
    Implementation("event-window", "Flumina", True, True, True, 8),
    Implementation("page-view", "Flink", True, True, True, 2),
    Implementation("page-view", "Flink, manual", False, False, False, 9),
    Implementation("page-view", "Timely", True, True, True, 1),
    Implementation("page-view", "Timely, manual", True, False, True, 2),
    Implementation("page-view", "Flumina", True, True, True, 8),
    Implementation("fraud", "Flink", True, True, True, 1),
    Implementation("fraud", "Flink, manual", False, False, False, 9),
    Implementation("fraud", "Timely", True, True, True, 6),
    Implementation("fraud", "Flumina", True, True, True, 8),
)

RECORDED_IN = "the project's design, page 7 (performance): one 2-core machine, median of 3, 10,000 events per stream and window"


@dataclass(frozen=True)
class Recorded:
    """Millions of events per second of an engine: `automatic` by what its API parallelises, `manual` with synchronisation by hand."""

    engine: str
    app: str
    automatic: float | None
    manual: float | None = None


RECORDED = (
    Recorded("Flink 2.3, Java", "event-window", 5.8),
    Recorded("Flink 2.3, Java", "page-view", 4.7, 6.2),
    Recorded("Flink 2.3, Java", "fraud", 4.2, 7.7),
    Recorded("PyFlink", "event-window", 0.1),
    Recorded("Bytewax 0.21", "event-window", 2.4),
    Recorded("Bytewax 0.21", "page-view", 2.4),
    Recorded("Bytewax 0.21", "fraud", 2.9),
    Recorded("Spark 4.3, stateful pandas", "event-window", 1.2),
    Recorded("Spark 4.3, stateful pandas", "page-view", 0.55),
    Recorded("Spark 4.3, stateful pandas", "fraud", 0.45),
    Recorded("Pathway 0.33", "event-window", 0.6),
    Recorded("Pathway 0.33", "page-view", 0.001),
    Recorded("Pathway 0.33", "fraud", None),
    Recorded("Erlang prototype, 2 leaves", "event-window", 0.78),
    Recorded("Erlang prototype, 2 leaves", "page-view", 0.82),
    Recorded("Erlang prototype, 2 leaves", "fraud", 0.72),
)
