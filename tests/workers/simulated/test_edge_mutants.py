"""Rules about what surrounds workers are removed in turn: what user code raises, sinks and live sources. Random faults must notice it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dgs.model import user_code
from dgs.model.events import EventBatch
from dgs.model.user_code import UserCode
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.protocol.folding import skipping
from dgs.workers.protocol.releases import Release
from dgs.workers.simulated import sinks
from dgs.workers.simulated.live import Records
from dgs.workers.sinks import sqlite_tables
from dgs.workers.sinks.sqlite_tables import Writer
from dgs.workers.sources import opening, rows
from dgs.workers.sources.live import decisions
from dgs.workers.sources.rows import Arrivals
from tests.selection import every_other
from tests.workers.simulated.mutation import CRASHES, Mutant, assert_killed


def lets_user_code_end_the_process(patch: pytest.MonkeyPatch) -> None:
    """SystemExit and KeyboardInterrupt that user code raises are user errors: `sys.exit(0)` ends no run with exit code 0."""
    patch.setattr(user_code, "RAISED", (Exception,))


def takes_an_exit_for_a_join(patch: pytest.MonkeyPatch) -> None:
    """A `join` that exits has joined nothing: the run does not go on with a part of the state."""
    original = UserCode.call

    def calmly(code: UserCode, name: Any, function: Callable[..., Any], *args: Any, **more: Any) -> Any:
        def returning(*given: Any) -> Any:
            try:
                return function(*given)
            except SystemExit:
                return given[0]

        return original(code, name, returning if name == "join" else function, *args, **more)

    patch.setattr(UserCode, "call", calmly)


def skips_what_follows_an_exit(patch: pytest.MonkeyPatch) -> None:
    """With `on_error: skip` only the event that raises is left out, and not those that are released with it."""
    original = skipping._around

    def without_the_rest(release: Release, raised: Any) -> tuple[Release, EventBatch, Release]:
        first, offender, _ = original(release, raised)
        return first, offender, Release((0,), [])

    patch.setattr(skipping, "_around", without_the_rest)


def goes_on_in_other_sinks(patch: pytest.MonkeyPatch) -> None:
    """The sinks are in the record: a run that has committed outputs to one of them does not go on with another."""
    patch.setattr(DirectoryStore, "_refuse_other_sinks", lambda *_: None)


def goes_on_as_another_run(patch: pytest.MonkeyPatch) -> None:
    """The id of a run is in the record: a resumed run finds its outputs under the same id."""
    original = DirectoryStore.name_run

    def anew(store: DirectoryStore, *, resumes: bool, run: str | None = None) -> str:
        return original(store, resumes=resumes and not run, run=run)

    patch.setattr(DirectoryStore, "name_run", anew)


def fills_a_table_that_was_emptied(patch: pytest.MonkeyPatch) -> None:
    """A run that has committed outputs to a table does not go on with a table that does not have them."""

    def gladly(db: Any, table: str, writer: Writer, *, path: Path) -> None:
        sqlite_tables.enter(db, table, replace(writer, continues=False), path=path)

    patch.setattr(sinks, "enter", gladly)


def decides_without_writing_it_down(patch: pytest.MonkeyPatch) -> None:
    """A heartbeat is durable before it acts."""
    patch.setattr(Records, "append", lambda *_: None)


def forgets_what_was_decided(patch: pytest.MonkeyPatch) -> None:
    """A resumed run puts the decided heartbeats before the rows that they came before."""
    patch.setattr(decisions.Replay, "_until", lambda *_: iter(()))


def does_not_wait_for_decisions(patch: pytest.MonkeyPatch) -> None:
    """A host that does not decide lets no row pass before it is known that no heartbeat comes before it."""

    def at_once(followed: decisions.Followed) -> Arrivals:
        return next(followed._source) if followed._source.wait() <= 0 else rows.nothing(0)

    patch.setattr(decisions.Followed, "_decided", at_once)


def decides_about_rows_that_have_passed(patch: pytest.MonkeyPatch) -> None:
    """Before a row that has passed without a heartbeat none is put later, though the source may be quiet there this time."""
    original = opening.Heartbeats

    def unaware(source: Any, **options: Any) -> Any:
        options["decisions"].rows = 0
        return original(source, **options)

    patch.setattr(opening, "Heartbeats", unaware)


def measures_intervals_by_the_wall(patch: pytest.MonkeyPatch) -> None:
    """Intervals are measured by the clock that never jumps."""
    original = opening.Heartbeats

    def by_the_wall(source: Any, **options: Any) -> Any:
        return original(source, **{**options, "clock": options["reached"]._clock})

    patch.setattr(opening, "Heartbeats", by_the_wall)


def doubts_what_lies_in_the_future(patch: pytest.MonkeyPatch) -> None:
    """A decision counts, also if the clock on the wall shows an earlier time by now."""
    original = opening.Heartbeats

    def doubting(source: Any, **options: Any) -> Any:
        ahead, reached = options["decisions"].ahead, options["reached"]()
        for row, beat in [one for one in ahead if one[1] > reached]:
            ahead.remove((row, beat))
        return original(source, **options)

    patch.setattr(opening, "Heartbeats", doubting)


EXITING = {"exits": 2, "poison": 0.0}
OTHER_SINKS = {**CRASHES, "other_sinks": 0.6}
LIVE = {**CRASHES, "live": 1.0}
JUMPING = {**LIVE, "jumps": 0.1}

MUTANTS = [
    Mutant(lets_user_code_end_the_process, ("exit",), EXITING),
    Mutant(lets_user_code_end_the_process, ("exit",), {"poison": 0.3}),
    pytest.param(
        Mutant(
            takes_an_exit_for_a_join,
            ("crash", "exit"),
            {**CRASHES, **EXITING, "exits": 8, "snapshots": 0.3},
            subject="last_value_join",
        ),
        marks=pytest.mark.slow,
    ),
    Mutant(skips_what_follows_an_exit, ("exit",), {**CRASHES, "poison": 0.3}),
    pytest.param(Mutant(goes_on_in_other_sinks, ("crash",), OTHER_SINKS), marks=pytest.mark.slow),
    Mutant(goes_on_as_another_run, ("crash",), OTHER_SINKS),
    Mutant(fills_a_table_that_was_emptied, ("crash",), OTHER_SINKS),
    Mutant(decides_without_writing_it_down, ("crash",), LIVE),
    Mutant(forgets_what_was_decided, ("crash",), LIVE),
    pytest.param(Mutant(does_not_wait_for_decisions, ("crash",), LIVE), marks=pytest.mark.slow),
    pytest.param(Mutant(decides_about_rows_that_have_passed, ("crash",), LIVE), marks=pytest.mark.slow),
    Mutant(measures_intervals_by_the_wall, ("crash",), JUMPING),
    Mutant(doubts_what_lies_in_the_future, ("crash",), JUMPING),
]


@pytest.mark.parametrize("mutant", every_other(MUTANTS), ids=str)
def test_rules_at_the_edge_are_missed_by_runs_without_them(mutant):
    assert_killed(mutant)
