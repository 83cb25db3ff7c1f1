"""`dgs explain --types` of every flow of the experiments, in tests/golden/types. `UPDATE_GOLDEN=1` rewrites the files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dgs.cli.app import app
from tests.dgs.flow.published import EXPERIMENTS, HAS_CASES

GOLDEN = Path(__file__).parents[1] / "golden" / "types"
PLANS = sorted(file for file in EXPERIMENTS.glob("*/*.yaml") if "\nflow:" in file.read_text())
pytestmark = pytest.mark.skipif(not HAS_CASES, reason="the tables of Yahoo are not beside the checkout")


def explained(plan: Path) -> str:
    done = CliRunner().invoke(app, ["explain", str(plan), "--types"])
    assert done.exit_code == 0, done.output
    return done.output


def golden_of(plan: Path) -> Path:
    return GOLDEN / f"{plan.parent.name}_{plan.stem}.txt"


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.parent.name}/{plan.stem}")
def test_types_of_an_experiment_are_those_of_its_golden_file(plan: Path) -> None:
    found = explained(plan)
    if os.environ.get("UPDATE_GOLDEN"):
        golden_of(plan).write_text(found)
    assert found == golden_of(plan).read_text()


def test_every_golden_file_is_of_an_experiment() -> None:
    assert {golden_of(plan) for plan in PLANS} == set(GOLDEN.glob("*"))


@pytest.mark.parametrize(
    ("plan", "module", "step", "other"),
    [
        ("stock_market/warnings", "market.py", "new(filter(lambda warning: warning[1] >= LARGE))", "new(map(lambda it: it))"),
        ("stock_market/stats", "market.py", 'new(low) | new(map(lambda price: ["min", *price]))', "new(low)"),
        ("stock_market/fx", "market.py", "w(gather, over=ten())", "w(gather, over=window(10, 10, 'time'))"),
        ("word_count/stream", "words.py", "every(1000)", "every(100)"),
        ("word_count/list", "words.py", 'structure="list"', 'structure="bag"'),
        ("smart_home/plugs", "flows.py", ".block(_mean)", ".aggregate(sum_of)"),
        ("apache_logs/hourly", "flows.py", ".filter(lambda _, request: request.is_hit)", ""),
    ],
)  # fmt: skip
def test_another_step_gives_other_types(
    plan: str, module: str, step: str, other: str, tmp_path: Path
) -> None:
    original = EXPERIMENTS / f"{plan}.yaml"
    for file in original.parent.glob("*.*"):
        shutil.copy(file, tmp_path)
    text = (tmp_path / module).read_text()
    assert step in text
    changed = text.replace(step, other).replace("\n\n\n", "\n\n\nfrom dgs.monoids import SUM as sum_of\n", 1)
    (tmp_path / module).write_text(changed)
    assert explained(tmp_path / original.name) != golden_of(original).read_text()
