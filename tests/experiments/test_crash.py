"""The crash experiment: it finds losses and repetitions, and a small run of it finds none."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from experiments.crash.__main__ import crashes
from experiments.crash.campaign import judged
from experiments.crash.jobs import expected, in_files
from experiments.crash.killing import Kill, Outcome, recovery


def test_outcome_counts_what_is_lost_and_what_is_repeated():
    outcome = Outcome()
    outcome.compare(Counter("aabc"), Counter("abbc"))
    outcome.compare(Counter("abc"), Counter("abcd"))
    assert (outcome.lost, outcome.repeated) == (1, 2)


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
def test_killed_hosts_and_drivers_lose_nothing_and_repeat_nothing(tmp_path):
    outcomes = dict(crashes(tmp_path, 3, 1, 1_000, random.Random(1)))
    assert sum(len(outcome.kills) for outcome in outcomes.values()) == 4
    assert [(outcome.lost, outcome.repeated) for outcome in outcomes.values()] == [(0, 0), (0, 0)]
    assert all(kill.noticed is not None and kill.noticed < 5 for kill in outcomes["hosts"].kills)


@pytest.mark.slow
@pytest.mark.ray
def test_attacked_run_is_judged_at_its_end(tmp_path):
    found = judged(tmp_path, seed=1, attacks=3, events=1_000)
    assert (found.lost, found.repeated, found.wrong) == (0, 0, [])
    assert sum(found.attacks.values()) == 3
