"""Events whose update raises are left out, under every plan, order and fault, as in the sequential program."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dgs import codec
from dgs.errors import UserCodeError
from dgs.model import columns
from dgs.model.events import EventBatch
from dgs.model.outputs import OutputBatch
from dgs.model.program import Program, StateType
from dgs.model.tags import Tag
from dgs.semantics import sequential
from dgs.semantics.skipped_events import DeadLetter, StateNotSavedError
from dgs.workers.protocol.folding.fold import Folder
from dgs.workers.protocol.folding.joined_windows import NOTHING
from dgs.workers.protocol.folding.skipping import Skipping
from dgs.workers.protocol.messages import Skipped
from dgs.workers.protocol.releases import Release
from dgs.workers.simulated.faults import NO_FAULTS, Faults, small_bounds
from dgs.workers.simulated.simulation import Simulated, simulate
from tests.programs import (
    BARRIER,
    INC,
    READ,
    VALUE,
    Counters,
    EchoWindow,
    EventWindow,
    SumCounters,
    WindowsAtOnce,
)
from tests.selection import rest_is_slow
from tests.strategies import Workload, random_workload
from tests.workers.simulated.test_crashes import random_layouts
from tests.workers.simulated.test_simulation import SMALL_BUFFER, events_below, random_plan


class Poison(Exception):  # noqa: N818 - what a user's program would raise
    """A payload that makes `update` raise."""


def is_poison(payload: Any) -> bool:
    return payload % 5 == 0


def poisoned(program: Program) -> Program:
    """Return a program that raises at poisonous payloads, after it has changed the state and emitted."""
    mine = type(program)
    body: dict[str, Any] = {"states": lambda self: tuple(map(_poisoned, mine.states(self)))}
    if mine.states is Program.states:  # accumulation needs the only type of `states`
        (one,) = map(_poisoned, program.states())
        names = {"update": one.update, "update_batch": one.update_batch, "update_windows": one.update_windows}
        body = {name: staticmethod(function) for name, function in names.items() if function is not None}
    made = object.__new__(type(mine.__name__, (mine,), body))
    vars(made).update(vars(program))
    return made


def _poisoned(one: StateType) -> StateType:
    def update(state: Any, event: Any, emit: Any) -> Any:
        state = one.update(state, event, emit)
        if is_poison(event.payload):
            emit("the outputs of what raises are not seen")
            raise Poison(f"{event.payload} is poison")
        return state

    def update_batch(state: Any, batch: EventBatch, emit_batch: Any) -> Any:
        state = one.update_batch(state, batch, emit_batch)  # type: ignore[misc]
        _refuse_poison(batch)
        return state

    def update_windows(batch: EventBatch, cuts: Any) -> Any:
        _refuse_poison(batch)
        return one.update_windows(batch, cuts)  # type: ignore[misc]

    return replace(
        one,
        update=update,
        update_batch=one.update_batch and update_batch,
        update_windows=one.update_windows and update_windows,
    )


def _refuse_poison(batch: EventBatch) -> None:
    if any(map(is_poison, columns.to_list(batch.payload))):
        raise Poison("there is poison in the batch")


# -- simulated runs ----------------------------------------------------------------------------------------------------


def random_faults(rnd: random.Random) -> Faults:
    return Faults(
        crashes=rnd.choice([1, 1, 2, 3, 6]),
        crash_chance=rnd.choice([0.01, 0.03, 0.1]),
        zombie_chance=rnd.choice([0.0, 0.5, 1.0]),
        repetition=rnd.choice([0.0, 0.0, 0.05, 0.1]),
        loss=rnd.choice([0.0, 0.0, 0.0, 0.02]),
    )


def run_seed(seed: int, *, is_faulty: bool) -> tuple[Workload, Simulated]:
    work = random_workload(random.Random(seed))
    work = replace(work, program=poisoned(work.program))
    streams = dict(zip(work.stream_ids, work.batches, strict=True))
    faults = random_faults(random.Random(f"faults {seed}")) if is_faulty else NO_FAULTS
    bounds = small_bounds(random.Random(f"bounds {seed}"))
    return work, simulate(
        work.program,
        random_layouts(work) if is_faulty else random_plan(work, seed),
        streams,
        seed=seed,
        buffer_bytes=SMALL_BUFFER if seed % 3 == 0 else None,
        faults=replace(faults, bounds=bounds),
        on_error="skip",
        validates=True,
    )


def check_seed(seed: int, *, is_faulty: bool) -> int:
    """Compare a simulated run with the sequential program; return how many events both left out."""
    work, run = run_seed(seed, is_faulty=is_faulty)
    expected = sequential.run(work.program, work.batches, on_error="skip")
    rows = [
        (int(ts), batch.rank, int(seq), int(index), value)
        for batch in run.outputs
        for ts, seq, index, value in zip(batch.ts, batch.seq, batch.index, batch.to_list(), strict=True)
    ]
    got = sorted((*row, codec.encode(value)) for *row, value in rows if not isinstance(value, DeadLetter))
    wanted = sorted((*o.key[:3], o.index, codec.encode(o.value)) for o in expected.outputs)
    assert got == wanted, f"seed {seed}: outputs differ"
    letters = sorted(told(value) for *_, value in rows if isinstance(value, DeadLetter))
    assert letters == sorted(map(told, expected.skipped)), f"seed {seed}: dead letters differ"
    assert codec.encode(run.state) == codec.encode(expected.state), f"seed {seed}: the final state differs"
    for state, positions in run.snapshots:
        below = events_below(work.batches, positions)
        folded = sequential.run(work.program, below, on_error="skip").state
        again = codec.encode(codec.decode(state))
        assert codec.encode(folded) == again, f"seed {seed}: a snapshot is not the fold below its positions"
    return len(letters)


def told(letter: DeadLetter) -> bytes:
    """Return the content of a letter without the worker."""
    return codec.encode(replace(letter, worker=""))


@pytest.mark.parametrize("block", rest_is_slow(range(5)))
def test_simulated_run_leaves_out_the_events_that_the_sequential_program_leaves_out(block):
    assert sum(check_seed(seed, is_faulty=False) for seed in range(block * 24, block * 24 + 24)) > 30


@pytest.mark.parametrize("block", rest_is_slow(range(5), keep=2))
def test_crashed_run_leaves_out_every_event_once(block):
    assert sum(check_seed(seed, is_faulty=True) for seed in range(block * 12, block * 12 + 12)) > 15


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_events_are_left_out_for_many_seeds(block):
    for seed in range(20_000 + block * 300, 20_300 + block * 300):
        check_seed(seed, is_faulty=seed % 2 == 0)


# -- folding -----------------------------------------------------------------------------------------------------------


def events_of(stream: str, rank: int, tags: list[Tag], rnd: random.Random, count: int) -> EventBatch:
    ts = sorted(rnd.randrange(300) for _ in range(count))
    codes = [rnd.randrange(len(tags)) for _ in range(count)]
    payload = [rnd.randint(1, 40) for _ in range(count)]
    return EventBatch.of(stream, rank=rank, tags=tags, codes=codes, ts=ts, payload=payload)


def of_the_rest(batch: EventBatch) -> EventBatch:
    """Return the events without poison."""
    return batch.take(np.flatnonzero([not is_poison(one) for one in columns.to_list(batch.payload)]))


def folded_with(program: Program, *, skips: bool = True) -> Any:
    """Return the folder of a program, with poison or without."""
    one = poisoned(program) if skips else program
    return (Skipping if skips else Folder)(one, one.states()[0], "w1")


def ids(made: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(
        (int(ts), batch.rank, int(seq), int(index), codec.encode(value))
        for batch in made
        if isinstance(batch, OutputBatch)
        for ts, seq, index, value in zip(batch.ts, batch.seq, batch.index, batch.to_list(), strict=True)
    )


def left_out(made: list[Any]) -> list[tuple[int, int]]:
    return sorted((one.letter.ts, one.letter.seq) for one in made if isinstance(one, Skipped))


def poison_of(*batches: EventBatch) -> list[tuple[int, int]]:
    return sorted(
        (int(ts), int(seq))
        for batch in batches
        for ts, seq, one in zip(batch.ts, batch.seq, columns.to_list(batch.payload), strict=True)
        if is_poison(one)
    )


@pytest.mark.parametrize("seed", rest_is_slow(range(8), keep=3))
@pytest.mark.parametrize("make", [Counters, SumCounters, EventWindow, WindowsAtOnce])
def test_run_is_folded_without_events_that_raise(make, seed):
    rnd = random.Random(seed)
    tags = [[INC(0), INC(1)], [READ(0), READ(1)]] if issubclass(make, Counters) else [[VALUE(0)], [BARRIER()]]
    batches = [events_of(f"s{i}", i, tags[i], rnd, rnd.choice([1, 5, 200])) for i in range(2)]
    others = {0: (1,), 1: (0,)}
    state, made = folded_with(make()).fold(make().init(), Release((0, 1), batches, others))
    rest = Release((0, 1), [of_the_rest(batch) for batch in batches], others)
    clean = (
        rest
        if all(map(len, rest.batches))
        else Release((0,), [b for b in rest.batches if len(b)] or batches[:0])
    )
    wanted, outputs = folded_with(make(), skips=False).fold(make().init(), clean)
    assert (codec.encode(state), ids(made)) == (codec.encode(wanted), ids(outputs))
    assert left_out(made) == poison_of(*batches)


@pytest.mark.parametrize("seed", rest_is_slow(range(8), keep=3))
@pytest.mark.parametrize("make", [SumCounters, EventWindow, WindowsAtOnce, EchoWindow])
def test_windows_are_folded_without_events_that_raise(make, seed):
    rnd = random.Random(seed)
    batch = events_of("s0", 0, [INC(0), INC(1)] if make is SumCounters else [VALUE(0)], rnd, 60)
    keys = events_of("s1", 1, [BARRIER()], rnd, 4).keys_only()
    batch = batch.cut(0, batch.position_of(keys.key(3)))

    def first() -> list[Any]:
        return [{0: 7} if make is SumCounters else 7, NOTHING, NOTHING, NOTHING]

    states, wanted = first(), first()
    made = folded_with(make()).fold_windows(states, batch, keys)
    outputs = folded_with(make(), skips=False).fold_windows(wanted, of_the_rest(batch), keys)
    assert (states, ids(made), left_out(made)) == (wanted, ids(outputs), poison_of(batch))


@pytest.mark.parametrize("seed", rest_is_slow(range(8), keep=3))
def test_events_are_folded_into_joined_states_without_those_that_raise(seed):
    rnd = random.Random(seed)
    batch = events_of("s0", 0, [READ(0), READ(1)], rnd, 6)
    parts = [
        [rnd.choice([{rnd.randrange(2): rnd.randint(1, 9)}, NOTHING]) for _ in range(6)] for _ in range(2)
    ]
    program, state, outputs = SumCounters(), {0: 3}, []
    for row, event in enumerate(batch.events()):
        for of_child in parts:
            if of_child[row] is not NOTHING:
                state = program.join(state, of_child[row])
        if not is_poison(event.payload):
            state = program.update(state, event, outputs.append)
    got, made = folded_with(program).fold_joined({0: 3}, batch, parts)
    assert got == state
    assert [value for one in made if isinstance(one, OutputBatch) for value in one.to_list()] == outputs
    assert left_out(made) == poison_of(batch)


def one_event(payload: Any, count: int = 1) -> EventBatch:
    return EventBatch.of("s", rank=0, tags=[VALUE(0)], ts=range(count), payload=[payload] * count)


class Failing(SumCounters):
    """A program whose `join` raises, and whose `update` may call it."""

    def __init__(self, *, is_called: bool) -> None:
        self.is_called = is_called

    def join(self, left: Any, right: Any) -> Any:
        raise Poison("these cannot be joined")

    def update(self, state: Any, event: Any, emit: Any) -> Any:
        return self.join(state, event.payload) if self.is_called else state


def test_join_that_raises_stops_the_run():
    program = Failing(is_called=False)
    folder = Skipping(program, program.states()[0], "w1")
    with pytest.raises(UserCodeError, match="join of program Failing raised Poison"):
        folder.fold_joined({}, one_event(1), [[{}]])


def test_update_that_raises_in_its_own_join_is_left_out():
    program = Failing(is_called=True)
    for count in (1, 3):
        state, made = Skipping(program, program.states()[0], "w1").fold(
            {}, Release((0,), [one_event(1, count)])
        )
        assert (state, [one.letter.function for one in made]) == ({}, ["update"] * count)


class Odd(Program):
    """A program whose states are odd."""

    def init(self) -> Any:
        return {}

    def update(self, state: Any, event: Any, emit: Any) -> Any:
        return print if event.payload == "odd" else {}


def test_state_that_cannot_be_copied_stops_the_run_with_a_word():
    folder = Skipping(Odd(), Odd().states()[0], "w7")
    state, _ = folder.fold({}, Release((0,), [one_event("odd")]))
    with pytest.raises(
        StateNotSavedError, match=r"needs a copy of every state of program Odd.*\(worker w7\): .*"
    ):
        folder.fold(state, Release((0,), [one_event(1)]))


def test_update_batch_that_raises_where_update_does_not_leaves_nothing_out():
    class Slow(Counters):
        def update_batch(self, state: Any, batch: EventBatch, emit_batch: Any) -> Any:
            raise Poison("not today")

    batch = EventBatch.of("s", rank=0, tags=[INC(0)], ts=range(100), payload=[1] * 100)
    state, made = Skipping(Slow(), Slow().states()[0], "w1").fold({}, Release((0,), [batch]))
    assert (state, made) == ({0: 100}, [])
