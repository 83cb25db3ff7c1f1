"""The tasks of batch runs in this process, one after the other."""

from contextlib import nullcontext
from typing import NamedTuple

import pytest

from dgs.spark_bridge.batch import batch_driver, replays, window_joins
from dgs.spark_bridge.batch.tasks import WINDOWS, Answer, Work, guarded


class Seen(NamedTuple):
    """The work of a run, and the answers of its tasks to the steps that join and replay."""

    work: Work
    answers: list[Answer]

    @property
    def folds(self):
        """The partial states."""
        return [answer for answer in self.answers if answer.what == WINDOWS]


@pytest.fixture
def here(monkeypatch):
    """Run tasks in this process; return the `Seen` of each run."""
    seen = []

    def rows_of(_spark, work):
        answers = sorted(answer for task in work.tasks for answer in guarded(work, task))
        seen.append(Seen(work, answers))
        if window_joins.are_needed(work):
            answers = sorted(window_joins.joined_answers(work, answers))
        return replays.replayed(work, answers)

    monkeypatch.setattr(batch_driver, "rows_of", rows_of)
    monkeypatch.setattr(batch_driver, "spark_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(batch_driver, "cores_of", lambda _: 2)
    return seen
