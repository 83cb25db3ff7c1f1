"""The smart homes as flows: loads of regions are interpolated, averaged by state at every hour, and predicted.

An interpolated hour may be older than its block. With `hold` every region is filled up to the end of the block, so no hour is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dgs.flow import Edge, KeyedOrdered, every, flow, merge

STATES = {"DAYTON": "ohio", "FE": "ohio", "DEOK": "south", "EKPC": "south"}
DAY = 24
MORNING = 6
Reading = tuple[int, float]


class Interpolate(KeyedOrdered):
    """Fills the instants between two readings (t, load) on a straight line; `hold` also fills a block with the last load."""

    def __init__(self, *, hold: bool = False) -> None:
        self.hold = hold

    def on_item(
        self,
        state: Reading | None,
        key: Any,  # noqa: ARG002 - the contract
        value: Reading,
        emit: Callable[[Reading], None],
    ) -> Reading:
        """Emit the instants since the last reading."""
        t, load = value
        if state is None:
            emit((t, float(load)))
        else:
            before, last = state
            for step in range(1, t - before + 1):
                emit((before + step, last + step * (load - last) / (t - before)))
        return value

    def on_marker(self, state: Any, key: Any, at: int, emit: Callable[[Reading], None]) -> Any:  # noqa: ARG002 - the contract
        """Fill the block with the last load."""
        if not self.hold or state is None:
            return state
        t, load = state
        for instant in range(t + 1, at):
            emit((instant, load))
        return (max(t, at - 1), load)


class Predict(KeyedOrdered):
    """Predicts the next load from the mean of the last day."""

    def initial_state(self) -> list[float]:
        """Return no loads."""
        return []

    def on_item(
        self, state: list[float], key: str, value: Reading, emit: Callable[[list[Any]], None]
    ) -> list[float]:
        """Emit instant, state, load and prediction."""
        t, load = value
        past = [*state, load][-DAY:]
        mean = math.fsum(past) / len(past)
        guess = load if t % DAY < MORNING else (mean + load) / 2 if load > mean else mean
        emit([t, key, round(load, 6), round(guess, 6)])
        return past


def _mean(_: Any, loads: list[float], __: int) -> list[float]:
    """Return the mean; its bits do not depend on the order of the loads."""
    return [math.fsum(loads) / len(loads)]


@flow(clock=every(DAY))
def power(dayton: float, deok: float, ekpc: float, fe: float, *, hold: bool = False) -> Edge:
    """Predict the mean load of each state, from loads of four regions in megawatts; ts in hours."""
    regions = {"DAYTON": dayton, "DEOK": deok, "EKPC": ekpc, "FE": fe}
    loads = merge(*(edge.key_by(name) for name, edge in regions.items())).each(
        lambda _, mw, at: (at, int(mw))
    )
    hours = loads.sort(by=0).apply(Interpolate(hold=hold), keeps=hold)
    means = hours.pairs(lambda region, v: ((STATES[region], v[0]), v[1])).block(_mean, accept_parts=not hold)
    return means.pairs(lambda key, mean: (key[0], (key[1], mean))).sort(by=0).apply(Predict())


@flow(clock=every(10))
def plugs(readings: Any, *, hold: bool = False) -> Edge:
    """Give the mean load of all plugs at every instant, from records with `plug` and `load`."""
    points = readings.key_by("plug").each(lambda _, row, at: (at, row["load"])).apply(Interpolate(hold=hold))
    means = points.pairs(lambda _, v: (v[0], v[1])).block(_mean)
    return means.each(lambda t, mean, at: [at, t, round(mean, 6)])
