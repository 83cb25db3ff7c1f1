"""Public functions with arguments of wrong types: an error that names the argument, never one of Python's own."""

import re
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

import dgs
from dgs.errors import DgsError, SystemRefusalError, UsageError
from dgs.query.fronts import read


class Total(dgs.Program):
    """The sum of all payloads, emitted after each."""

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(state + event.payload)
        return state + event.payload


STREAMS = {"a": [("value", 1, 2), ("value", 2, 3)]}
run = partial(dgs.run, Total, streams=STREAMS)
HUGE = 10**5000
DIFFERENT = [object(), 1.5, -1, HUGE, b"x", [], {1: 2}, int, dgs, float("nan"), lambda: 1]
"""Values of different types. No parameter accepts more than a few of them."""

NUMBERS, TRUTHS = ("max_events", "tolerance"), ("verify", "resume", "fresh", "accept_code_change")


def without_address(value):
    """Return the name of a case: the same in every process that collects the tests."""
    with suppress(ValueError):  # a huge integer
        return re.sub(" at 0x[0-9a-f]+", "", repr(value))
    return "huge"


@pytest.mark.parametrize("value", [*DIFFERENT, "x", True], ids=without_address)
@pytest.mark.parametrize("name", NUMBERS)
def test_run_refuses_wrong_numbers(name, value):
    if name == "tolerance" and value == 1.5:
        pytest.skip("a tolerance")
    with pytest.raises(UsageError, match=f"^{name}="):
        run(**{name: value})


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("value", [*DIFFERENT, "no", 1, None], ids=without_address)
def test_run_refuses_wrong_truth_values(name, value):
    with pytest.raises(UsageError, match=f"^{name}="):
        run(**{name: value})


@pytest.mark.parametrize("name", ["plan", "compile", "settings", "run_dir", "runtime", "optimizer"])
@pytest.mark.parametrize(
    "value",
    [object(), 1, HUGE, {"kind": "ray", "hosts": HUGE}, dgs, {1: 2}, "a\0b", "\ud800", lambda: 1],
    ids=without_address,
)
def test_run_refuses_other_values_of_wrong_types(name, value):
    with pytest.raises(DgsError):
        run(**{name: value})


@pytest.mark.parametrize(
    "job", [object(), int, 1, None, [], "a\0b.yaml", "\ud800", dgs, Exception], ids=without_address
)
def test_no_job_is_refused(job):
    with pytest.raises(DgsError):
        dgs.run(job, streams=STREAMS)
    with pytest.raises(DgsError):
        dgs.resume(job)
    with pytest.raises(DgsError):
        dgs.stop(job)


@pytest.mark.parametrize("call", [dgs.run, dgs.stop, dgs.resume, partial(dgs.replan, optimizer="greedy")])
@pytest.mark.parametrize("path", ["y" * 5_000, "/".join(["d" * 200] * 30), "a.csv/x", "loop"], ids=len)
def test_paths_that_the_system_refuses_end_in_a_short_sentence(call, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("a.csv").write_text("ts")
    tmp_path.joinpath("loop").symlink_to("loop")
    with pytest.raises(DgsError) as caught:
        call(path)
    assert len(str(caught.value)) < 2_000


def test_links_in_a_circle_are_a_sentence(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    path = str(tmp_path / "loop" / "x")
    for settings in ({"sinks": [{"jsonl": {"path": path}}]}, {"checkpoint": {"dir": path}}):
        with pytest.raises(SystemRefusalError, match="Too many levels of symbolic links"):
            run(run_dir=tmp_path / "run", settings=settings)


def test_run_directory_with_a_long_name_is_refused():
    with pytest.raises(DgsError, match="too long"):
        run(run_dir="y" * 5_000)


@pytest.mark.parametrize("items", [None, 1, object(), int])
def test_stream_without_items_is_named(items):
    with pytest.raises(DgsError, match=r"'a'.*has no items"):
        dgs.run(Total, streams={"a": items})


def test_numbers_of_numpy_are_numbers():
    assert run(max_events=np.int64(1)).outputs == [2]


@pytest.mark.parametrize("timeout", [float("nan"), -1, "x", float("inf"), None])
def test_timeouts_are_finite_numbers(timeout, tmp_path):
    with pytest.raises(UsageError, match=r"^timeout="):
        dgs.stop(tmp_path, timeout=timeout)


@pytest.mark.parametrize("path", ["absent.dgs", "a\0b", 7, None, "."])
def test_state_that_cannot_be_read_is_a_sentence(path):
    with pytest.raises(UsageError, match="no state can be read"):
        dgs.read_state(path)


def test_query_that_is_not_text_is_refused():
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read("select \udcff", {})


@pytest.mark.parametrize("rule", ["ab", (), 1, ("a", "b"), None])
def test_rule_of_a_dependence_has_three_parts(rule):
    with pytest.raises(UsageError, match="a rule of a Dependence"):
        dgs.Dependence(rule)
