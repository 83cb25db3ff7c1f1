"""The choice between compiled and interpreted folds by their times: the cheaper one is chosen, and outputs do not depend on the choice."""

import random

import pytest

from dgs.compiled import cheaper_way
from dgs.compiled.cheaper_way import (
    COMPILED_FIRST,
    FEWEST_FIRST,
    FEWEST_HOLD_FOR,
    HOLDS_FOR,
    INTERPRETED_NEXT,
    LARGE_FIRST,
    LARGE_HOLDS_FOR,
    MOST_EVENTS,
    PIECE,
    CheaperWay,
)
from dgs.compiled.compiled_update import CompiledUpdate
from dgs.workers.protocol.bounds import Bounds
from dgs.workers.protocol.folding.fold import Folder
from tests.dgs.compiled.both_ways import by_python, program_of
from tests.dgs.compiled.random_dict_programs import DictWriter
from tests.dgs.compiled.test_merged_lanes import by_key, lanes_of, release_of, sequential

MEASURED = COMPILED_FIRST + INTERPRETED_NEXT


class Work:
    """Folds that take given seconds by a simulated clock. `done`: which folds were compiled."""

    def __init__(self, compiled, interpreted):
        self.compiled, self.interpreted = compiled, interpreted
        self.now, self.done = 0, []

    def fold(self, is_compiled):
        self.now += self.compiled if is_compiled else self.interpreted
        self.done.append(is_compiled)
        return None, is_compiled


@pytest.mark.parametrize(("compiled", "interpreted"), [(1, 2), (2, 1)])
def test_the_cheaper_way_is_taken(compiled, interpreted):
    work = Work(compiled, interpreted)
    ways = CheaperWay(clock=lambda: work.now)
    for _ in range(MEASURED + 50):
        ways.folded(100, work.fold)
    assert set(work.done[MEASURED:]) == {compiled < interpreted}


def test_both_ways_are_measured_again():
    work = Work(2, 1)
    ways = CheaperWay(clock=lambda: work.now)
    for _ in range(MEASURED + HOLDS_FOR + 1):
        ways.folded(100, work.fold)
    work.compiled, work.done = 0.5, []
    for _ in range(MEASURED + 1):
        ways.folded(100, work.fold)
    assert work.done[-1] is True


def test_sizes_are_chosen_for_apart_and_large_releases_are_compiled():
    work = Work(2, 1)
    ways = CheaperWay(clock=lambda: work.now)
    for _ in range(MEASURED + 1):
        ways.folded(100, work.fold)
    ways.folded(1000, work.fold)
    ways.folded(MOST_EVENTS + 1, work.fold)
    assert work.done[-3:] == [False, True, True]


def test_sizes_up_to_one_that_is_far_dearer_are_interpreted_soon():
    work = Work(300, 1)
    ways = CheaperWay(clock=lambda: work.now)
    ways.known = 1.0
    for _ in range(FEWEST_FIRST + 1):
        ways.folded(100, work.fold)
    ways.folded(10, work.fold)
    ways.folded(1000, work.fold)
    assert work.done == [True] * FEWEST_FIRST + [False, False, True]
    work.compiled, work.done = 0.5, []
    for _ in range(2 * (FEWEST_HOLD_FOR + COMPILED_FIRST)):
        ways.folded(100, work.fold)
    assert work.done[-1] is True


def test_a_size_that_is_not_far_dearer_is_measured_in_both_ways():
    work = Work(150, 100)
    ways = CheaperWay(clock=lambda: work.now)
    ways.known = 1.0
    for _ in range(MEASURED):
        ways.folded(100, work.fold)
    assert work.done == [True] * COMPILED_FIRST + [False] * INTERPRETED_NEXT


@pytest.mark.parametrize(("times", "is_compiled"), [(1.5, True), (2.5, False)])
def test_large_releases_are_interpreted_if_the_first_events_took_far_less(times, is_compiled):
    work = Work(times * (PIECE + 1), PIECE + 1)
    ways = CheaperWay(clock=lambda: work.now)
    ways.known = 1.0
    folded_large(work, ways, LARGE_FIRST + 1)
    assert work.done == [True] * LARGE_FIRST + [is_compiled]


def folded_large(work, ways, releases):
    for _ in range(releases):
        ways.folded(PIECE + 1, work.fold)


def test_large_releases_are_interpreted_if_that_was_cheaper_before_the_loop_was_there():
    work = Work(2, 1)
    ways = CheaperWay(clock=lambda: work.now)
    ways.folded(PIECE + 1, lambda _: work.fold(is_compiled=False))  # the loop is not ready
    work.done = []
    folded_large(work, ways, LARGE_FIRST + LARGE_HOLDS_FOR)
    assert work.done == [True] * LARGE_FIRST + [False] * LARGE_HOLDS_FOR
    work.compiled, work.done = 0.5, []
    folded_large(work, ways, 50)
    assert set(work.done) == {True}


@pytest.mark.parametrize(
    ("compiled", "more"), [(3, [False] * 3), (1.5, [True] * LARGE_FIRST + [False]), (1, [True] * 3)]
)
def test_machine_code_is_tried_on_pieces_of_large_releases(compiled, more):
    large, work = 100_000, Work(PIECE * compiled, PIECE)
    ways = CheaperWay(clock=lambda: work.now)
    ways.folded(PIECE, lambda _: work.fold(is_compiled=False))  # the loop is not ready
    while (size := ways.piece_of(large)) is not None:
        ways.folded(size, work.fold)
    assert work.done == [False] + [True] * LARGE_FIRST
    work.done, work.compiled, work.interpreted = [], large * compiled, large
    for _ in range(3):
        assert ways.piece_of(large) is None
        ways.folded(large, work.fold)
    assert work.done == more


@pytest.mark.parametrize("seed", range(16))
def test_outputs_are_those_of_update_where_machine_code_is_tried_on_pieces(seed, monkeypatch):
    monkeypatch.setattr(cheaper_way, "MOST_EVENTS", 1)
    monkeypatch.setattr(cheaper_way, "PIECE", 4)
    test_outputs_are_those_of_update_under_any_choice(seed)


@pytest.mark.parametrize("seed", range(4))
def test_outputs_are_those_of_update_under_any_choice(seed):
    draw, writer = random.Random(seed), DictWriter(seed)
    program = program_of(writer.dict_program())
    update = program.states()[0].update
    folder = Folder(program, program.states()[0], "w", Bounds(few_events=0))
    folder._compiled = CompiledUpdate(update, folder._loop.fold_batch, translate=by_python)
    folder._cheaper = CheaperWay(clock=draw.random)
    for _ in range(MEASURED + 10):
        lanes, batches = lanes_of(writer, draw, with_keys=True)
        wanted = sequential(program, batches, program.init())
        if not isinstance(wanted[1], dict):
            continue  # it raises: see test_merged_lanes
        state, _ = folder.fold(program.init(), release_of(lanes, batches))
        assert by_key(state) == wanted[0]
