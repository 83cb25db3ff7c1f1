"""Time between commits at `every: 500ms`, and time of a stop: with synchronisations of 60 ms each, and with rare ones."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Lines

from experiments.crash.jobs import PROGRAMS, generated
from experiments.crash.killing import HOSTS, Victim

SECONDS = 20.0
"""The time for which commits are watched, from the first one on."""

START_SECONDS = 120.0
LONGEST_STOP = 60.0

SLOW_SINK: Mapping[str, Any] = {"callable": {"ref": f"{PROGRAMS}:slow_sink"}}
CASES: Mapping[str, Mapping[str, Any]] = {
    "60 ms each": {"window": 10, "args": {"barrier_pause": 0.06}, "sinks": ["none"]},
    "one in 1,000,000 values": {"window": 1_000_000, "args": {}, "sinks": ["none"]},
    "one in 1,000,000 values, a sink with 1 ms an output": {
        "window": 1_000_000,
        "args": {},
        "sinks": [SLOW_SINK],
    },
}


def report(console: Console, place: Path, json_file: Path | None) -> None:
    """Measure each case once, and print it."""
    lines = Lines("synchronisations", "commits", "s apart, p50", "p95", "most", "stop, s", "exit code")
    samples = list(_samples(place))
    for sample in samples:
        apart = sorted(sample["apart"])
        at = [f"{apart[min(len(apart) - 1, int(share * len(apart)))]:.2f}" for share in (0.5, 0.95, 1.0)]
        stop = f"{sample['stop']:.1f}"
        lines.add_row(sample["case"], str(len(apart) + 1), *at, stop, str(sample["exit_code"]))
    console.print(lines)
    if json_file is not None:
        json_file.write_text(json.dumps(samples, indent=1))


def _samples(place: Path) -> Iterator[dict[str, Any]]:
    for number, (case, what) in enumerate(CASES.items()):
        plan = generated(
            place / f"input-{number}",
            events=50_000_000,
            program="Ledger",
            runtime={"kind": "ray", "hosts": HOSTS, "buffer_bytes": "64MiB"},
            checkpoint={"every": "500ms"},
            **what,
        )
        victim = Victim(plan, place / f"run-{number}")
        victim.watch(START_SECONDS, lambda: len(victim.commits) > 1)  # noqa: B023 - called at once
        victim.watch(SECONDS)
        times = [at for at, _, _ in victim.commits[1:]]
        yield {
            "case": case,
            "apart": [later - earlier for earlier, later in pairwise([*times, time.time()])],
            **_stopped(victim),
        }


def _stopped(victim: Victim) -> dict[str, Any]:
    """Stop a run by SIGTERM; return how long that took, and its exit code (None: it had to be killed)."""
    began = time.monotonic()
    victim.process.send_signal(signal.SIGTERM)
    try:
        code: int | None = victim.process.wait(LONGEST_STOP)
    except subprocess.TimeoutExpired:
        victim.process.kill()
        code = None
    return {"stop": time.monotonic() - began, "exit_code": code}
