"""The targets of docs/performance.md: 1 and 2 as ratios within one run on one machine, 4 in milliseconds.

>>> rows = [
...     {"app": "fraud", "engine": "numpy", "mode": "vectorised", "leaves": 1, "hosts": 1, "eps": 100.0, "problem": None},
...     {"app": "fraud", "engine": "ray", "mode": "vectorised", "leaves": 4, "hosts": 2, "eps": 40.0, "problem": None},
... ]
>>> [(verdict.wanted, verdict.ratio, verdict.is_met) for verdict in map(Ratios(rows).verdict, rows) if verdict]
[(0.3, 0.4, True)]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.bench.applications import APPLICATIONS

Row = Mapping[str, Any]

VECTORISED = 0.5
"""Target ratio to NumPy by hand, on the local runtime and on two Ray hosts."""
VECTORISED_FORKING = 0.3
"""Target ratio for fraud detection on Ray, which must wait for each fork."""
SCALAR = {1: 1.0, 2: 1.8}
"""Target ratios to the plain loop, by number of hosts."""
TWO = 2
LATENCY = {"5ms": {"p50_ms": 10.0, "p99_ms": 30.0}, "0": {"p50_ms": 2.0}}
"""Target latencies of synchronising outputs in milliseconds, by `linger`."""


@dataclass(frozen=True)
class Verdict:
    """A row's target: its number, the ratio wanted and the ratio reached."""

    target: int
    wanted: float
    ratio: float

    @property
    def is_met(self) -> bool:
        """Whether the ratio is enough."""
        return self.ratio >= self.wanted

    def __str__(self) -> str:
        return f"{self.target}: {'met' if self.is_met else 'missed'}, {self.ratio:.2f} of {self.wanted:g}"


class Ratios:
    """The medians of a run against its baselines."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._eps = {(row["app"], row["engine"]): row["eps"] for row in rows}

    def to(self, baseline: str, row: Row) -> float | None:
        """Return the speed of a row as a multiple of a baseline's on the same application, None if the baseline did not run."""
        of = self._eps.get((row["app"], baseline))
        return row["eps"] / of if of else None

    def verdict(self, row: Row) -> Verdict | None:
        """Return the verdict on a row, None if it has no target."""
        wanted = _wanted(row)
        if wanted is None:
            return None
        target, least, baseline = wanted
        ratio = self.to(baseline, row)
        if ratio is None:
            return None
        return Verdict(target, least, 0.0 if row["problem"] else ratio)


def _wanted(row: Row) -> tuple[int, float, str] | None:
    engine, hosts = row["engine"], row["hosts"]
    if engine not in ("local", "ray") or row["app"] not in APPLICATIONS:  # the sweeps have target 3
        return None
    if row["mode"] == "scalar":
        return 2, SCALAR.get(hosts, SCALAR[TWO]), "loop"
    if engine == "ray" and hosts < TWO:
        return None
    waits = engine == "ray" and row["app"].startswith("fraud")
    return 1, VECTORISED_FORKING if waits else VECTORISED, "numpy"


def latency_verdicts(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the verdicts on target 4.

    >>> list(latency_verdicts([{"linger": "0", "p50_ms": 1.5, "p99_ms": 8.0, "problem": None}]))
    ['target 4 met: linger 0, p50: 1.50 ms (at most 2)']
    """
    for row in rows:
        for name, most in LATENCY.get(row["linger"], {}).items():
            met = "met" if row[name] <= most and row["problem"] is None else "missed"
            what = f"linger {row['linger']}, {name.removesuffix('_ms')}"
            yield f"target 4 {met}: {what}: {row[name]:.2f} ms (at most {most:g})"
