"""A run that fails and is resumed in other modes, interpreted and compiled, has the outputs of a run without stops."""

import json
import random

import pytest

import dgs
from dgs.compiled import verified_folds
from dgs.errors import UserCodeError
from tests.dgs.projects import write_files

PROGRAM = """\
import dgs

PUT, GET = dgs.kind("put", key=str), dgs.kind("get", key=str)


class Least(dgs.Program):
    kinds = (PUT, GET)
    depends = dgs.Dependence((PUT, PUT, dgs.SAME_KEY), (PUT, GET, dgs.SAME_KEY))

    def __init__(self, stop):
        self.stop = stop

    def init(self):
        return {}

    def update(self, state, event, emit):
        key, number = event.tag.key, event.payload["number"]
        if number == self.stop:
            raise ValueError(number)
        count, least = state.get(key, (0, None))
        if event.tag.kind == GET:
            emit({"key": key, "count": count, "least": least})
            return state
        state[key] = (count + number * 2**50, number / -7 if least is None else min(least, number / -7))
        return state
"""
PLAN = """\
version: 1
name: modes
program: {ref: "program.py:Least", args: {stop: -1}}
streams:
- {id: puts, tags: {kind: put, key: {column: key}}, source: {jsonl: {path: puts.jsonl, ts: ts}}}
- {id: gets, tags: {kind: get, key: {column: key}}, source: {jsonl: {path: gets.jsonl, ts: ts}}}
runtime: {kind: local, batch_rows: 100}
checkpoint: {every: 1ms, dir: saved}
sinks: [{jsonl: {path: out}}]
"""
ROWS = 1200
STOPS = [("off", 300), ("require", 600), ("auto", 900), ("off", 1100), ("require", -1)]
"""The modes of a run and of those that resume it, and the numbers at which they fail."""


def write_project(folder):
    folder.mkdir()
    draw, files = random.Random(5), {"program.py": PROGRAM, "plan.yaml": PLAN}
    for stream in ("puts", "gets"):
        rows = [{"ts": n + draw.choice([0, 1]), "key": draw.choice("pqr"), "number": n} for n in range(ROWS)]
        files[f"{stream}.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows)
    write_files(folder, files)
    return folder / "plan.yaml"


def outputs(plan):
    return sorted(line for file in plan.parent.glob("out/*.jsonl") for line in file.read_text().splitlines())


@pytest.mark.usefixtures("machine")
@pytest.mark.slow
def test_a_run_resumed_in_other_modes_equals_one_run(tmp_path, monkeypatch):
    monkeypatch.setenv("DGS_VERIFY_COMPILED", "1")
    monkeypatch.setattr(verified_folds, "EVERY", 2)
    whole, parts = write_project(tmp_path / "whole"), write_project(tmp_path / "parts")
    wanted = dgs.run(whole, settings={"runtime.compile": "off"})
    for number, (mode, stop) in enumerate(STOPS):
        go_on = dgs.resume if number else dgs.run
        settings = {"runtime.compile": mode, "program.args.stop": stop}
        if stop < 0:
            assert list(go_on(parts, settings=settings).state.items()) == list(wanted.state.items())
        else:
            with pytest.raises(UserCodeError, match=f"ValueError: {stop}"):
                go_on(parts, settings=settings)
    assert outputs(parts) == outputs(whole)
    assert len(outputs(whole)) == ROWS
