"""`dgs run` with `on_error: skip`: it reports the number and the place of skipped events, also after a resume."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def touchy(project, edit):
    """The project with a program that raises for an amount of 10, and `on_error: skip`."""
    edit("program.py", "        if event.tag.kind == VALUE:\n", "        if event.payload == 10:\n"
         "            raise ValueError('ten')\n        if event.tag.kind == VALUE:\n")  # fmt: skip
    edit("plan.yaml", "runtime: {kind: local}", "runtime: {kind: local}\non_error: skip")
    return project


def test_closing_line_says_where_the_skipped_events_are(touchy, dgs, run_dirs):
    done = dgs("run plan.yaml --verify")
    (directory,) = run_dirs()
    place = directory.relative_to(touchy)
    assert done.code == 0
    assert " (local), 1 event skipped, verified; outputs in " in done.err
    assert f"; the skipped events are in {place}/dead-letter-0.jsonl; the run is in {place}\n" in done.err
    letter = json.loads((directory / "dead-letter-0.jsonl").read_text())
    assert (letter["stream"], letter["ts"], letter["seq"], letter["payload"]) == ("left", 2, 1, 10)
    assert (letter["error"], letter["function"]) == ("ValueError: ten", "update")


def test_json_has_the_skipped_events_and_their_place(touchy, dgs, run_dirs):
    report = json.loads(dgs("run plan.yaml --json").out)
    (directory,) = run_dirs()
    assert (report["skipped"], report["events_in"]) == (1, 9)
    assert report["dead_letters"] == str(directory / "dead-letter-0.jsonl")


def test_state_that_cannot_be_copied_is_an_error_that_says_what_to_do(touchy, edit, dgs):
    edit("program.py", "        return 0\n\n    def update", "        return iter(())\n\n    def update")
    done = dgs("run plan.yaml")
    assert done.code == 5
    assert "error[DGS512]: `on_error: skip` needs a copy of every state of program Sums" in done.err
    assert "register this one with `dgs.codec.register`, or run with `on_error: stop`" in done.err


def test_run_that_stops_at_errors_has_no_skipped_events(touchy, edit, dgs, run_dirs):
    edit("plan.yaml", "on_error: skip", "on_error: stop")
    done = dgs("run plan.yaml")
    (directory,) = run_dirs()
    assert done.code == 1
    assert not list(directory.glob("dead-letter*"))
