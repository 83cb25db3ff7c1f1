"""The program in another process: questions, answers, and reasons that prevent it."""

from __future__ import annotations

import sys

import pytest

import dgs
from dgs.check.elsewhere import another_process
from dgs.check.elsewhere.another_process import AnotherProcess, NotThere
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import UserRaised
from dgs.job.loading import load_program
from dgs.job.schema import ProgramConfig
from dgs.model.events import Event
from tests.gallery.wrong import VALUE, Window


class Scaled(Window):
    """A program with an argument, which raises for payload 13."""

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


def test_another_process_gets_the_attributes_of_the_instance(scaled):
    assert scaled.reached(history(1, 2)) == (30, [[], []])


def test_another_process_reports_errors_of_user_code_and_keeps_answering(scaled):
    with pytest.raises(UserRaised, match="thirteen"):
        scaled.reached(history(13))
    assert scaled.reached(history(1))[0] == 10


def test_unimportable_class_is_unavailable_in_another_process():
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


def loaded(directory, text, name="program.py"):
    (directory / name).write_text("import datetime as dt, os, sys, time\n\nimport dgs\n\n" + text)
    return load_program(ProgramConfig(ref=f"{name}:P"), directory)


def elsewhere(program, **options):
    """Return the result of the law."""
    results = dgs.check(program, max_examples=5, strategies={"any": [1]} | options, keys={"any": [None]}).laws
    return next(one for one in results if one.law == "elsewhere")


def program_text(before="", body="return state + event.payload", init="0"):
    return f"""
{before}

class P(dgs.Program):
    kinds = (dgs.kind("any"),)

    def init(self):
        return {init}

    def update(self, state, event, emit):
        {body}
"""


THERE = '"DGS_CHECK_ANOTHER_PROCESS" in os.environ'


def test_module_that_checks_itself_when_imported_does_so_once(tmp_path):
    text = (
        program_text()
        + '\nSTATUS = {one.law: one for one in dgs.check(P, max_examples=1).laws}["elsewhere"]\n'
    )
    loaded(tmp_path, text)
    (status,) = [vars(one)["STATUS"] for one in list(sys.modules.values()) if _is_in(one, tmp_path)]
    assert status.status == "holds", status


def _is_in(module, directory):
    return str(getattr(module, "__file__", "")).startswith(str(directory.resolve()))


def test_another_process_can_import_pandas_and_pickle_dates(tmp_path):
    pytest.importorskip("pandas")
    body = "return len(pickle.dumps(dt.datetime(2024, 1, 1)))"
    assert elsewhere(loaded(tmp_path, program_text("import pandas, pickle", body))).status == "holds"


def test_clock_read_by_an_imported_module_is_found(tmp_path):
    (tmp_path / "neighbour_of_dates.py").write_text(
        "from datetime import datetime\n\n\ndef year():\n    return datetime.now().year\n"
    )
    found = elsewhere(
        loaded(tmp_path, program_text("import neighbour_of_dates", "return neighbour_of_dates.year()"))
    )
    assert found.status == "BROKEN"
    assert "clock" in found.finding.hint


def test_file_in_the_working_directory_hides_no_module_of_another_process(tmp_path, monkeypatch):
    (tmp_path / "queue.py").write_text("raise ImportError\n")
    monkeypatch.chdir(tmp_path)
    assert elsewhere(loaded(tmp_path, program_text())).status == "holds"


def test_order_of_dicts_on_the_instance_is_that_of_the_codec(tmp_path):
    program = loaded(tmp_path, program_text(body="return list(self.weights)"))
    program.weights = {"b": 1, "a": 2}
    assert elsewhere(program).status == "holds"


def test_order_of_dicts_in_payloads_is_that_of_the_codec(tmp_path):
    program = loaded(tmp_path, program_text(body="return list(event.payload)"))
    assert elsewhere(program, any=[{"b": 1, "a": 2}]).status == "holds"


def test_error_raised_only_in_another_process_is_reported_as_such(tmp_path):
    found = elsewhere(loaded(tmp_path, program_text(body=f"return state + 1 // (not {THERE})")))
    assert (
        found.finding.what
        == "update raised ZeroDivisionError: integer division or modulo by zero in another process only"
    )


def test_process_that_ends_early_proves_nothing(tmp_path):
    found = elsewhere(loaded(tmp_path, program_text(body=f"return os._exit(3) if {THERE} else state + 1")))
    assert (found.status, "has ended" in found.reason) == ("no need", True)


def test_process_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(another_process, "LONGEST", 0.2)
    found = elsewhere(loaded(tmp_path, program_text(before=f"time.sleep(60 * ({THERE}))")))
    assert (found.status, "no answer" in found.reason) == ("no need", True)


def test_datetime_is_the_same_class_in_another_process(tmp_path):
    body = "emit(type(dt.datetime.fromisoformat('2024-01-01')) is dt.datetime); return state"
    assert elsewhere(loaded(tmp_path, program_text(body=body))).status == "holds"


def test_another_process_gets_attributes_in_slots(tmp_path):
    program = loaded(
        tmp_path, program_text(body="return state + self.factor") + '\n    __slots__ = ("factor",)\n'
    )
    program.factor = 3
    assert elsewhere(program).status == "holds"
