"""Random flows: typed, of one to six steps over small integers, with inputs that have ties, gaps and empty blocks, and random ticks."""

import functools
import random
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from dgs import codec
from dgs.flow import KeyedOrdered, KeyedUnordered, Stateless, every, on, steps
from dgs.flow.building import Builder
from dgs.flow.definition import Flow
from dgs.flow.flow_checks import checked
from dgs.flow.flow_program import FINAL, TICK
from dgs.flow.panes import count, sliding, tumbling
from dgs.model import columns
from dgs.model.events import EventBatch
from dgs.model.outputs import BatchEmitter, Stamps
from dgs.monoids import COUNT, MAX, SUM, AllOf, Top
from dgs.semantics import sequential

PERIOD = 10


def number(key):
    """Return a key as a number: items without key have `()`, pairs of keys a tuple."""
    return int(key) if isinstance(key, (int, float)) else sum(map(number, key))


def numbers(keys):
    """Return columns of keys as numbers."""
    return sum(map(numbers, keys)) if isinstance(keys, tuple) else keys


def _two_of(first, second, which):
    """Return two values for some items, and the rows of their items."""
    rows = np.repeat(np.flatnonzero(which), 2)
    return np.where(np.arange(len(rows)) % 2 == 0, first[rows], second[rows]), rows


class Spread(Stateless):
    """Emits each value under another key, and under its own."""

    def __init__(self, m):
        self.m = m

    def on_item(self, key, value, emit):
        emit((number(key) + value) % self.m, value + 1)
        if value % 2:
            emit(number(key), value)


class Running(KeyedOrdered):
    """A state that depends on the order. With markers it emits at each of them, and changes."""

    def __init__(self, m):
        self.m = m

    def initial_state(self):
        return 1

    def on_item(self, state, key, value, emit):
        for _ in range(value % 3):
            emit((state + value) % 101)
        return (state * 7 + value + number(key)) % 1009


class Marking(Running):
    """A running state that markers change."""

    def on_marker(self, state, key, at, emit):
        if state % self.m:
            emit(state % 13 + ((at or 0) % 7))
        return (state + 1) % 1009


class Counting(KeyedUnordered):
    """A state that every block changes, also an empty block."""

    monoid = SUM

    def __init__(self, m):
        self.m = m

    def initial_state(self):
        return 1

    def update_state(self, state, found):
        return (state * self.m + found + 1) % 1009

    def on_marker(self, state, key, at, emit):
        emit((number(key) + state) % 5, state % 50)
        emit(key, self.m)


class Snapshots(Counting):
    """Emits for every item the state of the last marker."""

    def on_item(self, state, key, value, emit):
        emit((number(key) + value) % 5, (state + value) % 101)


class Totals(Counting):
    """A state that empty blocks do not change."""

    idle = "skip"

    def update_state(self, state, found):
        return state + found


def wide(monoid, result):
    """Return a monoid whose results are integers."""

    class Wide(type(monoid)):
        def result(self, state):
            return result(super().result(state))

    made = Wide.__new__(Wide)
    made.__dict__.update(monoid.__dict__)
    return made


MONOIDS = [
    COUNT,
    SUM,
    wide(MAX, lambda found: -1 if found is None else found),
    wide(Top(2), sum),
    wide(AllOf(n=COUNT, total=SUM), lambda found: found["n"] * 100 + found["total"]),
]


@dataclass
class Case:
    """A flow with inputs, ticks and a number of classes. `made`: the compiled flow."""

    flow: Flow
    inputs: dict
    ticks: list
    classes: int

    @property
    def made(self):
        return self.flow.compiled(classes=self.classes)

    def means(self):
        """Return the outputs by the definition, as a multiset."""
        return counted(self.flow.denote(self.inputs))

    def streams(self, ticks=None):
        """Return the streams of the compiled program: (tag, ts, payload)."""
        return self.made.streams(self.inputs, self.ticks if ticks is None else ticks)

    def run(self, ticks=None):
        """Run the compiled program sequentially; return its outputs with their ids."""
        return run(self.made, self.inputs, self.ticks if ticks is None else ticks)


def run(made, inputs, ticks):
    """Run a compiled flow sequentially; return its outputs with their ids."""
    return sequential.run(made.program, batches(made, inputs, ticks))


def batches(made, inputs, ticks):
    """Return the streams of a compiled flow as batches."""
    streams = []
    for rank, (name, rows) in enumerate(made.streams(inputs, ticks).items()):
        tags = list(dict.fromkeys(tag for tag, _, _ in rows)) or [TICK()]
        codes, times = [tags.index(tag) for tag, _, _ in rows], [ts for _, ts, _ in rows]
        payload = [it for _, _, it in rows]
        streams.append([EventBatch.of(name, rank=rank, tags=tags, ts=times, codes=codes, payload=payload)])
    return streams


def run_in_columns(made, inputs, ticks, r):
    """Run a compiled flow whose items may come in any order between ticks, in batches of columns; return its outputs with their ids."""
    program, state, found = made.program, made.program.init(), []

    def fold(batch):
        nonlocal state
        emit = BatchEmitter(batch, found)
        state = program.update_batch(state, batch, emit)
        emit.finish()

    streams = [batch for (batch,) in batches(made, inputs, ticks)]
    closing = [batch for batch in streams if batch.tags[0].kind == "tick"]
    open_items = [
        replace(batch, codes=None, payload=in_columns(batch.payload, r))
        for batch in streams
        if batch not in closing
    ]
    for key, tick in sorted(
        ((batch.key(row), batch.cut(row, row + 1)) for batch in closing for row in range(len(batch))),
        key=lambda pair: pair[0],
    ):
        for place, batch in enumerate(open_items):
            count = batch.position_of(key)
            for start, stop in pairwise(
                sorted({0, count, *(r.randint(0, count) for _ in range(r.randint(0, 2)))})
            ):
                fold(batch.cut(start, stop))
            open_items[place] = batch.cut(count, len(batch))
        fold(tick)
    for batch in open_items:
        fold(batch)
    stamps = Stamps(program.stamps)
    return [
        (*out.key, str(out.tag), out.index, codec.encode(out.value))
        for batch, _ in map(stamps.put, found)
        for out in _outputs(batch)
    ]


def in_columns(values, r):
    """Return values as columns, texts as Arrow's, plain or coded."""
    column = columns.as_column(values)
    if isinstance(column, dict):
        return {name: in_columns(columns.to_list(one), r) for name, one in column.items()}
    if isinstance(column, list) and column:
        texts = pa.array(column)
        return texts.dictionary_encode() if r.random() < 0.3 else texts
    return column


def _outputs(batch):
    keys = zip(batch.ts.tolist(), [batch.rank] * len(batch), np.asarray(batch.seq).tolist(), strict=True)
    rows = zip(keys, batch.tag_list(), batch.index.tolist(), batch.to_list(), strict=True)
    return [sequential.Output(*row) for row in rows]


def counted(values):
    """Return values as a multiset, by their codec bytes."""
    return Counter(codec.encode(value) for value in values)


def counted_codes(outputs):
    """Return the codec bytes of outputs of `run_in_columns` as a multiset."""
    return Counter(output[-1] for output in outputs)


def ordinary(r, edge, order):
    """Add a step without state."""
    m, a = r.choice([2, 3, 5]), r.randint(1, 3)
    steps = [
        lambda: edge.map(lambda k, v: (v + a) % 101, columns=lambda k, v: (v + a) % 101),
        lambda: edge.filter(lambda k, v: v % m, columns=lambda k, v: v % m),
        lambda: edge.flat_map(
            lambda k, v: [v, v + a] if v % m else [], columns=lambda k, v: _two_of(v, v + a, v % m != 0)
        ),
        lambda: edge.each(lambda k, v, at: (v + (at or 0)) % 101, columns=lambda k, v, at: (v + at) % 101),
        lambda: edge.key_by(
            lambda k, v: (number(k) * m + v) % 5, columns=lambda k, v: (numbers(k) * m + v) % 5
        ),
        lambda: edge.pairs(lambda k, v: ((number(k) + v) % m, v + a)),
        lambda: edge.apply(Spread(m)),
    ]
    return r.choice(steps)()


def blocking(r, edge, order, clock):
    """Add a step that waits for the end of a block."""
    m, monoid = r.choice([2, 3, 5]), r.choice(MONOIDS)
    windows = [None, "history"]
    if clock is not None and not hasattr(clock, "stream"):
        windows += [sliding(2 * PERIOD), sliding(30), tumbling(20), sliding(30, 20), tumbling(PERIOD)]
    over, idle = r.choice(windows), r.choice(["all", "skip"])
    # windows of windows must be aligned, so a flow has one window here
    steps = [
        lambda: edge.aggregate(monoid, over=over, idle=idle, accept_parts=True),
        lambda: edge.aggregate(monoid, over=over, idle=idle, accept_parts=True),
        lambda: edge.sort(by=lambda k, v: v % m, ties=r.choice([None, "value"])),
        lambda: edge.block(
            lambda k, vs, at: [sum(v * (i + 1) for i, v in enumerate(vs)) % 997, len(vs)], accept_parts=True
        ),
        lambda: edge.apply(unordered(r.choice([Counting, Totals]), clock, m)(m), keeps=True),
    ]
    return r.choice(steps)()


def ordered(r, edge, order, clock):
    """Add a step that needs the order of a key, behind a sort if necessary."""
    if order == "U":
        edge = edge.sort(by=lambda k, v: v % 3)
    m = r.choice([2, 3, 5])
    window = count(
        r.randint(1, 4),
        r.randint(1, 4),
        partial=partial(r, m, clock),
        allow_gaps=True,
    )
    steps = [
        lambda: edge.apply(Running(m), keeps=True),
        lambda: edge.apply(Marking(m), keeps=True),
        lambda: edge.fold(lambda s, v: (s * m + v) % 1009, 1, over=r.choice([None, "history", window])),
        lambda: edge.fold(lambda s, v: (s * m + v) % 1009, 1, over=window),
    ]
    return r.choice(steps)()


def partial(r, m, clock):
    """Return the setting for windows by count that the end of the input cuts short."""
    if clock is None:
        return r.choice(["emit", "drop"])
    return "emit" if m == 3 and not hasattr(clock, "stream") else "drop"


def unordered(template, clock, m):
    """Return a template, or one with on_item where ticks are exact."""
    is_exact = clock is None or clock.is_exact
    return Snapshots if is_exact and m == 5 and template is Counting else template


def build(seed, clock, **edges):
    """Add the steps of a seed to edges of a flow."""
    r = random.Random(seed)
    open_edges = [edge for name, edge in edges.items() if name != "marks"]
    for _ in range(r.randint(1, 6)):
        place = r.randrange(len(open_edges))
        edge = open_edges[place]
        kind = checked(edge.builder.finished(edge)).types[edge.node]
        way = r.choice(["ordinary", "ordinary", "blocking", "ordered", "two"])
        if way == "ordinary":
            edge = ordinary(r, edge, kind.order)
        elif way == "blocking":
            edge = blocking(r, edge, kind.order, clock)
        elif way == "ordered":
            edge = ordered(r, edge, kind.order, clock)
        else:
            edge = joined(r, edge, open_edges)
        open_edges[place] = edge
        if r.random() < 0.1:
            open_edges.append(edge)
    first, *others = open_edges
    for other in dict.fromkeys(others):
        first = first.merge(other)
    return first


LARGEST = 16
"""The largest growth of the items of a stream by pairs: a pair of pairs of 25 items would have 390,625."""


def growth(node):
    """Return how many items of a node one item of a stream may cause, by pairs."""
    of = sum(map(growth, node.inputs)) or 1
    if isinstance(node.step, steps.Join):
        return of * LARGEST
    is_many = isinstance(node.step, (steps.FlatMap, steps.Apply))
    return of * 2 if is_many else of


def has_keys(edge):
    """Return whether the items of an edge have keys of their own."""
    return checked(edge.builder.finished(edge)).types[edge.node].key != ()


def joined(r, edge, open_edges):
    """Merge the edge with another edge, or pair them."""
    other = r.choice(open_edges)
    is_large = growth(edge.node) * growth(other.node) > LARGEST
    if r.random() < 0.5 or is_large or has_keys(edge) != has_keys(other):
        return edge.merge(other.map(lambda k, v: v + 1))
    return edge.join(other, lambda k, a, b: (a * 3 + b) % 101, accept_parts=True)


def case(seed):
    """Return the case of a seed."""
    r = random.Random(seed)
    clock = r.choice([every(PERIOD), every(PERIOD), every(PERIOD, 3), every(PERIOD), None, on("marks")])
    names = ["a", "b", "c"][: r.randint(1, 3)] + (
        ["marks"] if clock is not None and hasattr(clock, "stream") else []
    )
    r.shuffle(names)
    flow = None
    while flow is None:
        flow = typed(r.random(), names, clock, r.choice(["close", "close", "drop"]))
    top = r.choice([5, 30, 60, 60, 200])
    inputs = {
        name: sorted(
            ((r.randint(-5, top), r.randint(0, 9)) for _ in range(r.choice([0, 1, 3, 12, 25]))),
            key=lambda e: e[0],
        )
        for name in names
    }
    ticks = [t for t in range(-PERIOD, top + 60) if r.random() < r.choice([0, 0.02, 0.1])]
    return Case(flow, inputs, [*ticks, FINAL], r.randint(1, 4))


def typed(seed, names, clock, end):
    """Return the flow of a seed, None if its windows are not aligned."""
    flow = Flow(
        "random", dict.fromkeys(names, int), functools.partial(build, seed, clock), clock=clock, end=end
    )
    builder = Builder("random", clock)
    found = checked(
        builder.finished(build(seed, clock, **{name: builder.source(name, int) for name in names}))
    )
    codes = {mistake.code for mistake in found.mistakes}
    if codes - {"W03"}:
        raise AssertionError(found.mistakes[0].text())
    return None if codes else flow
