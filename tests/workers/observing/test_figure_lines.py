"""Figures as lines, and back: all fields, torn lines, columns of other versions."""

import json
from dataclasses import fields, replace
from functools import reduce
from operator import getitem

from dgs.workers.observing.figure_lines import columns_of, head_line, line_of, read_head, read_line
from dgs.workers.observing.figures import (
    CheckpointFigures,
    Generation,
    HostSummary,
    Move,
    PairFigures,
    RunFigures,
    SinkFigures,
    StreamFigures,
    Wait,
    WorkerFigures,
)

FULL = RunFigures(
    t=100.5,
    name="sums",
    unit="ms",
    phase="running",
    began=90.25,
    generation=2,
    events=70,
    events_before=10,
    outputs=7,
    seconds=10.0,
    first_output_seconds=0.5,
    skipped=1,
    restarts=1,
    hosts={0: HostSummary(12, 100.25, 1 << 20, 5, 6), 1: HostSummary()},
    workers={
        "w0": WorkerFigures(0, 3, 2, 1, 0.5, 0.25, 0.125, 9.0, Wait("stream", "rules", 40, 99.0), 5, 60, True, 900, 8, 2, 3, 1, 0.5, "line 3: odd"),
        "w1": WorkerFigures(1, waits_for=Wait("parent", "w0", None, 98.0), is_compiled=False),
    },
    streams={"rules": StreamFigures(9, 8, 39, 39, False, 1.5, 7, 99.5, 2, 1, 1, 0.75), "values": StreamFigures()},
    sinks={"jsonl": SinkFigures(7, 700, 0.25, 3)},
    pairs={"0>1": PairFigures(4, 400)},
    sent={"w1:down": 300, ":news": 100},
    checkpoints=CheckpointFigures(3, 1, 0.75, 99, 5, 3, 60, 0.25, 99.75),
    generations=(Generation(1, 90.25, 2, 2, "host 1 died"), Generation(2, 95.0, 2, 2)),
    moves=(Move(3, 1.5, 100.0, None),),
    waited=("worker w0 waits",),
)  # fmt: skip
HEAD = read_head(head_line())


def test_a_line_holds_every_field():
    empty = RunFigures()
    assert all(getattr(FULL, field.name) != getattr(empty, field.name) for field in fields(RunFigures))
    assert read_line(line_of(FULL), HEAD) == FULL


def test_no_beginning_of_a_line_is_taken_for_it():
    line = line_of(FULL)
    assert {read_line(line[:stop], HEAD) for stop in range(len(line))} == {None}


def test_wrong_lines_are_left_out():
    for text in ("", "7", "[]", "{}", '{"t": 1, "workers": 7}', '{"t": 1, "workers": {"w0": 3}}'):
        assert read_line(text, HEAD) is None


def places_in(value, path=()):
    """Yield the path to every value in a line."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from places_in(one, (*path, key))


def with_a_list_at(line, path):
    changed = json.loads(line)
    inner = reduce(getitem, path[:-1], changed)
    inner[path[-1]] = [["x"]]
    return json.dumps(changed)


def test_a_value_of_another_type_makes_it_no_line():
    line = line_of(FULL)
    places = [path for path in places_in(json.loads(line)) if path and path[0] not in ("sent", "waited")]
    assert len(places) > 100
    assert [path for path in places if read_line(with_a_list_at(line, path), HEAD) is not None] == []
    assert read_line('{"t": NaN}', HEAD) is None


def test_columns_and_keys_that_are_unknown_are_left_out_and_missing_ones_have_defaults():
    head = {**HEAD, "columns": {**HEAD["columns"], "workers": ["mood", "host", "events"]}}
    line = json.dumps({"t": 1.0, "weather": "fine", "workers": {"w0": ["good", 4, 5]}})
    assert read_line(line, head) == RunFigures(t=1.0, workers={"w0": WorkerFigures(4, 5)})


def test_the_head_names_the_columns_of_every_table():
    assert HEAD["columns"]["streams"] == list(columns_of(StreamFigures))
    assert read_head('{"kind": "else"}') is None


def test_defaults_are_not_written():
    assert json.loads(line_of(replace(RunFigures(), t=2.0))) == {"t": 2.0}
