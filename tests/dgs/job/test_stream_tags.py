"""The tags that may arrive on a stream, according to plan.yaml and the program."""

import pytest

from dgs.errors import PlanFileError
from dgs.job.schema import StreamConfig
from dgs.job.stream_tags import declared_tags, literal_tag
from dgs.model.dependence import ALWAYS, Dependence
from dgs.model.key_sets import KeySet
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import ANY, Tag, kind

VIEW, SIDE, BARRIER = kind("view", key=str), kind("side", key=("l", "r")), kind("barrier")
KEY = {"column": "k"}


class Kinds(Program):
    depends = Dependence((BARRIER, "loose", ALWAYS))
    kinds = (VIEW, SIDE)


def config(tags):
    return StreamConfig(id="s", tags=tags, source={"memory": "s"})


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"kind": "barrier"}, TagSet.of(BARRIER())),
        ({"kind": "side", "key": "l"}, TagSet.of(SIDE("l"))),
        ({"kind": "side", "key": KEY}, TagSet.of(SIDE("l"), SIDE("r"))),
        ({"kind": "view", "key": "home"}, TagSet.of(VIEW("home"))),
        ({"kind": "view", "key": KEY}, TagSet.from_kinds({"view": KeySet.all()})),
        ({"kind": "loose"}, TagSet.of(Tag("loose"))),
        ({"kind": "loose", "key": 3}, TagSet.of(Tag("loose", 3))),
        ({"kind": {"column": "c"}, "key": KEY}, TagSet.of(VIEW, SIDE, BARRIER, "loose")),
        ({"kind": {"column": "c"}, "key": KEY, "kinds": ["side", "barrier"]}, TagSet.of(SIDE, BARRIER)),
        ({"kind": {"column": "c"}, "key": "l", "kinds": ["side", "barrier"]}, TagSet.of(SIDE("l"), BARRIER)),
        (["barrier"], TagSet.of(BARRIER)),
        (["view", {"kind": "side", "key": "r"}], TagSet.of(VIEW, SIDE("r"))),
        ([{"kind": "side"}, "barrier"], TagSet.of(SIDE, BARRIER)),
    ],
)
def test_declared_tags_are_those_that_may_arrive(tags, expected):
    assert declared_tags(config(tags), Kinds()) == expected


def test_kind_from_a_column_of_a_program_without_kinds_may_be_anything():
    assert declared_tags(config({"kind": {"column": "c"}}), Program()) == TagSet.everything()


def test_kind_from_a_column_of_a_program_with_open_kinds_may_be_anything():
    class Open(Kinds):
        kinds = ANY

    assert declared_tags(config({"kind": {"column": "c"}}), Open()) == TagSet.everything()
    assert declared_tags(config({"kind": "new", "key": 3}), Open()) == TagSet.of(Tag("new", 3))


KEYLESS = (
    "kind 'barrier' takes no key, but `key:` is given: declare its keys in the program, such as "
    '`dgs.kind("barrier", key=str)`, or leave `key:` out'
)


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        ({"kind": "veiw"}, "program Kinds has no kind 'veiw'; did you mean 'view'?"),
        (["barrier", "loos"], "program Kinds has no kind 'loos'; did you mean 'loose'?"),
        (
            {"kind": {"column": "c"}, "kinds": ["other"]},
            "program Kinds has no kind 'other'; it has barrier, loose, side, view, and its `kinds` may name more",
        ),
        ({"kind": "barrier", "key": KEY}, KEYLESS),
        (["barrier", {"kind": "barrier", "key": 1}], KEYLESS),
        ({"kind": "view"}, "kind 'view' has keys: say `key: {column: NAME}` or give the key"),
        ({"kind": "side", "key": "x"}, "'x' is not a key of kind 'side', whose keys are ['l', 'r']"),
        ({"kind": "view", "key": 7}, "key 7 of kind 'view' must be str, not int"),
        (
            [{"kind": "view", "key": KEY}],
            "a list of tags holds literal tags; for tags read from columns write one mapping",
        ),
    ],
)
def test_tags_that_contradict_the_program_are_refused(tags, problem):
    with pytest.raises(PlanFileError) as caught:
        declared_tags(config(tags), Kinds())
    assert str(caught.value) == f"stream 's', tags: {problem}"


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"kind": "barrier"}, Tag("barrier")),
        ({"kind": "side", "key": "l"}, Tag("side", "l")),
        (["barrier"], Tag("barrier")),
        ([{"kind": "view", "key": "home"}], Tag("view", "home")),
        (["view"], None),
        (["side"], None),
        (["barrier", {"kind": "side", "key": "l"}], None),
        ({"kind": "view", "key": KEY}, None),
        ({"kind": {"column": "c"}}, None),
    ],
)
def test_literal_tag_is_the_one_written_in_the_plan_file(tags, expected):
    assert literal_tag(config(tags), Kinds()) == expected


def test_program_kinds_are_all_that_the_program_names():
    found = Kinds().all_kinds()
    assert list(found) == ["barrier", "loose", "side", "view"]
    assert found["side"].domain == ("l", "r")
