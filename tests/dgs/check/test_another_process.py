"""The program in another process: what it is asked and what it answers, and when it cannot be."""

from __future__ import annotations

import pytest

import dgs
from dgs.check.another_process import AnotherProcess, NotThere
from dgs.check.scenario import Scenario
from dgs.check.world import UserRaised
from dgs.event import Event
from tests.gallery.wrong import VALUE, Window


class Scaled(Window):
    """Made with an argument; it raises for payload 13."""

    def __init__(self, factor):
        self.factor = factor

    def update(self, state, event, emit):
        print("user code may print")  # noqa: T201 - that is what is tested
        if event.payload == 13:
            raise ValueError("thirteen")
        return super().update(state, event._replace(payload=event.payload * self.factor), emit)


def history(*payloads):
    return Scenario(tuple(Event(VALUE(), "value", ts, one) for ts, one in enumerate(payloads)))


@pytest.fixture
def scaled():
    process = AnotherProcess(Scaled(10))
    yield process
    process.close()


def test_another_process_has_what_is_on_the_instance(scaled):
    assert scaled.reached(history(1, 2)) == (30, [[], []])


def test_another_process_says_what_user_code_raised_and_answers_on(scaled):
    with pytest.raises(UserRaised, match="thirteen"):
        scaled.reached(history(13))
    assert scaled.reached(history(1))[0] == 10


def test_class_that_cannot_be_imported_is_not_there():
    class Local(Window):
        pass

    with pytest.raises(NotThere, match="cannot import"):
        AnotherProcess(Local()).start()


def test_report_says_why_another_process_was_not_asked():
    class Local(Window):
        pass

    (law,) = [one for one in dgs.check(Local, max_examples=1).laws if one.law == "elsewhere"]
    assert law.status == "no need"
    assert "cannot import" in law.reason
