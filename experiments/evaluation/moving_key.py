"""A job whose hot key changes half-way: `replan: auto` beside the plans for each half alone.

An `update` waits, as if it called a service, so the gain of two hosts does not depend on the load of the machine. While the first key is
hot, it has a host of its own and the others share the second host. When another key becomes hot, that plan leaves one host with almost all
events.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dgs
from dgs.keyed import KeyedState
from dgs.planner.drawing.chart import Line
from experiments.evaluation.finding import Finding
from experiments.evaluation.scaling import hosts_of_ray

QUESTION = dgs.kind("question", key=int)
KEYS = 5
HOT = 4
"""Events of the hot key for each event of another key."""
WAIT = 1e-3
"""Seconds that an update waits."""


class Asking(KeyedState):
    """Counts the questions of each key, and emits every hundredth. Each waits for its answer."""

    changes = (QUESTION,)

    def __init__(self, *, wait: float = WAIT) -> None:
        self._wait = wait

    def update(self, state: dict[int, int], event: dgs.Event, emit: Any) -> dict[int, int]:
        """Wait, and count."""
        time.sleep(self._wait)
        key = event.tag.key
        state[key] = state.get(key, 0) + 1
        if state[key] % 100 == 0:
            emit((key, state[key]))
        return state


@dataclass(frozen=True)
class Extent:
    """`ticks`: of one half; at each tick the hot key has `HOT` events and every other key one. `after`: seconds for which a gain must last."""

    ticks: int = 4_000
    after: float = 0.5
    place: str = "ray"


QUICK = Extent(ticks=10, place="local")

Streams = Mapping[str, Sequence[dgs.EventBatch]]


def moving(extent: Extent) -> Finding:
    """Measure each half under its own plan, and both together with and without `replan: auto`."""
    halves = [part(hot, start, extent.ticks) for hot, start in ((0, 0), (1, extent.ticks))]
    both = {name: [*halves[0][name], *halves[1][name]] for name in halves[0]}
    with hosts_of_ray(2 if extent.place == "ray" else 0):
        alone = [_run(half, extent) for half in halves]
        first = alone[0].plan
        kept, moved = (_run(both, extent, plan=first, replan=mode) for mode in ("off", "auto"))
    best = sum(one.report["seconds"] for one in alone)
    right = sorted(dgs.run(Asking(wait=0.0), streams=both, runtime="local").outputs)
    rows = [
        _row("each half under its own plan", best, best),
        _row("the plan of the first half", kept.report["seconds"], best, kept, right),
        _row("`replan: auto`", moved.report["seconds"], best, moved, right),
    ]
    return Finding(
        "moving",
        "A hot key that moves half-way",
        ["plan", "seconds", "times_best", "moves"],
        rows,
        notes=[_note(rows)],
        lines=[
            Line("times the plans made for each half", [(i, row["times_best"]) for i, row in enumerate(rows)])
        ],
        axes={"x": "plan", "y": "time / time of the plans made for each half"},
    )


def part(hot: int, start: int, ticks: int) -> Streams:
    """Return a stream for each key. One key is hot."""
    streams = {}
    for key in range(KEYS):
        ts = np.repeat(np.arange(start, start + ticks), HOT if key == hot else 1)
        seq = np.arange(len(ts)) + start * HOT  # above those of an earlier part
        tags = [QUESTION(key)]
        batch = dgs.EventBatch.of(f"questions-{key}", rank=key, tags=tags, ts=ts, seq=seq)
        streams[batch.stream] = [batch]
    return streams


def _run(streams: Streams, extent: Extent, *, plan: Any = None, replan: str = "off") -> dgs.Run[Any, Any]:
    """Run a job to its end. Sources are read in small parts, since the rates of a run are its reading rates."""
    settings = {
        "replan": {"mode": replan, "after": f"{round(1000 * extent.after)}ms"},
        "runtime.batch_rows": 20,
        "runtime.buffer_bytes": "8KiB",
    }
    section = {"kind": extent.place, "hosts": 2} if extent.place == "ray" else {"kind": extent.place}
    with tempfile.TemporaryDirectory() as directory:
        return dgs.run(
            Asking(),
            streams={**streams},
            runtime=section,
            plan=plan,
            settings=settings,
            run_dir=Path(directory) / "run",
        )


def _row(
    name: str, seconds: float, best: float, run: Any = None, right: Sequence[Any] = ()
) -> dict[str, Any]:
    is_wrong = run is not None and sorted(run.outputs) != right
    return {
        "plan": name,
        "seconds": seconds,
        "times_best": seconds / best,
        "moves": 0 if run is None else len(run.report["moves"]),
        "is_measured": True,
        "problem": "other outputs than those of the sequential program" if is_wrong else None,
    }


def _note(rows: Sequence[Mapping[str, Any]]) -> str:
    _, kept, moved = rows
    return (
        f"`replan: auto` takes {moved['times_best']:.2f} x the plans made for each half, with {moved['moves']} moves; "
        f"without moving it is {kept['times_best']:.2f} x"
    )
