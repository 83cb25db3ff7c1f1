"""The displays of notebooks, and an executed notebook: four libraries, a display, an interrupt, and a resumed run."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient

import dgs
from dgs.frames.output_list import table_html
from dgs.model.impl_tags import ImplTagSet
from dgs.notebook import caller_in_a_cell, plan_html
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.observing.figures import RunFigures
from dgs.workers.runtime.job import Caller

VALUE = dgs.kind("value")
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</td></table><b>",
    "&lt;script&gt;",
    "javascript:alert(1)",
    "\u202etxt.exe \x00\x1b[31m",
    "]]>--><!--",
    "a" * 10_000,
]

PROGRAM = '''
import os, signal
import dgs, duckdb, pandas as pd, polars as pl, pyarrow as pa

READING = dgs.kind("reading", key=str)

class Total(dgs.Program):
    """The running total of each sensor."""

    kinds = (READING,)
    depends = dgs.Dependence((READING, READING, dgs.SAME_KEY))
    interrupts_at = None

    def init(self):
        return {}

    def update(self, state, event, emit):
        total = state.get(event.tag.key, 0) + event.payload
        emit({"sensor": event.tag.key, "total": total})
        if event.payload == self.interrupts_at:
            os.kill(os.getpid(), signal.SIGINT)
        return {**state, event.tag.key: total}

rows = {"when": pd.date_range("2024-05-01", periods=50_000, freq="s"), "device": ["a", "b"] * 25_000, "litres": range(50_000)}
said = dict(key="device", ts="when", payload="litres")
frame = pd.DataFrame(rows)
'''
FOUR = """
relation = duckdb.sql("select * from frame")
runs = [
    dgs.run(Total, streams={"readings": dgs.stream(one, **said)})
    for one in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame), relation)
]
assert all(run.outputs == runs[0].outputs for run in runs)
"""
INTERRUPTED = """
program = Total()
program.interrupts_at = 20_000
dgs.run(program, streams={"readings": dgs.stream(frame, **said)}, run_dir="interrupted", settings={"runtime.batch_rows": 1000})
"""
GOES_ON = """
import json, pathlib
dgs.resume("interrupted", program=Total(), streams={"readings": dgs.stream(frame, **said)})
parts = sorted(pathlib.Path("interrupted").rglob("part-*.jsonl"))
outputs = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
key = lambda row: (row["sensor"], row["total"])
assert sorted(outputs, key=key) == sorted(runs[0].outputs, key=key)
len(outputs)
"""


@pytest.mark.slow
def test_a_notebook_runs_frames_shows_runs_and_resumes_after_an_interrupt(tmp_path):
    cells = [
        nbformat.v4.new_code_cell(text)
        for text in (PROGRAM, FOUR, "runs[0]", "runs[0].plan", "runs[0].outputs", INTERRUPTED, GOES_ON)
    ]
    cells[5].metadata["tags"] = ["raises-exception"]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    run, plan, outputs = (
        "".join(one["data"]["text/html"] for one in cells[place].outputs) for place in (2, 3, 4)
    )
    assert "50,000 events, 50,000 outputs" in run
    assert "<img " in plan
    assert "49,990 more rows" in outputs
    told = cells[5].outputs
    assert [one["ename"] for one in told if one.output_type == "error"] == ["KeyboardInterrupt"]
    said = "".join(one["text"] for one in told if one.output_type == "stream")
    assert "Total was interrupted" in said
    assert "dgs.resume('interrupted', program=..., streams=...)" in said
    (result,) = (one for one in cells[6].outputs if one.output_type == "execute_result")
    assert result["data"]["text/plain"] == "50000"


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]


class Echo(dgs.Program):
    kinds = (VALUE,)

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(event.payload)
        return state


def shown(run):
    return Elements(run._repr_html_()).names


def test_a_run_shows_its_summary_its_plan_and_its_first_outputs():
    run = dgs.run(Echo, streams={"s": [(VALUE(), ts, ts) for ts in range(25)]})
    text = run._repr_html_()
    assert "25 events, 25 outputs" in text
    assert text.count("<tr>") == 1 + 10
    assert "15 more rows" in text
    assert shown(run) == {"p", "strong", "div", "img", "table", "thead", "tbody", "tr", "th", "td"}


def test_a_run_links_to_its_report(tmp_path):
    run = dgs.run(Echo, streams={"s": [(VALUE(), 1, 1)]}, run_dir=tmp_path / "a run")
    (run.run_dir / "report.html").write_text("the report")
    assert re.search(r'<a href="[^"]*a%20run/report.html">', run._repr_html_())


def test_outputs_of_several_types_are_shown():
    run = dgs.run(Echo, streams={"s": [(VALUE(), 1, "a"), (VALUE(), 2, 5)]})
    assert "<td>a</td>" in run.outputs._repr_html_()
    assert "<td>5</td>" in run.outputs._repr_html_()


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_a_user_gives_becomes_markup(text):
    plain = {"p", "strong", "div", "img", "table", "thead", "tbody", "tr", "th", "td"}
    run = dgs.run(Echo, streams={"s": [(VALUE(), 1, {text: text})]})
    assert shown(run) <= plain
    assert Elements(table_html([text], [(text,)], 1)).names <= plain
    assert Elements(plan_html(Plan(PlanNode(text, ImplTagSet())))).names == {"div", "img"}


def test_progress_of_a_cell_stays_in_one_line(monkeypatch):
    shown = []

    class Handle:
        def update(self, data, *, raw):
            shown.append(("again", data["text/plain"]))

    def display(data, *, raw, display_id):
        shown.append(("first", data["text/plain"]))
        return Handle()

    drawn = {}
    formatter = SimpleNamespace(
        for_type_by_name=lambda *type_and_function: drawn.setdefault("plan", type_and_function)
    )
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": formatter}))
    monkeypatch.setattr("dgs.notebook._kernel", lambda: shell)
    monkeypatch.setattr("IPython.display.display", display)
    progress = caller_in_a_cell().progress
    for t, events in ((0.0, 0), (2.0, 1000), (4.0, 4000)):
        progress(RunFigures(t=t, name="window", events=events, outputs=2))
    assert shown == [
        ("first", "window: 0 events, 2 outputs"),
        ("again", "window: 1,000 events, 2 outputs, 500 events/s (500 on average)"),
        ("again", "window: 4,000 events, 2 outputs, 1,000 events/s (1,000 on average)"),
    ]
    assert drawn == {"plan": ("dgs.planner.plan", "Plan", plan_html)}


def test_outside_of_a_notebook_nothing_is_shown():
    assert caller_in_a_cell() == Caller()
