"""The speed of compiled updates and their targets: ratios to interpreted updates, `update_batch`, and NumPy by hand.

    python -m experiments.bench.compiled_ratios [EVENTS OF A STREAM]

One worker folds four dense streams and one that synchronises, as one release. The contestants take turns; the ratios are those of
the medians of five CPU times, in one process. The interpreted fold takes fewer events, since it is slow. Wrong outputs and mutants
are what `pytest -m slow tests/dgs/compiled` counts.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from statistics import median
from unittest.mock import patch

import numpy as np

import dgs
from dgs.bench.contestants import runtime
from dgs.bench.measuring import Contestant
from dgs.compiled import loop_files
from dgs.semantics.sequential import without_batches
from dgs.workers.protocol.folding.fold import Folder
from dgs.workers.protocol.folding.to_compile import ToCompile
from dgs.workers.protocol.releases import Release
from dgs.workers.runtime.process import keep_freed_memory
from experiments.bench.applications import Application, application, available, batch, of_one_key
from experiments.bench.baselines import BY_HAND
from experiments.fraud_detection import program as fraud_program
from experiments.page_view_join import program as view_program

EVENTS, FEW, REPETITIONS = 1_000_000, 20_000, 5
STREAMS = 4
Ways = Mapping[str, tuple[Application, Callable[[], object]]]

ASKED = {
    "event-window": {"interpreted": 100, "numpy": 0.5, "update_batch": 0.9},
    "page-view": {"interpreted": 100, "numpy": 0.7, "update_batch": 1.2},
    "fraud": {"interpreted": 50, "numpy": 0.9, "update_batch": 1.5},
    "fraud-cyclic": {"interpreted": 50, "numpy": 0.9, "update_batch": 1.5},
    "flights": {"interpreted": 8},
}
"""By application: the least ratio of the speed of a compiled fold to that of each other way."""
OF_NUMBERS, OF_VIEWS, OF_OFF = 200, 80, 0.95
LATER, COLD, CACHED, OF_CHECK = 0.2, 5.0, 0.5, 1.5


@dataclass(frozen=True)
class Row:
    """A measured figure and its target: at least, or at most."""

    what: str
    asked: float
    measured: float
    is_most: bool = False

    def __str__(self) -> str:
        is_met = self.measured <= self.asked if self.is_most else self.measured >= self.asked
        bound = f"at {'most' if self.is_most else 'least'} {self.asked:g}"
        return f"| {self.what} | {bound} | {self.measured:.2f} | {'met' if is_met else 'MISSED'} |"


def release(app: Application) -> Release:
    """Return all events of an application as one release: the first stream is ordered with every other one."""
    batches = [batch for stream in app.streams.values() for batch in stream]
    first = next(iter(app.streams))
    lanes = tuple(n for n, stream in enumerate(app.streams.values()) for _ in stream)
    others = tuple(n for n, name in enumerate(app.streams) if name != first)
    return Release(lanes, batches, {0: others, **dict.fromkeys(others, (0,))})


def folding(
    app: Application, *, is_compiled: bool = False, has_batches: bool = False
) -> Callable[[], object]:
    """Return a fold of all events of an application."""
    program = app.program if has_batches else without_batches(app.program)
    of = program.states()[0]
    compiled = ToCompile(of.update, is_required=True) if is_compiled else None
    folder, events = Folder(program, of, "w0", compiled=compiled), release(app)
    return lambda: folder.fold(program.init(), events)


def rates(ways: Ways) -> dict[str, float]:
    """Return the events per second of each way to fold an application."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for repetition in range(REPETITIONS + 1):  # the first compiles
        for way, (_, run) in ways.items():
            started = time.process_time()
            run()
            if repetition:
                seconds[way].append(time.process_time() - started)
    return {way: app.events / median(seconds[way]) for way, (app, _) in ways.items()}


def both(small: Application, large: Application) -> dict[str, tuple[Application, Callable[[], object]]]:
    """Return the two ways to fold an application's plain `update`."""
    return {"interpreted": (small, folding(small)), "compiled": (large, folding(large, is_compiled=True))}


def of_applications(events: int) -> Iterator[Row]:
    """Yield the ratios of each application's compiled fold to its other ways."""
    for name in available():
        large, small = application(name, events=events), application(name, events=FEW)
        ways = both(small, large)
        if large.program.states()[0].update_batch is not None:
            ways["update_batch"] = large, folding(large, has_batches=True)
        if name in BY_HAND:
            ways["numpy"] = large, lambda name=name, of=large: BY_HAND[name](of.columns)
        found = rates(ways)
        for way, rate in found.items():
            if way != "compiled":
                what = f"{name} ({found['compiled'] / 1e6:.0f} M/s), of {way} ({rate / 1e6:.1f} M/s)"
                yield Row(what, ASKED[name][way], found["compiled"] / rate)


def of_row_numbers() -> Iterator[Row]:
    """Yield the ratio of a fold that emits row numbers to the interpreted fold, which emits records."""
    if "flights" not in available():
        return
    app = application("flights", events=0)
    streams = {
        name: [replace(part, payload=np.arange(len(part))) for part in parts]
        for name, parts in app.streams.items()
    }
    found = rates(both(app, replace(app, streams=streams)))
    yield Row(
        "flights as row numbers, of interpreted as records",
        OF_NUMBERS,
        found["compiled"] / found["interpreted"],
    )


def alternating(name: str, events: int, every: int) -> Application:
    """Return page views or fraud with an event that synchronises after `every` events of each dense stream."""
    random = np.random.default_rng(1)
    times = {"updates" if name == "page-view" else "rules": np.arange(every, events + 1, every)}
    dense = "views" if name == "page-view" else "transactions"
    times |= {f"{dense}-{n}": np.arange(events) for n in range(STREAMS)}
    data = {
        stream: {"ts": ts, "payload": random.integers(0, 10_000, len(ts)), "page": random.integers(0, 2, len(ts))}
        for stream, ts in times.items()
    }  # fmt: skip
    if name == "fraud":
        tags = {"rules": fraud_program.RULE(), "transactions": fraud_program.TRANSACTION()}
        return of_one_key(name, without_batches(fraud_program.FraudDetection()), data, tags)
    kinds = {stream: view_program.UPDATE if stream == "updates" else view_program.VIEW for stream in data}
    batches = {
        stream: [
            batch(stream, rank, [kinds[stream](page) for page in view_program.PAGES], rows, rows["page"])
        ]
        for rank, (stream, rows) in enumerate(data.items())
    }
    return Application(name, view_program.PageViewJoin(), batches)


def of_views(events: int) -> Iterator[Row]:
    """Yield the ratios for page views with an update after few views."""
    for every in (1, 13, 1000):
        found = rates(
            both(alternating("page-view", FEW, every), alternating("page-view", events // 4, every))
        )
        ratio = found["compiled"] / found["interpreted"]
        yield Row(f"page views, {every} per update, of interpreted", OF_VIEWS, ratio)


def run_of(app: Application, leaves: int, mode: str) -> Contestant:
    """Return a run of an application in this process."""
    prepared = app.prepared(leaves=leaves, settings={"runtime.compile": mode})
    return runtime(prepared, app.name, engine="local", hosts=1, mode="vectorised", expects=app.expected)


def of_auto(events: int) -> Iterator[Row]:
    """Yield the ratio of `auto` to `off` where machine code hardly pays, by the best CPU times, and the delay of the first results."""
    app = alternating("fraud", events // 4, 100)
    runs = {mode: run_of(app, STREAMS, mode) for mode in ("auto", "off")}
    seconds: dict[str, list[float]] = {mode: [] for mode in runs}
    for _ in range(2 * REPETITIONS):
        for mode, one in runs.items():
            started = time.process_time()
            one.run()
            seconds[mode].append(time.process_time() - started)
    ratio = min(seconds["off"]) / min(seconds["auto"])
    yield Row("fraud over four leaves, 100 events per rule and stream, `auto` of `off`", OF_OFF, ratio)
    first: dict[str, list[float]] = {mode: [] for mode in runs}
    app = alternating("fraud", events // 4, events // 8)  # the first rule comes after the loop was requested
    runs = {mode: run_of(app, 1, mode) for mode in runs}
    for _ in range(REPETITIONS):
        with tempfile.TemporaryDirectory() as cache, patch.dict(os.environ, XDG_CACHE_HOME=cache):
            for mode, one in runs.items():
                first[mode].append(one.run().figures["first_output_seconds"])
                time.sleep(1)  # the other process ends before its folder is removed
    later = median(first["auto"]) - median(first["off"])
    yield Row("first result, `auto` later than `off`, s", LATER, later, is_most=True)


def of_compiling() -> Iterator[Row]:
    """Yield the CPU seconds of the first fold of the slowest application: when it is compiled, and from the cache."""
    seconds: dict[str, list[float]] = {"never compiled": [], "from the cache": []}
    for name in available():
        with tempfile.TemporaryDirectory() as cache, patch.dict(os.environ, XDG_CACHE_HOME=cache):
            app = application(name, events=FEW)
            for times in seconds.values():
                loop_files._function.cache_clear()  # noqa: SLF001 - as in a new process
                started = time.process_time()
                folding(app, is_compiled=True)()
                times.append(time.process_time() - started)
    for asked, (what, times) in zip((COLD, CACHED), seconds.items(), strict=True):
        yield Row(f"first fold, {what}, s", asked, max(times), is_most=True)


def of_check() -> Iterator[Row]:
    """Yield how many times as long `dgs check` takes with the law of compiled programs, over the gallery of correct programs."""
    gallery = import_module("tests.gallery.right_named").RIGHT
    results = [
        one for right in gallery.values() for one in dgs.check(right.make, seed=0, **right.options).laws
    ]
    every = sum(one.seconds for one in results)
    ours = sum(one.seconds for one in results if one.law == "compiled")
    yield Row("`dgs check` of the gallery, of the same without the law", OF_CHECK, every / (every - ours), is_most=True)  # fmt: skip


def main(events: int = EVENTS) -> None:
    """Print each figure beside its target."""
    keep_freed_memory()  # as `dgs run` and its hosts do
    print("| measured | asked | found | |\n|---|---|---|---|")
    parts = (of_compiling(), of_applications(events), of_row_numbers(), of_views(events), of_auto(events), of_check())  # fmt: skip
    for rows in parts:
        for row in rows:
            print(row, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
