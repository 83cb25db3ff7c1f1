"""One worker beside the loop that one would write over the same files: the CPU time of a run over that of the loop.

`of_loop`: as plans are by default, `interpreted`: with `compile: off`. The programs have an `update` only.

The loop reads rows with `csv`, `json` or `pyarrow`, makes an event of each, sorts them, calls `update`, and writes with `json` or `pyarrow`.
"""

from __future__ import annotations

import csv
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dgs
from dgs.keyed import KeyedState
from dgs.planner.drawing.chart import Line
from experiments.evaluation.finding import Finding

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")
UPDATE, VIEW = dgs.kind("update", key=int), dgs.kind("view", key=int)
PAGES = 100


class Sums(dgs.Program[int, int, dict[str, int]]):
    """Emits the sum of the values since the last barrier."""

    depends = dgs.Dependence((BARRIER, VALUE, dgs.ALWAYS), (BARRIER, BARRIER, dgs.ALWAYS))

    def init(self) -> int:
        """Return the sum of no values."""
        return 0

    def update(self, state: int, event: dgs.Event, emit: Any) -> int:
        """Add a value, or close the window."""
        if event.tag.kind == VALUE:
            return state + event.payload
        emit({"sum": state})
        return 0


class Views(KeyedState):
    """Emits a record for every view, with the metadata of its page."""

    changes, reads = (UPDATE,), (VIEW,)

    def update(self, state: dict[int, int], event: dgs.Event, emit: Any) -> dict[int, int]:
        """Join a view with the metadata of its page, or replace them."""
        page = event.tag.key
        if event.tag.kind == VIEW:
            emit({"page": page, "visitor": event.payload, "info": state.get(page)})
        else:
            state[page] = event.payload
        return state


@dataclass(frozen=True)
class Extent:
    """`events`: values or views, with a barrier or an update for every hundred; `repetitions`: runs of each side, in turn."""

    events: int = 200_000
    repetitions: int = 3


QUICK = Extent(events=5_000, repetitions=1)

FORMS = (
    ("csv", "jsonl"),
    ("jsonl", "jsonl"),
    ("parquet", "jsonl"),
    ("csv", "parquet"),
    ("parquet", "parquet"),
)
"""Forms of inputs and outputs."""

Jobs = Mapping[str, tuple[type[dgs.Program[Any, Any, Any]], Callable[[int], Mapping[str, pa.Table]]]]
JOBS: Jobs = {
    "sums between barriers": (
        Sums,
        lambda events: {"barrier": _table(events // 100), "value": _table(events)},
    ),
    "join, an output per view": (
        Views,
        lambda events: {"update": _table(events // 100, keyed=True), "view": _table(events, keyed=True)},
    ),
}


def _table(rows: int, *, keyed: bool = False) -> pa.Table:
    """Return rows over a span of a million, with random payloads, and keys if `keyed`."""
    rnd = np.random.default_rng(rows)
    keys = {"key": rnd.integers(0, PAGES, rows)} if keyed else {}
    return pa.table(
        {"ts": np.linspace(0, 10**6, rows).astype(int), "payload": rnd.integers(0, 1000, rows), **keys}
    )


def file_loops(extent: Extent) -> Finding:
    """Measure both jobs over all forms of files."""
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for job in JOBS:
            for number, (source, sink) in enumerate(FORMS):
                folder = Path(directory) / f"{job} {number}"
                folder.mkdir()
                rows.append(_row(job, source, sink, folder, extent))
    columns = ["job", "from", "to", "of_loop", "interpreted", "loop_seconds"]
    worst = max(rows, key=lambda row: row["interpreted"])
    note = f"interpreted, one worker takes at most {worst['interpreted']:.2f} x the CPU time of the loop: {worst['job']}, {worst['from']} to {worst['to']}"
    return Finding(
        "files",
        "One worker of a scalar program beside a plain loop over the same files",
        columns,
        rows,
        notes=[note],
        lines=[
            Line(job, [(x, row["of_loop"]) for x, row in enumerate(row for row in rows if row["job"] == job)])
            for job in JOBS
        ],
        axes={"x": "forms of files, in the order of the table", "y": "CPU time / that of the loop"},
    )


def _row(job: str, source: str, sink: str, folder: Path, extent: Extent) -> dict[str, Any]:
    program, tables = JOBS[job]
    streams = tables(extent.events)
    for kind, table in streams.items():
        _write(table, folder / f"{kind}.{source}")
    plan = _plan(program, streams, source, sink, folder)
    loop = lambda: _loop(program(), list(streams), source, folder / f"loop.{sink}")  # noqa: E731

    def run(compile: str) -> None:  # noqa: A002 - the setting
        shutil.rmtree(folder / "out", ignore_errors=True)
        dgs.run(plan, settings={"runtime.compile": compile})

    sides = {"of_loop": lambda: run("auto"), "interpreted": lambda: run("off"), "loop_seconds": loop}
    sides["of_loop"]()  # imports, and the trial of compiling
    times = [{name: _cpu(side) for name, side in sides.items()} for _ in range(extent.repetitions)]
    made = [row for path in sorted((folder / "out").glob(f"*.{sink}")) for row in _rows(path)]
    is_right = sorted(map(repr, made)) == sorted(map(repr, _rows(folder / f"loop.{sink}")))
    ratios = {
        name: statistics.median(one[name] / one["loop_seconds"] for one in times)
        for name in ("of_loop", "interpreted")
    }
    return {
        "job": job,
        "from": source,
        "to": sink,
        **ratios,
        "loop_seconds": statistics.median(one["loop_seconds"] for one in times),
        "is_measured": True,
        "problem": None if is_right else "other outputs than those of the loop",
    }


def _plan(program: type, streams: Mapping[str, pa.Table], source: str, sink: str, folder: Path) -> Path:
    def stream(kind: str, table: pa.Table) -> dict[str, Any]:
        tags = {"kind": kind, "key": {"column": "key"}} if "key" in table.column_names else {"kind": kind}
        return {
            "id": kind,
            "tags": tags,
            "source": {source: {"path": f"{kind}.{source}"}},
            "payload": "payload",
        }

    plan = folder / "plan.yaml"
    text = {
        "version": 1,
        "name": "files",
        "program": {"ref": f"{__name__}:{program.__name__}"},
        "streams": [stream(kind, table) for kind, table in streams.items()],
        "optimizer": {"name": "sequential"},
        "runtime": {"kind": "local"},
        "sinks": [{sink: {"path": "out"}}],
    }
    plan.write_text(json.dumps(text))
    return plan


def _loop(program: dgs.Program[Any, Any, Any], kinds: list[str], source: str, out: Path) -> None:
    """Read the files, sort, fold and write."""
    events, tags = [], {}
    for rank, kind in enumerate(kinds):
        of_kind = dgs.kind(kind) if program.__class__ is Sums else dgs.kind(kind, key=int)
        for number, row in enumerate(_rows(out.parent / f"{kind}.{source}")):
            key = int(row["key"]) if "key" in row else None
            if (kind, key) not in tags:
                tags[kind, key] = of_kind() if key is None else of_kind(key)
            ts = int(row["ts"])
            events.append((ts, rank, number, dgs.Event(tags[kind, key], kind, ts, int(row["payload"]))))
    events.sort()  # no two have the same number in a stream
    outputs: list[dict[str, Any]] = []
    state, update, emit = program.init(), program.update, outputs.append
    for *_, event in events:
        state = update(state, event, emit)
    _write_rows(outputs, out)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        yield from pq.read_table(path).to_pylist()
        return
    with path.open(newline="") as lines:
        yield from csv.DictReader(lines) if path.suffix == ".csv" else map(json.loads, lines)


def _write(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, table.column_names)
            writer.writeheader()
            writer.writerows(table.to_pylist())
    else:
        _write_rows(table.to_pylist(), path)


def _write_rows(rows: list[dict[str, Any]], path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
        return
    with path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def _cpu(call: Callable[[], None]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began
