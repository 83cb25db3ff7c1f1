"""Several lanes in one compiled loop: equal to `update`, event by event in OrderKey order, wherever lanes depend on each other."""

import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dgs
from dgs.compiled.compiled_update import CompiledUpdate
from dgs.errors import UserCodeError
from dgs.errors.resources import CompileError
from dgs.model.events import EventBatch
from dgs.semantics.sequential import without_batches
from dgs.workers.protocol.bounds import Bounds
from dgs.workers.protocol.folding.fold import Folder
from dgs.workers.protocol.releases import Release
from experiments.bench.applications import application
from tests.dgs.compiled.both_ways import by_python, exact, program_of
from tests.dgs.compiled.random_dict_programs import DictWriter
from tests.dgs.compiled.random_programs import START


class CountsBetween(dgs.Program):
    """Adds up events of kind `a`; an event of kind `b` emits the sum and resets it."""

    kinds = (dgs.kind("a"), dgs.kind("b"))

    def __init__(self, start):
        self.start = start

    def init(self):
        return self.start

    def update(self, state, event, emit):
        if event.tag.kind == "a":
            return state + event.payload
        emit(state)
        return self.start


def lanes_of(writer, draw, *, with_keys):
    """Return batches of several streams, with ties, by number of lane. A lane has one key."""
    lanes, batches = [], []
    for lane in range(draw.randint(2, 4)):
        tags = [
            dgs.Tag(kind, draw.choice(writer.keys) if with_keys else None)
            for kind in draw.choice(["a", "ab"])
        ]
        tags = [dgs.Tag(tag.kind, tags[0].key) for tag in tags]
        seq, ts = 0, 0
        for _ in range(draw.randint(1, 3)):
            size = draw.randint(1, 6)
            times = np.cumsum([draw.choice([0, 0, 1, 3]) for _ in range(size)]) + ts
            codes = [draw.randrange(len(tags)) for _ in range(size)] if len(tags) > 1 else None
            payload = {
                "x": np.array(writer.ints(size)),
                "y": np.array([draw.randint(-9, 9) / 4 for _ in range(size)]),
                "z": np.array([draw.random() < 0.5 for _ in range(size)]),
                "s": [draw.choice(["u", "vw", 7]) for _ in range(size)],
            }
            batch = EventBatch.of(
                f"s{lane}",
                rank=lane,
                tags=tags,
                ts=times,
                codes=codes,
                payload=payload,
                seq=np.arange(seq, seq + size),
            )
            parts = {lane: batch} if codes is None or draw.random() < 0.5 else by_tag(batch, lane)
            lanes += parts
            batches += parts.values()
            seq, ts = seq + size, int(times[-1])
    return lanes, batches


def by_tag(batch, lane):
    """Return the events of each tag of a stream as a separate lane, by number of lane."""
    codes = np.asarray(batch.codes)
    rows = {lane + 10 * code: np.flatnonzero(codes == code) for code in range(len(batch.tags))}
    return {number: batch.take(own) for number, own in rows.items() if len(own)}


def release_of(lanes, batches):
    """Return a release whose lanes depend on those with the same key."""
    key = {lane: batch.tags[0].key for lane, batch in zip(lanes, batches, strict=True)}
    ordered = {
        lane: tuple(other for other in key if other != lane and key[other] == key[lane]) for lane in key
    }
    return Release(tuple(lanes), batches, ordered)


def sequential(program, batches, state):
    """Return the state and the outputs of each event, or the exception. The oracle."""
    events = sorted(
        (event.ts, batch.rank, int(seq), event)
        for batch in batches
        for seq, event in zip(batch.seq, batch.events(), strict=True)
    )
    outputs = {}
    for _, rank, seq, event in events:
        got = []
        try:
            state = program.update(state, event, got.append)
        except Exception as error:  # noqa: BLE001 - whatever it is
            return type(error).__name__, str(error)
        outputs[rank, seq] = [exact(one) for one in got]
    return by_key(state), {place: got for place, got in outputs.items() if got}


def by_key(state):
    """Return a state without the order of its keys: independent events may come in any order."""
    return exact(dict(sorted(state.items())) if isinstance(state, dict) else state)


def merged(program, release, state, translate):
    """Return the same by the compiled loop, and the compiled update."""
    folder = Folder(program, program.states()[0], "w", Bounds(few_events=0))
    folder._compiled = CompiledUpdate(
        program.states()[0].update, folder._loop.fold_batch, translate=translate
    )
    try:
        state, made = folder.fold(state, release)
    except UserCodeError as error:
        return (error.error.partition(": ")[0], error.error.partition(": ")[2]), folder._compiled
    rank = {batch.stream: batch.rank for batch in release.batches}
    outputs = {}
    for one in sorted(made, key=lambda one: one.stream):
        for seq, value in zip(np.asarray(one.seq).tolist(), one.to_list(), strict=True):
            outputs.setdefault((rank[one.stream], seq), []).append(exact(value))
    return (by_key(state), outputs), folder._compiled


def differs(seed, translate=by_python):
    draw, writer = random.Random(seed), DictWriter(seed)
    with_keys = draw.random() < 0.7
    text = writer.dict_program() if with_keys else writer.program()
    program = program_of(text)
    lanes, batches = lanes_of(writer, draw, with_keys=with_keys)
    start = program.init() if with_keys else START
    wanted = sequential(program, batches, start)
    got, update = merged(
        program, release_of(lanes, batches), program.init() if with_keys else START, translate
    )
    return got != wanted, text, update


@given(st.integers(0, 2**32))
def test_merged_lanes_equal_update(seed):
    for one in range(seed, seed + 3):
        is_wrong, text, _ = differs(one)
        assert not is_wrong, text


def test_random_lanes_are_merged_by_the_loop():
    """Otherwise the interpreter would be compared with itself."""
    done = [differs(seed)[2] for seed in range(100)]
    assert sum(update.events for update in done) > sum(update.interpreted for update in done)
    assert sum(update.deviations for update in done) > 5


def test_a_later_batch_with_an_int_that_does_not_fit_is_interpreted():
    text = "class P(dgs.Program):\n    def init(self): return 0\n    def update(self, state, event, emit):\n"
    program = program_of(text + "        emit(state)\n        return state + event.payload % 7\n")
    parts = [(0, 0, [1, 2]), (0, 2, [3, 2**70]), (1, 0, [4, 5, 6])]
    batches = [
        EventBatch.of(f"s{rank}", rank=rank, tags=[dgs.Tag("a")], ts=ts, seq=ts, payload=payload)
        for rank, first, payload in parts
        for ts in [np.arange(first, first + len(payload))]
    ]
    release = release_of([rank for rank, _, _ in parts], batches)
    assert merged(program, release, 0, by_python)[0] == sequential(program, batches, 0)


class Orders(dgs.Program):
    """Open quantities by symbol. At the end of a day, which no loop can do, it emits them all."""

    def init(self):
        return {}

    def update(self, state, event, emit):
        if event.tag.kind == "end":
            emit(sorted(state.items()))
            return {}
        left = state.get(event.tag.key, 0)
        state[event.tag.key] = (
            left + event.payload if event.tag.kind == "order" else max(0, left - event.payload)
        )
        if left > 40:
            emit(left)
        return state


class Total(dgs.Program):
    """Orders less fills, without keys. At the end of a day it emits a text, which no loop can make."""

    def init(self):
        return 0

    def update(self, state, event, emit):
        if event.tag.kind == "end":
            emit(str(sorted([state])))
            return 0
        return state + event.payload if event.tag.kind == "order" else state - event.payload


def day(draw, keys, first, ends):
    """Return a release of orders and fills that take turns, and some ends, from time `first` on."""
    tags = [[dgs.Tag(kind, key) for key in keys] for kind in ("order", "fill")] + [[dgs.Tag("end")]]
    sizes = [draw.randint(30, 60), draw.randint(30, 60), ends]
    batches = [
        EventBatch.of(
            f"s{lane}",
            rank=lane,
            tags=tags[lane],
            ts=np.sort([first + draw.randrange(100) for _ in range(size)]),
            seq=np.arange(size) + 100 * first,
            codes=[draw.randrange(len(tags[lane])) for _ in range(size)] if len(tags[lane]) > 1 else None,
            payload=np.array([draw.randint(0, 30) for _ in range(size)]),
        )
        for lane, size in enumerate(sizes)
        if size
    ]
    lanes = tuple(range(len(batches)))
    return Release(lanes, batches, {lane: tuple(set(range(3)) - {lane}) for lane in range(3)})


@pytest.mark.parametrize(("program", "keys"), [(Orders(), ["a", "b", "c"]), (Total(), [None])])
@pytest.mark.parametrize("seed", range(20))
def test_lanes_are_merged_without_those_that_no_loop_takes(program, keys, seed):
    draw = random.Random(seed)
    folder = Folder(program, program.states()[0], "w", Bounds(few_events=2, short_loop=draw.choice([1, 8])))
    folder._compiled = update = CompiledUpdate(
        program.states()[0].update, folder._loop.fold_batch, translate=by_python
    )
    state, wanted = program.init(), program.init()
    for first in range(0, 1000, 100):
        ends = draw.choice([0, 0, 1, 2, 60])
        release = day(draw, keys, first, ends)
        before = update.events
        wanted, outputs = sequential(program, release.batches, wanted)
        state, made = folder.fold(state, release)
        found = {}
        for one in made:
            rank = int(one.stream[1:])
            for seq, value in zip(np.asarray(one.seq).tolist(), one.to_list(), strict=True):
                found.setdefault((rank, seq), []).append(exact(value))
        assert (by_key(state), found) == (wanted, outputs)
        wanted = dict(state) if isinstance(state, dict) else state
        assert ends > 2 or update.events > before
    assert update.apart == {2}


@pytest.mark.parametrize(
    ("keys", "is_ready", "parts"),
    [(3, True, 3), (3, False, 0), (40, True, 0)],
    ids=["taken", "not-ready", "many-keys"],
)
def test_a_release_is_cut_only_if_the_loop_takes_what_is_between(keys, is_ready, parts):
    """Otherwise it would be interpreted in many small parts."""
    program, draw = Orders(), random.Random(1)
    folder = Folder(program, program.states()[0], "w", Bounds(few_events=2, short_loop=8))
    update = folder._compiled = CompiledUpdate(
        program.states()[0].update,
        folder._loop.fold_batch,
        translate=by_python if is_ready else lambda _: None,
    )
    update.apart.add(2)
    release = day(draw, list(range(keys)), 0, 1)
    assert len(folder._parts({}, release, update)) == parts


def alternating(expression):
    """Return a folder whose update must be compiled, and a release of two lanes that take turns."""
    text = "class P(dgs.Program):\n    def init(self): return 0\n    def update(self, state, event, emit):\n"
    program = program_of(text + f"        emit({expression})\n        return state + event.payload\n")
    batches = [
        EventBatch.of(
            f"s{rank}", rank=rank, tags=[dgs.Tag("a")], ts=np.arange(20) * 2 + rank, payload=np.arange(20)
        )
        for rank in range(2)
    ]
    folder = Folder(program, program.states()[0], "w", Bounds(few_events=0))
    folder._compiled = CompiledUpdate(
        program.states()[0].update, folder._loop.fold_batch, is_required=True, translate=by_python
    )
    return folder, release_of([0, 1], batches)


def test_lanes_that_take_turns_are_refused_where_they_must_be_compiled():
    folder, release = alternating("event.payload % 3 if state else -0.0")
    with pytest.raises(CompileError, match=r"for kind 'a': .*sometimes int and sometimes float"):
        folder.fold(0, release)


def test_lanes_that_take_turns_are_compiled_although_they_read_the_name_of_their_stream():
    folder, release = alternating("1 if event.stream == 's1' else 2")
    _, outputs = folder.fold(0, release)
    assert (folder._compiled.events, folder._compiled.interpreted) == (40, 0)
    assert sum(one.to_list().count(2) for one in outputs) == 20


@pytest.mark.parametrize("start", [0, 0.0])
def test_lanes_of_one_stream_that_depend_on_each_other_are_compiled(start, machine):
    program = CountsBetween(start)
    draw = np.random.default_rng(3)
    lanes, batches = [], []
    for rank in range(2):
        codes = draw.integers(0, 2, 300)
        batch = EventBatch.of(
            f"s{rank}",
            rank=rank,
            tags=[dgs.Tag("a"), dgs.Tag("b")],
            ts=np.sort(draw.integers(0, 90, 300)),
            codes=codes,
            payload=draw.integers(0, 9, 300),
        )
        parts = by_tag(batch, rank)
        lanes += parts
        batches += parts.values()
    ordered = {lane: tuple(other for other in lanes if (other < 10) != (lane < 10)) for lane in lanes}
    release = Release(tuple(lanes), batches, ordered)
    got, update = merged(program, release, program.init(), machine)
    assert got == sequential(program, batches, program.init())
    assert (update.events, update.interpreted) == (600, 0)


@pytest.mark.parametrize("every", [20, 60, 500])
def test_floats_of_independent_lanes_are_added_in_the_order_of_the_interpreter(every):
    text = "class P(dgs.Program):\n    def init(self): return None, 0.0\n    def update(self, state, event, emit):\n"
    program = program_of(text + "        emit(1)\n        return event.payload, state[1] + event.payload\n")
    numbers, count = np.random.default_rng(6), 1000
    times = [np.arange(count) * every // 2, np.arange(count), np.arange(count)]
    batches = [
        EventBatch.of(
            f"s{rank}",
            rank=rank,
            tags=[dgs.Tag("a")],
            ts=ts,
            payload=numbers.normal(size=count) * 10.0 ** (rank * 5),
        )
        for rank, ts in enumerate(times)
    ]
    batches[0] = batches[0].cut(0, 2 * count // every)
    release = Release((0, 1, 2), batches, {0: (1, 2), 1: (0,), 2: (0,)})
    off = Folder(program, program.states()[0], "w")
    compiled = Folder(program, program.states()[0], "w")
    compiled._compiled = CompiledUpdate(
        program.states()[0].update, compiled._loop.fold_batch, translate=by_python
    )
    state = other = program.init()
    for _ in range(2):
        state, other = off.fold(state, release)[0], compiled.fold(other, release)[0]
        assert exact(other) == exact(state)
    assert compiled._compiled.events > 0


def no_tie(text):
    return re.sub(r"(t\d+) \+ 1", r"\1", text)


def gallop_too_far(text):
    return text.replace(", bound)\n", ", bound + 1)\n")


def nobody_waits(text):
    return text.replace("< bound:", "< bound and False:")


def twins_in_any_order(text):
    return re.sub(r"(q\d+\[.*\]) < (q\d+\[.*\]):", r"\2 < \1:", text)


def twins_at_once(text):
    return re.sub(r"stop = first_from\(q.*", "pass", text)


def last_head_first(text):
    return re.sub(r"if (t\d+) < least:", r"if \1 <= least:", text)


@pytest.mark.parametrize(
    "change", [no_tie, gallop_too_far, nobody_waits, last_head_first, twins_in_any_order, twins_at_once]
)
def test_a_mutant_of_the_merge_is_found(change):
    def mutant(loop):
        return by_python(loop, change)

    assert any(wrong_or_stuck(seed, mutant) for seed in range(300))


def wrong_or_stuck(seed, mutant):
    try:
        return differs(seed, mutant)[0]
    except dgs.DgsError:  # a lane that never ends
        return True


@pytest.mark.parametrize("name", ["event-window", "page-view", "fraud-cyclic"])
def test_applications_are_merged_in_machine_code_as_in_python(name, machine):
    app = application(name, events=2000)
    program = without_batches(app.program)
    batches = [batch for stream in app.streams.values() for batch in stream]
    release = release_of_all(list(range(len(batches))), batches)
    wanted = sequential(program, batches, program.init())
    got, update = merged(program, release, program.init(), machine)
    assert got == wanted
    assert update.interpreted == 0
    assert update.events == len(release)


def release_of_all(lanes, batches):
    """Return a release whose first lane is ordered with every other one."""
    return Release(tuple(lanes), batches, {0: tuple(lanes[1:]), **dict.fromkeys(lanes[1:], (0,))})
