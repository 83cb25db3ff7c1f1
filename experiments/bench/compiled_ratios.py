"""The speed of compiled updates beside interpreted ones, `update_batch`, and NumPy by hand: ratios, in one process.

    python -m experiments.bench.compiled_ratios [EVENTS OF A STREAM]

One worker folds four dense streams and one that synchronises, as one release. The contestants take turns; the ratios are those of
the medians of five CPU times. The interpreted fold takes fewer events, since it is slow.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from statistics import median

from dgs.semantics.unvectorised import without_batches
from dgs.workers.protocol.folding.fold import Folder, ToCompile
from dgs.workers.protocol.releases import Release
from experiments.bench.applications import Application, application, available
from experiments.bench.baselines import BY_HAND

EVENTS, FEW, REPETITIONS = 1_000_000, 20_000, 5


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
    compiled = ToCompile(of.update, is_required=True, least=0) if is_compiled else None
    folder, events = Folder(program, of, "w0", compiled=compiled), release(app)
    return lambda: folder.fold(program.init(), events)


def rates(name: str, events: int) -> Iterator[tuple[str, float]]:
    """Yield the events per second of each way to fold an application."""
    large, small = application(name, events=events), application(name, events=FEW)
    ways = {"interpreted": (small, folding(small)), "compiled": (large, folding(large, is_compiled=True))}
    if large.program.states()[0].update_batch is not None:
        ways["update_batch"] = large, folding(large, has_batches=True)
    if name in BY_HAND:
        ways["numpy"] = large, lambda: BY_HAND[name](large.columns)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for repetition in range(REPETITIONS + 1):  # the first compiles
        for way, (_, run) in ways.items():
            started = time.process_time()
            run()
            if repetition:
                seconds[way].append(time.process_time() - started)
    yield from ((way, app.events / median(seconds[way])) for way, (app, _) in ways.items())


def main(events: int = EVENTS) -> None:
    """Print a line for each application: millions of events a second, and the ratios of the compiled fold to the others."""
    for name in available():
        found = dict(rates(name, events))
        speeds = ", ".join(f"{way} {rate / 1e6:.1f} M/s" for way, rate in found.items())
        ratios = [
            f"{found['compiled'] / rate:.2f} x {way}" for way, rate in found.items() if way != "compiled"
        ]
        print(f"{name}: {speeds}; compiled is {', '.join(ratios)}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
