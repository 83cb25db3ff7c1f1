"""`dgs check` of queries: their rules and their programs, of plan files and of files of queries."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

import dgs
from dgs.check.laws.batches import as_batch
from dgs.check.options import Options
from dgs.check.queries.query_files import from_query, with_rounding
from dgs.errors import UsageError
from dgs.model.events import EventBatch
from dgs.model.tags import Tag
from dgs.query.compact import Compact, Layout
from dgs.query.types import FLOAT, INT, Schema

QUERY = "select k, sum(v) as s from t where v > 1 and 1 = 1 group by k"
PLAN = f"""\
version: 1
name: sums
program: {{query: {{text: "{QUERY}", rules: ["rules.py:mine"]}}}}
streams:
  - id: t
    source: {{csv: {{path: t.csv, ts: at}}}}
runtime: {{kind: local}}
"""
GOOD = """\
from dgs.query.relation import Where
from dgs.query.rewrite import Rules

mine = Rules("mine")
"""
WRONG = (
    GOOD
    + """

@mine.to_replace(Where)
def no_filter(node):
    return node.input
"""
)


PIG = """\
t = LOAD '$in' USING PigStorage(',') AS (k, x: double);
g = GROUP t BY k;
c = FOREACH g GENERATE group, COUNT(t);
DUMP c;
"""


def project(folder, rules):
    (folder / "plan.yaml").write_text(PLAN)
    (folder / "rules.py").write_text(rules)
    (folder / "t.csv").write_text("at,k,v\n1,a,2\n2,b,1\n3,a,\n")
    return folder / "plan.yaml"


def test_all_laws_are_asked_of_a_query_in_a_plan_file(tmp_path):
    report = dgs.check(project(tmp_path, GOOD), max_examples=4)
    assert report.ok, report
    assert {one.law for one in report.laws if one.status == "no need"} == {"compiled"}
    assert "Q605 normal.constants_folded" in {one.law for one in report.laws}


def test_a_wrong_rule_of_a_plan_file_is_found(tmp_path):
    report = dgs.check(project(tmp_path, WRONG), max_examples=50)
    (found,) = report.broken
    assert found.law == "Q605 mine.no_filter"
    assert len(found.story) == 1


def test_a_file_of_a_query_is_checked_with_guessed_types(tmp_path):
    (tmp_path / "q.sql").write_text(
        "select a.k, count(*) as n from a join b on a.k = b.k where a.t = 'x' group by a.k"
    )
    report = dgs.check(tmp_path / "q.sql", max_examples=3)
    assert report.ok, report
    assert "elsewhere" in {one.law for one in report.laws if one.status == "holds"}


def test_a_file_of_a_query_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"q\.sql cannot be read"):
        dgs.check(tmp_path / "q.sql")


def test_a_column_of_nulls_in_a_record_is_a_column():
    event = EventBatch.of("t", rank=0, tags=[Tag("t")], ts=[1], payload=[{"k": 1, "v": None}]).events()[0]
    batch = as_batch([event, event], as_columns=True)
    assert batch.take(np.array([1])).events()[0].payload == {"k": 1, "v": None}


def test_sums_of_floats_are_equal_up_to_rounding():
    layout = Layout(Schema.of(k=INT, s=FLOAT), 1, ("sum",))
    one, other, wrong = ((Compact.of_parts(layout, {(1,): (s,)}),) for s in (0.3, 0.1 + 0.2, 0.31))
    equal = with_rounding(Options()).states_equal
    assert equal(one, other)
    assert equal((5, {0: one}), (5, {0: other})), "panes of windows"
    assert not equal(one, wrong)
    assert with_rounding(Options(tolerance=0.1)).states_equal(one, wrong)


def test_columns_of_truth_values_and_times_are_guessed(tmp_path):
    (tmp_path / "q.sql").write_text("select hour(at) h, count(*) n from t where not gone group by hour(at)")
    program, options, _ = from_query(str(tmp_path / "q.sql"), Options(max_examples=1), {})
    assert program.accumulates == ("t",)
    assert any(row["gone"] is True for row in options.strategies["t"])


@pytest.mark.parametrize(
    ("name", "text", "params"),
    [
        ("q.mrql", 'select (k, avg(r.x)) from r in stream(csv, "t.csv") group by k: r.k;', {}),
        ("q.pig", PIG, {"in": "t.csv"}),
    ],
    ids=["mrql", "pig"],
)
def test_scripts_are_checked_with_the_columns_of_their_files(tmp_path, monkeypatch, name, text, params):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("k,x\na,1.5\n")
    (tmp_path / name).write_text(text)
    program, options, _ = from_query(name, Options(max_examples=1), params)
    assert program.accumulates == ("t",)
    assert {"k", "x"} <= options.strategies["t"][0].keys()
