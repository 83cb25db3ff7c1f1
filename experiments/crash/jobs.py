"""The runs to be killed: input streams, a plan file over them, and the outputs of the sequential program."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dgs.api.preparing import from_file, prepare
from dgs.bench.contestants import sequential_loop
from dgs.job.document import dump
from dgs.job.settings import Given

LEAVES = 4
PROGRAMS = "experiments.crash.programs"
VALUES = {"tags": {"kind": "value"}, "payload": "payload"}
WINDOW = 50
"""Values per stream and barrier in the runs over files."""


def in_files(directory: Path, *, events: int, **sections: Any) -> Path:
    """Write streams of `events` values each into files, and a plan file over them; return its path."""
    directory.mkdir(parents=True)
    random = np.random.default_rng(1)
    sources: dict[str, Any] = {"barriers": {"csv": {"path": "barriers.csv"}}}
    _write(directory / "barriers.csv", np.arange(WINDOW, events + 1, WINDOW), None)
    for number in range(LEAVES):
        name = f"values-{number}"
        _write(directory / f"{name}.csv", np.arange(events), random.permutation(events) * LEAVES + number)
        sources[name] = {"csv": {"path": f"{name}.csv"}}
    return _plan(directory, sources, sections)


def ledger(
    directory: Path,
    *,
    events: int,
    pause: float = 0.0005,
    every: str = "200ms",
    note: str = "",
    **runtime: Any,
) -> Path:
    """Write the plan of a run on Ray that may be killed at any time. Its sinks are `out` and `out.db` beside the directory.

    `pause`: seconds that each event takes. `every`: the time between checkpoints. `note`: an argument of the program that changes
    nothing. `runtime`: options of the runtime.
    """
    restarts = {"max": 1000, "backoff": "1ms"}
    return in_files(
        directory,
        events=events,
        program="Ledger",
        args={"pause": pause, "note": note},
        runtime={"kind": "ray", "batch_rows": 50, "restarts": restarts, **runtime},
        optimizer={"name": "greedy"},
        checkpoint={"every": every},
        sinks=[{"jsonl": {"path": "../out"}}, {"sqlite": {"path": "../out.db"}}],
    )


def generated(directory: Path, *, events: int, window: int, rate: int | None = None, **sections: Any) -> Path:
    """Write a plan file over streams of `events` generated values, a barrier per `window` of them; return its path.

    `rate`: values per second and stream; None: as fast as they are read.
    """
    directory.mkdir(parents=True)
    made: dict[str, Any] = {"args": {"events": events, "window": window}}
    paces = ({"pace": f"{rate}/s"}, {"pace": f"{rate / window}/s"}) if rate else ({}, {})
    sources = {"barriers": {"generator": {"ref": f"{PROGRAMS}:barriers", **made, **paces[1]}}}
    for number in range(LEAVES):
        sources[f"values-{number}"] = {"generator": {"ref": f"{PROGRAMS}:values", **made, **paces[0]}}
    return _plan(directory, sources, sections)


def _plan(directory: Path, sources: Mapping[str, Any], sections: Mapping[str, Any]) -> Path:
    streams = []
    for name, source in sources.items():
        tagged = {"tags": {"kind": "barrier"}} if name == "barriers" else VALUES
        streams.append({"id": name, **tagged, "source": source})
    program = {"ref": f"{PROGRAMS}:{sections['program']}", "args": sections["args"]}
    others = {name: section for name, section in sections.items() if name not in ("program", "args")}
    path = directory / "plan.yaml"
    plan = {"version": 1, "name": "crash", "streams": streams, **others, "program": program}
    path.write_text(dump(plan), encoding="utf-8")
    return path


def _write(path: Path, ts: Any, payload: Any) -> None:
    columns = {"ts": ts} if payload is None else {"ts": ts, "payload": payload}
    rows = np.column_stack(list(columns.values()))
    np.savetxt(path, rows, fmt="%d", delimiter=",", header=",".join(columns), comments="")


def expected(plan: Path) -> Counter[str]:
    """Return the outputs of the sequential program as JSON, with the number of each."""
    given = {"program.args": Given({}, "experiment")}
    outputs = sequential_loop(prepare(from_file(plan, given))).outputs or [[]]
    return Counter(json.dumps(value) for part in outputs for value in part)


def written(directory: Path) -> Counter[str]:
    """Return the outputs in the JSON lines files of a directory."""
    lines = (line for file in directory.glob("*.jsonl") for line in file.read_text().splitlines())
    return Counter(json.dumps(json.loads(line)) for line in lines)


def in_table(path: Path) -> Counter[str]:
    """Return the outputs in a SQLite database."""
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("SELECT value FROM outputs").fetchall()
    finally:
        connection.close()
    return Counter(json.dumps(json.loads(value)) for (value,) in rows)
