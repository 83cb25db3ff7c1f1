"""Outputs that hosts send to the caller: for stdout, for `collect`, and events that were left out.

Outputs for the sink `memory` are those of `collect`: a caller that does not collect them needs none. What waits for a commit or for the
reader of stdout, and what is collected, is on disk beyond `buffer_bytes`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from dgs.job import private_files
from dgs.model.outputs import OutputBatch
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.runtime.job import Job
from dgs.workers.sinks.formats.json_text import as_json
from dgs.workers.sinks.kept_outputs import HeldOutputs, KeptOutputs
from dgs.workers.sinks.stdout_sink import StdoutSink
from dgs.workers.storage.disk import sync_file
from dgs.workers.storage.whole_files import refusing

LOOK_SECONDS = 0.05
"""Seconds between two looks whether a run that only waits for the reader of stdout is to end."""


class CallerOutputs:
    """Prints outputs on stdout, and keeps them if the job collects outputs (`outputs`).

    Neither can take an output back or recognise a repeat. So outputs wait here until their epoch is committed. Only stdout gets
    them at once if the run takes no checkpoints or `delivery` is `at_least_once`.

    No output waits for the reader of stdout inside a write. What it has not taken when the run ends is kept in the run directory
    (`Job.unprinted_path`), and a resumed run prints it first.
    """

    def __init__(self, job: Job) -> None:
        holds = job.checkpoint is not None and job.delivery == "exactly_once"
        prints = any(config.kind == "stdout" for config in job.sinks)
        self._prints_at_once, self._prints_committed = prints and not holds, prints and holds
        self._collect = job.collect
        self._may_repeat = job.delivery == "at_least_once"
        self._bound, self._directory = job.runtime.buffer_bytes, job.output_dir
        self.held = HeldOutputs(bound=self._bound, directory=self._directory)
        self._letters: list[tuple[int, DeadLetter]] = []
        self._stdout, self._unprinted = StdoutSink(), deque[KeptOutputs]()
        self._has_shown = False
        self.outputs = KeptOutputs(bound=self._bound, directory=self._directory)
        self.skipped = 0
        self.dead_letters: list[DeadLetter] = []
        self._unprinted_file = job.unprinted_path if prints else None
        if job.resumes and self._unprinted_file is not None and self._unprinted_file.exists():
            self._stdout.put(_lines_of(self._unprinted_file))

    @staticmethod
    def is_needed(job: Job) -> bool:
        """Return whether hosts must send outputs to the caller."""
        return job.collect or any(config.kind == "stdout" for config in job.sinks)

    @property
    def is_behind(self) -> bool:
        """Whether outputs wait for the reader of stdout."""
        return self._stdout.is_behind

    @property
    def is_full(self) -> bool:
        """Whether so many outputs wait for the reader of stdout that the run must not make more."""
        return sum(kept.bytes for kept in self._unprinted) > self._bound

    @property
    def waiting(self) -> str:
        """A sentence on what waits for the reader of stdout."""
        size = sum(kept.bytes for kept in self._unprinted)
        return f"the reader of stdout takes nothing; {size // 2**20:,} MiB of outputs wait for it, and no input is read"

    def write(self, made: Iterable[tuple[int, OutputBatch | DeadLetter]]) -> None:
        """Take outputs of a host and the events that it left out, each with its epoch; print what can be printed now."""
        for epoch, batch in made:
            if isinstance(batch, DeadLetter):
                self._letters.append((epoch, batch))
                continue
            if self._prints_at_once:
                self._has_shown = True
                self._tail().append(batch)
            if self._prints_committed or self._collect:
                self.held.add(epoch, batch)
        self._stdout.show()

    def _tail(self) -> KeptOutputs:
        """Return where outputs that are printed at once wait: not the first ones, which are being printed."""
        if len(self._unprinted) <= 1:
            self._print(KeptOutputs(bound=self._bound, directory=self._directory))
        return self._unprinted[-1]

    def _print(self, kept: KeptOutputs) -> None:
        self._unprinted.append(kept)
        self._stdout.put(self._lines(kept))

    def _lines(self, kept: KeptOutputs) -> Iterator[str]:
        for batch in kept:
            yield from (as_json(value) + "\n" for value in batch.to_list())
        self._unprinted.remove(kept)
        kept.close()

    def commit(self, epoch: int) -> None:
        """Release the outputs of an epoch and of earlier ones, since these are committed."""
        for due in (number for number in self.held.epochs if number <= epoch):
            kept = self.held.take(due)
            if self._collect:
                self.outputs.extend(kept)
            if self._prints_committed:
                self._print(kept)
            else:
                kept.close()
        committed = [letter for due, letter in self._letters if due <= epoch]
        self._letters = [(due, letter) for due, letter in self._letters if due > epoch]
        self.skipped += len(committed)
        self.dead_letters += committed if self._collect else []
        self._stdout.show()

    @property
    def can_discard(self) -> bool:
        """Whether the run may start again without showing an output twice that must be shown once."""
        return self._may_repeat or not self._has_shown

    def discard(self) -> None:
        """Forget outputs that are not committed. The run goes on from its last checkpoint, and makes them again."""
        self.held.clear()
        self._letters.clear()

    def print_rest(self, is_over: Callable[[float], bool]) -> None:
        """Print what waits for the reader of stdout, until `is_over`, which gets the seconds since it last took something."""
        taken = time.monotonic()
        while self.is_behind and not is_over(time.monotonic() - taken):
            if self._stdout.show(within=LOOK_SECONDS):
                taken = time.monotonic()

    def close(self) -> Path | None:
        """End the run: no more outputs will come, and those held here are not committed.

        Return the file that keeps the others that are not printed; None if all are, or the run leaves no files. Raises
        OutputUnwritableError.
        """
        self.discard()
        if self._unprinted_file is None:
            return None
        if self.is_behind:
            _keep(self._unprinted_file, self._stdout.left())
            return self._unprinted_file
        with refusing(self._unprinted_file):
            self._unprinted_file.unlink(missing_ok=True)
        return None


def _lines_of(path: Path) -> Iterator[str]:
    with refusing(path), path.open(encoding="utf-8", newline="\n") as file:
        yield from file


def _keep(path: Path, lines: Iterable[str]) -> None:
    """Write lines into a file, which some of them may come from."""
    new = path.with_name(f"{path.name}.new")
    with refusing(path), open(new, "w", encoding="utf-8", opener=private_files.opener) as file:
        file.writelines(lines)
        sync_file(file)
    with refusing(path):
        new.replace(path)
