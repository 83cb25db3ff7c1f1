"""The baselines without a runtime: plain Python loops, and NumPy vectorised by hand on one core.

The loops call the program's own `update` on existing event objects (`loop-columns` makes them first, as a runtime must). The
NumPy versions know the application: they iterate over the windows and take a slice of every stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dgs.bench.contestants import folded, merged, runtime
from dgs.bench.measuring import Contestant, Measured
from dgs.model.events import Event
from experiments.bench.applications import Application, Columns
from experiments.fraud_detection.program import MODULUS

Array = npt.NDArray[Any]
Streams = Mapping[str, Columns]


def loops(app: Application) -> Iterator[Contestant]:
    """Yield the plain Python loops."""
    batches = [batch for stream in app.streams.values() for batch in stream]
    streams = [batch.events() for batch in batches]
    in_order = merged(streams)

    def contestant(engine: str, events: Callable[[], Sequence[Event]]) -> Contestant:
        def compute() -> list[Any]:
            return [folded(app.program, events())]

        return Contestant(app.name, engine, "scalar", expected=app.expected, run=lambda: timed(app, compute))

    yield contestant("loop", lambda: merged(streams))
    yield contestant("loop-premerged", lambda: in_order)
    yield contestant("loop-columns", lambda: merged(batch.events() for batch in batches))


def by_hand(app: Application) -> Iterator[Contestant]:
    """Yield the NumPy version, if there is one."""
    if app.name in BY_HAND:
        yield numpy_by_hand(app, BY_HAND[app.name])


def numpy_by_hand(
    app: Application, compute: Callable[[Streams], list[Any]], name: str = "numpy"
) -> Contestant:
    """Return the contestant that computes an application's outputs from its columns."""
    run = lambda: timed(app, lambda: compute(app.columns))  # noqa: E731
    return Contestant(app.name, name, "vectorised", expected=app.expected, run=run)


def timed(app: Application, compute: Callable[[], list[Any]]) -> Measured:
    """Time a computation of an application's outputs."""
    started = time.perf_counter()
    outputs = compute()
    return Measured(app.events, time.perf_counter() - started, outputs)


def window_sums(streams: Streams) -> list[Any]:
    """Return the sum of every window, from a slice of each stream."""
    barriers, *values = streams.values()
    cuts = [_cuts(stream, barriers["ts"]) for stream in values]
    amounts = [stream["payload"] for stream in values]
    return [
        [
            sum(
                int(np.add.reduce(column[cut[i] : cut[i + 1]]))
                for column, cut in zip(amounts, cuts, strict=True)
            )
            for i in range(len(barriers["ts"]))
        ]
    ]


def window_sums_at_once(streams: Streams) -> list[Any]:
    """Return the sum of every window, by one `reduceat` over all windows of a stream. Windows must not be empty."""
    barriers, *values = streams.values()
    total = np.zeros(len(barriers["ts"]), dtype=np.int64)
    for stream in values:
        cuts = np.searchsorted(stream["ts"], barriers["ts"])
        total += np.add.reduceat(stream["payload"][: cuts[-1]], np.concatenate([[0], cuts[:-1]]))
    return [total]


def joined_views(streams: Streams) -> list[Any]:
    """Return all views with the metadata of their page, and for every update the metadata it replaced."""
    updates, *views = streams.values()
    ts, pages, infos = (updates[name].tolist() for name in ("ts", "page", "payload"))
    known: list[int | None] = [None, None]
    replaced: list[int | None] = []
    states = []
    for page, info in zip(pages, infos, strict=True):
        replaced.append(known[page])
        known[page] = info
        states.append([-1 if value is None else value for value in known])
    outputs: list[Any] = [{"page": updates["page"], "replaced": replaced}]
    table = np.array(states)
    for stream in views:
        cuts = [*np.searchsorted(stream["ts"], ts).tolist(), len(stream["ts"])]
        info = np.empty(len(stream["ts"]), dtype=np.int64)
        for row, start, stop in zip(table, cuts[:-1], cuts[1:], strict=True):
            np.take(row, stream["page"][start:stop], out=info[start:stop], mode="clip")
        outputs.append({"page": stream["page"], "visitor": stream["payload"], "info": info})
    return outputs


def frauds(streams: Streams, *, good_only: bool = False) -> list[Any]:
    """Return the aggregate at every rule and the fraudulent transactions; with `good_only` the aggregate omits the latter."""
    rules, *transactions = streams.values()
    cuts = [_cuts(stream, rules["ts"]) for stream in transactions]
    amounts = [stream["payload"] for stream in transactions]
    model, outputs, aggregates = 0, [], []
    for window in range(len(cuts[0]) - 1):
        aggregate = 0
        for column, cut in zip(amounts, cuts, strict=True):
            part = column[cut[window] : cut[window + 1]]
            rest = part - part // MODULUS * MODULUS
            flagged = part[rest == model % MODULUS]
            outputs.append(flagged)
            aggregate += int(np.add.reduce(part)) - (int(np.add.reduce(flagged)) if good_only else 0)
        if window < len(rules["ts"]):
            aggregates.append(aggregate)
            model = aggregate + int(rules["payload"][window])
    return [*outputs, aggregates]


def _cuts(stream: Columns, at: Array) -> list[int]:
    """Return the rows at which windows of a stream begin and end: its start, the rows of the times `at`, and its end."""
    return [0, *np.searchsorted(stream["ts"], at).tolist(), len(stream["ts"])]


BY_HAND: Mapping[str, Callable[[Streams], list[Any]]] = {
    "event-window": window_sums,
    "page-view": joined_views,
    "fraud": frauds,
    "fraud-cyclic": lambda streams: frauds(streams, good_only=True),
}


@dataclass(frozen=True)
class Shapes:
    """The engines, leaves of plans and numbers of hosts to measure; `settings` are values of plan.yaml for the runtimes."""

    engines: Sequence[str] = ("loop", "numpy", "local", "ray")
    leaves: Sequence[int] = (1, 4)
    hosts: Sequence[int] = (1, 2)
    settings: Mapping[str, Any] | None = None


def contestants(small: Application, large: Application, shapes: Shapes) -> Iterator[Contestant]:
    """Yield all contestants of an application: event by event on the small data, vectorised on the large."""
    if "loop" in shapes.engines:
        yield from loops(small)
    if "numpy" in shapes.engines:
        yield from by_hand(large)
    for app, mode in ((small, "scalar"), (large, "vectorised")):
        if mode == "scalar" or app.program.is_vectorised:
            for leaves in shapes.leaves:
                yield from runtimes(app, mode, leaves, shapes)


def runtimes(app: Application, mode: str, leaves: int, shapes: Shapes) -> Iterator[Contestant]:
    """Yield the runtimes on one plan. A plan of one worker uses one host."""
    prepared = app.prepared(leaves=leaves, settings=shapes.settings)
    places = [("local", 1)] if "local" in shapes.engines else []
    places += [("ray", count) for count in shapes.hosts if "ray" in shapes.engines and count <= leaves]
    for engine, hosts in places:
        yield runtime(prepared, app.name, engine=engine, hosts=hosts, mode=mode, expects=app.expected)
