"""The crash experiment: it finds losses and repetitions, and a small run of it finds none."""

from __future__ import annotations

import sqlite3
from collections import Counter

import pytest

from experiments.crash.campaign import judged
from experiments.crash.jobs import expected, in_files
from experiments.crash.killing import Kill, recovery
from experiments.crash.prey import Judged, Prey


def test_outputs_that_are_lost_and_repeated_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(Prey, "__init__", lambda *_: None)
    prey = Prey()
    prey._place, prey._judged = tmp_path, Judged(0)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.jsonl").write_text("1\n2\n2\n")
    sqlite3.connect(tmp_path / "out.db").execute("CREATE TABLE outputs (value)")
    prey.compare(Counter("12233"))
    assert (prey._judged.lost, prey._judged.repeated) == (2 + 5, 0)
    prey.compare(Counter("2"))
    assert (prey._judged.lost, prey._judged.repeated) == (2 + 5 + 1, 2)


def test_recovery_is_the_first_commit_of_a_later_generation_not_its_beginning():
    commits = [(1.0, 1, 0), (2.0, 1, 1), (4.0, 2, 1), (5.5, 2, 2), (6.0, 2, 3)]
    assert recovery(commits, Kill("host", at=3.0, generation=1), float("inf")) == 2.5
    assert recovery(commits, Kill("host", at=3.0, generation=1), 5.0) is None


def test_expected_outputs_are_every_value_and_every_window(tmp_path):
    outputs = expected(in_files(tmp_path / "input", events=100, program="Ledger", args={"pause": 0.01}))
    assert outputs.total() == 4 * 100 + 2
    assert max(outputs.values()) == 1


@pytest.mark.slow
@pytest.mark.ray
def test_attacked_run_is_judged_at_its_end(tmp_path):
    found = judged(tmp_path, seed=1, attacks=3, events=1_000)
    assert (found.lost, found.repeated, found.wrong) == (0, 0, [])
    assert 1 <= found.attacks.total() <= 3  # none where the driver has ended at that moment
