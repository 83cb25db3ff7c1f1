"""Workloads of flows, each with its counterpart without flows: NumPy, Arrow, a `Counter`, or a program by hand.

Data are made before any timing, and are the same for both sides. Flows run on the local runtime with one worker. Times are seconds of CPU of
this process, with the start of a run. Other load on the machine does not count.

>>> [one.engine for one in known_keys(0.001)]
['few keys', 'many keys']
"""

from __future__ import annotations

import gzip
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import dgs
from dgs.api import overrides
from dgs.api.preparing import from_program, prepare
from dgs.api.running import run_job
from dgs.bench.contestants import measured_job
from dgs.bench.measuring import Contestant, Expected, Measured
from dgs.flow import Edge, Flow, Table, every, flow, on, sliding, tumbling
from dgs.flow.flow_program import FINAL, TICK
from dgs.model.events import EventBatch
from dgs.monoids import COUNT, SUM
from experiments.bench.applications import application
from experiments.event_window.program import EventWindow

RATE = 10_000
"""Events a second, as many as the other applications have between two events that synchronise."""
ADS, CAMPAIGNS, KINDS = 1_000, 100, 3
TEXT = Path(__file__).parents[3] / "shared" / "data" / "tinyshakespeare" / "input.txt.gz"

Streams = Mapping[str, Iterable[EventBatch]]


def running(app: str, engine: str, program: dgs.Program, streams: Streams, expected: Expected) -> Contestant:
    """Return the contestant that runs a program on the local runtime with one worker. Flows are not compiled to machine code."""
    given = overrides(
        runtime={"kind": "local", "compile": "off"},
        optimizer={"name": "sequential"},
        plan=None,
        settings=None,
    )
    prepared = prepare(
        from_program(program, {name: list(batches) for name, batches in streams.items()}, given)
    )
    job = measured_job(prepared, engine="local", hosts=1, mode="vectorised")

    def run() -> Measured:
        started = time.process_time()
        done = run_job(job)
        seconds = time.process_time() - started
        return Measured(done.figures.events, seconds, [batch.values for batch in done.outputs])

    return Contestant(app, engine, "flow", expected=expected, run=run)


def by_hand(app: str, engine: str, compute: Callable[[], Any], events: int, expected: Expected) -> Contestant:
    """Return a contestant that calls a function."""

    def run() -> Measured:
        started = time.process_time()
        outputs = compute()
        return Measured(events, time.process_time() - started, [outputs])

    return Contestant(app, engine, "by hand", expected=expected, run=run)


def batches(made: Flow, elements: Mapping[str, tuple[Any, Any]], ticks: Iterable[int] = (FINAL,)) -> Streams:
    """Return the streams of a compiled flow for columns of ts and payload by stream."""
    compiled, streams = made.compiled(), dict[str, list[EventBatch]]()
    if compiled.ticks:
        name = compiled.ticking
        streams[name] = [EventBatch.of(name, rank=0, tags=[TICK()], ts=list(ticks))]
    for name, (ts, payload) in elements.items():
        tag = TICK() if name == compiled.markers else dgs.kind("item")()
        streams[name] = [EventBatch.of(name, rank=len(streams), tags=[tag], ts=ts, payload=payload)]
    return streams


def against(
    app: str, engine: str, made: Flow, elements: Mapping[str, tuple[Any, Any]], compute: Callable[[], Any]
) -> list[Contestant]:
    """Return the contestants of a function by hand, and of the flow with the same outputs."""
    events, expected = sum(len(ts) for ts, _ in elements.values()), Expected.of([compute()])
    other = by_hand(app, engine, compute, events, expected)
    return [other, running(app, "flow", made.program(), batches(made, elements), expected)]


def _views(rows: int) -> tuple[Any, dict[str, Any]]:
    random = np.random.default_rng(1)
    ads, kinds = random.integers(0, ADS, rows), random.integers(0, KINDS, rows)
    return np.arange(rows) * 1000 // RATE, {
        "user": random.integers(0, 10**6, rows),
        "ad": ads,
        "event": kinds,
    }


@flow(clock=every("1s"))
def campaigns(events: Any, *, view: Any, table: Any, over: Any = None) -> Edge:
    """Return the views of each campaign in the last ten seconds, every second."""
    views = events.filter_by("event", view).lookup(table, key="ad", into="campaign").key_by("campaign")
    counts = views.aggregate(COUNT, over=over or sliding("10s"), idle="all")
    return counts.each(lambda campaign, number, at: [at, campaign, number])


def query_iv(scale: float) -> list[Contestant]:
    """Return Query IV of Yahoo over int64 columns, beside NumPy over the whole columns at once."""
    ts, columns = _views(int(2_000_000 * scale))
    campaign_of = np.random.default_rng(2).integers(0, CAMPAIGNS, ADS)

    def compute() -> list[list[int]]:
        is_view = columns["event"] == 0
        found = campaign_of[columns["ad"][is_view]]
        return _windows(
            np.bincount(ts[is_view] // 1000 * CAMPAIGNS + found, minlength=_blocks(ts) * CAMPAIGNS)
        )

    made = campaigns.bind(view=0, table=Table(dict(enumerate(campaign_of.tolist()))))
    return against("query IV, int64", "numpy", made, {"events": (ts, columns)}, compute)


def _blocks(ts: Any) -> int:
    return int(ts[-1]) // 1000 + 1


def _windows(counts: Any) -> list[list[int]]:
    """Return the rows of windows of ten seconds, from the views by second and campaign."""
    before = np.cumsum(counts.reshape(-1, CAMPAIGNS), axis=0)
    before[10:] -= before[:-10].copy()
    seconds = np.repeat((np.arange(len(before)) + 1) * 1000, CAMPAIGNS)
    names = np.tile(np.arange(CAMPAIGNS), len(before))
    return np.stack([seconds, names, before.ravel()], axis=1).tolist()  # type: ignore[no-any-return]


def query_iv_texts(scale: float) -> list[Contestant]:
    """Return Query IV over Arrow's texts, beside `group_by` of Arrow on one thread."""
    ts, columns = _views(int(2_000_000 * scale))
    of = np.random.default_rng(2).integers(0, CAMPAIGNS, ADS)
    ads, kinds = pa.array([f"ad-{n}" for n in range(ADS)]), pa.array(["view", "click", "purchase"])
    texts = {
        "user": pa.array(columns["user"]),
        "ad": ads.take(pa.array(columns["ad"])),
        "event": kinds.take(pa.array(columns["event"])),
    }
    known = [f"campaign-{n:02}" for n in range(CAMPAIGNS)]
    names = pa.array([known[n] for n in of])

    def compute() -> list[list[Any]]:
        is_view = pc.equal(texts["event"], "view")
        found = names.take(pc.index_in(texts["ad"].filter(is_view), ads))
        seconds = pc.divide(pa.array(ts).filter(is_view), 1000)
        table = pa.table({"second": seconds, "campaign": found})
        groups = table.group_by(["second", "campaign"], use_threads=False).aggregate([([], "count_all")])
        counts = np.zeros((_blocks(ts), CAMPAIGNS), dtype=np.int64)
        places = pc.index_in(groups["campaign"], pa.array(known)).to_numpy()
        counts[groups["second"].to_numpy(), places] = groups["count_all"].to_numpy()
        return [[at, known[name], number] for at, name, number in _windows(counts)]

    table = Table({f"ad-{n}": known[c] for n, c in enumerate(of.tolist())})
    made = campaigns.bind(view="view", table=table)
    return against("query IV, texts", "arrow", made, {"events": (ts, texts)}, compute)


@flow()
def front(events: Any, *, campaigns: Any) -> Edge:
    """Return the views with their campaign."""
    chosen = events.filter_by("event", "view").lookup(campaigns, key="ad", into="campaign")
    return chosen.filter_by("campaign", *sorted(set(campaigns.values()))[:50])


def ready_made(scale: float) -> list[Contestant]:
    """Return three ready-made steps without state, beside three calls of `pyarrow.compute`."""
    ts, columns = _views(int(2_000_000 * scale))
    ads, kinds = pa.array([f"ad-{n}" for n in range(ADS)]), pa.array(["view", "click", "purchase"])
    texts = {"ad": ads.take(pa.array(columns["ad"])), "event": kinds.take(pa.array(columns["event"]))}
    known = [f"campaign-{n % CAMPAIGNS:02}" for n in range(ADS)]
    wanted = pa.array(sorted(set(known))[:50])

    def compute() -> dict[str, Any]:
        is_view = pc.equal(texts["event"], "view")
        views = {name: column.filter(is_view) for name, column in texts.items()}
        views["campaign"] = pa.array(known).take(pc.index_in(views["ad"], ads))
        is_wanted = pc.is_in(views["campaign"], wanted)
        return {name: column.filter(is_wanted) for name, column in views.items()}

    table = Table({f"ad-{n}": name for n, name in enumerate(known)})
    return against("three steps", "arrow", front.bind(campaigns=table), {"events": (ts, texts)}, compute)


def _half(_: Any, value: int) -> int:
    return value // 2


def _is_even(_: Any, value: int) -> bool:
    return value % 2 == 0


def _more(_: Any, value: int) -> int:
    return value + 7


class Three(dgs.Program):
    """The three functions within one `update`."""

    depends = dgs.Dependence()
    kinds = (dgs.kind("item"),)

    def init(self) -> int:
        """Return a state that never changes."""
        return 0

    def update(self, state: int, event: dgs.Event, emit: Any) -> int:
        """Emit the results of the functions for an event."""
        value = _half((), event.payload)
        if _is_even((), value):
            emit(_more((), value))
        return state


@flow()
def three(numbers: int) -> Edge:
    """Return the results of the three functions for each number."""
    return numbers.map(_half).filter(_is_even).map(_more)


def chain(scale: float) -> list[Contestant]:
    """Return a chain of three functions, beside a program that calls them in its `update`."""
    numbers = np.random.default_rng(3).integers(0, 10**6, int(1_000_000 * scale))
    elements = {"numbers": (np.arange(len(numbers)), numbers)}
    expected = Expected.of([[n // 2 + 7 for n in numbers.tolist() if n // 2 % 2 == 0]])
    streams = batches(three, elements)
    return [
        running("three functions", "update", Three(), streams, expected),
        running("three functions", "flow", three.program(), streams, expected),
    ]


@flow()
def words(lines: str) -> Edge:
    """Return the number of each word."""
    found = lines.flat_map(lambda _, line: line.split()).key_by(lambda _, word: word)
    return found.aggregate(COUNT).each(lambda word, number, _: [word, number])


def _split(_: Any, lines: Any) -> tuple[Any, Any]:
    """Return the words of lines, and the line number of each."""
    found = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(lines))
    words, rows = found.flatten(), pc.list_parent_indices(found).to_numpy()
    is_word = pc.not_equal(words, "")  # an empty line has one word without letters
    return words.filter(is_word), rows[is_word.to_numpy(zero_copy_only=False)]


@flow()
def words_in_columns(lines: str) -> Edge:
    """Return the number of each word, over columns."""
    found = lines.flat_map(lambda _, line: line.split(), columns=_split)
    keyed = found.key_by(lambda _, word: word, columns=lambda _, words: words)
    return keyed.aggregate(COUNT).each(lambda word, number, _: [word, number])


def word_count(scale: float) -> list[Contestant]:
    """Return the number of each word of twenty times the text, beside a `Counter`; columns are of Arrow's texts."""
    with gzip.open(TEXT, "rt", encoding="utf-8") as file:
        text = file.read().splitlines()
    lines = (text * 20)[: int(len(text) * 20 * scale)]

    def compute() -> list[list[Any]]:
        found: Counter[str] = Counter()
        for line in lines:
            for word in line.split():
                found[word] += 1
        return [[word, number] for word, number in found.items()]

    other, scalar = against(
        "word count", "Counter", words, {"lines": (np.arange(len(lines)), lines)}, compute
    )
    texts = {"lines": (np.arange(len(lines)), pa.array(lines))}
    program = words_in_columns.program()
    columns = running("word count", "columns", program, batches(words_in_columns, texts), scalar.expected)
    return [other, scalar, columns]


def windows(scale: float) -> list[Contestant]:
    """Return tumbling windows, beside sliding ones of ten panes and of a thousand."""
    ts, columns = _views(int(2_000_000 * scale))
    table = Table({ad: ad % CAMPAIGNS for ad in range(ADS)})
    found = []
    for engine, over in (
        ("tumbling", tumbling("10s")),
        ("10 panes", sliding("10s")),
        ("1,000 panes", sliding("1000s")),
    ):
        made = campaigns.bind(view=0, table=table, over=over)
        streams = batches(made, {"events": (ts, columns)})
        expected = Expected.of([_slowly(made, ts, columns)])
        found.append(running("windows", engine, made.program(), streams, expected))
    return found


def _slowly(made: Flow, ts: Any, columns: Mapping[str, Any]) -> list[Any]:
    """Return the windows of a flow of campaigns, by counting views."""
    over = made.graph.nodes[4].step.over  # type: ignore[attr-defined]  # an aggregate
    size, slide = over.blocks(1000)
    is_view = columns["event"] == 0
    groups = ts[is_view] // 1000 * CAMPAIGNS + columns["ad"][is_view] % CAMPAIGNS
    total = np.cumsum(np.bincount(groups, minlength=_blocks(ts) * CAMPAIGNS).reshape(-1, CAMPAIGNS), axis=0)
    total = np.concatenate([total, np.repeat(total[-1:], -len(total) % slide, axis=0)])
    ends = np.arange(slide - 1, len(total), slide)
    before = [total[end - size].tolist() if end >= size else [0] * CAMPAIGNS for end in ends.tolist()]
    return [
        [(end + 1) * 1000, name, total[end, name].item() - lower[name]]
        for end, lower in zip(ends.tolist(), before, strict=True)
        for name in range(CAMPAIGNS)
    ]


@flow(clock=every(1000))
def totals(events: int) -> Edge:
    """Return the number of events of each key so far, at the end of each block for the keys in it."""
    return events.key_by(lambda _, key: key).aggregate(COUNT, over="history", idle="skip")


def known_keys(scale: float) -> list[Contestant]:
    """Return ticks over 1,000 keys where these are all known keys, and where there are a million."""
    found, blocks = [], max(2, int(100 * scale))
    for engine, known in (("few keys", 1_000), ("many keys", int(1_000_000 * scale))):
        program, made = totals.program(), totals
        touched = np.tile(np.arange(1000), blocks)
        first = np.arange(known)
        ts = np.concatenate([np.zeros(known, dtype=np.int64), 1000 + np.arange(len(touched))])
        streams = batches(made, {"events": (ts, np.concatenate([first, touched]))})
        expected = Expected.of([[1] * known + [n for n in range(2, blocks + 2) for _ in range(1000)]])
        found.append(_ticking(engine, program, streams, known, expected))
    return found


def _ticking(engine: str, program: Any, streams: Streams, known: int, expected: Expected) -> Contestant:
    """Return a contestant that counts only the time of ticks and of the blocks after the first."""
    (items,) = streams["events"]

    def run() -> Measured:
        outputs: list[Any] = []
        emit = lambda values, rows=None: outputs.extend(values)  # noqa: E731, ARG005
        state = program.update_batch(program.init(), items.cut(0, known), emit)
        tick = EventBatch.of(program.ticking, rank=0, tags=[TICK()], ts=[1000])
        state = program.update_batch(state, tick, emit)
        started = time.process_time()
        for block in range(1, (len(items) - known) // 1000 + 1):
            state = program.update_batch(
                state, items.cut(known + (block - 1) * 1000, known + block * 1000), emit
            )
            tick = EventBatch.of(program.ticking, rank=0, tags=[TICK()], ts=[(block + 1) * 1000])
            state = program.update_batch(state, tick, emit)
        seconds = time.process_time() - started
        return Measured(len(items) - known, seconds, [[value for one in outputs for value in one.values]])

    return Contestant("known keys", engine, "flow", expected=expected, run=run)


def event_windows(scale: float) -> list[Contestant]:
    """Return the program by hand of experiments/event_window, and the flow."""
    app = application("event-window", events=int(2_500_000 * scale))
    names = {name: name.replace("-", "_") for name in app.streams}

    def build(**edges: Edge) -> Edge:
        first, *others = (edge for name, edge in edges.items() if name != "barriers")
        return first.merge(*others).aggregate(SUM, idle="all")

    made = Flow("event_window", dict.fromkeys(names.values(), int), build, clock=on("barriers"), end="drop")
    elements = {names[name]: (stream["ts"], stream["payload"]) for name, stream in app.columns.items()}
    return [
        running("event window", "by hand", EventWindow(), app.streams, app.expected),
        running("event window", "flow", made.program(), batches(made, elements), app.expected),
    ]
