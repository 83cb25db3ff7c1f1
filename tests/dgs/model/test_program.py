"""Programs: their methods, the derived parts, and errors."""

from typing import Generic, TypeVar

import pytest

import dgs
from dgs.errors import AsymmetricDependenceError, ProgramError
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.program import Program, StateType
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag, kind
from tests.programs import (
    BARRIER,
    VALUE,
    ChainHistory,
    Counters,
    EventWindow,
    History,
    LastValueJoin,
    Neighbours,
    SmartHome,
)

FINITE, UNKEYED, ANY = kind("f", key=(1, 2)), kind("u"), kind("any", key=str)


class Nothing(Program):
    pass


def test_a_program_that_declares_nothing_depends_on_everything():
    assert Nothing().dependence(Tag("a"), Tag("b"))
    assert Nothing().fork_joins() == ()
    assert not Nothing().accumulating


def test_naming_the_types_of_state_and_outputs_changes_nothing_at_run_time():
    class Typed(Program[int, str]):
        pass

    class OnlyState(Program[int]):
        pass

    assert Typed.__bases__ == OnlyState.__bases__ == Nothing.__bases__ == (Program,)
    assert vars(Typed()) == vars(Nothing()) == {}
    assert not Typed().gives("update_batch")


def test_a_program_of_any_state_may_leave_its_types_open_for_subclasses():
    State = TypeVar("State")

    class Open(Program[State, str], Generic[State]):
        pass

    class Closed(Open[int]):
        pass

    assert Closed.__mro__[:3] == (Closed, Open, Program)


def test_gives_is_true_for_methods_that_a_program_overrides():
    assert Counters().gives("update_batch")
    assert not History().gives("update_batch")
    assert not EventWindow().gives("fork")
    assert EventWindow().gives("join")


def test_states_is_one_type_that_handles_everything():
    (only,) = Counters().states()
    assert (only.name, only.handles) == ("state", TagSet.everything())
    assert only.update_batch is not None
    assert History().states()[0].update_batch is None
    assert [state_type.name for state_type in SmartHome().states()] == ["home", "sum", "fold"]


def test_fork_joins_is_the_pair_the_program_gives():
    (pair,) = LastValueJoin().fork_joins()
    assert (pair.name, pair.parent, pair.left, pair.right) == ("fork", "state", "state", "state")
    assert not LastValueJoin().has_derived_fork


def test_the_derived_fork_gives_the_state_to_the_side_that_does_not_accumulate():
    program = EventWindow()
    (pair,) = program.fork_joins()
    values, barriers = TagSet.of(VALUE), TagSet.of(BARRIER)
    assert program.has_derived_fork
    assert pair.fork(7, values, barriers) == (0, 7)
    assert pair.fork(7, barriers, values) == (7, 0)
    assert pair.fork(7, values, values) == (7, 0)


def test_the_derived_fork_refuses_two_sides_that_do_not_accumulate():
    class Two(EventWindow):
        depends = Dependence(("b1", VALUE, ALWAYS), ("b2", VALUE, ALWAYS))

    (pair,) = Two().fork_joins()
    with pytest.raises(ProgramError, match="give a fork"):
        pair.fork(7, TagSet.of("b1"), TagSet.of("b2"))


def test_kinds_that_depend_on_each_other_do_not_accumulate():
    class Ordered(EventWindow):
        depends = Dependence((VALUE, VALUE, SAME_KEY))

    assert EventWindow().accumulating == {"value"}
    assert Ordered().accumulating == frozenset()
    assert Ordered().fork_joins() == ()
    assert not Ordered().has_derived_fork


def test_without_an_identity_nothing_accumulates():
    class NoIdentity(Program):
        depends = EventWindow.depends
        accumulates = (VALUE,)

        def join(self, left, right):
            return left + right

    assert NoIdentity().accumulating == frozenset()


def near(a, b):
    return abs(a.key - b.key) <= 1


class ByFunction(Program):
    kinds = (kind("cell", key=range(4)),)
    depends = near


class ByStaticMethod(ByFunction):
    depends = staticmethod(near)


class ByMethod(ByFunction):
    reach = 1

    def depends(self, a, b):
        return abs(a.key - b.key) <= self.reach


class ByInstance(ByFunction):
    def __init__(self):
        self.depends = near


@pytest.mark.parametrize("make", [ByFunction, ByStaticMethod, ByMethod, ByInstance])
def test_dependence_may_be_a_function_of_two_tags(make):
    relation = make().dependence
    for a in range(4):
        for b in range(4):
            assert relation(Tag("cell", a), Tag("cell", b)) == (abs(a - b) <= 1)


def test_dependence_given_in_the_constructor_wins():
    assert not History(Dependence()).dependence(Tag("a"), Tag("a"))
    assert ChainHistory().dependence(Tag("item", 1), Tag("item", 2))
    assert not Neighbours().dependence(Tag("cell", 1), Tag("cell", 3))


@pytest.mark.parametrize(
    ("kinds", "problem"),
    [((), "needs `kinds"), ((ANY,), "'any' is unbounded"), ((FINITE, ANY), "'any' is unbounded")],
)
def test_a_functional_dependence_needs_finite_kinds(kinds, problem):
    program = type("Some", (Program,), {"kinds": kinds, "depends": lambda self, a, b: True})()
    with pytest.raises(ProgramError) as caught:
        program.dependence  # noqa: B018
    assert problem in str(caught.value)


def test_a_functional_dependence_must_be_symmetric():
    class Before(Program):
        kinds = (FINITE, UNKEYED)

        def depends(self, a, b):
            return (a.key or 0) < (b.key or 0)

    with pytest.raises(AsymmetricDependenceError):
        Before().dependence  # noqa: B018


def test_kind_finds_declarations_wherever_they_are():
    class Declares(Program):
        kinds = (FINITE,)
        depends = Dependence((ANY, "loose", ALWAYS))

    assert Declares().kind("f").domain == (1, 2)
    assert Declares().kind("any").domain is str
    assert Declares().kind("loose").domain is object
    assert EventWindow().kind("value").domain is int


@pytest.mark.parametrize("method", ["init", "identity"])
def test_methods_that_a_program_does_not_give_raise(method):
    with pytest.raises(NotImplementedError):
        getattr(Nothing(), method)()


@pytest.mark.parametrize("identity", [1, -1])
def test_program_whose_identity_is_not_neutral_runs_as_an_ordinary_one(identity):
    class Biased(EventWindow):
        def identity(self):
            return identity

    assert Biased().accumulating == frozenset()
    assert Biased().fork_joins() == ()
    streams = {"b": [(BARRIER(), 5, 0)], "v": [(VALUE(0), 1, 3)], "w": [(VALUE(1), 2, 4)]}
    run = dgs.run(Biased(), streams=streams)
    assert (run.outputs, len(run.plan)) == ([7], 1)


def test_nothing_accumulates_in_a_program_of_several_state_types():
    class Typed(EventWindow):
        def states(self):
            return (StateType("whole", TagSet.everything(), self.update),)

    assert Typed().accumulating == frozenset()
