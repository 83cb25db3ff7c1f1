"""A store of checkpoints that truncates the run's event logs after a commit: it deletes what no kept checkpoint needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dgs.errors import DgsError
from dgs.workers.checkpoints.directory import CheckpointDirectory
from dgs.workers.recovery.checkpoint import Checkpoint, CheckpointStore, ResumePoint

Truncate = Callable[[Sequence[Checkpoint]], object]
"""Deletes what no run needs if it resumes from one of these checkpoints. They come without their states."""


class TruncatingStore:
    """A CheckpointStore around another one, which keeps its states, or references to them, in `directory`.

    A failure to truncate is reported once, through `notify`. It ends the truncation, not the run.
    """

    def __init__(
        self, store: CheckpointStore, directory: Path, truncate: Truncate, notify: Callable[[str], None]
    ) -> None:
        self._store, self._directory = store, directory
        self._truncate: Truncate | None = truncate
        self._notify = notify
        self._known: dict[int, Checkpoint] = {}
        self._oldest = 0

    def begin(self) -> ResumePoint:
        """Begin a generation of the store."""
        return self._store.begin()

    def commit(self, checkpoint: Checkpoint) -> None:
        """Commit an epoch, and truncate the logs if the commit removed an older checkpoint."""
        self._store.commit(checkpoint)
        if self._truncate is None:
            return
        if checkpoint.state is not None:
            self._known[checkpoint.epoch] = replace(checkpoint, state=None)
        try:
            self._known = kept = kept_checkpoints(self._directory, self._known)
            if kept and min(kept) != self._oldest:
                self._truncate(list(kept.values()))
                self._oldest = min(kept)
        except (DgsError, OSError) as error:
            self._truncate = None
            self._notify(f"event logs are not truncated any more, and need disk: {error}")

    def close(self) -> None:
        """Let other runs open the store."""
        self._store.close()


def kept_checkpoints(directory: Path, known: dict[int, Checkpoint] | None = None) -> dict[int, Checkpoint]:
    """Return the checkpoints that are kept in a directory, without their states, by epoch. `known`: those that need not be read.

    A checkpoint whose state cannot be read is left out: no run can resume from it. Raises IncompatibleCheckpointError.
    """
    found = CheckpointDirectory(directory)
    committed, known = found.committed(), known or {}
    kept: dict[int, Checkpoint] = {}
    for epoch in () if committed is None else committed.states:
        with suppress(DgsError):
            kept[epoch] = known.get(epoch) or replace(found.load(epoch).manifest.checkpoint, state=None)
    return kept
