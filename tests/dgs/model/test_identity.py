"""Identities of programs: equal if a saved state has the same meaning; otherwise they list the differences."""

import pytest

from dgs import codec
from dgs.errors import UserCodeError
from dgs.model.dependence import ALWAYS, SAME_KEY, Dependence
from dgs.model.identity import LONGEST_PART, identity_of, migration
from dgs.model.program import ForkJoin, Program, StateType
from dgs.model.tag_sets import TagSet
from dgs.model.tags import kind
from tests.programs import ChainHistory, Counters

VALUE, BARRIER = kind("value", key=(1, 2)), kind("barrier")


class Sums(Program):
    depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))
    accumulates = (VALUE,)

    def init(self):
        return 0

    def update(self, state, event, emit):
        return state + event.payload

    def identity(self):
        return 0

    def join(self, left, right):
        return left + right


def changed(**attributes):
    """Make a program of the same name with other attributes."""
    return type("Sums", (Sums,), attributes)()


SAVED = identity_of(Sums(), ["a", "b"])


def difference(program=None, streams=("a", "b")):
    return SAVED.difference(identity_of(program or Sums(), streams))


def test_identity_of_equal_programs_is_equal_whatever_their_code_is():
    same = changed(update=lambda self, state, event, emit: state - event.payload)
    assert identity_of(same, ["a", "b"]) == SAVED
    assert identity_of(same, ["a", "b"]).digest == SAVED.digest
    assert not difference(same)


def test_identity_does_not_depend_on_the_order_of_rules_or_of_their_sides():
    turned = Dependence((VALUE, BARRIER, ALWAYS), (BARRIER, BARRIER, ALWAYS))
    assert identity_of(changed(depends=turned), ["a", "b"]).digest == SAVED.digest


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (changed(version=2), "version: 1 there, 2 here"),
        (changed(accumulates=()), "accumulating kinds: value there, none here"),
        (
            changed(depends=Dependence((BARRIER, VALUE, ALWAYS))),
            "dependence of 'barrier' and 'barrier': always there, nothing here",
        ),
        (
            changed(depends=Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, SAME_KEY))),
            "dependence of 'barrier' and 'value': always there, same key here",
        ),
        (
            changed(
                depends=Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, "value", ALWAYS)),
                accumulates=(kind("value", key=int),),
            ),
            "kind 'value': one of 1, 2 there, keys of type int here",
        ),
        (
            changed(states=lambda self: (StateType("state", TagSet.of(VALUE), self.update),)),
            "state type 'state': handles {...} there, handles {value(1), value(2)} here",
        ),
        (
            changed(
                fork=lambda self, *_: None,
                fork_joins=lambda self: (
                    ForkJoin("fork", "state", "state", "other", self.fork, self.join),
                ),
            ),
            "fork 'fork': state to state and state there, state to state and other here",
        ),
        (Counters(), "program: Sums there, Counters here"),
    ],
)  # fmt: skip
def test_difference_names_what_differs_with_both_sides(program, line):
    assert line in difference(program)
    assert identity_of(program, ["a", "b"]).digest != SAVED.digest


def test_difference_shows_another_order_of_streams():
    assert difference(streams=["b", "a"]) == ["streams in order: 'a', 'b' there, 'b', 'a' here"]


def test_identity_of_a_functional_dependence_is_its_relation_not_its_code():
    class Wider(ChainHistory):
        def depends(self, a, b):
            return abs(a.key - b.key) <= 2

    class Same(ChainHistory):
        def depends(self, a, b):
            return a.key - b.key in (-1, 0, 1)

    saved, wider, same = (
        identity_of(program, ["s"]).parts for program in (ChainHistory(), Wider(), Same())
    )  # fmt: skip
    assert saved == same
    assert saved != wider


def test_identity_of_a_predicate_over_unbounded_keys_names_it_only():
    relation = Dependence((kind("a", key=int), kind("a", key=int), lambda a, b: a.key == b.key))
    parts = identity_of(changed(depends=relation, accumulates=()), ["s"]).parts
    assert parts["dependence of 'a' and 'a'"] == "as a function says"


def test_long_parts_are_shortened_and_still_differ():
    def parts(last):
        return identity_of(changed(kinds=(kind("k", key=(*range(1000), last)),)), ["s"]).parts["kind 'k'"]

    assert len(parts(1000)) < 2 * LONGEST_PART
    assert parts(1000) != parts(1001)


def test_another_version_differs_from_another_program():
    newer = identity_of(changed(version=2), ["a", "b"])
    assert SAVED.is_other_version_of(newer)
    assert not SAVED.is_other_version_of(SAVED)
    assert not SAVED.is_other_version_of(identity_of(changed(version=2), ["b", "a"]))


def test_identity_survives_the_codec():
    assert codec.decode(codec.encode(SAVED)) == SAVED


def test_migration_is_the_programs_own_if_it_gives_one():
    assert migration(Sums()) is None
    migrate = migration(changed(migrate=lambda self, state, from_version: (state, from_version)))
    assert migrate(7, 1) == (7, 1)


def test_exception_of_a_migration_is_an_error_of_user_code():
    migrate = migration(changed(migrate=lambda self, state, from_version: state["missing"]))
    with pytest.raises(UserCodeError, match="migrate of program Sums raised TypeError"):
        migrate(7, 1)
