"""More rules of recovery removed in turn: crashes, other plans and other splits must notice."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dgs.errors import OutputUnwritableError
from dgs.model.dependence import Dependence
from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, OrderKey
from dgs.model.outputs import OutputBatch
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.workers.checkpoints import directory_store
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.protocol.lanes import Router
from dgs.workers.recovery.checkpoint import Checkpoint, ResumePoint, resume_point
from dgs.workers.recovery.coordinator import Coordinator, Epochs, HostReport
from dgs.workers.recovery.positions import Layer, Positions, Rows
from dgs.workers.simulated import case
from dgs.workers.simulated import outputs as simulated_outputs
from dgs.workers.simulated import sources as simulated_sources
from dgs.workers.simulated import store as simulated_store
from dgs.workers.simulated.case import Case
from dgs.workers.simulated.faults import Faults
from tests.programs import History
from tests.selection import every_other
from tests.workers.simulated.mutation import CRASHES, Mutant, assert_killed


def covers_another_dealing_split_by_split(patch: pytest.MonkeyPatch) -> None:
    """A layer of another dealing is passed only where all splits of the new one have passed it: its rows are in any of them."""

    def as_if_dealt_alike(layer: Layer, older: Layer) -> bool:
        return all(part.key <= layer.start(part.tags, part.split) for part in older.parts)

    patch.setattr(Layer, "covers", as_if_dealt_alike)


def starts_a_lane_where_part_of_its_tags_are(patch: pytest.MonkeyPatch) -> None:
    """A lane starts at the beginning if a layer says nothing of some of its tags.

    No run shows this. Each plan of a run has a lane for every tag of a stream, so a layer says something of all tags of the stream, and
    then this makes no difference: test_positions_laws tests both halves of the argument, and that the laws of positions, which do not rely
    on it, notice the mutant.
    """

    def of_those_it_knows(layer: Layer, tags: TagSet, split: int | None) -> OrderKey:
        parts = [part for part in layer.parts if split is None or part.split == split]
        return min((part.key for part in parts if part.tags & tags), default=BEGIN)

    patch.setattr(Layer, "start", of_those_it_knows)


def forgets_what_could_not_be_published(patch: pytest.MonkeyPatch) -> None:
    """Files of a commit that did not get their names belong to the next one, which names them again."""
    original = DirectoryStore._publish_all

    def once(store: DirectoryStore) -> None:
        try:
            original(store)
        except OutputUnwritableError:
            store._unpublished = ()
            raise

    patch.setattr(DirectoryStore, "_publish_all", once)


def reads_from_the_highest_position(patch: pytest.MonkeyPatch) -> None:
    """A stream is read again from the lowest position of its tags."""

    def from_the_highest(positions: Positions, stream: str) -> OrderKey:
        return max((layer.high for layer in positions.streams.get(stream, ())), default=BEGIN)

    patch.setattr(Positions, "base", from_the_highest)
    patch.setattr(simulated_sources.Positions, "base", from_the_highest)


def leaves_out_the_event_at_a_position(patch: pytest.MonkeyPatch) -> None:
    """Positions are exclusive: the event at a position is not in the state."""
    original = Layer._count

    def one_more(layer: Layer, batch: Any, tag: Any, split: int) -> int:
        return min(original(layer, batch, tag, split) + 1, len(batch))

    patch.setattr(Layer, "_count", one_more)


def closes_an_epoch_twice(patch: pytest.MonkeyPatch) -> None:
    """Outputs after the end of an epoch belong to the next one."""

    def the_same(epochs: Epochs, worker: str, epoch: int) -> bool:
        closed = epochs.__dict__.setdefault("_closed", {})
        closed[worker] = epoch
        epochs._open[worker] = epoch
        return len(closed) == len(epochs._open) and min(closed.values()) >= epoch

    patch.setattr(Epochs, "close", the_same)


def _reported(patch: pytest.MonkeyPatch, change: Any) -> None:
    original = Coordinator._checkpoint
    patch.setattr(
        Coordinator, "_checkpoint", lambda self, root, reports: original(self, root, change(list(reports)))
    )


def forgets_the_files_of_one_host(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint has the files of all hosts."""

    def without_the_last(reports: list[HostReport]) -> list[HostReport]:
        return [*reports[:-1], replace(reports[-1], files=())]

    _reported(patch, without_the_last)


def forgets_the_outbox_of_one_host(patch: pytest.MonkeyPatch) -> None:
    """R7: the outbox has what the sinks of all hosts have not accepted."""

    def without_the_first(reports: list[HostReport]) -> list[HostReport]:
        return [replace(reports[0], unaccepted=()), *reports[1:]]

    _reported(patch, without_the_first)


def doubles_the_outbox(patch: pytest.MonkeyPatch) -> None:
    """R7: what travels in a checkpoint is sent again once; a sink without marks would have it twice."""
    original = simulated_outputs.owners

    def twice(batch: OutputBatch, router: Router) -> Iterator[tuple[int, OutputBatch]]:
        yield from original(batch, router)
        yield from ((lane, replace(some, index=some.index + 1)) for lane, some in original(batch, router))

    patch.setattr(simulated_outputs, "owners", twice)


def carries_only_the_files_of_the_last_failure(patch: pytest.MonkeyPatch) -> None:
    """Files are carried over any number of epochs that were not committed."""
    original = Coordinator._checkpoint

    def forgetting(coordinator: Coordinator, root: Any, reports: Any) -> Checkpoint:
        carried, coordinator._carried = coordinator._carried, ()
        made = original(coordinator, root, reports)
        return made if made.is_final or not carried else replace(made, files=(*carried[-1:], *made.files))

    patch.setattr(Coordinator, "_checkpoint", forgetting)


def sends_an_outbox_under_the_new_dealing(patch: pytest.MonkeyPatch) -> None:
    """Outputs made under another number of splits are delivered under it before a generation starts with the new one."""
    patch.setattr(simulated_outputs, "dealt_otherwise", lambda *_args, **_more: None)


def resumes_at_the_newest_positions(patch: pytest.MonkeyPatch) -> None:
    """A state goes with its own positions, not with those of a later commit whose state is gone."""

    def newest(*args: Any) -> ResumePoint:
        point = resume_point(*args)
        return point if point.state is None else replace(point, positions=point.committed)

    patch.setattr(directory_store, "resume_point", newest)
    patch.setattr(simulated_store, "resume_point", newest)


def numbers_epochs_from_its_state(patch: pytest.MonkeyPatch) -> None:
    """Epochs go on from the last that was committed, so that no two files have one name."""
    original = resume_point

    def older(generation: int, newest: Checkpoint | None, used: Checkpoint | None) -> ResumePoint:
        point = original(generation, newest, used)
        return point if used is None else replace(point, epoch=used.epoch)

    patch.setattr(directory_store, "resume_point", older)
    patch.setattr(simulated_store, "resume_point", older)


def deals_old_positions_in_other_blocks(patch: pytest.MonkeyPatch) -> None:
    """Positions are read with the blocks in which their rows were dealt."""
    original = Layer.limits

    def row_by_row(layer: Layer, batch: Any, split: int | None) -> Rows | int:
        return original(replace(layer, block=1), batch, split)

    patch.setattr(Layer, "limits", row_by_row)


def takes_the_lowest_layer(patch: pytest.MonkeyPatch) -> None:
    """An event is in the state if any layer says so: the position of an event is the highest."""

    def by_the_newest(positions: Positions, batch: Any, splits: int) -> Rows | None:
        stream, _, number = batch.stream.partition("/")
        layers = positions.streams.get(stream, ())[:1]
        if not len(batch) or not layers:
            return None
        (layer,) = layers
        limit = layer.limits(batch, int(number or 0) if layer.splits == splits else None)
        return np.flatnonzero(np.arange(len(batch)) >= limit)

    patch.setattr(Positions, "_rows_above", by_the_newest)


def takes_an_ended_host_for_all(patch: pytest.MonkeyPatch) -> None:
    """The last checkpoint is that of the last request, and no sooner."""
    original = Coordinator._checkpoint

    def final_with_the_first(coordinator: Coordinator, root: Any, reports: Any) -> Checkpoint:
        made = original(coordinator, root, reports)
        ended = all(part.key >= END for layers in made.positions.streams.values() for part in layers[0].parts)
        return replace(made, is_final=made.is_final or ended or bool(made.files))

    patch.setattr(Coordinator, "_checkpoint", final_with_the_first)


def commits_positions_of_the_state_alone(patch: pytest.MonkeyPatch) -> None:
    """Committed positions never go back: positions go over those of the checkpoint before."""
    original = Positions.over

    def unless_committed(positions: Positions, older: Positions) -> Positions:
        newer = original(positions, older)
        is_lower = any(
            max(layer.high for layer in layers)
            < max(layer.high for layer in older.streams.get(stream, layers))
            for stream, layers in positions.streams.items()
        )
        return positions if is_lower else newer

    patch.setattr(Positions, "over", unless_committed)


ROWS = 60


def check_dealt_otherwise(seed: int) -> None:
    """Run one long stream that is dealt to two or three splits by turns, with many checkpoints and crashes."""
    rnd = random.Random(f"dealt {seed}")
    tags = [Tag("p", 0), Tag("q", 0)]
    codes, ts = rnd.choices(range(2), k=ROWS), sorted(rnd.choices(range(30), k=ROWS))
    batch = EventBatch.of("s0", rank=0, tags=tags, codes=codes, ts=ts, payload=list(range(ROWS)))
    program = History(Dependence())
    faults = Faults(crashes=12, crash_chance=0.02, stops=4, snapshots=0.05, muting=0.6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(case, "SPLITS", (2, 3))
        Case(program, {"s0": [batch]}).check_with(seed, faults)


def check_dealt_unevenly(seed: int) -> None:
    """Run a stream that is dealt to two or three splits by turns, some of which are far ahead of others at a checkpoint."""
    batch = EventBatch.of("s0", rank=0, tags=[Tag("p", 0)], ts=range(30), payload=list(range(30)))
    faults = Faults(crashes=6, crash_chance=0.02, stops=6, snapshots=0.3, muting=0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(case, "SPLITS", (2, 3))
        Case(History(Dependence()), {"s0": [batch]}).check_with(seed, faults)


CRASHING = ("crash", "slow", "odd")

MUTANTS = [
    pytest.param(
        Mutant(
            forgets_what_could_not_be_published,
            ("disk", "odd"),
            {"publishing": 0.3, "oddity": 0.1, "until": None},
        ),
        marks=pytest.mark.slow,
    ),
    Mutant(reads_from_the_highest_position, ("crash",), CRASHES),
    Mutant(leaves_out_the_event_at_a_position, ("crash",), CRASHES),
    Mutant(closes_an_epoch_twice, ("crash",), CRASHES),
    Mutant(forgets_the_files_of_one_host, ("crash",), CRASHES),
    Mutant(forgets_the_outbox_of_one_host, CRASHING, {**CRASHES, "slow_sinks": 0.5}),
    Mutant(doubles_the_outbox, CRASHING, {**CRASHES, "slow_sinks": 0.5}),
    Mutant(carries_only_the_files_of_the_last_failure, ("odd",), {"oddity": 0.3, "until": None}),
    Mutant(
        sends_an_outbox_under_the_new_dealing,
        CRASHING,
        {**CRASHES, "crashes": 8, "slow_sinks": 0.7},
        subject="history",
    ),
    Mutant(resumes_at_the_newest_positions, ("crash", "disk"), {**CRASHES, "rot": 0.5}),
    Mutant(numbers_epochs_from_its_state, ("crash", "disk"), {**CRASHES, "rot": 0.5}),
    Mutant(deals_old_positions_in_other_blocks, ("crash",), CRASHES),
    Mutant(takes_the_lowest_layer, run=check_dealt_otherwise),
    Mutant(covers_another_dealing_split_by_split, run=check_dealt_unevenly, first=130),
    Mutant(takes_an_ended_host_for_all, ("crash",), CRASHES),
    Mutant(commits_positions_of_the_state_alone, ("crash", "disk"), {**CRASHES, "rot": 0.5}),
]


@pytest.mark.parametrize("mutant", every_other(MUTANTS), ids=str)
def test_crashes_are_noticed_by_runs_without_this_rule(mutant):
    assert_killed(mutant)
