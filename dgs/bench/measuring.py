"""Measuring contestants fairly: the same work, repetitions interleaved (A B C A B C), outputs compared every time.

A wrong contestant is not run again.

>>> def answer(engine, outputs, seconds):
...     return Contestant("sums", engine, "scalar", expected=right, run=lambda: Measured(10, seconds, [outputs]))
>>> right = Expected.of([[7, 3]])
>>> contestants = [answer("careful", [3, 7], 0.5), answer("hasty", [3, 8], 0.1)]
>>> samples = list(measured(contestants, repetitions=2))
>>> [(sample.repetition, sample.eps, sample.problem is None) for sample in samples]
[(0, 20.0, True), (0, 100.0, False), (1, 20.0, True)]
>>> [(row["eps"], row["problem"] is None) for row in medians(samples)]
[(20.0, True), (100.0, False)]
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from dgs.bench.fingerprint import Fingerprint, fingerprint
from dgs.errors import DgsError
from dgs.model.columns import Column

KEY = ("app", "engine", "mode", "leaves", "hosts")
"""The fields that identify a contestant."""


@dataclass(frozen=True)
class Measured:
    """The figures of one run: events, seconds from the first read to the last output, outputs.

    `outputs`: None if collecting them would distort the measurement. Then `count` is their number.
    """

    events: int
    seconds: float
    outputs: Sequence[Column] | None = None
    count: int | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Expected:
    """The right outputs. `explain` returns lines on how other outputs differ; no lines mean that they are close enough."""

    fingerprint: Fingerprint
    events: int = 0
    explain: Callable[[Sequence[Column]], list[str]] | None = None

    @classmethod
    def of(cls, outputs: Iterable[Column], events: int = 0) -> Expected:
        """Return the expectation of these outputs, made from `events` events."""
        return cls(fingerprint(outputs), events)

    def problem(self, done: Measured) -> str | None:
        """Return the problem with the outputs of a run, None if they are right."""
        if done.outputs is None:
            wrong = done.count is not None and done.count != self.fingerprint.count
            return f"{done.count:,} outputs instead of {self.fingerprint.count:,}" if wrong else None
        found = fingerprint(done.outputs)
        if found == self.fingerprint:
            return None
        if self.explain is not None:
            return "\n".join(self.explain(done.outputs)) or None
        return f"other outputs than those of the sequential program ({found.count:,} for {self.fingerprint.count:,})"


@dataclass(frozen=True, eq=False)
class Contestant:
    """An engine that computes the outputs of an application. `check`: an untimed first run that collects them."""

    app: str
    engine: str
    mode: str
    leaves: int = 1
    hosts: int = 1
    expected: Expected = field(kw_only=True)
    run: Callable[[], Measured] = field(kw_only=True)
    check: Callable[[], Measured] | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Sample:
    """One run of one contestant. `problem`: why its outputs are wrong or it failed; then its time does not count."""

    app: str
    engine: str
    mode: str
    leaves: int
    hosts: int
    repetition: int
    events: int
    seconds: float
    wall_seconds: float
    problem: str | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def eps(self) -> float:
        """Events per second."""
        return self.events / self.seconds if self.seconds > 0 else 0.0

    def row(self) -> dict[str, Any]:
        """Return the sample as data."""
        return {**asdict(self), "eps": self.eps}


def measured(
    contestants: Iterable[Contestant],
    *,
    repetitions: int,
    patience: float = math.inf,
    seconds: float = math.inf,
    limit: float = math.inf,
) -> Iterator[Sample]:
    """Yield a sample per contestant and repetition.

    A contestant that fails, or whose outputs are wrong, or that takes longer than `patience` in seconds, is not run again. Nor is a
    contestant that takes more than its equal share of the rest of `seconds`, so slow ones run less often. After `limit` seconds, no run
    begins.
    """
    running = list(contestants)
    took: dict[Contestant, float] = {}
    started = time.monotonic()
    ends = started + seconds
    for repetition in range(repetitions):
        for left, contestant in zip(range(len(running), 0, -1), list(running), strict=True):
            began = time.monotonic()
            is_slow = repetition and took[contestant] > (ends - began) / left
            if is_slow or began > started + limit:
                running.remove(contestant)
                continue
            sample = _sample(contestant, repetition)
            took[contestant] = time.monotonic() - began
            if sample.problem is not None or sample.wall_seconds > patience:
                running.remove(contestant)
            yield sample


def _sample(contestant: Contestant, repetition: int) -> Sample:
    """Run a contestant once, before the first time also its check, and compare the outputs."""
    named: dict[str, Any] = {name: getattr(contestant, name) for name in KEY}
    expected = contestant.expected
    nothing: dict[str, Any] = {"events": 0, "seconds": 0.0, "wall_seconds": 0.0}
    try:
        if repetition == 0 and contestant.check is not None:
            done = contestant.check()
            problem = expected.problem(done)
            if problem is not None:
                named |= {"events": done.events, "seconds": done.seconds, "wall_seconds": done.seconds}
                return Sample(**named, repetition=0, problem=problem)
        with _quiet_collector():
            started = time.perf_counter()
            done = contestant.run()
            wall = time.perf_counter() - started
    except DgsError as error:
        return Sample(**named, **nothing, repetition=repetition, problem=f"{error.code}: {error}")
    return Sample(
        **named,
        repetition=repetition,
        events=done.events,
        seconds=done.seconds,
        wall_seconds=wall,
        problem=expected.problem(done),
        figures=done.figures,
    )


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Make the garbage collector look only at objects of this run, not at the data of other contestants."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def medians(samples: Iterable[Sample]) -> list[dict[str, Any]]:
    """Return a row per contestant, in the order of appearance, with medians, the first problem and the last figures."""
    groups: dict[tuple[Any, ...], list[Sample]] = {}
    for sample in samples:
        groups.setdefault(tuple(getattr(sample, name) for name in KEY), []).append(sample)
    rows = []
    for key, group in groups.items():
        names = ("events", "seconds", "eps", "wall_seconds")
        middle = {name: statistics.median(getattr(sample, name) for sample in group) for name in names}
        problem = next((sample.problem for sample in group if sample.problem is not None), None)
        more = {"samples": len(group), "problem": problem, "figures": group[-1].figures}
        rows.append({**dict(zip(KEY, key, strict=True)), **middle, **more})
    return rows
