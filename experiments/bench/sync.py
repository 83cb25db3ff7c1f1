"""The cost of synchronising by values per barrier, leaves below a root, and heartbeats (Figure 10 of the paper), target 3.

- `window-N`: four streams with N values each per barrier, on four leaves, beside a NumPy loop over the windows (`numpy`) and one
  `reduceat` over all windows (`numpy-reduceat`).
- `joins-window`, `joins-fraud`: L streams on L leaves with ten events each between two synchronisations, so almost all work is
  synchronising. Windows accumulate, and many are in flight. A rule of fraud detection waits for the previous rule.
- `beats-N`: the event window with N heartbeats of the barrier stream per barrier.

>>> app = windows(values=100, events=1_000)
>>> app.name, app.events, len(app.columns["barriers"]["ts"])
('window-100', 4010, 10)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from dgs.bench.measuring import KEY, Contestant, Measured, Sample, measured
from dgs.model.order import Heartbeat
from experiments.bench import report
from experiments.bench.applications import STREAMS, Application, of_one_key
from experiments.bench.baselines import (
    Shapes,
    loops,
    numpy_by_hand,
    runtimes,
    window_sums,
    window_sums_at_once,
)
from experiments.event_window import program as window_program
from experiments.fraud_detection import program as fraud_program

VALUES = (100, 1_000, 10_000, 100_000)
LEAVES = (1, 2, 4, 8, 16, 32, 64)
BEATS = (0, 1, 10, 100, 1_000)
FEW = 10
"""Events per leaf between two synchronisations in `joins-window` and `joins-fraud`."""
SECONDS = 100.0
QUICK_SECONDS = 20.0
"""Seconds after which the sweeps end."""


def samples(shapes: Shapes, repetitions: int, *, quick: bool) -> Iterator[Sample]:
    """Yield the samples of all sweeps, repetitions interleaved within each.

    Every point is measured once, and then again until the time is up, quick points more often. The sweeps share the time evenly. Points
    that are not reached are printed. On Ray only the largest number of hosts is measured.
    """
    shapes = replace(shapes, hosts=(max(shapes.hosts),))
    sweeps = list(_sweeps(shapes, quick=quick))
    ends = time.monotonic() + (QUICK_SECONDS if quick else SECONDS)
    for left, sweep in zip(range(len(sweeps), 0, -1), sweeps, strict=True):
        group = list(sweep)
        time_left = ends - time.monotonic()
        found = list(measured(group, repetitions=repetitions, seconds=time_left / left, limit=time_left))
        yield from found
        named = {tuple(getattr(sample, name) for name in KEY) for sample in found}
        for one in group:
            if (key := tuple(getattr(one, name) for name in KEY)) not in named:
                report.console().print(f"not measured, the time was up: {key}", markup=False)


def _sweeps(shapes: Shapes, *, quick: bool) -> Iterator[Iterator[Contestant]]:
    """Yield the contestants of each sweep, made on demand."""
    small, large = (20_000, 100_000) if quick else (200_000, 1_000_000)
    for values in VALUES[:3] if quick else VALUES:
        yield _per_barrier(values, small, large, shapes)
    leaves = (1, 4, 16) if quick else LEAVES
    yield chain.from_iterable(_joins(count, shapes, quick=quick) for count in leaves)
    beats = (0, 10, 100) if quick else BEATS
    yield chain.from_iterable(_heartbeats(count, small, shapes) for count in beats)


def windows(values: int, events: int, streams: int = STREAMS, name: str | None = None) -> Application:
    """Return the event window over streams of `events` values with `values` of them per barrier and stream."""
    data = _columns("barriers", "values", values, events, streams)
    tags = {"barriers": window_program.BARRIER(), "values": window_program.VALUE()}
    return of_one_key(name or f"window-{values}", window_program.EventWindow(), data, tags)


def rules(values: int, events: int, streams: int, name: str) -> Application:
    """Return fraud detection over streams of `events` transactions with `values` of them per rule and stream."""
    data = _columns("rules", "transactions", values, events, streams)
    tags = {"rules": fraud_program.RULE(), "transactions": fraud_program.TRANSACTION()}
    return of_one_key(name, fraud_program.FraudDetection(), data, tags)


def _columns(first: str, others: str, values: int, events: int, streams: int) -> dict[str, dict[str, Any]]:
    ends = np.arange(values, events + 1, values, dtype=np.int64)
    data = {first: {"ts": ends, "payload": np.arange(len(ends), dtype=np.int64)}}
    for number in range(streams):
        random = np.random.default_rng([values, number])
        ts = np.arange(events, dtype=np.int64)  # one value per unit of time: no window is empty
        data[f"{others}-{number}"] = {"ts": ts, "payload": random.integers(0, 10_000, events)}
    return data


def _per_barrier(values: int, few: int, many: int, shapes: Shapes) -> Iterator[Contestant]:
    small, large = windows(values, few), windows(values, many)
    found: list[Contestant] = []
    if "loop" in shapes.engines:
        found += [one for one in loops(small) if one.engine == "loop"]
    if "numpy" in shapes.engines:
        found += [
            numpy_by_hand(large, window_sums),
            numpy_by_hand(large, window_sums_at_once, name="numpy-reduceat"),
        ]
    found += runtimes(small, "scalar", STREAMS, shapes)
    found += runtimes(large, "vectorised", STREAMS, shapes)
    yield from _counted(found, {"scalar": small, "vectorised": large})


def _joins(leaves: int, shapes: Shapes, *, quick: bool) -> Iterator[Contestant]:
    events = FEW * (200 if quick else 1_000)
    for app in (
        windows(FEW, events, leaves, name="joins-window"),
        rules(FEW, events, leaves, name="joins-fraud"),
    ):
        yield from _counted(runtimes(app, "vectorised", leaves, shapes), {"vectorised": app})


def _heartbeats(beats: int, events: int, shapes: Shapes) -> Iterator[Contestant]:
    app = windows(10_000, events, name=f"beats-{beats}")
    barriers = app.columns["barriers"]
    items: list[Any] = []
    for ts, payload in zip(barriers["ts"].tolist(), barriers["payload"].tolist(), strict=True):
        step = max(1, 10_000 // (beats + 1))
        items += [Heartbeat("barriers", ts - 10_000 + step * (number + 1)) for number in range(beats)]
        items.append((window_program.BARRIER(), ts, payload))
    app = replace(app, feeds={"barriers": items})
    yield from _counted(runtimes(app, "vectorised", STREAMS, shapes), {"vectorised": app})


def _counted(group: Iterable[Contestant], apps: Mapping[str, Application]) -> Iterator[Contestant]:
    """Yield the contestants with the number of synchronisations added to their figures."""
    for contestant in group:
        first = next(iter(apps[contestant.mode].streams.values()))
        yield replace(contestant, run=_counting(contestant, sum(map(len, first))))


def _counting(contestant: Contestant, synchronisations: int) -> Any:
    def run() -> Measured:
        done = contestant.run()
        return replace(done, figures={**done.figures, "synchronisations": synchronisations})

    return run


def verdicts(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the verdicts on target 3 for the medians that were measured."""
    of = {(row["app"], row["engine"], row["mode"], row["leaves"], row["hosts"]): row for row in rows}
    yield from _pace(of)
    for name in ("joins-window", "joins-fraud"):
        few, many = of.get((name, "ray", "vectorised", 4, 2)), of.get((name, "ray", "vectorised", 64, 2))
        if few is not None:
            yield _said(f"{name}, 4 leaves on two hosts: ms each", _each(few) * 1e3, most=0.3)
        if few is not None and many is not None:
            yield _said(f"{name}, 64 leaves to 4", _each(many) / _each(few), most=3)


def _pace(of: Mapping[Any, Mapping[str, Any]]) -> Iterator[str]:
    for engine, hosts in (("local", 1), ("ray", 2)):
        sparse = of.get(("window-10000", engine, "scalar", STREAMS, hosts))
        dense = of.get(("window-100", engine, "scalar", STREAMS, hosts))
        if sparse is not None and dense is not None:
            yield _said(f"{engine} scalar, 10,000 to 100 values", sparse["eps"] / dense["eps"], most=2)
        columns = of.get(("window-100", engine, "vectorised", STREAMS, hosts))
        by_hand = of.get(("window-100", "numpy", "vectorised", 1, 1))
        if columns is not None and by_hand is not None:
            ratio = columns["eps"] / by_hand["eps"]
            yield _said(f"{engine} vectorised at 100 values to a NumPy loop", ratio, least=2)


def _each(row: Mapping[str, Any]) -> float:
    return float(row["seconds"] / row["figures"]["synchronisations"])


def _said(what: str, value: float, *, most: float | None = None, least: float | None = None) -> str:
    met = value <= most if most is not None else value >= (least or 0)
    bound = f"at most {most:g}" if most is not None else f"at least {least:g}"
    return f"target 3 {'met' if met else 'missed'}: {what}: {value:.2f} ({bound})"
