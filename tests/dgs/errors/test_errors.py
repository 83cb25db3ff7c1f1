"""Errors: sentences are made of facts, errors can be sent to other processes, and codes are unique."""

import pickle
import re
import traceback

import pytest

from dgs import errors
from dgs.errors import CodecError, DgsError, OutOfOrderError, UserCodeError
from dgs.errors.as_data import as_data
from dgs.errors.hidden_values import forget, hide
from dgs.model.events import Event
from dgs.model.order import OrderKey
from dgs.model.program import Program
from dgs.model.tags import Tag
from dgs.model.user_code import LONGEST_REPR, user_error
from dgs.query.errors import QueryError, Span

CLASSES = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, DgsError)]
FACT = re.compile(r"(?<!\{)\{([a-z_]+)")


def with_facts(cls):
    """Make an error with a value for every fact its sentence names."""
    return cls(**{name: f"<{name}>" for name in FACT.findall(cls.template + cls.fix)})


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_sentence_can_be_built_and_shows_all_facts(cls):
    error = with_facts(cls)
    text = str(error)
    for name, value in error.facts.items():
        assert value in text
        assert getattr(error, name) == value
    assert not re.search(r"[{}]{2}", text)
    assert not text.endswith("..")


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("value", ["y" * 5_000, "some words " * 500, "a/long/path/" * 500], ids=len)
def test_no_sentence_quotes_a_long_value_whole(cls, value):
    quoted = FACT.findall(cls.template + cls.fix)
    error = cls(**dict.fromkeys(quoted, value))
    told = f"{error}{as_data(error)['message']}"
    assert value not in told
    assert len(told) < 2 * (1_500 * len(quoted) + len(cls.template + cls.fix))


def test_long_secrets_are_hidden_before_a_word_is_cut():
    hide("LONG_SECRET", "swordfish" * 40)
    try:
        text = str(CodecError(problem=f"no {'x' * 90}{'swordfish' * 40}{'z' * 400}"))
    finally:
        forget("LONG_SECRET")
    assert "more)..." in text
    assert "sword" not in text


def test_line_of_a_query_is_shown_around_the_mistake():
    line = "select " + "word, " * 1_000
    shown = str(QueryError.of("Q201", "no such name", span=Span("q.sql", 1, 3_002, line))).splitlines()
    assert len(shown[1]) < 200
    assert shown[1][shown[2].index("^") :].startswith(line[3_001:3_020])


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_error_survives_pickling(cls):
    error = with_facts(cls)
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), back.facts, str(back)) == (cls, error.facts, str(error))


def test_codes_are_unique_and_exit_codes_are_those_of_the_documentation():
    codes = [c.code for c in CLASSES]
    assert len(set(codes)) == len(codes)
    assert {c.exit_code for c in CLASSES} == {1, 2, 3, 4, 5, 6, 70}
    assert all(re.fullmatch(r"DGS\d{3}", code) for code in codes)


def test_every_class_says_what_it_is_for():
    assert all(c.__doc__ for c in CLASSES)


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls.__init__ is DgsError.__init__])
def test_the_sentence_of_an_error_that_lacks_facts_has_question_marks(cls):
    assert str(cls())


def test_a_fact_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError):
        OutOfOrderError(stream="s", row=1, ts=1, previous=2).colour  # noqa: B018
    assert "nothing" in str(CodecError(problem="nothing"))


class Broken(Program):
    def update(self, state, event, emit):
        return self.divide(state, event.payload)

    def divide(self, a, b):
        return a / b


EVENT = Event(Tag("view", 7), "clicks", 12, 0)


def told(error, **where):
    return user_error(Broken(), "update", error, **where)


def test_user_error_starts_with_the_users_traceback_and_ends_with_the_event():
    try:
        Broken().update(1, EVENT, print)
    except ZeroDivisionError as error:
        made = user_error(Broken(), "update", error, event=EVENT, key=OrderKey(12, 0, 3), worker="w3")
    lines = str(made).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "return a / b" in str(made)
    assert lines[-1] == (
        "update of program Broken raised ZeroDivisionError: division by zero at event view(7) of stream 'clicks', "
        "row 3, ts 12, payload 0, worker w3"
    )
    assert (made.stream, made.row, made.ts, made.worker, made.function) == ("clicks", 3, 12, "w3", "update")


def test_user_error_leaves_out_our_own_frames_also_of_the_causes():
    from dgs.model.events import EventBatch
    from dgs.semantics import sequential

    class Nested(Broken):
        def init(self):
            return 1

        def divide(self, a, b):
            try:
                return Tag("x")[0]
            except TypeError as error:
                raise ValueError("of two") from error

    batch = EventBatch.of("clicks", rank=0, tags=[Tag("view", 7)], ts=[12], payload=[0])
    with pytest.raises(UserCodeError) as caught:
        sequential.run(Nested(), [[batch]])
    trace = caught.value.trace
    assert "sequential.py" not in trace
    assert "The above exception was the direct cause" in trace
    assert trace.count("test_errors.py") >= 2
    assert isinstance(caught.value.__cause__, ValueError)


def test_user_error_survives_pickling_whatever_the_users_objects_are():
    class Local:
        def __reduce__(self):
            raise TypeError("never")

    made = told(ValueError(Local()), event=EVENT._replace(payload=Local(), tag=Tag("k", Local())))
    back = pickle.loads(pickle.dumps(made))
    assert str(back) == str(made)
    assert all(isinstance(fact, (str, int, type(None))) for fact in back.facts.values())


@pytest.mark.parametrize(
    "payload", ["x" * 10_000, list(range(10_000)), dict.fromkeys(range(99), "y" * 99), [["z" * 999] * 99]]
)
def test_user_error_shortens_the_payload(payload):
    made = told(KeyError("k"), event=EVENT._replace(payload=payload))
    assert len(made.payload) <= LONGEST_REPR


def test_user_error_copes_with_objects_that_cannot_be_shown():
    class MuteError(Exception):
        def __str__(self):
            raise RuntimeError("no")

    class Shy:
        def __repr__(self):
            raise RuntimeError("no")

    made = told(MuteError(), event=EVENT._replace(payload=Shy()))
    assert "MuteError" in str(made)
    assert "Shy" in made.payload


def test_user_error_of_an_exception_without_message_or_event():
    made = told(KeyError())
    assert str(made).splitlines()[-1] == "update of program Broken raised KeyError"
    assert str(told(KeyError(), worker="w1")).endswith("raised KeyError in worker w1")


def test_user_error_shows_braces_of_the_users_as_they_are():
    assert "{not a fact}" in str(told(ValueError("{not a fact}")))


def test_user_error_of_a_group_shows_its_members():
    group = ExceptionGroup("several", [ValueError("first"), KeyError("second")])
    made = told(group)
    assert "first" in made.trace
    assert "second" in made.trace
    assert "".join(traceback.format_exception_only(group)).strip() in made.trace
