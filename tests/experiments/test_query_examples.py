"""The example queries over texts and logs, from their plan files: the counts of plain loops and of DuckDB."""

import json
from pathlib import Path

import pytest

import dgs

ROOT = Path(__file__).parents[2]
EXPECTED = ROOT.parent / "shared" / "cases" / "queries" / "expected"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not EXPECTED.is_dir(), reason="the cases are not beside the checkout (shared/cases)"),
]


def answered(name, run_dir):
    """Return the rows that the plan file of an example gives."""
    run = dgs.run(ROOT / "experiments" / "queries" / name / "plan.yaml", run_dir=run_dir, verify=True)
    assert run.verified
    return list(run.outputs)


def test_the_words_of_a_script_of_pig(tmp_path):
    expected = json.loads((EXPECTED / "wordcount.json").read_text())["wordcount"]
    rows = answered("word_count", tmp_path / "run")
    assert (sum(row["n"] for row in rows), len(rows)) == (expected["words"], expected["distinct"])
    top = sorted(rows, key=lambda row: -row["n"])[: len(expected["top"])]
    assert [[row["group"], row["n"]] for row in top] == expected["top"]


def test_the_channels_of_wikipedia(tmp_path):
    expected = json.loads((EXPECTED / "channels.json").read_text())["channels"]
    rows = answered("channels", tmp_path / "run")
    assert (len(rows), sum(row["n"] for row in rows)) == (expected["groups"], expected["edits"])
    top = sorted(rows, key=lambda row: -row["n"])[: len(expected["top"])]
    assert [[str(row["h"]), *list(row.values())[1:]] for row in top] == expected["top"]
