"""Each rule of recovery is removed in turn, and random faults must notice it.

The rules of the files of checkpoints are in test_store_mutants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dgs.model.events import EventBatch
from dgs.model.outputs import OutputBatch
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.protocol.inner import Inner
from dgs.workers.protocol.leaf import Leaf
from dgs.workers.protocol.messages import Effect, EpochClosed, JoinRequest, Snapshot
from dgs.workers.protocol.pending import ParentRequests, Synchronisation
from dgs.workers.protocol.worker import Worker
from dgs.workers.recovery.checkpoint import Checkpoint
from dgs.workers.recovery.coordinator import Coordinator, Epochs, HostReport
from dgs.workers.recovery.positions import Layer, Positions, Rows
from dgs.workers.simulated.outputs import Outputs
from dgs.workers.simulated.store import KeptStore
from dgs.workers.sinks import marks
from tests.selection import every_other
from tests.workers.simulated.mutation import CRASHES, Mutant, assert_killed
from tests.workers.test_growing_streams import check_grown_streams


def resumes_where_the_join_was(patch: pytest.MonkeyPatch) -> None:
    """R5: positions are those of every lane, not the one moment of the join (what the paper suggests is wrong)."""
    original = Worker._answer

    def at_one_key(worker: Worker, request: JoinRequest, states: Any) -> Iterator[Effect]:
        for effect in original(worker, request, states):
            if isinstance(effect, Snapshot):
                own = [effect.positions[lane] for lane in worker.mailbox.own] or list(
                    effect.positions.values()
                )
                yield replace(effect, positions=dict.fromkeys(effect.positions, max(own)))
            else:
                yield effect

    patch.setattr(Worker, "_answer", at_one_key)


def forgets_what_earlier_runs_knew(patch: pytest.MonkeyPatch) -> None:
    """R5: positions are layered over those that the run started from."""
    patch.setattr(Positions, "over", lambda positions, _older: positions)


def processes_again_what_is_in_the_state(patch: pytest.MonkeyPatch) -> None:
    """R5: sources leave out what is below its position (the worker resumes at the lowest position of its stream)."""
    patch.setattr(Positions, "above", lambda _positions, batch, _splits=1: batch)
    patch.setattr(Worker, "resume", lambda *_: None)


def reads_an_older_dealing_as_the_own(patch: pytest.MonkeyPatch) -> None:
    """Positions are kept with the dealing under which they were known: the split of a row follows from its number."""
    original = Layer.limits

    def by_split(layer: Layer, batch: EventBatch, split: int | None) -> Rows | int:
        _, _, number = batch.stream.partition("/")
        return original(layer, batch, int(number or 0) if split is None else split)

    patch.setattr(Layer, "limits", by_split)


def resumes_from_another_dealing_at_the_beginning(patch: pytest.MonkeyPatch) -> None:
    """A resume under another number of splits keeps the old dealing until the new one has passed it."""
    original = Positions._rows_above

    def same_dealing_only(positions: Positions, batch: EventBatch, splits: int) -> Rows | None:
        kept = {
            stream: tuple(layer for layer in layers if layer.splits == splits)
            for stream, layers in positions.streams.items()
        }
        return original(Positions(kept), batch, splits)

    patch.setattr(Positions, "_rows_above", same_dealing_only)


def leaves_the_outbox_behind(patch: pytest.MonkeyPatch) -> None:
    """R7: outputs not yet accepted by the sink travel in the checkpoint."""
    _changes_checkpoints(patch, lambda checkpoint: replace(checkpoint, outbox=()))


def _changes_checkpoints(patch: pytest.MonkeyPatch, change: Any) -> None:
    original = Coordinator._checkpoint
    patch.setattr(Coordinator, "_checkpoint", lambda *args: change(original(*args)))


def sends_the_outbox_last(patch: pytest.MonkeyPatch) -> None:
    """R7: what travelled in the checkpoint is sent again before newer outputs."""
    original = Outputs.write

    def before_the_old(outputs: Outputs, host: int, worker: str, batch: OutputBatch) -> None:
        original(outputs, host, worker, batch)
        outlet, last = outputs._outlets[host], outputs._point.epoch
        newest_first = sorted(outlet, key=lambda entry: entry[0] <= last)
        outlet.clear()
        outlet.extend(newest_first)

    patch.setattr(Outputs, "write", before_the_old)


def accepts_every_output(patch: pytest.MonkeyPatch) -> None:
    """R8: a sink accepts only ids above its mark."""
    patch.setattr(marks.Marks, "accept", lambda _marks, batch, _splits: batch)


def never_moves_its_marks(patch: pytest.MonkeyPatch) -> None:
    """R8: a sink writes output and mark together."""
    original = marks.accept
    patch.setattr(marks, "accept", lambda *args, **more: original(*args, **more)._replace(marks={}))


def forgets_the_marks_of_other_dealings(patch: pytest.MonkeyPatch) -> None:
    """R8: marks are kept with the dealing, and those of older ones go on telling repeats."""
    original = marks.accept
    patch.setattr(marks, "accept", lambda *args, **more: original(*args, **{**more, "dealings": ()}))


def takes_marks_of_other_dealings_for_the_own(patch: pytest.MonkeyPatch) -> None:
    """R8: an output of one split does not move the marks of another."""
    original = marks.accept

    def as_if_whole(batch: OutputBatch, splits: int, **more: Any) -> marks.Accepted:
        return original(batch, min(splits, 1), **more)

    patch.setattr(marks, "accept", as_if_whole)


def lets_older_generations_commit(patch: pytest.MonkeyPatch) -> None:
    """R10: one writer, commits of older generations are refused."""
    patch.setattr(DirectoryStore, "_fence", lambda *_: None)
    original = KeptStore.commit

    def unfenced(store: KeptStore, checkpoint: Checkpoint) -> None:
        store._generation = store._kept.generation
        original(store, checkpoint)

    patch.setattr(KeptStore, "commit", unfenced)


def closes_epochs_when_asked(patch: pytest.MonkeyPatch) -> None:
    """A worker closes an epoch when it answers: what it outputs before belongs to it."""
    answer, announce = Worker._answer, Inner._announce

    def early(worker: Inner, entry: Synchronisation) -> Iterator[Effect]:
        if isinstance(entry, ParentRequests) and entry.requests.epoch:
            yield EpochClosed(entry.requests.epoch)
        yield from announce(worker, entry)

    def without(worker: Worker, request: JoinRequest, states: Any) -> Iterator[Effect]:
        for effect in answer(worker, request, states):
            if isinstance(worker, Leaf) or not isinstance(effect, EpochClosed):
                yield effect

    patch.setattr(Inner, "_announce", early)
    patch.setattr(Worker, "_answer", without)


def closes_epochs_when_it_has_time(patch: pytest.MonkeyPatch) -> None:
    """A worker closes an epoch before it goes on: what it outputs after its answer belongs to the next one."""
    for kind in (Leaf, Inner):

        def late(worker: Worker, original: Any = kind.work) -> Iterator[Effect]:
            closed = []
            for effect in original(worker):
                if isinstance(effect, EpochClosed):
                    closed.append(effect)
                else:
                    yield effect
            yield from closed

        patch.setattr(kind, "work", late)


def stages_when_the_first_worker_has_closed(patch: pytest.MonkeyPatch) -> None:
    """A host stages an epoch when all of its workers have closed it."""

    def first(epochs: Epochs, worker: str, epoch: int) -> bool:
        is_first = max(epochs._open.values()) <= epoch
        epochs._open[worker] = epoch + 1
        return is_first

    patch.setattr(Epochs, "close", first)


def commits_without_all_hosts(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint is complete when all hosts have staged its epoch."""

    def with_any(coordinator: Coordinator) -> Checkpoint | None:
        for epoch in sorted(coordinator._roots):
            reports = coordinator._reports.pop(epoch, {})
            if not reports:
                return None
            return coordinator._checkpoint(coordinator._roots.pop(epoch), list(reports.values()))
        return None

    patch.setattr(Coordinator, "complete", with_any)


def commits_before_anything_is_staged(patch: pytest.MonkeyPatch) -> None:
    """A state is committed after the outputs of its epoch are staged."""
    original = Coordinator.complete

    def at_once(coordinator: Coordinator) -> Checkpoint | None:
        for epoch in coordinator._roots:
            for host in coordinator._hosts:
                coordinator._reports.setdefault(epoch, {}).setdefault(host, HostReport(host, epoch))
        return original(coordinator)

    patch.setattr(Coordinator, "complete", at_once)


def forgets_the_files_of_a_failed_commit(patch: pytest.MonkeyPatch) -> None:
    """Files of an epoch whose commit failed, or that was not worth saving, belong to the next one."""
    patch.setattr(Coordinator, "carry", lambda *_: None)


def takes_the_end_for_ever(patch: pytest.MonkeyPatch) -> None:
    """The end of a stream is the key behind its last event: it may have grown when the run is resumed."""
    patch.setattr(Positions, "ended", lambda positions, _ends: positions)


MUTANTS = [
    Mutant(resumes_where_the_join_was, ("crash",), CRASHES),
    pytest.param(
        Mutant(forgets_what_earlier_runs_knew, ("crash",), {**CRASHES, "crashes": 8}, subject="history"),
        marks=pytest.mark.slow,
    ),
    Mutant(processes_again_what_is_in_the_state, ("crash",), CRASHES),
    Mutant(reads_an_older_dealing_as_the_own, ("crash",), CRASHES),
    Mutant(resumes_from_another_dealing_at_the_beginning, ("crash",), CRASHES),
    Mutant(leaves_the_outbox_behind, ("crash",), CRASHES),
    pytest.param(
        Mutant(
            sends_the_outbox_last,
            ("crash",),
            {**CRASHES, "crash_chance": 0.01, "slow_sinks": 0.7},
            subject="history",
        ),
        marks=pytest.mark.slow,
    ),
    Mutant(accepts_every_output, ("crash",), CRASHES),
    Mutant(never_moves_its_marks, ("crash",), CRASHES),
    Mutant(forgets_the_marks_of_other_dealings, ("crash",), CRASHES),
    pytest.param(
        Mutant(takes_marks_of_other_dealings_for_the_own, ("crash",), CRASHES), marks=pytest.mark.slow
    ),
    Mutant(lets_older_generations_commit, ("crash",), {**CRASHES, "zombie_chance": 1.0}),
    pytest.param(Mutant(closes_epochs_when_asked, ("crash",), CRASHES), marks=pytest.mark.slow),
    Mutant(
        closes_epochs_when_it_has_time, ("crash", "odd"), {**CRASHES, "oddity": 0.1}, subject="echo_window"
    ),
    pytest.param(
        Mutant(stages_when_the_first_worker_has_closed, ("crash",), CRASHES), marks=pytest.mark.slow
    ),
    Mutant(commits_without_all_hosts, ("crash",), CRASHES, subject="history"),
    pytest.param(
        Mutant(commits_before_anything_is_staged, ("crash",), CRASHES, subject="history"),
        marks=pytest.mark.slow,
    ),
    Mutant(forgets_the_files_of_a_failed_commit, ("odd",), {"oddity": 0.2, "until": None}, subject="history"),
    Mutant(takes_the_end_for_ever, run=check_grown_streams),
]


@pytest.mark.parametrize("mutant", every_other(MUTANTS), ids=str)
def test_faults_are_noticed_by_runs_without_this_rule(mutant):
    assert_killed(mutant)
