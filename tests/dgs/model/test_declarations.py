"""Declarations of a program: kinds, a relation, and access to events without declared kinds."""

import pytest

import dgs
from dgs.errors import ProgramError
from dgs.model.declarations import check_declarations, near_misses

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")


def made(**parts):
    """Make a program with these attributes and methods."""
    methods = {"init": lambda self: 0, "update": lambda self, state, event, emit: state}
    return type("Made", (dgs.Program,), {**methods, **parts})()


def refused(program):
    with pytest.raises(ProgramError) as caught:
        check_declarations(program)
    return str(caught.value)


def unpacks(self, state, event, emit):
    _tag, *_ = event
    return state


def hands_on(self, state, event, emit):
    emit(event)
    return state


def closes_over(self, state, event, emit):
    return [event.payload for _ in range(2) if event.ts]


def reads_payload(self, state, event, emit):
    emit(event.payload + event.ts)
    return state, event.stream


def of_batch(self, state, batch, emit_batch):
    return state + batch.payload.sum()


def tags_of_batch(self, state, batch, emit_batch):
    return state + len(batch.tags)


LOOKS = (
    lambda self, state, event, emit: event.tag.kind,
    lambda self, state, event, emit: event[0],
    lambda self, state, *rest: rest,
    unpacks,
    hands_on,
)


@pytest.mark.parametrize("update", LOOKS, ids=range(len(LOOKS)))
def test_a_program_that_names_no_kinds_may_not_look_at_tags(update):
    assert "`update` looks at" in refused(made(update=update))
    check_declarations(made(update=update, kinds=(VALUE,)))
    check_declarations(made(update=update, kinds=dgs.ANY))


@pytest.mark.parametrize("update", [reads_payload, lambda self, state, event, emit: state + 1])
def test_a_program_that_names_no_kinds_may_read_the_rest_of_an_event(update):
    check_declarations(made(update=update))


def test_batches_are_events():
    check_declarations(made(update_batch=of_batch))
    assert "`update_batch` looks at" in refused(made(update_batch=tags_of_batch))


def test_an_event_in_a_closure_may_be_used_anyhow():
    def inner(self, state, event, emit):
        return lambda: event

    assert "`update` looks at" in refused(made(update=inner))


@pytest.mark.parametrize(
    "name", ["dependence", "name", "kind", "is_vectorised", "accumulating", "all_kinds", "_declared_kinds"]
)
def test_names_that_dgs_keeps_for_itself_are_refused_where_they_are_given(name):
    with pytest.raises(
        ProgramError, match=f"`{name}` is a name that dgs keeps for itself: (call it otherwise|which events)"
    ):
        made(**{name: lambda self, a, b: True})
    with pytest.raises(ProgramError, match=f"program Made: `{name}` is a name that dgs keeps for itself"):
        setattr(made(), name, 5)
    program = made()
    setattr(type(program), name, 5)
    assert f"`{name}` is a name that dgs keeps for itself" in refused(program)


@pytest.mark.parametrize("name", ["states", "fork_joins", "update", "join"])
def test_a_value_in_place_of_a_method_is_refused(name):
    with pytest.raises(
        ProgramError, match=f"`{name}` is a method of every program, and here a value of type dict"
    ):
        made(**{name: {}})
    with pytest.raises(ProgramError, match="of type dict: call it otherwise, such as `my_"):
        setattr(made(), name, {})
    program = made()
    setattr(type(program), name, {})
    assert f"`{name}` is a method of every program" in refused(program)
    assert made(join=staticmethod(max), init=classmethod(lambda cls: 0)).init() == 0


@pytest.mark.parametrize("name", ["states", "fork_joins"])
def test_states_and_forks_of_other_types_are_refused(name):
    assert f"its `{name}` must return a tuple of dgs." in refused(made(**{name: lambda self: ["state"]}))
    assert f"`{name}` must return a tuple" in refused(made(**{name: lambda self: None}))


def test_a_program_without_state_types_is_refused():
    assert "its `states` returns no dgs.StateType" in refused(made(states=lambda self: ()))


def test_a_class_may_give_its_programs_another_name():
    assert made(name="Others").name == "Others"


def test_kinds_that_are_no_tuple_of_kinds():
    assert "write `kinds = (value,)`, with a comma" in refused(made(kinds=VALUE))
    assert "write `accumulates = (value,)`, with a comma" in refused(made(accumulates="value"))
    assert 'write `dgs.kind("value")`' in refused(made(kinds=("value",)))
    assert "must be a tuple of kinds, not set" in refused(made(kinds={VALUE}))


@pytest.mark.parametrize(
    "depends",
    ["everything", lambda a: True, lambda self, a, b, c: True, staticmethod(lambda a: True)],
    ids=["text", "one", "four", "static"],
)
def test_a_relation_that_does_not_take_two_tags(depends):
    assert "a function of two tags" in refused(made(kinds=(VALUE,), depends=depends))


@pytest.mark.parametrize(
    "depends",
    [
        lambda a, b: True,
        lambda self, a, b: True,
        staticmethod(lambda a, b: True),
        dgs.Dependence.everything(),
    ],
    ids=["plain", "method", "static", "rules"],
)
def test_a_relation_that_takes_two_tags(depends):
    program = made(kinds=(VALUE,), depends=depends)
    check_declarations(program)
    assert program.dependence(VALUE(), VALUE())


def test_the_kinds_of_a_program_are_those_it_names_anywhere():
    program = made(
        kinds=(dgs.kind("other", key=int),),
        accumulates=("sum",),
        depends=dgs.Dependence((BARRIER, VALUE, dgs.ALWAYS)),
    )
    assert [program.kind_problem(name) for name in ("barrier", "value", "sum", "other")] == [None] * 4
    assert program.kind_problem("valeu") == "program Made has no kind 'valeu'; did you mean 'value'?"
    assert "it has barrier, other, sum, value" in program.kind_problem("x")
    assert made(kinds=dgs.ANY, accumulates=("sum",)).kind_problem("x") is None


def test_an_inherited_relation_and_one_of_an_instance():
    class Over(dgs.Program):
        kinds = (VALUE,)
        depends = lambda a, b: True  # noqa: E731

    class Under(Over):
        def init(self):
            return 0

        def update(self, state, event, emit):
            return state

    program = Under()
    check_declarations(program)
    program.depends = dgs.Dependence.everything()
    check_declarations(program)
    program.depends = lambda a: True
    assert "cannot be called with two tags" in refused(program)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("jion", "join"),
        ("forks", "fork"),
        ("depend", "depends"),
        ("accumulate", "accumulates"),
        ("identiy", "identity"),
        ("udpate_batch", "update_batch"),
        ("join_states", "join"),
    ],
)
def test_a_name_similar_to_that_of_a_part_is_reported(written, meant):
    [told] = near_misses(made(**{written: 1}))
    assert told == f"Made.{written} is not a part of a program, and nothing calls it: is `{meant}` meant?"
    assert near_misses(made(**{written: len, meant: len})) == []


def test_parts_and_other_names_are_not_reported():
    assert near_misses(made(join=len, fork=len, price=3, helper=1, _jion=1)) == []


def test_parts_of_ready_programs_count_too():
    from dgs.keyed import KeyedState

    class Orders(KeyedState):
        change = (VALUE,)

    assert ["is `changes` meant?" in line for line in near_misses(Orders())] == [True]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"init": len},
            "class Made has no method `update(self, state, event, emit)`, which every program needs",
        ),
        ({"update": len}, "class Made has no method `init(self)`, which every program needs"),
        ({"update": len, "init_state": len}, "needs; is `init_state` meant to be it?"),
        ({"init": len, "updates": len}, "needs; is `updates` meant to be it?"),
    ],
)
def test_missing_methods_are_named(given, told):
    assert told in refused(type("Made", (dgs.Program,), given)())


@pytest.mark.parametrize("when", ["same_key", None, lambda a: True, lambda a, b, c: True])
def test_a_rule_whose_condition_does_not_take_two_tags(when):
    assert "the rule of `depends` for 'barrier' and 'value'" in refused(
        made(depends=dgs.Dependence((BARRIER, VALUE, when)))
    )


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ("def update(self, state, event, emit): yield event.payload", "its `update` has a `yield`, so a call does nothing: return the result, and give outputs with `emit"),
        ("async def update(self, state, event, emit): return 0", "its `update` is `async`, so a call does nothing: write `def update`"),
        ("def join(self, left, right): yield left", "its `join` has a `yield`, so a call does nothing: return the result"),
    ],
)  # fmt: skip
def test_an_async_or_generator_method_is_refused(methods, said):
    names = {}
    exec(methods, names)
    plain = {"init": lambda _: 0, "update": lambda _self, state, _event, _emit: state}
    program = type(
        "Lazy", (dgs.Program,), plain | {k: v for k, v in names.items() if not k.startswith("_")}
    )()
    with pytest.raises(ProgramError) as caught:
        check_declarations(program)
    assert said in str(caught.value)
