"""The latency of synchronising outputs (target 4): an event window over live streams, on two Ray hosts.

The job reads four value streams and a hundred barriers a second, at a pace. Times are nanoseconds since the start, so every row says when
it is due. The latency of an output is the time at its sink minus the time of its barrier. The first run measures the maximum rate of the
same job without a pace. The other runs measure the latency at half that rate with the default `linger` of 5 ms, and with
`linger: 0` at 100,000 events per second.

>>> part = next(values(events=3, step=10))
>>> part["ts"].tolist(), part["payload"].tolist()
([0, 10, 20], [1, 1, 1])
>>> windows_end(events=1_000, step=10**7, every=10**9).tolist()        # ten seconds of values, a barrier each second
[1000000000, 2000000000, 3000000000, 4000000000, 5000000000, 6000000000, 7000000000, 8000000000, 9000000000]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from dgs.model.events import Int64s
from dgs.model.outputs import OutputBatch

HOSTS = 2
SECOND = 10**9
CHUNK = 65_536
BARRIERS_EVERY = SECOND // 100
"""Nanoseconds between two barriers with a pace."""
WINDOW = 10_000
"""Values per stream between two barriers without a pace, as in the other benchmarks."""
MOST_EVENTS = 40_000_000
"""Events in the run that finds the maximum rate."""
SLOW = 100_000
"""Events per second with `linger: 0`."""
WARM_UP = SECOND // 2
"""Nanoseconds at the start whose barriers do not count: processes start, caches fill."""


@dataclass(frozen=True)
class Shape:
    """A job: its value streams, each on a leaf, how often they send heartbeats, and its runtime."""

    streams: int = 4
    heartbeat: str = "10ms"
    engine: str = "ray"


FOUR = Shape()

_began: dict[str, int] = {}
"""The time at which this process began to read the first stream of a job, which starts its clock. The key is the job's file."""


def values(events: int, step: int, job: str = "") -> Iterator[dict[str, Any]]:
    """Yield the values of a stream, all 1, one every `step` nanoseconds, and note the start time of the job."""
    _began.setdefault(job, time.monotonic_ns())
    ts, ones = np.arange(CHUNK, dtype=np.int64) * step, np.ones(CHUNK, dtype=np.int64)
    for start in range(0, events, CHUNK):
        count = min(CHUNK, events - start)
        yield {"ts": ts[:count] + start * step, "payload": ones[:count]}


def barriers(events: int, step: int, every: int, job: str = "") -> Iterator[dict[str, Any]]:
    """Yield the barriers of such value streams, and note the start time of the job."""
    _began.setdefault(job, time.monotonic_ns())
    ends = windows_end(events, step, every)
    for start in range(0, len(ends), CHUNK):
        part = ends[start : start + CHUNK]
        yield {"ts": part, "payload": part}


def windows_end(events: int, step: int, every: int) -> Int64s:
    """Return the times of the barriers, the last of them before the end of the values."""
    return np.arange(every, events * step, every, dtype=np.int64)


def note(outputs: OutputBatch, *, path: str) -> None:
    """Write the latencies and values of outputs to a file; the job's sink."""
    now = time.monotonic_ns()
    late = (now - _began[path] - outputs.ts).tolist()
    with Path(path).open("a", encoding="utf-8") as file:
        file.writelines(
            f"{ts} {each} {value}\n"
            for ts, each, value in zip(outputs.ts.tolist(), late, outputs.values, strict=True)
        )


def plan_file(
    events: int, step: int, every: int, *, linger: str | None, path: Path, shape: Shape = FOUR
) -> dict[str, Any]:
    """Return the job: `events` values per stream, one every `step`, a barrier every `every` nanoseconds.

    `linger`: None means no pace. `path`: the file for latencies.
    """
    heartbeat = {} if linger is None else {"heartbeat": {"every": shape.heartbeat, "max_delay": "0"}}

    def stream(name: str, kind: str, interval: int, **args: int) -> dict[str, Any]:
        made = {
            "ref": f"{__name__}:{kind}s",
            "args": {**args, "events": events, "step": step, "job": str(path)},
        }
        pace = {} if linger is None else {"pace": f"{SECOND / interval!r}/s"}
        source = {"generator": {**made, **pace}}
        return {"id": name, "tags": {"kind": kind}, "payload": "payload", "source": source, **heartbeat}

    return {
        "version": 1,
        "name": "latency",
        "program": {"ref": "experiments.event_window.program:EventWindow"},
        "time": {"unit": "ns"},
        "streams": [
            stream("barriers", "barrier", every, every=every),
            *(stream(f"values-{number}", "value", step) for number in range(shape.streams)),
        ],
        "optimizer": {"name": "greedy", "max_leaves": shape.streams},
        "runtime": {"kind": shape.engine, "hosts": HOSTS, "linger": linger or "5ms"},
        "sinks": [
            "none"
            if linger is None
            else {"callable": {"ref": f"{__name__}:note", "args": {"path": str(path)}}}
        ],
    }


def run(events: int, step: int, every: int, *, linger: str | None, shape: Shape = FOUR) -> dict[str, Any]:
    """Run such a job, on Ray if it is running; return its row."""
    import dgs
    from dgs.job.document import dump

    with tempfile.TemporaryDirectory() as directory:
        path, late = Path(directory) / "plan.yaml", Path(directory) / "latencies"
        path.write_text(
            dump(plan_file(events, step, every, linger=linger, path=late, shape=shape)), encoding="utf-8"
        )
        done = dgs.run(path, run_dir=Path(directory) / "run")
        noted = np.loadtxt(late, dtype=np.int64, ndmin=2) if linger is not None else None
    ends = windows_end(events, step, every)
    right = shape.streams * np.diff(-(-ends // step), prepend=0)  # values before each barrier
    row = {
        "app": "latency",
        "engine": shape.engine,
        "mode": "vectorised",
        "leaves": len(done.plan.leaves),
        "hosts": HOSTS if shape.engine == "ray" else 1,
        "events": done.report["events_in"],
        "seconds": done.report["seconds"],
        "eps": done.report["throughput_eps"],
        "linger": linger,
        "problem": None
        if sorted(done.outputs) == sorted(right.tolist())
        else "the sums of the windows are wrong",
    }
    return row if noted is None else {**row, **_percentiles(noted)}


def _percentiles(noted: Int64s) -> dict[str, Any]:
    late = noted[noted[:, 0] >= WARM_UP, 1] / 1e6
    p50, p99 = np.percentile(late, [50, 99]).tolist()
    return {
        "p50_ms": p50,
        "p99_ms": p99,
        "most_ms": float(late.max()),
        "outputs": len(late),
        "samples_ms": late.tolist(),
    }


def rows(*, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield rows: the maximum rate, the latency at half of it, and the latency with `linger: 0`, each over `seconds`."""
    from experiments.bench.report import console

    most = run(MOST_EVENTS // FOUR.streams, 1_000, WINDOW * 1_000, linger=None)
    yield most
    for rate, linger in ((most["eps"] / 2, "5ms"), (SLOW, "0")):
        step = max(1, round(SECOND * FOUR.streams / rate))
        console().print(f"{FOUR.streams * SECOND / step:,.0f} events/s, linger {linger} ...", highlight=False)
        yield run(int(seconds * SECOND / step), step, BARRIERS_EVERY, linger=linger)


def report(about: Mapping[str, Any], json_file: Path | None, *, quick: bool = False) -> None:
    """Measure, print a table and the verdicts on target 4, and write JSON. Exits with 1 if outputs are wrong."""
    from rich.table import Table

    from dgs.workers.ray_runtime.cluster import cluster
    from experiments.bench.report import console, write_data
    from experiments.bench.targets import latency_verdicts

    with cluster("local", HOSTS):
        found = list(rows(seconds=2 if quick else 10))
    table = Table(title="latency", title_justify="left")
    for name in ("linger", "M events/s", "outputs", "p50 ms", "p99 ms", "most ms", "problem"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in found:
        times = [f"{row[name]:,.2f}" if name in row else "-" for name in ("p50_ms", "p99_ms", "most_ms")]
        rate, count = f"{row['eps'] / 1e6:,.2f}", str(row.get("outputs", "-"))
        table.add_row(row["linger"] or "no pace", rate, count, *times, row["problem"] or "")
    console().print(table)
    verdicts = list(latency_verdicts(found))
    for line in verdicts:
        console().print(line)
    if json_file is not None:
        write_data(json_file, {**about, "rows": found, "targets": verdicts})
    if any(row["problem"] for row in found):
        raise typer.Exit(1)
