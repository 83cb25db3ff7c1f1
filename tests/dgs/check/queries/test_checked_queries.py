"""`dgs check` of queries: their rules and their programs, of plan files and of files of queries."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

import dgs
from dgs.check.laws.batches import as_batch
from dgs.errors import UsageError
from dgs.model.events import EventBatch
from dgs.model.tags import Tag

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
