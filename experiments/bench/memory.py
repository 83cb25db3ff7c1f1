"""The memory of a long run (target 5): 100 million events in a process of its own, generated as they are read.

>>> next(values(0, 1_000_000))["ts"][:3].tolist()
[0, 1, 2]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import typer

EVENTS = 100_000_000
STREAMS = 4
WINDOW = 10_000
BATCH = 100_000
LIMIT = 2**30
"""Most bytes of memory a run may take."""


def values(stream: int, events: int) -> Iterator[dict[str, Any]]:
    """Yield the values of one stream, one per unit of time."""
    random = np.random.default_rng(stream)
    for start in range(0, events, BATCH):
        count = min(BATCH, events - start)
        yield {
            "ts": np.arange(start, start + count, dtype=np.int64),
            "payload": random.integers(0, 1000, count),
        }


def barriers(events: int) -> Iterator[dict[str, Any]]:
    """Yield the barriers of value streams with `events` values each."""
    ends = np.arange(WINDOW, events + 1, WINDOW, dtype=np.int64)
    for part in np.array_split(ends, max(1, len(ends) // WINDOW)):
        yield {"ts": part, "payload": part}


def plan_file(events: int) -> dict[str, Any]:
    """Return the job: the event window over generators."""
    module = "experiments.bench.memory"

    def source(name: str, **args: int) -> dict[str, Any]:
        return {"generator": {"ref": f"{module}:{name}", "args": {**args, "events": events // STREAMS}}}

    streams = [{"id": "barriers", "tags": {"kind": "barrier"}, "source": source("barriers")}]
    for number in range(STREAMS):
        one = {"id": f"values-{number}", "tags": {"kind": "value"}, "source": source("values", stream=number)}
        streams.append(one)
    return {
        "version": 1,
        "name": "memory",
        "program": {"ref": "experiments.event_window.program:EventWindow"},
        "streams": streams,
        "optimizer": {"name": "greedy", "max_leaves": STREAMS},
        "runtime": {"kind": "local"},
        "sinks": ["none"],
    }


def measure(events: int) -> dict[str, Any]:
    """Run the job in this process; return its figures, with the peak memory of the process."""
    import resource
    import tempfile

    import dgs
    from dgs.job.document import dump

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "plan.yaml"
        path.write_text(dump(plan_file(events)), encoding="utf-8")
        done = dgs.run(path, run_dir=Path(directory) / "run")
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "app": "memory",
        "engine": "local",
        "mode": "vectorised",
        "leaves": len(done.plan.leaves),
        "hosts": 1,
        "events": done.report["events_in"],
        "seconds": done.report["seconds"],
        "eps": done.report["throughput_eps"],
        "peak_bytes": kibibytes * 1024,
        "problem": None if sum(done.outputs) == _total(events) else "the sums of the windows are wrong",
        "buffer_bytes": 256 * 2**20,
    }


def _total(events: int) -> int:
    """Return the sum of all values, which is that of all windows: the last window ends with the streams."""
    streams = (values(number, events // STREAMS) for number in range(STREAMS))
    return sum(int(part["payload"].sum()) for stream in streams for part in stream)


def report(about: Mapping[str, Any], json_file: Path | None, events: int = EVENTS) -> None:
    """Measure in a new process, print and write the result. Exits with 1 if the target is missed or the run fails."""
    from experiments.bench.report import write_data

    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "experiments.bench.memory", str(events)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        raise typer.Exit(1)
    row = json.loads(done.stdout.splitlines()[-1])
    is_met = row["peak_bytes"] <= LIMIT and row["problem"] is None
    print(
        f"{row['events']:,} events in {row['seconds']:.1f} s ({row['eps'] / 1e6:.1f} M/s), peak {row['peak_bytes'] / 2**20:,.0f} MiB: "
        f"target 5 {'met' if is_met else 'missed'} (at most {LIMIT / 2**20:,.0f} MiB)"
        f"{'; WRONG: ' + row['problem'] if row['problem'] else ''}"
    )
    if json_file is not None:
        write_data(json_file, {**about, "rows": [row]})
    if not is_met:
        raise typer.Exit(1)


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
