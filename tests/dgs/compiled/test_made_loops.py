"""Counts of the loops of a worker: compiled for it, or from the cache."""

from dgs.compiled import loop_files
from dgs.compiled.loop_files import MadeLoops
from tests.dgs.compiled.both_ways import Compiled, batch_of, program_of

TEXT = "class P(dgs.Program):\n    def init(self): return 0\n    def update(self, state, event, emit):\n        return state + event.payload\n"


def test_a_loop_is_compiled_for_the_first_worker_and_cached_for_the_next(machine):
    for counts in ((1, 0), (0, 1)):
        loops = MadeLoops(machine)
        Compiled(program_of(TEXT), loops).fold(batch_of(list(range(9))), 0, [3, 6])
        assert (loops.compiled, loops.cached) == counts
        assert (loops.seconds > 0) == bool(counts[0])


def test_a_loop_that_was_waited_for_is_no_cached_one(machine, monkeypatch):
    monkeypatch.setattr(loop_files, "AGAIN", 0.0)
    answers = iter([False, True])
    loops = MadeLoops(lambda text: machine(text) if next(answers) else None)
    Compiled(program_of(TEXT), loops).fold(batch_of(list(range(9))), 0, [3])
    assert (loops.compiled, loops.cached) == (1, 0)
