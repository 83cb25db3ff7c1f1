"""Programs without their vectorised methods."""

from dgs import Dependence, Program, StateType, TagSet
from dgs.semantics.sequential import without_batches


class Scaled(Program):
    def __init__(self, scale):
        self.scale = scale

    def init(self):
        return 0

    def update(self, state, event, emit):
        return state + self.scale

    def update_batch(self, state, batch, emit_batch):
        raise AssertionError


class Typed(Scaled):
    def states(self):
        return (StateType("own", TagSet.everything(), self.update, self.update_batch),)


def test_copy_keeps_the_arguments_of_the_program():
    slower = without_batches(Scaled(3))
    assert isinstance(slower, Scaled)
    assert slower.states()[0].update(1, None, None) == 4


def test_original_stays_vectorised():
    program = Scaled(3)
    without_batches(program)
    assert program.is_vectorised


def test_states_of_its_own_lose_their_batches_too():
    assert Typed(1).is_vectorised
    (state,) = without_batches(Typed(1)).states()
    assert (state.name, state.update_batch) == ("own", None)


def test_optional_methods_count_as_not_given():
    assert not without_batches(Scaled(1)).gives("update_batch")


class Sums(Scaled):
    depends = Dependence()
    accumulates = ("value",)

    def identity(self):
        return 0

    def join(self, left, right):
        return left + right


def test_copy_accumulates_as_the_program_does():
    slower = without_batches(Sums(1))
    assert slower.accumulating == {"value"}
    assert len(slower.fork_joins()) == 1
